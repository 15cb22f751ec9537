package run

import (
	"errors"
	"fmt"
	"time"

	"withlease/lease"
)

// Claimed is the answer of claim and extend in JSON.
type Claimed struct {
	Schema   int        `json:"schema"`
	Resource string     `json:"resource"`
	Token    string     `json:"token,omitempty"`
	Fence    int64      `json:"fence,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
}

func claimed(res string, t lease.Terms) Claimed {
	c := Claimed{Schema: Schema, Resource: res, Token: t.Token, Fence: t.Fence}
	if !t.Until.IsZero() {
		c.Until = &t.Until
	}
	return c
}

// Claim takes a resource without a command: it is held until it is released, or
// for a time.
func (s *Session) Claim(res, purpose string, budget int, lasts *time.Duration) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	c := Command{Resources: []string{res}, Argv: []string{"claim"}, TTL: DefaultTTL, BudgetGiB: budget}
	if err := c.check(s); err != nil {
		return s.failed(err)
	}
	var d time.Duration
	if lasts != nil {
		if d = *lasts; d <= 0 {
			return s.failed(usage("--for=%v: a duration greater than 0 is needed, like 90s or 5m", d))
		}
	}
	h := s.Holder(purpose)
	h.BudgetGiB = budget
	holder, terms, err := b.Hold(soon(), res, h, d)
	var blocked *lease.Blocked
	now := s.Now()
	until := ""
	if !terms.Until.IsZero() {
		until = " until " + clock(terms.Until, now)
	}
	switch {
	case errors.As(err, &blocked):
		say(s.Stderr, "%s is not claimed: %s; see: withlease queue %s", res, waitLine(blocked, string(b.Leases)+"/"+res, now, readPast(b, res).expected(blocked.Sight, now).String()), res)
		return Exit{Code: ExitRefused}
	case err != nil:
		return s.failed(err)
	case s.JSON:
		return s.wrote(writeJSON(s.Stdout, claimed(res, terms)), nil)
	case holder != nil:
		since := ""
		if t := holder.SinceTime(); !t.IsZero() {
			since = ", since " + ago(now.Sub(t))
		}
		fmt.Fprintf(s.Stdout, "%s is already yours%s%s\n", res, until, since)
		return Exit{}
	}
	fmt.Fprintf(s.Stdout, "claimed %s%s; give it back with: withlease release %s\n", (lease.Holder{Env: res, BudgetGiB: budget}).Label(), until, res)
	return Exit{}
}

// Extend moves the end of the caller's claim: to a duration from now, or to a
// time.
func (s *Session) Extend(res string, d *time.Duration, until string) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	var end time.Time
	switch {
	case (d == nil) == (until == ""):
		return s.failed(usage("for how long? withlease extend %s 30m, or: withlease extend --until WHEN %s", show(res), show(res)))
	case d == nil:
		if end, err = s.moment(until); err != nil {
			return s.failed(err)
		}
	case *d <= 0:
		return s.failed(usage("%v: a duration greater than 0 is needed, like 90s or 5m; to give it back now: withlease release %s", *d, show(res)))
	default:
		end = s.Now().Add(*d)
	}
	terms, err := b.Extend(soon(), res, s.Party(), end)
	now := s.Now()
	var held *lease.HeldError
	var fixed *lease.TermError
	switch {
	case errors.As(err, &held):
		say(s.Stderr, "%s is %s; only its holder can extend it; ask: withlease ask %s", res, heldBy(held.Sight, now), res)
	case errors.As(err, &fixed):
		say(s.Stderr, "%s; only a claim for a time has one: withlease claim --for 30m %s", show(fixed.Error()), res)
	case errors.Is(err, lease.ErrNotHeld):
		say(s.Stderr, "%s: nobody holds it; claim it again with: withlease claim --for 30m %s", res, res)
	case err != nil:
		return s.failed(err)
	case s.JSON:
		return s.wrote(writeJSON(s.Stdout, claimed(res, terms)), nil)
	default:
		fmt.Fprintf(s.Stdout, "%s is yours until %s (in %s)\n", res, clock(terms.Until, now), ago(terms.Until.Sub(now)))
		return Exit{}
	}
	return Exit{Code: ExitRefused}
}
