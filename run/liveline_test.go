package run

import (
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{{"", 0}, {"abc", 3}, {"äö…", 3}, {"日本", 4}, {"한", 2}, {"😀x", 3}, {"\u0301", 1}, {"⌚", 2}, {"a\u2026", 2}} {
		if got := columns(c.text); got != c.want {
			t.Errorf("%q: %d columns, want %d", c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"abc", -1, ""}, {"", 0, ""}} {
		if got := cutTo(c.text, c.width); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// blockedBySession is a wait as agents have it: long ids everywhere.
func blockedBySession() *lease.Blocked {
	s := heldSight()
	s.Holder.Name, s.Holder.Session = "nightly-agent-of-the-lab", "7b1f2c9e-1d2a-4f58-9a77-0a1b2c3d4e5f"
	s.Holder.Purpose = "make e2e SUITE=storage RUN='TestMigration|TestSnapshot' TIMEOUT=45m"
	b := &lease.Blocked{Resource: "kind-1", Sight: s, Place: 3, Behind: waiter(3, "bob")}
	b.Behind.Purpose = "measure"
	return b
}

// TestLiveLine: whatever the terminal's width, the line fits it, and who has it,
// for how long, and our place are there before anything else.
func TestLiveLine(t *testing.T) { // B34
	const path, next = "/var/lib/withlease/leases/kind-1", "Ctrl-C gives up; see: withlease status kind-1"
	line := func(b *lease.Blocked, width int) string {
		return liveLine(b, path, next, "", 12*time.Second, now, width)
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{400, "withlease: waiting 12s for kind-1: held by nightly-agent-of-the-lab (Ann, session 7b1f2c9e-1d2a-4f58-9a77-0a1b2c3d4e5f, pid 42, on b) for 5m: make e2e SUITE=storage RUN='TestMigration|TestSnapshot' TIMEOUT=45m; place 3 in line, behind bob: measure; Ctrl-C gives up; see: withlease status kind-1 [/var/lib/withlease/leases/kind-1]"},
		{199, "withlease: waiting 12s for kind-1: held by nightly-agent-of-the-lab (Ann, session 7b1f2c9e-1d2a-4f58-9a77-0a1b2c3d4e5f, pid 42, on b) for 5m: make e2e SUITE=storage RUN='TestMigrati…; place 3 in line"},
		{140, "withlease: waiting 12s for kind-1: held by nightly-agent-of-the-lab (Ann, session 7b1f2c9e…, pid 42, on b) for 5m; place 3 in line"},
		{110, "withlease: waiting 12s for kind-1: held by nightly-agent-of-the-lab for 5m: make e2e SUITE=s…; place 3 in line"},
		{79, "withlease: kind-1: held by nightly-agent-of-the-lab for 5m; place 3 in line"},
		{59, "kind-1: nightly-agent-of-the-lab for 5m; place 3 in line"},
		{39, "kind-1: nightly-agent-of-t… 5m; place 3"},
		{28, "kind-1: nightly… 5m; place 3"},
		{9, "kind-1: …"},
		{0, ""},
	} {
		if got := line(blockedBySession(), c.width); got != c.want {
			t.Errorf("at %d:\n got %q\nwant %q", c.width, got, c.want)
		}
	}
	const who, held = "held by lab", " for 5m"
	for _, c := range []struct {
		name   string
		change func(b *lease.Blocked)
		want   []string // at 79 columns
	}{
		{"a short one", func(b *lease.Blocked) { b.Place = 1 }, []string{"withlease: waiting 12s for kind-1: ", who, held, "; place 1"}},
		{"handed over", func(b *lease.Blocked) { b.Sight, b.Place = lease.Sight{}, 1 }, []string{"kind-1: being handed over"}},
		{"a wide name", func(b *lease.Blocked) { b.Sight.Holder.Name = strings.Repeat("日本", 50) }, []string{"kind-1: ", "日本日", " 5m", "; place 3"}},
		{"unreadable", func(b *lease.Blocked) { b.Sight.Holder, b.Sight.Problem = lease.Holder{}, "its record is unreadable" },
			[]string{"somebody", "[its record is unreadable]", "; place 3"}},
		{"a shell lock", func(b *lease.Blocked) {
			b.Sight.Kind, b.Sight.Renewed = lease.Claiming, now.Add(-3*time.Second)
		}, []string{"being claimed by a shell lock for 3s", "; place 3"}},
		{"orphaned", func(b *lease.Blocked) {
			b.Sight.Kind, b.Sight.Orphans = lease.Orphaned, []lease.Member{{PID: lease.PID{PID: 100}, Command: "sleep 8"}}
		}, []string{who, held, "its wrapper is gone, s", "; place 3"}},
		{"a grant is needed", func(b *lease.Blocked) {
			b.Refused, b.Supervisor, b.Sight = &lease.Refusal{Reason: "s1 needs a grant for kind-1: ask the supervisor Boss (withlease grant kind-1 s1)"}, &state.Supervisor{Party: state.Party{Name: "Boss"}}, lease.Sight{}
		}, []string{"withlease: kind-1: s1 needs a grant for kind-1: ask the super", "; place 3"}},
		{"held, and a grant is needed", func(b *lease.Blocked) {
			b.Refused, b.Supervisor = &lease.Refusal{Reason: "s1 needs a grant for kind-1: ask the supervisor Boss"}, &state.Supervisor{Party: state.Party{Name: "Boss"}}
		}, []string{who, held, "; needs a grant from Boss", "; place 3"}},
		{"its supervisor is away", func(b *lease.Blocked) {
			b.Refused, b.Supervisor, b.RestartUntil = &lease.Refusal{Reason: strings.Repeat("x", 90)}, &state.Supervisor{}, now
		}, []string{"lab for 5m", "; needs a grant, supervisor away", "; place 3"}},
		{"its supervisor is gone", func(b *lease.Blocked) {
			b.Refused, b.Supervisor, b.Gone = &lease.Refusal{Reason: strings.Repeat("x", 90)}, &state.Supervisor{}, true
		}, []string{"lab for 5m", "; needs a grant, supervisor gone", "; place 3"}},
		{"granted later", func(b *lease.Blocked) {
			b.Refused, b.Supervisor = &lease.Refusal{Reason: strings.Repeat("x", 90), Position: 2, Ahead: "bob"}, &state.Supervisor{}
		}, []string{who, held, "grant 2, after bob", "; place 3"}},
		{"an upgrade", func(b *lease.Blocked) { b.Refused = &lease.Refusal{Reason: strings.Repeat("x", 90)} }, []string{who, held, "an upgrade", "; place 3"}},
	} {
		b := &lease.Blocked{Resource: "kind-1", Sight: heldSight(), Place: 3}
		c.change(b)
		got := line(b, 79)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q isn't in %q", c.name, want, got)
			}
		}
	}
}

// TestLiveLineFits: no text makes it wrap, or do harm.
func TestLiveLineFits(t *testing.T) { // B51
	texts := []string{nasty, strings.Repeat("x", 1000), strings.Repeat("日本語", 300), "", "bob"}
	for _, text := range texts {
		for what, b := range blockeds(text) {
			for width := range 260 {
				line := liveLine(b, text, text, text, 12*time.Second, now, width)
				if text != nasty { // the next step is ours
					harmless(t, what, line)
				} else {
					line = liveLine(b, text, "", "", 12*time.Second, now, width)
					harmless(t, what, line)
				}
				if columns(line) > width {
					t.Fatalf("%s at %d: %d columns: %q", what, width, columns(line), line)
				}
			}
		}
	}
}

func TestSupervised(t *testing.T) {
	boss := &state.Supervisor{Party: state.Party{Name: "Boss"}}
	ask, later := &lease.Refusal{Reason: "r"}, &lease.Refusal{Reason: "r", Position: 2}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	for _, c := range []struct {
		b    lease.Blocked
		want string
	}{
		{lease.Blocked{Supervisor: boss, Watched: true}, ""},
		{lease.Blocked{Refused: ask}, ""},
		{lease.Blocked{Refused: ask, Supervisor: boss}, ""},
		{lease.Blocked{Refused: ask, Supervisor: boss, Watched: true}, "Boss is running"},
		{lease.Blocked{Refused: later, Supervisor: boss, Watched: true}, "Boss is running"},
		{lease.Blocked{Refused: ask, Supervisor: boss, RestartUntil: at}, ""},
		{lease.Blocked{Refused: ask, Supervisor: boss, Gone: true}, ""},
		{lease.Blocked{Refused: later, Supervisor: boss, RestartUntil: at}, "the supervisor Boss is away and may restart until 05:06:07"},
		{lease.Blocked{Refused: later, Supervisor: boss, Gone: true}, "the supervisor Boss is gone"},
	} {
		if got := supervised(&c.b); got != c.want {
			t.Errorf("%+v: %q, want %q", c.b, got, c.want)
		}
	}
}
