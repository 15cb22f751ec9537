package state_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"withlease/state"
)

// Every line of every file is counted, the damaged ones apart.
func TestCheckEvents(t *testing.T) {
	s := &state.Store{Dir: t.TempDir(), Modes: state.Private}
	if r, err := s.CheckEvents(); err != nil || r != (state.LogReport{}) {
		t.Errorf("no log: %+v, %v", r, err)
	}
	event := func(at string) string { return `{"at":"` + at + `","by":"ann","verb":"claim","detail":{}}` + "\n" }
	long := strings.Repeat("x", 3<<20) + "\n"
	text := event("2026-01-02T03:04:05.000Z") + "garbage\n" + long + "\n" + event("2026-01-02T03:04:07.000Z") + `{"at":"2026`
	old := event("2026-01-01T00:00:00.000Z")
	for file, text := range map[string]string{s.Events(): text, s.Events() + ".1": old} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := state.LogReport{Files: 2, Size: int64(len(text) + len(old)), Events: 3, Damaged: 4, Last: time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC)}
	if r, err := s.CheckEvents(); err != nil || r != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
}
