package run

import (
	"strconv"
	"strings"
	"time"

	"withlease/lease"
)

// again is the command line to try it once more with: what was asked for, as a
// shell takes it. A kept place is taken again by its ticket, and waited for; who
// didn't keep one waits as long as it takes.
func (r *run) again(b *lease.Blocked) string {
	var w flagWords
	if !b.Kept.IsZero() {
		w.value("ticket", b.ID)
		w.value("wait", waitText(r.Wait))
	}
	w.caller(r.Flags)
	w.run(r.asked)
	words := []string{"withlease"}
	if r.Spelled {
		words = append(words, "run")
	}
	words = append(append(words, w...), r.Resources...)
	return quoted(append(append(words, "--"), r.Argv...))
}

func waitText(d time.Duration) string {
	if d == 0 {
		d = 90 * time.Second
	}
	return brief(d)
}

// brief is a duration as it is typed: 10m, not 10m0s.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// flagWords are flags as they are typed, those that say no more than their
// default left out.
type flagWords []string

func (w *flagWords) caller(f Flags) {
	w.value("dir", f.Dir)
	w.set("json", f.JSON)
	w.value("session", f.Session)
	w.value("host-session", f.HostSession)
	w.value("name", f.Name)
	w.value("person", f.Person)
	w.value("team", f.Team)
}

// run are a run's flags but those that say how to wait this time: --no-wait,
// --wait, --ticket.
func (w *flagWords) run(c Command) {
	w.lasting("keep-place", c.KeepPlace, 0)
	w.lasting("keep-on-fail", c.KeepOnFail, 0)
	w.value("purpose", c.Purpose)
	w.value("pty", c.PTY)
	w.value("notify", c.Notify)
	w.lasting("ttl", c.TTL, DefaultTTL)
	w.lasting("grace", c.Grace, DefaultGrace)
	if c.OnLost != "kill" {
		w.value("on-lost", c.OnLost)
	}
	if c.ConflictExit != ExitBusy {
		w.value("conflict-exit-code", strconv.Itoa(c.ConflictExit))
	}
	w.value("status-file", c.StatusFile)
	if c.BudgetGiB != 0 {
		w.value("budget-gib", strconv.Itoa(c.BudgetGiB))
	}
	w.set("quiet", c.Quiet)
	w.set("verbose", c.Verbose)
}

func (w *flagWords) set(name string, on bool) {
	if on {
		*w = append(*w, "--"+name)
	}
}

// value is a flag with its value: in one word where the value would be taken for
// a flag, or for the end of them.
func (w *flagWords) value(name, value string) {
	switch {
	case value == "":
	case strings.HasPrefix(value, "-"):
		*w = append(*w, "--"+name+"="+value)
	default:
		*w = append(*w, "--"+name, value)
	}
}

func (w *flagWords) lasting(name string, d, usual time.Duration) {
	if d != usual {
		w.value(name, brief(d))
	}
}
