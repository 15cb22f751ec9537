package run

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"withlease/lease"
)

// The command to come back with has every flag that was given.
func TestAgain(t *testing.T) {
	plain := Command{Resources: []string{"gpu"}, Argv: []string{"make", "a b"}, TTL: DefaultTTL, Grace: DefaultGrace, OnLost: "kill", ConflictExit: ExitBusy}
	kept := &lease.Blocked{ID: "0badcafe", Kept: time.Now()}
	for _, c := range []struct {
		name    string
		flags   Flags
		change  func(*Command)
		blocked *lease.Blocked
		want    string
	}{
		{"plain", Flags{}, func(*Command) {}, &lease.Blocked{}, "withlease gpu -- make 'a b'"},
		{"how it was waited is not how it will be", Flags{}, func(c *Command) { c.NoWait, c.Wait, c.Ticket = true, time.Second, "old" }, &lease.Blocked{}, "withlease gpu -- make 'a b'"},
		{"named like a verb", Flags{}, func(c *Command) { c.Spelled = true }, &lease.Blocked{}, "withlease run gpu -- make 'a b'"},
		{"kept", Flags{}, func(c *Command) { c.KeepPlace = time.Hour }, kept, "withlease --ticket 0badcafe --wait 1m30s --keep-place 1h gpu -- make 'a b'"},
		{"like flags", Flags{Dir: "-d", Name: "--"}, func(c *Command) { c.Purpose = "-x" }, &lease.Blocked{}, "withlease --dir=-d --name=-- --purpose=-x gpu -- make 'a b'"},
		{"all", Flags{"/d d", true, "s", "h", "n", "p", "t"}, func(c *Command) {
			c.Wait, c.KeepPlace, c.KeepOnFail, c.Purpose, c.PTY, c.Notify = 100*time.Second, 10*time.Minute, time.Minute, "it's", "never", "bell"
			c.TTL, c.Grace, c.OnLost, c.ConflictExit, c.StatusFile, c.BudgetGiB, c.Quiet, c.Verbose = time.Second, 0, "warn", 0, "o$", 8, true, true
		}, kept, `withlease --ticket 0badcafe --wait 1m40s --dir '/d d' --json --session s --host-session h --name n --person p --team t ` +
			`--keep-place 10m --keep-on-fail 1m --purpose 'it'\''s' --pty never --notify bell --ttl 1s --grace 0s --on-lost warn ` +
			`--conflict-exit-code 0 --status-file 'o$' --budget-gib 8 --quiet --verbose gpu -- make 'a b'`},
	} {
		asked := plain
		c.change(&asked)
		r := &run{Session: &Session{Flags: c.flags}, Command: asked, asked: asked}
		r.PTY, r.Notify = first(asked.PTY, "auto"), first(asked.Notify, "auto")
		if got := r.again(c.blocked); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// A flag that a run learns later must come back too.
func TestAgainHasEveryFlag(t *testing.T) {
	var w flagWords
	w.caller(Flags{"d", true, "s", "h", "n", "p", "t"})
	w.run(Command{KeepPlace: 1, KeepOnFail: 1, Purpose: "p", PTY: "p", Notify: "n", TTL: 1, Grace: 1, OnLost: "w", ConflictExit: 1, StatusFile: "f", BudgetGiB: 1, Quiet: true, Verbose: true})
	got := 0
	for _, word := range w {
		if strings.HasPrefix(word, "--") {
			got++
		}
	}
	const notFlags, notKept = 3, 3 // Resources, Spelled, Argv; NoWait, Wait, Ticket
	want := reflect.TypeFor[Flags]().NumField() + reflect.TypeFor[Command]().NumField() - notFlags - notKept
	if got != want {
		t.Errorf("%d flags come back of %d: %q", got, want, w)
	}
}
