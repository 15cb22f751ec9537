package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"withlease/state"
)

// A log that has a name elsewhere is not written: it is put aside, and a new
// one begun.
func TestLogHasAnotherName(t *testing.T) {
	s := &state.Store{Dir: t.TempDir(), Modes: state.Private}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(victim, s.Events()); err != nil {
		t.Fatal(err)
	}
	l, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	for range 2 {
		if err := l.Log(state.Event{At: time.Now(), By: "ann", Verb: "claim"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "precious\n" {
		t.Errorf("the victim has %q", got)
	}
	n := 0
	if err := s.ReadEvents(time.Time{}, func(state.Event) { n++ }); err != nil || n != 2 {
		t.Errorf("%d events, %v", n, err)
	}
}

// A log of a terabyte of nothing is not read to its end, and what is new in it
// is found.
func TestEndlessLog(t *testing.T) {
	s := &state.Store{Dir: t.TempDir(), Modes: state.Private}
	if err := os.WriteFile(s.Events(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(s.Events(), 1<<40); err != nil {
		t.Skip(err)
	}
	l, err := s.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Log(state.Event{At: time.Now(), By: "ann", Verb: "claim"}); err != nil {
		t.Fatal(err)
	}
	l.Unlock()
	read := make(chan int, 1)
	go func() {
		n := 0
		s.ReadEvents(time.Time{}, func(state.Event) { n++ })
		read <- n
	}()
	select {
	case n := <-read:
		if n != 1 {
			t.Errorf("%d events", n)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("still reading")
	}
}
