package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"withlease/state"
)

func TestNewest(t *testing.T) {
	for _, c := range []struct {
		most, n int
		want    string
	}{{3, 0, ""}, {3, 2, "0 1"}, {3, 3, "0 1 2"}, {3, 4, "1 2 3"}, {3, 8, "5 6 7"}, {1, 5, "4"}} {
		k := newest{most: c.most}
		for i := range c.n {
			k.add(state.Event{By: fmt.Sprint(i)})
		}
		var got []string
		k.each(func(e state.Event) { got = append(got, e.By) })
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("the newest %d of %d are %q, want %q", c.most, c.n, s, c.want)
		}
	}
}

// What a person is told of each verb that the log has.
func TestEventLine(t *testing.T) {
	until := time.Date(2026, 3, 1, 10, 30, 0, 0, time.Local)
	for verb, want := range map[string]string{
		"claim":     "gpu  claimed by ann (session s-bob): tests",
		"claim.end": "gpu  the claim of ann (session s-bob) ended at its time, held for 1m0s: tests",
		"extend":    "gpu  the end was moved by ann (session s-bob), until 2026-03-01 10:30: tests",
		"keep":      "gpu  kept by ann (session s-bob) after its command failed, exit 2, until 2026-03-01 10:30: tests",
		"ask":       "gpu  ann asked bob (session s-bob) for it: why",
		"kill":      "gpu  ann ended the processes of bob (session s-bob): why",
		"force":     "gpu  taken from bob (session s-bob) by ann, held for 1m0s: why, it was for: tests",
		"release":   "gpu  given back by ann (session s-bob), exit 2, held for 1m0s: tests",
		"other":     "gpu  other by ann (session s-bob), to bob, exit 2, held for 1m0s: why",
	} {
		d := state.Detail{Resource: "gpu", Session: "s-bob", To: "bob", Purpose: "tests", Reason: "why", Outcome: "exit 2", HeldSeconds: 60, Until: until}
		if verb == "claim" {
			d.HeldSeconds = 0
		}
		if got := eventLine(state.Event{By: "ann", Verb: verb, Detail: d}); got != want {
			t.Errorf("%s is %q, want %q", verb, got, want)
		}
	}
}

// Whatever an event has, its line is one, and harmless (B51).
func TestB51_EventLines(t *testing.T) {
	verbs := []string{"claim", "release", "force", "lease.crash", "lease.abandoned", "grant", "grant.expire", "revoke",
		"supervisor.start", "supervisor.stop", "upgrade.begin", "upgrade.end", "claim.end", "extend", "keep", "ask", "kill", nasty, strings.Repeat("x", 5000)}
	for _, verb := range verbs {
		for _, text := range []string{"", "x", nasty, strings.Repeat("x", 5000)} {
			line := eventLine(state.Event{By: text, Verb: verb, Detail: state.Detail{Resource: text, Session: text, To: text, Purpose: text, Reason: text,
				Outcome: text, Renewed: text, Target: text, Resources: []string{text}, WaitSeconds: 1e300, HeldSeconds: -1}})
			harmless(t, verb, line)
			if len(line) > 1500 {
				t.Errorf("%q: a line of %d bytes", verb, len(line))
			}
		}
	}
}
