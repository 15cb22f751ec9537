//go:build linux

package main

import "testing"

// TestFirstOfAConflict: the one that had to be forced away is the one that claimed first, whichever command began first.
func TestFirstOfAConflict(t *testing.T) {
	had := func(fence int64) *op { return &op{fences: map[string]int64{"alpha": fence}} }
	for _, c := range []struct {
		name        string
		late, early *op
		lateIsFirst bool
	}{
		{"in the order of the claims", had(14), had(13), false},
		{"the first one's command was slow to begin", had(13), had(14), true},
		{"no fence is known", had(0), had(14), false},
		{"of one that has never begun", had(13), nil, false},
	} {
		want := c.early
		if c.lateIsFirst {
			want = c.late
		}
		if got := (conflict{late: c.late, early: c.early, res: "alpha"}).first(); got != want {
			t.Errorf("%s: %p, want %p", c.name, got, want)
		}
	}
}
