package lease_test

import (
	"context"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// Every end of a run's lease that the log tells of names the claim that it is
// the end of: by resource, fence and token. So a claim and its end can be put
// together, whatever happened between them.
func TestEveryEndNamesItsClaim(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		how, verb string
		end       func(t *testing.T, b *lease.Base, a *agent)
	}{
		{"given back", "release", func(t *testing.T, b *lease.Base, a *agent) { a.release() }},
		{"forced", "force", func(t *testing.T, b *lease.Base, a *agent) { must(t, second(b.Force(ctx, "gpu", pat, "x"))) }},
		{"crashed, seen by the next", "lease.crash", func(t *testing.T, b *lease.Base, a *agent) {
			a.kill()
			must(t, b.Settle(ctx, "gpu"))
		}},
		{"crashed, and released by somebody", "lease.crash", func(t *testing.T, b *lease.Base, a *agent) {
			a.kill()
			must(t, b.Free(ctx, "gpu", pat))
		}},
	} {
		t.Run(c.how, func(t *testing.T) {
			b := newBase(t)
			a := start(t, b, "a")
			n := a.claim("gpu")
			c.end(t, b, a)
			var all []state.Event
			must(t, b.Store.ReadEvents(time.Time{}, func(e state.Event) { all = append(all, e) }))
			if len(all) != 2 || all[0].Verb != "claim" || all[1].Verb != c.verb {
				t.Fatalf("the log has %+v", all)
			}
			for _, e := range all {
				if d := e.Detail; d.Resource != "gpu" || d.Fence != n.Fences[0] || d.Token != n.Token || d.Session != "s-a" {
					t.Errorf("%+v, want fence %d, token %s", e, n.Fences[0], n.Token)
				}
			}
			if c.verb != "lease.crash" {
				return
			}
			if at, err := time.Parse(time.RFC3339, all[1].Detail.Renewed); err != nil || time.Since(at) > patience || all[1].By != "a" {
				t.Errorf("a crash of %q, last renewed at %q", all[1].By, all[1].Detail.Renewed)
			}
		})
	}
}
