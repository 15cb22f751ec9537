package run

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"withlease/lease"
	"withlease/state"
)

// The policy for what a person reads, all of it in this file:
//
//   - it goes to standard error, one line, "withlease: " first, no capital, no
//     full stop; standard output is the command's, or a verb's answer
//   - a line names the thing, the cause and the next step, which is often the
//     exact command to type
//   - text that came from a file or another user is shown with its control
//     characters escaped and its length cut (show)
//   - the command's own failure is silent: it has spoken

// say writes one line of ours.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "withlease: "+format+"\n", args...)
}

const shown = 200 // characters of others' text that are shown

// show makes others' text harmless: C0, DEL, C1, invalid UTF-8 and the
// characters that turn the direction of text round are escaped, and what is
// long is cut.
func show(s string) string { return showAt(s, shown) }

func showAt(s string, most int) string {
	var b strings.Builder
	n := 0
	for i, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError && !utf8.ValidString(s[i:min(len(s), i+utf8.RuneLen(r))]):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r >= 0x80 && r < 0xa0, bidi(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// bidi are the explicit directional controls of Unicode (UAX #9), and the
// separators that some terminals break lines at.
func bidi(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// ago is a duration as a person says it: 45s, 12m, 3h05m, 2d4h.
func ago(d time.Duration) string {
	switch d = max(d, 0).Truncate(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// clock is a time to come, with its day where that is another one.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// who is a party for a line: its name, and what tells it from others.
func who(p state.Party, pid int) string {
	label := show(p.Label())
	var more []string
	add := func(what, v string) {
		if v != "" && v != p.Label() {
			more = append(more, what+showAt(v, 40))
		}
	}
	add("", p.Person)
	add("session ", p.Session)
	if pid > 0 {
		more = append(more, fmt.Sprintf("pid %d", pid))
	}
	add("on ", p.Host)
	if len(more) == 0 {
		return label
	}
	return label + " (" + strings.Join(more, ", ") + ")"
}

// heldParts are what is said of who has a resource, in parts.
type heldParts struct {
	by       string // "held by "
	label    string
	details  string // who that is, in brackets
	since    string // how long
	until    string // when it ends on its own
	purpose  string
	problem  string
	orphaned string
}

func partsOf(s lease.Sight, now time.Time) heldParts {
	if s.Kind == lease.Claiming {
		p := heldParts{label: "being claimed by a shell lock"}
		if !s.Renewed.IsZero() {
			p.since = " for " + ago(now.Sub(s.Renewed))
		}
		return p
	}
	party := s.Party()
	if party.Label() == (state.Party{}).Label() && s.Holder.Holder != "" {
		party.Name = s.Holder.Holder // the shell lock of a person
	}
	pid := 0
	if s.Process != nil {
		pid = s.Process.PID
	}
	p := heldParts{by: "held by ", label: show(party.Label())}
	p.details = strings.TrimPrefix(who(party, pid), p.label)
	if since := s.Holder.SinceTime(); !since.IsZero() {
		p.since = " for " + ago(now.Sub(since))
	}
	if until := s.Until(); until.After(now) {
		p.until = fmt.Sprintf(", until %s (in %s)", clock(until, now), ago(until.Sub(now)))
	}
	if s.Holder.Purpose != "" {
		p.purpose = ": " + showAt(s.Holder.Purpose, 80)
	}
	if s.Problem != "" {
		p.problem = " [" + show(s.Problem) + "]"
	}
	if w := orphaned(s); w != "" {
		p.orphaned = "; " + w
	}
	return p
}

// heldBy says who has a resource, for what, for how long.
func heldBy(s lease.Sight, now time.Time) string {
	p := partsOf(s, now)
	return p.by + p.label + p.details + p.since + p.until + p.purpose + p.problem + p.orphaned
}

// orphaned says which processes hold a lease whose wrapper is gone.
func orphaned(s lease.Sight) string {
	if s.Kind == lease.Foreign {
		return fmt.Sprintf("its run is on another machine (%s), which renews it", show(s.Process.Host))
	}
	if s.Kind != lease.Orphaned && !s.WrapperGone() {
		return ""
	}
	procs := members(s)
	if procs == "" {
		return "its wrapper is gone, and a process that can't be seen from here still holds it"
	}
	return fmt.Sprintf("its wrapper is gone, still running: %s (withlease release --kill %s ends them)", procs, s.Resource)
}

// members names a few processes of a run; empty when none can be seen.
func members(s lease.Sight) string {
	var procs []string
	for _, m := range s.Members() {
		if len(procs) == 3 {
			procs = append(procs, "…")
			break
		}
		procs = append(procs, fmt.Sprintf("%d %s", m.PID.PID, showAt(m.Command, 40)))
	}
	return strings.Join(procs, ", ")
}

// waitLine is the state of a wait: who blocks it, what else is known of that
// (more, where it isn't empty), its place, what to do.
func waitLine(b *lease.Blocked, path string, now time.Time, more ...string) string {
	var parts []string
	if b.Sight.Held {
		parts = append(parts, b.Resource+" is "+heldBy(b.Sight, now))
	}
	parts = append(parts, slices.DeleteFunc(more, func(m string) bool { return m == "" })...)
	if b.Refused != nil {
		parts = append(parts, show(b.Refused.Reason))
	}
	if w := supervised(b); w != "" {
		parts = append(parts, w)
	}
	switch {
	case b.Place > 1 && b.Behind.Number > 0:
		parts = append(parts, fmt.Sprintf("place %d in line, behind %s", b.Place, behind(b, now)))
	case b.Refused == nil && b.Place > 0:
		parts = append(parts, fmt.Sprintf("place %d in line", b.Place))
	}
	if len(parts) == 0 {
		parts = append(parts, b.Resource+" is being handed over")
	}
	return strings.Join(parts, "; ") + fmt.Sprintf(" [%s]", show(path))
}

// supervised says whether the supervisor whose word is waited for can give it.
// A refusal that asks for a grant says itself that it can't at the moment.
func supervised(b *lease.Blocked) string {
	if b.Refused == nil || b.Supervisor == nil {
		return ""
	}
	who, granted := show(b.Supervisor.Label()), b.Refused.Position > 0
	switch {
	case b.Gone && granted:
		return "the supervisor " + who + " is gone"
	case !b.RestartUntil.IsZero() && granted:
		return fmt.Sprintf("the supervisor %s is away and may restart until %s", who, b.RestartUntil.Local().Format("15:04:05"))
	case b.Watched && !b.Gone && b.RestartUntil.IsZero():
		return who + " is running"
	}
	return ""
}

// behind says who waits directly ahead, and how a place that the caller itself has
// kept is taken again.
func behind(b *lease.Blocked, now time.Time) string {
	w := b.Behind
	s := show(w.Who().Label())
	if w.Purpose != "" {
		s += ": " + showAt(w.Purpose, 60)
	}
	switch left := ago(w.Kept.Sub(now)); {
	case w.Kept.IsZero():
	case w.Who().Same(b.Caller):
		s += fmt.Sprintf(" (your own place, kept for %s; withlease --ticket=%s takes it)", left, showAt(w.ID, 16))
	default:
		s += fmt.Sprintf(" (place kept for %s)", left)
	}
	return s
}

// commandLine is a command as a purpose: as it is typed, shortened, on one line.
func commandLine(argv []string) string {
	return showAt(quoted(append([]string{filepath.Base(argv[0])}, argv[1:]...)), 80)
}

// quoted are words as a shell takes them.
func quoted(argv []string) string {
	var words []string
	for _, a := range argv {
		words = append(words, lease.ShellWord(a))
	}
	return strings.Join(words, " ")
}

func parent(p string) string { return filepath.Dir(p) }

// plural is "1 process", "2 processes".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
