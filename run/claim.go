package run

import (
	"errors"
	"fmt"
	"time"

	"withlease/lease"
)

// Claim takes a resource without a command: it is held until it is released.
func (s *Session) Claim(res, purpose string, budget int) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	c := Command{Resources: []string{res}, Argv: []string{"claim"}, TTL: DefaultTTL, BudgetGiB: budget}
	if err := c.check(s); err != nil {
		return s.failed(err)
	}
	h := s.Holder(purpose)
	h.BudgetGiB = budget
	holder, yours, err := b.Hold(soon(), res, h)
	var blocked *lease.Blocked
	switch {
	case errors.As(err, &blocked):
		say(s.Stderr, "%s is not claimed: %s; see: withlease queue %s", res, waitLine(blocked, string(b.Leases)+"/"+res, s.Now(), readPast(b, res).expected(blocked.Sight, s.Now()).String()), res)
		return Exit{Code: ExitRefused}
	case err != nil:
		return s.failed(err)
	case yours:
		since := ""
		if t := holder.SinceTime(); !t.IsZero() {
			since = ", since " + ago(s.Now().Sub(t))
		}
		fmt.Fprintf(s.Stdout, "%s is already yours%s\n", res, since)
		return Exit{}
	}
	fmt.Fprintf(s.Stdout, "claimed %s; give it back with: withlease release %s\n", (lease.Holder{Env: res, BudgetGiB: budget}).Label(), res)
	return Exit{}
}

// Release is how a lease is freed that no run gives back.
type Release struct {
	Resource string
	Force    bool
	Kill     bool
	Reason   string
	Grace    time.Duration
}

// Release frees a claim of the caller; with force anybody's lease; with kill it
// ends the processes that hold an orphaned one.
func (s *Session) Release(r Release) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	switch {
	case r.Kill:
		return s.kill(b, r)
	case r.Force:
		return s.force(b, r)
	}
	err = b.Free(soon(), r.Resource, s.Party())
	var held *lease.HeldError
	if errors.As(err, &held) {
		step := "ask its holder, or take it away: withlease release --force " + r.Resource
		if held.Sight.Kind == lease.Running && held.Sight.Party().Same(s.Party()) {
			step = "it is given back when its command ends; or take it away: withlease release --force " + r.Resource
		}
		say(s.Stderr, "%s is %s; %s", r.Resource, heldBy(held.Sight, s.Now()), step)
		return Exit{Code: ExitRefused}
	}
	if err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "released %s\n", r.Resource)
	return Exit{}
}

func (s *Session) force(b *lease.Base, r Release) Exit {
	taken, err := b.Force(soon(), r.Resource, s.Party(), r.Reason)
	if err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "freed %s, which was %s\n", r.Resource, heldBy(taken, s.Now()))
	switch taken.Kind {
	case lease.Recorded, lease.Claiming:
		say(s.Stderr, "%s had no witness: if a shell lock made it, its late `rm -r` will delete whatever lies at %s/%s by then; make sure that it has ended",
			r.Resource, show(string(b.Leases)), r.Resource)
	case lease.Orphaned:
		say(s.Stderr, "processes of its run still work: %s", orphaned(taken))
	}
	return Exit{}
}

// kill ends the processes of an orphaned lease: TERM, and KILL after the grace.
// What they held is free when the last of them is gone.
func (s *Session) kill(b *lease.Base, r Release) Exit {
	sight, err := b.Look(r.Resource)
	if err != nil {
		return s.failed(err)
	}
	switch {
	case !sight.Held:
		return s.failed(&lease.DirError{Resource: r.Resource, Path: string(b.Leases) + "/" + r.Resource, Err: lease.ErrNotHeld})
	case sight.Process == nil:
		say(s.Stderr, "%s is %s: no process of it is known, so none is ended; free it with: withlease release --force %s", r.Resource, heldBy(sight, s.Now()), r.Resource)
		return Exit{Code: ExitRefused}
	case !sight.WrapperGone() && sight.Kind != lease.Orphaned && !r.Force:
		say(s.Stderr, "%s is %s: its wrapper runs; ask its holder, or insist: withlease release --kill --force %s", r.Resource, heldBy(sight, s.Now()), r.Resource)
		return Exit{Code: ExitRefused}
	}
	members := sight.Members()
	if len(members) == 0 {
		say(s.Stderr, "%s: no process that holds it can be seen from here; free it with: withlease release --force %s", r.Resource, r.Resource)
		return Exit{Code: ExitRefused}
	}
	left, err := lease.End(members, r.Grace)
	if err != nil || len(left) > 0 {
		say(s.Stderr, "%s: %s could not be ended: %v", r.Resource, plural(len(left), "process", "processes"), err)
		return Exit{Code: ExitRefused}
	}
	if err := b.Settle(soon(), r.Resource); err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "ended %s of %s\n", plural(len(members), "process", "processes"), r.Resource)
	return Exit{}
}
