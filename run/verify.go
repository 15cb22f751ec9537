package run

import (
	"fmt"
	"slices"
	"strings"

	"withlease/lease"
)

// Verify says whether a token or a fence is of a live lease: of a resource, or,
// of a token, of any.
func (s *Session) Verify(text, res string) Exit {
	return s.answer(func() Exit { return s.verify(text, res) })
}

func (s *Session) verify(text, res string) Exit {
	m, err := lease.ParseMark(text)
	if err != nil {
		return s.failed(usage("%s", show(err.Error())))
	}
	if names := strings.Fields(s.Getenv("WITHLEASE_RESOURCE")); res == "" && m.Token == "" {
		if len(names) != 1 {
			return s.failed(usage("a fence is one resource's: withlease verify %d RESOURCE", m.Fence))
		}
		res = names[0]
	}
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	seen := make([]lease.Sight, 1)
	if res == "" {
		seen, err = v.base.List()
	} else {
		seen[0], err = v.base.Look(res)
	}
	if err != nil {
		return s.failed(err)
	}
	now := "it is of no lease"
	if res != "" {
		now = isNow(seen[0], v.now)
	}
	live := slices.DeleteFunc(seen, func(h lease.Sight) bool { return !h.Held || !m.Means(h.Mark()) })
	if s.JSON {
		doc := struct {
			Schema int        `json:"schema"`
			Live   bool       `json:"live"`
			Leases []HeldView `json:"leases"`
		}{Schema, len(live) > 0, []HeldView{}}
		for _, h := range live {
			doc.Leases = append(doc.Leases, heldView(h))
		}
		if e := s.wrote(writeJSON(s.Stdout, doc), nil); e.Code != 0 {
			return e
		}
	}
	if len(live) > 0 {
		return Exit{}
	}
	what := "token " + show(m.Token)
	if m.Token == "" {
		what = fmt.Sprintf("fence %d", m.Fence)
	}
	say(s.Stderr, "%s holds nothing any more: %s; claim it again before you go on", what, now)
	return Exit{Code: ExitRefused}
}
