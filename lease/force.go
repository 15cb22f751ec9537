package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// ErrNotYours is the release of another party's lease without force.
var ErrNotYours = errors.New("held by another party")

// HeldError is a release or claim that a holder stands in the way of. It wraps
// ErrNotYours.
type HeldError struct {
	Sight Sight
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s", e.Sight.Resource, e.Sight.Party().Label())
}
func (e *HeldError) Unwrap() error { return ErrNotYours }

// Hold takes res for h with a record and no witness, as `withlease claim`
// does, through the gate: for the time d, or, when that is 0, until it is
// released. Where the same party holds it already, and its time is not over, it
// returns that holder with the terms of that lease. The error is a *Blocked when a
// holder, the supervisor, an upgrade or the line says no.
func (b *Base) Hold(ctx context.Context, res string, h Holder, d time.Duration) (already *Holder, t Terms, err error) {
	if err := CheckName(res); err != nil {
		return nil, t, err
	}
	if err := b.Make(); err != nil {
		return nil, t, err
	}
	l, err := b.Store.Lock(ctx)
	if err != nil {
		return nil, t, err
	}
	defer l.Unlock()
	for range 100 {
		already, t, err = b.change(l).hold(res, h, d)
		if !errors.Is(err, errGone) {
			return already, t, err
		}
	}
	return nil, t, &DirError{Resource: res, Path: b.path(res), Err: err}
}

// errGone is a claim that met the shell lock's mkdir between its look and its
// rename, and found it gone again when it looked: nobody holds it.
var errGone = errors.New("somebody takes it and gives it back again and again; try again")

// hold is one attempt of Hold, under the lock.
func (c *change) hold(res string, h Holder, d time.Duration) (already *Holder, t Terms, err error) {
	s, err := c.settle(res)
	if err != nil {
		return nil, t, err
	}
	defer s.close()
	if s.held() && !s.late {
		if h2 := s.record(); h2.Party().Same(h.Party()) {
			return &h2, Terms{s.mark().Token, s.mark().Fence, s.until()}, nil
		}
	}
	st, err := c.lock.State()
	if err != nil {
		return nil, t, err
	}
	c.watchSupervisor(st)
	rq := &Request{Resources: []string{res}, Holder: h}
	grant, blocked, err := c.gate(st, rq, s, nil, false)
	if err != nil {
		return nil, t, err
	}
	if blocked != nil {
		blocked.close()
		return nil, t, blocked
	}
	h.Env, h.Since = res, c.now.UTC().Format(time.RFC3339)
	if grant >= 0 && st.Upgrade(res, c.now) != nil {
		h.UpgradeUnblock = st.Grants[grant].UpgradeUnblock
	}
	if t, err = c.record(res, h, d); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return nil, t, err
		}
		if blocked, err = c.arrived(st, rq, s, nil); err != nil {
			return nil, Terms{}, err
		}
		if blocked == nil {
			return nil, Terms{}, errGone
		}
		blocked.close()
		return nil, Terms{}, blocked
	}
	if err := c.useGrants(st, []int{grant}); err != nil {
		if unix.Rename(c.path(res), c.trash(res)) == nil {
			discard(c.trash(res))
		}
		return nil, t, err
	}
	c.log(h.Party().Label(), "claim", state.Detail{Resource: res, Session: h.Session, Purpose: h.Purpose, Token: t.Token, Fence: t.Fence})
	return nil, t, nil
}

// OtherError is the release of a lease that is over.
type OtherError struct {
	Now Sight // what is there now
}

func (e *OtherError) Error() string {
	if !e.Now.Held {
		return e.Now.Resource + ": that lease is over, and nobody holds it now"
	}
	return fmt.Sprintf("%s: that lease is over; %s holds it now", e.Now.Resource, e.Now.Party().Label())
}

// Free releases a lease of who that no run of its own will release: a record
// without a witness, or what a crash left; one of which only, where that is
// said. A run's is a *HeldError, and so is another party's; nobody's is a
// *DirError that wraps ErrNotHeld; none of which is an *OtherError.
func (b *Base) Free(ctx context.Context, res string, who state.Party, which ...Mark) error {
	return b.free(ctx, res, which, func(c *change, s *sight) error {
		h := s.record()
		if s.dead() {
			return nil
		}
		if s.kind != Recorded || !h.Party().Same(who) {
			return &HeldError{s.Sight()}
		}
		return nil
	}, func(c *change, s *sight) {
		if s.dead() {
			c.logDeath(s)
			return
		}
		c.log(who.Label(), "release", c.detail(s.record(), s.mark()))
	})
}

// Force frees a lease whoever holds it: its owner is told through the witness,
// the log says who, whom and why [force]. What it took away is returned. Nobody's
// lease is a *DirError that wraps ErrNotHeld; none of which, where that is said,
// is an *OtherError.
func (b *Base) Force(ctx context.Context, res string, who state.Party, why string, which ...Mark) (taken Sight, err error) {
	err = b.free(ctx, res, which, func(c *change, s *sight) error {
		taken = s.Sight()
		return nil
	}, func(c *change, s *sight) {
		// Before the rename, so that its owner knows at once, even between
		// its claim and the start of its command (R7).
		poke(filepath.Join(c.path(res), "witness"), 'f')
		d := c.detail(taken.Holder, taken.Mark())
		d.To, d.Reason = taken.Party().Label(), why
		c.log(who.Label(), "force", d)
	})
	return taken, err
}

