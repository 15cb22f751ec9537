package lease

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// away takes a lease from its place: notes the release where grants wait for
// it, wakes whom it concerns, renames it to a name of ours [away]. In that
// order: the note first, so that a grant's time can't have run out in between
// (R6), the wake before the rename, because a crash between them must lose nothing. last is called when
// nothing can go wrong any more but the rename, before the wake: what it does
// is not waited for. after is a number that no place in line is before, or 0.
func (c *change) away(s *sight, to string, after int64, last func()) error {
	step("release.3")
	st, err := c.lock.State()
	if err == nil {
		_, marked := st.Seen[s.res]
		delete(st.Seen, s.res)
		if noteReleased(st, s.res, c.now) || marked {
			if err := c.lock.Save(st); err != nil {
				return err
			}
		}
	} else {
		// A broken document must not keep a lease. Nobody's grant can be
		// read from it either.
		c.warn = append(c.warn, err)
		st = nil
	}
	last()
	step("release.4")
	c.wakeAfter(st, s.res, false, after)
	step("release.5")
	err = renameNew(c.path(s.res), to)
	if err == unix.EEXIST {
		discard(to)
		err = renameNew(c.path(s.res), to)
	}
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP {
		err = unix.Rename(c.path(s.res), to)
	}
	if err == unix.ENOTDIR || s.kind == Odd && err != nil {
		err = unix.Unlink(c.path(s.res)) // a file or a link: never what it points at
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: c.path(s.res), Err: err}
	}
	return nil
}

// retire takes a dead lease away [retire]. The caller looked under this lock,
// so that what is renamed is what was looked at.
func (c *change) retire(s *sight) error {
	if err := c.away(s, c.trash(s.res), 0, func() { c.logDeath(s) }); err != nil {
		return err
	}
	discard(c.trash(s.res))
	return nil
}

// logDeath notes that a lease was found dead, in the name of who had it.
func (c *change) logDeath(s *sight) {
	h, renewed, _ := s.readRecord()
	d := c.detail(h, s.mark())
	switch s.kind {
	case Abandoned:
		d.Reason = "lease record missing, recovered"
		c.log(h.Party().Label(), "lease.abandoned", d)
		return
	case Ended:
		d.Outcome = "time"
		if since := h.SinceTime(); !since.IsZero() {
			d.HeldSeconds = max(0, s.until().Sub(since).Seconds())
		}
		c.log(h.Party().Label(), "claim.end", d)
		return
	}
	if !renewed.IsZero() {
		d.Renewed = renewed.UTC().Format(time.RFC3339)
	}
	c.log(h.Party().Label(), "lease.crash", d)
}

// detail is what the log says of a lease that was found with this record.
func (c *change) detail(h Holder, m Mark) state.Detail {
	d := state.Detail{Resource: h.Env, Session: h.Session, Purpose: h.Purpose, Token: m.Token, Fence: m.Fence}
	if since := h.SinceTime(); !since.IsZero() {
		d.HeldSeconds = max(c.now.Sub(since).Seconds(), 0)
	}
	return d
}

// Outcome is how a run ended, for the log: "exit 0", "signal 15", "lost".
type Outcome string

