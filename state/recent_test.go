package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"withlease/state"
)

// FuzzRecentEvents compares the quick reading of the log with the thorough one.
func FuzzRecentEvents(f *testing.F) {
	f.Add(`{"at":"2026-01-02T03:04:05.678Z","by":"ann","verb":"release","detail":{"resource":"gpu","session":"s","purpose":"p","token":"t","fence":7,"outcome":"exit 0","waitSeconds":0.250,"heldSeconds":61.000}}`)
	f.Add(`{"at":"2026-01-02T03:04:05Z","by":"ann","verb":"upgrade.begin","detail":{"target":"inst/c"}}`)
	f.Add(`{"at":"2026-01-02T03:04:05Z","by":"a","verb":"v","detail":{}}`)
	f.Add(`{"at":"2026-01-02T03:04:05Z","by":"a","verb":"v","detail":{"fence":9007199254740993,}}`)
	f.Add(`{"at":"2026-01-02T03:04:05Z","by":"a","verb":"v""detail":{}}`)
	f.Add(`{"at":"2026-01-02T03:04:05Z","by":"a","verb":"v","detail":{"resource":"\u0007 \"x\""}}`)
	s := &state.Store{Dir: f.TempDir(), Modes: state.Private}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.ContainsAny(text, "\n\r") {
			t.Skip()
		}
		if err := os.WriteFile(s.Events(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		quick, slow := recent(s), ""
		s.ReadEvents(time.Time{}, func(e state.Event) { slow = fmt.Sprintf("%+v\n", e) + slow })
		if slow == "" && strings.ContainsAny(text, "0123456789") && strings.ContainsAny(text, ".-:") {
			return // a number as JSON doesn't write it may be read quickly
		}
		if quick != slow {
			t.Fatalf("%q:\nquick %s\nslow  %s", text, quick, slow)
		}
	})
}

// recent are all events, newest first.
func recent(s *state.Store) string {
	var b strings.Builder
	s.RecentEvents(time.Time{}, 1<<20, "", func(e state.Event) bool { fmt.Fprintf(&b, "%+v\n", e); return true })
	return b.String()
}

// What Log writes comes back, all members of it.
func TestRecentEventsAreWhatLogWrites(t *testing.T) {
	s := &state.Store{Dir: t.TempDir(), Modes: state.Private}
	l, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	all := state.Detail{Resource: "gpu", Session: "s", To: "bob", Purpose: "p", Reason: "r", Token: "t", Fence: 7,
		Outcome: "exit 0", WaitSeconds: 0.25, HeldSeconds: 61, Renewed: "2026-01-02T03:04:05Z", Target: "inst", Resources: []string{"a", "b"}, Until: at}
	plain := all
	plain.Resources, plain.Until = nil, time.Time{}
	odd := all
	odd.Purpose, odd.Resources = "größer \"x\"\n\x1b[2J", nil
	want := ""
	for _, d := range []state.Detail{all, plain, odd, {}} {
		e := state.Event{At: at, By: "ann", Verb: "release", Detail: d}
		if err := l.Log(e); err != nil {
			t.Fatal(err)
		}
		want = fmt.Sprintf("%+v\n", e) + want
	}
	if got := recent(s); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestRecentEvents(t *testing.T) {
	s := &state.Store{Dir: t.TempDir(), Modes: state.Private}
	now := time.Now().UTC()
	line := func(age time.Duration, by string) string {
		return fmt.Sprintf(`{"at":"%s","by":%q,"verb":"claim","detail":{"resource":"gpu"}}`+"\n", now.Add(-age).Format(time.RFC3339), by)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(bytes int64, text string, most int) string {
		var seen []string
		if err := s.RecentEvents(now.Add(-time.Hour), bytes, text, func(e state.Event) bool {
			seen = append(seen, e.By)
			return len(seen) < most
		}); err != nil {
			t.Error(err)
		}
		return strings.Join(seen, " ")
	}
	if got := read(1<<20, "", 9); got != "" {
		t.Errorf("no log: %q", got)
	}
	write("events.jsonl.1", line(2*time.Hour, "too-old")+line(40*time.Minute, "d"))
	write("events.jsonl", line(30*time.Minute, "c")+"{torn\n\x00\x01\n\n"+line(20*time.Minute, "größe")+line(time.Minute, "a"))
	for _, c := range []struct {
		bytes      int64
		text, want string
		most       int
	}{
		{1 << 20, "", "a größe c d", 9},
		{1 << 20, "", "a größe", 2},
		{1 << 20, `"c`, "a größe c d", 9}, // the verb's
		{1 << 20, `"größe`, "größe", 9},
		{int64(len(line(time.Minute, "a"))) + 10, "", "a", 9},
	} {
		if got := read(c.bytes, c.text, c.most); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	os.Remove(s.Events())
	if err := os.Symlink("/etc/passwd", s.Events()); err != nil {
		t.Fatal(err)
	}
	if err := s.RecentEvents(now, 1<<20, "", func(state.Event) bool { return true }); err == nil {
		t.Error("a link was followed")
	}
}
