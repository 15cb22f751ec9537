package run

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"withlease/lease"
)

// Ask asks the holder of a resource to give it back, before anybody takes it
// away.
func (s *Session) Ask(res, message string) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	if n := utf8.RuneCountInString(message); n > lease.MaxMessage {
		return s.failed(usage("--message has %d characters: at most %d", n, lease.MaxMessage))
	}
	asked, err := b.Ask(soon(), res, s.Party(), message)
	if errors.Is(err, lease.ErrNotHeld) {
		say(s.Stderr, "%s: nobody holds it, so nobody is asked; take it: withlease %s -- COMMAND [ARG...]", res, res)
		return Exit{Code: ExitRefused}
	}
	if err != nil {
		return s.failed(err)
	}
	if s.JSON {
		return s.wrote(writeJSON(s.Stdout, struct {
			Schema int `json:"schema"`
			HeldView
		}{Schema, heldView(asked)}), nil)
	}
	fmt.Fprintf(s.Stdout, "asked for %s, %s\n", res, heldBy(asked, s.Now()))
	return Exit{}
}
