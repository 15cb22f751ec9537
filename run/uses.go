package run

import (
	"cmp"
	"slices"
	"time"

	"withlease/lease"
	"withlease/state"
)

// Ending is how somebody's use of a resource ended.
type Ending int

const (
	StillHeld Ending = iota
	GivenBack        // by its run or its claimer; Outcome says how a run's command ended
	HasCrashed
	WasForced
	EndUnknown // the log has no end of it: somebody removed it by hand, or a line is lost
)

// Use is one time that somebody had a resource, as the log tells it.
type Use struct {
	Resource string
	By       string // the party, as people are shown
	Session  string
	Purpose  string
	Token    string
	Fence    int64
	Waited   time.Duration // for the claim
	Held     time.Duration // 0 as well when that isn't known, and while it is held
	Claimed  time.Time     // zero: not known
	Ended    time.Time     // zero: still held. Of a crash its last renewal, for it may be found much later
	Ending   Ending
	Outcome  string // of a run: "exit 0", "signal 15", "not started"
	Forcer   string
	Reason   string // of a force
}

// from is when a use began, as far as that is known.
func (u *Use) from() time.Time {
	if u.Claimed.IsZero() {
		return u.Ended
	}
	return u.Claimed
}

// until is when it ended, or now.
func (u *Use) until(now time.Time) time.Time {
	if u.Ending == StillHeld {
		return now
	}
	return u.Ended
}

// within is how much of a use lies in a span of time.
func (u *Use) within(from, now time.Time) time.Duration {
	begin, end := u.from(), u.until(now)
	if begin.Before(from) {
		begin = from
	}
	if end.After(now) {
		end = now
	}
	return max(end.Sub(begin), 0)
}

// pairing puts the claims of a log and their ends together. Events are added in
// the order of the log, which is that of the lock: the clock may have been set
// back between them. Halves are used for what they say: the log was rotated, a
// line was torn, another tool removed a lease.
type pairing struct {
	uses  []*Use
	open  map[string]*Use
	first time.Time            // the earliest event
	last  map[string]time.Time // the newest event of each resource
}

func (p *pairing) add(e state.Event) {
	if p.first.IsZero() || e.At.Before(p.first) {
		p.first = e.At
	}
	res := e.Detail.Resource
	switch e.Verb {
	case "claim", "claim.end", "release", "force", "lease.crash", "lease.abandoned":
	default:
		return
	}
	if lease.CheckName(res) != nil {
		return // nobody's
	}
	if p.open == nil {
		p.open, p.last = map[string]*Use{}, map[string]time.Time{}
	}
	p.last[res] = e.At
	switch e.Verb {
	case "claim":
		p.lose(res)
		p.open[res] = p.begin(e)
	case "lease.abandoned": // a claim that nobody finished, so that none is open
		p.lose(res)
	default:
		p.end(e)
	}
}

// begin is a use that a claim begins.
func (p *pairing) begin(e state.Event) *Use {
	d := &e.Detail
	u := &Use{Resource: d.Resource, By: e.By, Session: d.Session, Purpose: d.Purpose, Token: d.Token, Fence: d.Fence,
		Waited: logged(d.WaitSeconds), Claimed: e.At}
	p.uses = append(p.uses, u)
	return u
}

// end finds the use that an event ends, or makes it out of the event alone.
func (p *pairing) end(e state.Event) {
	d := &e.Detail
	u := p.open[d.Resource]
	switch {
	case u != nil && ends(d, u):
		delete(p.open, d.Resource)
	default:
		if d.Fence == 0 || u != nil && d.Fence >= u.Fence { // the end of a later one, whose claim is lost
			p.lose(d.Resource)
		}
		u = p.begin(e)
		u.Claimed = time.Time{}
		if e.Verb == "force" {
			u.By = d.To
		}
	}
	u.finish(e)
}

// ends says whether an event may be the end of u: what both name must agree. A
// claim without a run has neither fence nor token in its end.
func ends(d *state.Detail, u *Use) bool {
	return (d.Fence == 0 || u.Fence == 0 || d.Fence == u.Fence) &&
		(d.Token == "" || u.Token == "" || d.Token == u.Token) &&
		(d.Session == "" || u.Session == "" || d.Session == u.Session)
}