// Release gives back what the lease holds; the command must be reaped. A
// resource that somebody forced away, or that somebody holds since, stays as it
// is and makes the error ErrLost. It is safe to call twice.
//
// The witness is closed last: closed before the rename its inode number could
// be used again, and the check below be fooled.
func (l *Lease) Release(ctx context.Context, outcome Outcome) error {
	if len(l.held) == 0 {
		return nil
	}
	defer l.close()
	step("release.1")
	lock, err := l.base.Store.Lock(ctx)
	if err != nil {
		return err // closing the witness frees it: the next who looks retires it
	}
	defer lock.Unlock()
	c := l.base.change(lock)
	var trash []string
	var errs []error
	for _, one := range l.held {
		s, err := c.look(one.res)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.close()
		if !s.exists || s.ino != one.ino {
			// Taken away; but a witness that can't be opened or asked at the moment (no
			// descriptor left, no locks to be had) is ours by its name.
			if err := l.check(one); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		to := c.putAside(one.res)
		if err := c.away(s, to, l.after(one), func() { c.logRelease(l, one, outcome) }); err != nil {
			errs = append(errs, err)
			continue
		}
		if to == c.spare(one.res) {
			// Under the lock: the next claim makes its witness there.
			unix.Unlink(filepath.Join(to, "witness"))
		} else {
			trash = append(trash, to)
		}
	}
	l.Warned = append(l.Warned, c.warn...)
	step("release.6")
	lock.Unlock()
	step("release.6 delete")
	for _, dir := range trash {
		discard(dir)
	}
	return errors.Join(errs...)
}

// after is the number that nobody's place is before while this lease is held:
// the claim's own place, or its fence when it came to an empty line. 0 when
// grants decide, where others wait ahead.
func (l *Lease) after(one *held) int64 {
	if !l.byLine {
		return 0
	}
	if t := placeOf(l.tickets, one.res); t != nil {
		return t.n
	}
	return one.fence
}

func (c *change) logRelease(l *Lease, one *held, outcome Outcome) {
	h := l.request.Holder
	c.log(h.Party().Label(), "release", state.Detail{
		Resource: one.res, Session: h.Session, Purpose: h.Purpose, Token: l.Token, Fence: one.fence,
		Outcome: string(outcome), WaitSeconds: l.waited.Seconds(), HeldSeconds: c.now.Sub(l.since).Seconds(),
	})
}

// close drops what proves that this run lives: the tickets, whose hang-up wakes
// the next in line, and the witness last.
func (l *Lease) close() {
	step("release.7")
	for _, t := range l.tickets {
		t.close()
	}
	step("release.8")
	for _, one := range l.held {
		one.close()
	}
	l.tickets, l.held = nil, nil
}

// LostError is a lease that isn't its owner's any more. It wraps ErrLost.
type LostError struct {
	Resource string
	By       Sight // who has it now, if anybody
}

func (e *LostError) Error() string {
	if e.By.Held {
		return e.Resource + " was taken away; " + e.By.Party().Label() + " holds it now"
	}
	return e.Resource + " was taken away"
}
func (e *LostError) Unwrap() error { return ErrLost }

// Renew touches the record, so that other machines and people see that the
// holder lives, and says whether the lease is still its owner's: a *LostError
// when it isn't. A record that somebody removed is written again. The error may
// be an *fs.PathError: the old record stays valid then.
//
// It touches through the descriptors that the claim opened, so it can never
// touch a successor's record.
func (l *Lease) Renew() error {
	for _, one := range l.held {
		if err := l.check(one); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstatat(one.dir, "holder.json", &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
			if err := l.rewrite(one); err != nil {
				return err
			}
		}
		now := []unix.Timespec{{Nsec: utimeNow}, {Nsec: utimeNow}}
		if err := unix.UtimesNanoAt(one.dir, "holder.json", now, unix.AT_SYMLINK_NOFOLLOW); err != nil && err != unix.ENOENT {
			return &fs.PathError{Op: "renew", Path: filepath.Join(l.base.path(one.res), "holder.json"), Err: err}
		}
		unix.UtimesNanoAt(one.dir, ".", now, 0) // so that no cleaner of old files takes it
	}
	return nil
}

// Check says whether the lease is still its owner's: nil or a *LostError. It
// takes the lock shared, so that a force which has told us is through. The store
// is one of its own: Check is called beside other uses of the lease.
func (l *Lease) Check() error { return l.checkAll(l.held) }

// checkAll is Check of what was held at first: a release beside it empties held.
func (l *Lease) checkAll(held []*held) error {
	store := state.Store{Dir: l.base.Store.Dir, Modes: l.base.Store.Modes}
	lock, err := store.Look(context.Background())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	for _, one := range held {
		if err := l.check(one); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) check(one *held) error {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(l.base.path(one.res), "witness"), &st)
	if err == nil && st.Ino == one.ino {
		return nil
	}
	if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
		return &fs.PathError{Op: "lstat", Path: l.base.path(one.res), Err: err}
	}
	s, lookErr := l.base.Look(one.res)
	if lookErr != nil {
		return lookErr
	}
	return &LostError{Resource: one.res, By: s}
}

func (l *Lease) rewrite(one *held) error {
	lock, err := l.base.Store.Lock(context.Background())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := l.check(one); err != nil { // it may be another's by now
		return err
	}
	h := l.request.Holder
	h.Env, h.Since = one.res, l.since.UTC().Format(time.RFC3339)
	return l.base.replace(l.base.path(one.res), "holder.json", h.encode())
}