func (b *Base) free(ctx context.Context, res string, which []Mark, may func(*change, *sight) error, last func(*change, *sight)) error {
	if err := CheckName(res); err != nil {
		return err
	}
	l, err := b.lockThere(ctx, res)
	if err != nil {
		return err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.look(res)
	if err != nil {
		return err
	}
	defer s.close()
	if s.kind == Ended { // on its own: there is nothing to give back
		if err := c.retire(s); err != nil {
			return err
		}
		s.exists = false
	}
	if !s.exists {
		return &DirError{Resource: res, Path: b.path(res), Err: ErrNotHeld}
	}
	if len(which) > 0 && !(s.held() && slices.ContainsFunc(which, func(m Mark) bool { return m.Means(s.mark()) })) {
		return &OtherError{s.Sight()}
	}
	if err := may(c, s); err != nil {
		return err
	}
	if err := c.away(s, c.trash(res), 0, func() { last(c, s) }); err != nil {
		return err
	}
	discard(c.trash(res))
	return nil
}

// lockThere takes the lock to change a lease that must be there: where nothing
// was ever claimed the error is a *DirError that wraps ErrNotHeld.
func (b *Base) lockThere(ctx context.Context, res string) (*state.Locked, error) {
	l, err := b.Store.Lock(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &DirError{Resource: res, Path: b.path(res), Err: ErrNotHeld}
	}
	return l, err
}

// Members are the processes of the run that holds s: its wrapper, its command,
// and what else has its token or its witness. Only those of this boot and PID
// namespace, with their start times, so that no other process is meant. And
// only those that have the witness open, or that whoever wrote the record could
// have ended himself: who may write into a shared base must not have a
// `release --kill` of somebody else's, or root's, end what he likes.
func (s Sight) Members() []Member {
	p := s.Process
	if p == nil {
		return nil
	}
	found, holding := slices.Clone(s.Orphans), []Member{}
	if p.here() {
		found, holding = survivors(p), holders(s.witness)
		if w := (PID{p.PID, p.Start}); w.Alive() {
			found = append([]Member{{w, commandOf(w.PID)}}, found...)
		}
	}
	has := func(ms []Member, p PID) bool {
		return slices.ContainsFunc(ms, func(m Member) bool { return m.PID == p })
	}
	found = slices.DeleteFunc(found, func(m Member) bool { return !has(holding, m.PID) && !s.mayName(m.PID) })
	for _, m := range holding {
		if !has(found, m.PID) {
			found = append(found, m)
		}
	}
	return found
}

// mayName says whether the word of the record's owner is enough for a process
// to be of its run. Root's is, for any.
func (s Sight) mayName(p PID) bool {
	return s.owner == 0 || s.owner > 0 && userOf(p.PID) == s.owner
}

// WrapperGone says whether the wrapper of a run that still holds its lease is
// dead: then its command, or a child of it, holds it.
func (s Sight) WrapperGone() bool {
	p := s.Process
	return s.Held && p != nil && p.here() && p.Start > 0 && !PID{p.PID, p.Start}.Alive()
}

// here says whether the pids of p mean anything to this process.
func (p *Process) here() bool {
	m := thisMachine()
	return p.BootID != "" && p.BootID == m.bootID && (p.PIDNS == 0 || p.PIDNS == pidNamespace())
}

// Settle retires res when it is dead, so that the next in line hears of it.
func (b *Base) Settle(ctx context.Context, res string) error {
	l, err := b.Store.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.look(res)
	if err != nil {
		return err
	}
	defer s.close()
	if s.dead() {
		return c.retire(s)
	}
	return nil
}

// NoteKill logs that somebody ends the processes of a run that goes on.
func (b *Base) NoteKill(ctx context.Context, s Sight, who state.Party, why string) error {
	l, err := b.Store.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock()
	m := s.Mark()
	return l.Log(state.Event{At: time.Now(), By: who.Label(), Verb: "kill", Detail: state.Detail{
		Resource: s.Resource, Session: s.Holder.Session, To: s.Party().Label(), Purpose: s.Holder.Purpose, Reason: why, Token: m.Token, Fence: m.Fence,
	}})
}

// End ends processes: TERM and CONT, and KILL to what is left after the grace.
// It returns those that still live a second after that.
func End(members []Member, grace time.Duration) (left []Member, err error) {
	send := func(s syscall.Signal) {
		for _, m := range members {
			if e := m.Signal(s); e != nil && e != unix.ESRCH {
				err = e
			}
		}
	}
	send(unix.SIGTERM)
	send(unix.SIGCONT)
	if left = await(members, grace); len(left) == 0 {
		return nil, nil
	}
	send(unix.SIGKILL)
	return await(left, time.Second), err
}

// await waits until all have ended, at most for a time.
func await(members []Member, most time.Duration) (left []Member) {
	deadline := time.Now().Add(most)
	for _, m := range members {
		fd := openPID(m.PID)
		if fd >= 0 {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			for {
				_, err := unix.Poll(fds, milliseconds(time.Until(deadline)))
				if err != unix.EINTR {
					break
				}
			}
			unix.Close(fd)
		}
		if m.Alive() {
			left = append(left, m)
		}
	}
	return left
}
