package run

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"withlease/lease"
)

// Release is how a lease is freed that no run gives back.
type Release struct {
	Resource string
	If       string // a token or a fence: that lease only
	Force    bool
	Kill     bool
	DryRun   bool
	Reason   string
	Grace    time.Duration

	which []lease.Mark // If
}

// check is what kong can't say about a command line.
func (r *Release) check() error {
	if r.If != "" {
		m, err := lease.ParseMark(r.If)
		if err != nil {
			return usage("--if: %s", show(err.Error()))
		}
		r.which = []lease.Mark{m}
	}
	if r.DryRun && !r.Force && !r.Kill {
		return usage("--dry-run shows what --force or --kill would end: withlease release --force --dry-run %s", show(r.Resource))
	}
	if r.Force && !r.DryRun && strings.TrimSpace(r.Reason) == "" {
		return usage("%s is taken from its holder: say why, for the log: %s", show(r.Resource), r.forced())
	}
	return nil
}

// forced is the command that takes it away.
func (r *Release) forced() string { return forceIt(r.Resource, "") }

// forceIt is the command that takes a resource away, with more flags.
func forceIt(res, flags string) string {
	return fmt.Sprintf("withlease release %s--force --reason WHY %s", flags, show(res))
}

// Release frees a claim of the caller; with force anybody's lease; with kill it
// ends the processes that hold an orphaned one.
func (s *Session) Release(r Release) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	if err := r.check(); err != nil {
		return s.failed(err)
	}
	switch {
	case r.DryRun:
		return s.dryRun(r)
	case r.Kill:
		return s.kill(b, r)
	case r.Force:
		return s.force(b, r)
	}
	err = b.Free(soon(), r.Resource, s.Party(), r.which...)
	var held *lease.HeldError
	if errors.As(err, &held) {
		step := "ask its holder (withlease ask " + r.Resource + "), or take it away: " + r.forced()
		if held.Sight.Kind == lease.Running && held.Sight.Party().Same(s.Party()) {
			step = "it is given back when its command ends; or take it away: " + r.forced()
		}
		say(s.Stderr, "%s is %s; %s", r.Resource, heldBy(held.Sight, s.Now()), step)
		return Exit{Code: ExitRefused}
	}
	if err != nil {
		return s.notReleased(err)
	}
	fmt.Fprintf(s.Stdout, "released %s\n", r.Resource)
	return Exit{}
}

// notReleased explains what stands in the way.
func (s *Session) notReleased(err error) Exit {
	var other *lease.OtherError
	if !errors.As(err, &other) {
		return s.failed(err)
	}
	say(s.Stderr, "%s: that lease is over: %s", other.Now.Resource, isNow(other.Now, s.Now()))
	return Exit{Code: ExitRefused}
}

// isNow is a lease as it is, where another was meant.
func isNow(h lease.Sight, now time.Time) string {
	if !h.Held {
		return "nobody holds " + h.Resource
	}
	line := h.Resource + " is " + heldBy(h, now)
	if m := h.Mark(); m.Fence > 0 {
		line += fmt.Sprintf(", with fence %d and token %s", m.Fence, show(m.Token))
	}
	return line
}

func (s *Session) force(b *lease.Base, r Release) Exit {
	taken, err := b.Force(soon(), r.Resource, s.Party(), r.Reason, r.which...)
	if err != nil {
		return s.notReleased(err)
	}
	fmt.Fprintf(s.Stdout, "freed %s, which was %s\n", r.Resource, heldBy(taken, s.Now()))
	switch taken.Kind {
	case lease.Recorded, lease.Claiming:
		if taken.Terms != nil {
			break // withlease's own: nobody will delete it later
		}
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
	sight, members, err := b.LookMembers(soon(), r.Resource)
	if err != nil {
		return s.failed(err)
	}
	if err := s.killable(b, sight, members, r); err != nil {
		return s.notReleased(err)
	}
	if r.Force {
		if err := b.NoteKill(soon(), sight, s.Party(), r.Reason); err != nil {
			return s.failed(err)
		}
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

// refusal is a verb's no, as it is said.
type refusal string

func (r refusal) Error() string { return string(r) }

// killable says why a release by kill may not end the members of a lease, or why
// there are none.
func (s *Session) killable(b *lease.Base, sight lease.Sight, members []lease.Member, r Release) error {
	if err := s.meant(b, sight, r); err != nil {
		return err
	}
	held := fmt.Sprintf("%s is %s", r.Resource, heldBy(sight, s.Now()))
	switch {
	case sight.Process == nil:
		return refusal(fmt.Sprintf("%s: no process of it is known, so none is ended; free it with: %s", held, r.forced()))
	case !sight.WrapperGone() && sight.Kind != lease.Orphaned && !r.Force:
		return refusal(fmt.Sprintf("%s: its wrapper runs; ask its holder, or insist: %s", held, forceIt(r.Resource, "--kill ")))
	case len(members) > 0:
		return nil
	}
	also := ""
	if sight.Process.Reused() {
		also = fmt.Sprintf(", and pid %d belongs to another process now", sight.Process.PID)
	}
	return refusal(fmt.Sprintf("%s: no process that holds it can be seen from here%s; free it with: %s", r.Resource, also, r.forced()))
}

// meant says whether a lease is there, and the one that is meant.
func (s *Session) meant(b *lease.Base, sight lease.Sight, r Release) error {
	switch {
	case len(r.which) > 0 && sight.Kind != lease.Free && !(sight.Held && r.which[0].Means(sight.Mark())):
		return &lease.OtherError{Now: sight}
	case !sight.Held:
		return &lease.DirError{Resource: r.Resource, Path: string(b.Leases) + "/" + r.Resource, Err: lease.ErrNotHeld}
	}
	return nil
}
