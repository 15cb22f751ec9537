package run

import (
	"fmt"
	"strings"
	"testing"

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

// Whatever an event has, its line is one, and harmless (B51).
func TestB51_EventLines(t *testing.T) {
	verbs := []string{"claim", "release", "force", "lease.crash", "lease.abandoned", "grant", "grant.expire", "revoke",
		"supervisor.start", "supervisor.stop", "upgrade.begin", "upgrade.end", nasty, strings.Repeat("x", 5000)}
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
