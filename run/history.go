package run

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"withlease/lease"
	"withlease/state"
)

// EventView is a line of the event log, for `history --json`.
type EventView struct {
	Schema int          `json:"schema"`
	At     time.Time    `json:"at"`
	By     string       `json:"by"`
	Verb   string       `json:"verb"`
	Detail state.Detail `json:"detail"`
}

// History shows the events of one resource, or all, the newest last; with last
// greater than 0 no more than so many. It reads nothing but the log, and takes no
// lock: a document that can't be read doesn't stop it.
func (s *Session) History(res, since string, last int) Exit {
	from, err := s.since(since)
	if err == nil && last < 0 {
		err = usage("--last=%d: a number greater than 0 is needed", last)
	}
	if err == nil && res != "" {
		err = lease.CheckName(res)
	}
	if err != nil {
		return s.failed(err)
	}
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	out := bufio.NewWriterSize(s.Stdout, 64<<10)
	printed := 0
	print := func(e state.Event) {
		printed++
		if s.JSON {
			err = writeLine(out, EventView{Schema, e.At, e.By, e.Verb, e.Detail})
			return
		}
		fmt.Fprintf(out, "%s  %s\n", e.At.Local().Format("2006-01-02 15:04:05"), eventLine(e))
	}
	kept := newest{most: last}
	readErr := b.Store.ReadEvents(from, func(e state.Event) {
		switch {
		case res != "" && !concerns(e, res):
		case last > 0:
			kept.add(e)
		default:
			print(e)
		}
	})
	kept.each(print)
	if e := out.Flush(); err == nil {
		err = e
	}
	if err == nil && readErr == nil && printed == 0 && !s.JSON {
		say(s.Stderr, "nothing has been logged since %s in %s", from.Local().Format("2006-01-02 15:04"), show(b.Store.Events()))
	}
	return s.wrote(readErr, err)
}

// newest keeps the newest events, at most so many.
type newest struct {
	most   int
	events []state.Event
	next   int // where the oldest of a full one is
}

func (n *newest) add(e state.Event) {
	if len(n.events) < n.most {
		n.events = append(n.events, e)
		return
	}
	n.events[n.next] = e
	n.next = (n.next + 1) % n.most
}

func (n *newest) each(f func(state.Event)) {
	for i := range n.events {
		f(n.events[(n.next+i)%len(n.events)])
	}
}

// concerns says whether an event is about a resource. An upgrade holds the
// resource of its installation's name back.
func concerns(e state.Event, res string) bool {
	d := &e.Detail
	inst, _, _ := strings.Cut(d.Target, "/")
	return d.Resource == res || inst == res || slices.Contains(d.Resources, res)
}

// eventLine is an event as a person is told.
func eventLine(e state.Event) string {
	d := &e.Detail
	by := showAt(e.By, 60)
	about := showAt(first(d.Resource, strings.Join(d.Resources, " "), d.Target, "-"), 128)
	var line eventText
	switch e.Verb {
	case "claim":
		line.add("claimed by %s", by+session(d, e.By))
		line.times(d)
		line.why(d.Purpose)
	case "release":
		line.add("given back by %s", by+session(d, e.By))
		line.outcome(d)
		line.times(d)
		line.why(d.Purpose)
	case "lease.crash":
		line.add("crashed under %s", by+session(d, e.By))
		line.found(d)
		line.why(d.Purpose)
	case "lease.abandoned":
		line.add("an abandoned claim was cleared away")
		line.why(d.Reason)
	case "force":
		line.add("taken from %s by %s", showAt(d.To, 60)+session(d, d.To), by)
		line.times(d)
		line.why(d.Reason)
		if d.Purpose != "" {
			line.add("it was for: %s", showAt(d.Purpose, 80))
		}
	case "claim.end":
		line.add("the claim of %s ended at its time", by+session(d, e.By))
		line.times(d)
		line.why(d.Purpose)
	case "extend":
		line.add("the end was moved by %s", by+session(d, e.By))
		line.until(d)
		line.why(d.Purpose)
	case "keep":
		line.add("kept by %s after its command failed", by+session(d, e.By))
		line.outcome(d)
		line.until(d)
		line.why(d.Purpose)
	case "ask":
		line.add("%s asked %s for it", by, showAt(d.To, 60)+session(d, d.To))
		line.why(d.Reason)
	case "kill":
		line.add("%s ended the processes of %s", by, showAt(d.To, 60)+session(d, d.To))
		line.why(d.Reason)
	case "grant":
		line.add("granted to %s by %s", showAt(d.To, 60)+session(d, d.To), by)
		if d.Reason != "" {
			line.add("through an upgrade: %s", showAt(d.Reason, 80))
		}
	case "grant.expire":
		line.add("a grant ran out")
	case "revoke":
		line.add("revoked from %s by %s", showAt(d.To, 60)+session(d, d.To), by)
	case "supervisor.start":
		about = "supervisor"
		line.add("%s decides who may claim", by+session(d, e.By))
	case "supervisor.stop":
		about = "supervisor"
		line.add("the supervision of %s was ended by %s", showAt(d.To, 60)+session(d, d.To), by)
	case "upgrade.begin":
		line.add("held back for an upgrade by %s", by)
		line.why(d.Reason)
	case "upgrade.end":
		line.add("the upgrade was ended by %s", by)
	default: // of another version, or another tool
		line.add("%s by %s", showAt(e.Verb, 40), by+session(d, e.By))
		if d.To != "" {
			line.add("to %s", showAt(d.To, 60))
		}
		line.outcome(d)
		line.times(d)
		line.why(first(d.Reason, d.Purpose))
	}
	return about + "  " + line.String()
}

// eventText is a line of parts with commas.
type eventText struct{ strings.Builder }

func (t *eventText) add(format string, args ...any) {
	if t.Len() > 0 {
		t.WriteString(", ")
	}
	fmt.Fprintf(t, format, args...)
}

func (t *eventText) why(text string) {
	if text != "" {
		t.WriteString(": " + showAt(text, 80))
	}
}

func (t *eventText) outcome(d *state.Detail) {
	if d.Outcome != "" {
		t.add("%s", showAt(d.Outcome, 40))
	}
}

func (t *eventText) times(d *state.Detail) {
	if logged(d.WaitSeconds) >= 100*time.Millisecond && d.HeldSeconds == 0 {
		t.add("after a wait of %s", span(logged(d.WaitSeconds)))
	}
	if d.HeldSeconds > 0 {
		t.add("held for %s", span(logged(d.HeldSeconds)))
	}
}

// until says when a lease ends on its own.
func (t *eventText) until(d *state.Detail) {
	if !d.Until.IsZero() {
		t.add("until %s", d.Until.Local().Format("2006-01-02 15:04"))
	}
}

// found says when a crash was found, which may be long after it.
func (t *eventText) found(d *state.Detail) {
	if d.HeldSeconds > 0 {
		t.add("found %s after its claim", span(logged(d.HeldSeconds)))
	}
	if at, err := time.Parse(time.RFC3339, d.Renewed); err == nil {
		t.add("last renewed at %s", at.Local().Format("15:04:05"))
	}
}

// session tells a party from another of the same name.
func session(d *state.Detail, label string) string {
	if d.Session == "" || d.Session == label {
		return ""
	}
	return " (session " + showAt(d.Session, 40) + ")"
}

// writeLine writes a document on one line.
func writeLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, escapeJSON(text))
	return err
}
