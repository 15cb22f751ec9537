package run

import (
	"fmt"
	"slices"
	"time"

	"withlease/lease"
	"withlease/state"
)

// What past holds of a resource say about the present one. It is a range, from
// the 25th to the 75th percentile of how much longer those past holds took that
// were longer than the present one is already: with fewer than leastRuns of them
// nothing is said.
const (
	leastRuns   = 5
	mostRuns    = 100       // of a resource that are looked at, the newest
	mostOfLog   = 256 << 10 // bytes of the log that are read for it, its newest
	samePurpose = "purpose"
	anyPurpose  = "resource"
)

// ExpectedView is when the present holder gives a resource back, going by past
// holds.
type ExpectedView struct {
	LowSeconds  float64 `json:"lowSeconds"` // from now
	HighSeconds float64 `json:"highSeconds"`
	Basis       string  `json:"basis"` // which holds it goes by: of the same purpose, or all of the resource
	Runs        int     `json:"runs"`  // how many of them
}

// pastHold is how long a resource was held once, and for what.
type pastHold struct {
	purpose string
	held    time.Duration
}

// past are the past holds of each resource that the end of the log tells of.
type past map[string][]pastHold

// readPast reads the end of the log for one resource, or for all. A log that
// can't be read tells of none.
func readPast(b *lease.Base, res string) past {
	p := past{}
	text := `"verb":"release"`
	if res != "" { // as the log writes it: nothing in a name is escaped
		text += `,"detail":{"resource":"` + res + `"`
	}
	b.Store.RecentEvents(time.Time{}, mostOfLog, text, func(e state.Event) bool {
		p.add(e)
		return res == "" || len(p[res]) < mostRuns
	})
	return p
}

// add counts what its holder gave back: a force and a crash cut a hold short.
func (p past) add(e state.Event) {
	d := &e.Detail
	if e.Verb == "release" && d.HeldSeconds > 0 && d.Outcome != "not started" && len(p[d.Resource]) < mostRuns {
		p[d.Resource] = append(p[d.Resource], pastHold{d.Purpose, logged(d.HeldSeconds)})
	}
}

// expected is when s is given back; nil when too little is known.
func (p past) expected(s lease.Sight, now time.Time) *ExpectedView {
	since := s.Holder.SinceTime()
	if !s.Held || since.IsZero() {
		return nil
	}
	var same, all []time.Duration
	for _, h := range p[s.Resource] {
		all = append(all, h.held)
		if h.purpose == s.Holder.Purpose {
			same = append(same, h.held)
		}
	}
	v := &ExpectedView{Basis: samePurpose}
	holds := same
	if len(same) < leastRuns {
		v.Basis, holds = anyPurpose, all
	}
	so := max(now.Sub(since), 0)
	holds = slices.DeleteFunc(holds, func(d time.Duration) bool { return d <= so })
	if v.Runs = len(holds); v.Runs < leastRuns {
		return nil
	}
	slices.Sort(holds)
	v.LowSeconds = (percentile(holds, 25) - so).Truncate(time.Millisecond).Seconds()
	v.HighSeconds = (percentile(holds, 75) - so).Truncate(time.Millisecond).Seconds()
	return v
}

// String is the range with its basis; empty for none.
func (v *ExpectedView) String() string {
	if v == nil {
		return ""
	}
	low, high := ago(logged(v.LowSeconds)), ago(logged(v.HighSeconds))
	if low != high {
		low += "-" + high
	}
	of := ""
	if v.Basis == samePurpose {
		of = " of the same purpose"
	}
	return fmt.Sprintf("usually given back in %s (of %d past runs%s)", low, v.Runs, of)
}

// expecter knows the past while somebody waits: it is read when there is
// somebody to tell, once for each holder, and never for a claim that needs no
// wait.
type expecter struct {
	holder string // whose past is known
	past   past
}

func (x *expecter) expected(base *lease.Base, b *lease.Blocked, now time.Time) *ExpectedView {
	if !b.Sight.Held {
		return nil
	}
	holder := fmt.Sprint(b.Resource, " ", b.Sight.Holder.Since, b.Sight.Holder.Session)
	if p := b.Sight.Process; p != nil {
		holder = fmt.Sprint(b.Resource, " ", p.Fence)
	}
	if x.past == nil || x.holder != holder {
		x.holder, x.past = holder, readPast(base, b.Resource)
	}
	return x.past.expected(b.Sight, now)
}