// finish notes the end of a use. Its length is the one that the event tells,
// which a clock set meanwhile doesn't change.
func (u *Use) finish(e state.Event) {
	d := &e.Detail
	u.Ended, u.Outcome = e.At, d.Outcome
	if u.Waited == 0 {
		u.Waited = logged(d.WaitSeconds)
	}
	u.Held = logged(d.HeldSeconds)
	if u.Claimed.IsZero() && u.Held > 0 {
		u.Claimed = u.Ended.Add(-u.Held)
	}
	switch e.Verb {
	case "release":
		u.Ending = GivenBack
	case "claim.end": // at its time, though it may be found later
		u.Ending = GivenBack
		if !u.Claimed.IsZero() && u.Held > 0 {
			u.Ended = u.Claimed.Add(u.Held)
		}
	case "force":
		u.Ending, u.Forcer, u.Reason = WasForced, e.By, d.Reason
	default:
		u.Ending = HasCrashed
		if at, err := time.Parse(time.RFC3339, d.Renewed); err == nil && at.Before(u.Ended) {
			u.crashedAt(at)
		}
	}
	if !u.Claimed.IsZero() && u.Held == 0 {
		u.Held = max(u.Ended.Sub(u.Claimed), 0)
	}
	if u.Ended.Before(u.Claimed) {
		u.Claimed = u.Ended.Add(-u.Held)
	}
}

// crashedAt ends a crash at the last sign of life, which has whole seconds.
func (u *Use) crashedAt(at time.Time) {
	if at.Before(u.Claimed) {
		at = u.Claimed
	}
	u.Ended, u.Held = at, 0
	if !u.Claimed.IsZero() {
		u.Held = at.Sub(u.Claimed)
	}
}

// lose ends the open use of a resource whose end the log doesn't have.
func (p *pairing) lose(res string) {
	if u := p.open[res]; u != nil {
		u.Ending, u.Ended = EndUnknown, u.Claimed
		delete(p.open, res)
	}
}

// settle compares what the log leaves open with what was held at a time: an open
// use that nobody holds has an end that isn't known, and what is held without a
// claim in the log (a shell lock's, or one that is older than the log) is a use
// too. It returns all uses, in the order of their claims in the log.
func (p *pairing) settle(held []lease.Sight, at time.Time) []*Use {
	for _, s := range held {
		if s.Kind == lease.Claiming || s.Kind == lease.Abandoned || p.last[s.Resource].After(at) {
			continue
		}
		h, u := s.Holder, p.open[s.Resource]
		var d state.Detail
		d.Session = h.Session
		if s.Process != nil {
			d.Fence, d.Token = s.Process.Fence, s.Process.Token
		}
		if u == nil || !ends(&d, u) {
			p.lose(s.Resource)
			if h.SinceTime().IsZero() {
				continue
			}
			u = &Use{Resource: s.Resource, By: h.Party().Label(), Session: h.Session, Purpose: h.Purpose, Token: d.Token, Fence: d.Fence, Claimed: h.SinceTime()}
			p.uses = append(p.uses, u)
		}
		delete(p.open, s.Resource)
		if s.Kind == lease.Crashed { // and nobody has noted it yet
			u.Ending = HasCrashed
			u.crashedAt(s.Renewed)
		}
	}
	for res, u := range p.open {
		if u.Claimed.Before(at) {
			p.lose(res)
		}
	}
	return p.uses
}

// lookedBack is what the log says of a span of time: who used what, who waited.
type lookedBack struct {
	uses      []*Use
	from, now time.Time // never before the log begins
	log       string    // its path
}

// lookBack reads the log since a time, or since it begins: of the resources named,
// or of all.
func (s *Session) lookBack(names []string, since string) (*lookedBack, error) {
	from, err := s.since(since)
	for _, res := range names {
		err = cmp.Or(err, lease.CheckName(res))
	}
	if err != nil {
		return nil, err
	}
	b, err := s.Base()
	if err != nil {
		return nil, err
	}
	at := s.Now()
	held, listErr := b.List()
	var p pairing
	if err := b.Store.ReadEvents(time.Time{}, p.add); err != nil {
		return nil, err
	}
	uses := p.uses
	if listErr == nil { // else what the log says must do
		uses = p.settle(held, at)
	}
	if len(names) > 0 {
		uses = slices.DeleteFunc(uses, func(u *Use) bool { return !slices.Contains(names, u.Resource) })
	}
	if from.Before(p.first) {
		from = p.first
	}
	return &lookedBack{uses, from, s.Now(), b.Store.Events()}, nil
}
