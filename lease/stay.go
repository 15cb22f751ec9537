package lease

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// Stay makes the run's lease a claim of its party for the time d, instead of a
// release: its command has failed, and is reaped. It says which stay, and until
// when. A resource that is not ours any more makes the error ErrLost, as in Release.
//
// claim.json appears by a rename, and decides what the lease is from then on:
// a crash before leaves a crashed run, one after leaves the claim. Who waits is
// told before it and looks again; what the witness and the tickets tell when
// they close is the second net, as in a release.
func (l *Lease) Stay(ctx context.Context, d time.Duration, outcome Outcome) (kept []string, until time.Time, err error) {
	defer l.close()
	lock, err := l.base.Store.Lock(ctx)
	if err != nil {
		return nil, until, err // closing the witness frees it: the next who looks retires it
	}
	defer lock.Unlock()
	c := l.base.change(lock)
	until = inMilliseconds(c.now, d)
	var errs []error
	for _, one := range l.held {
		err := c.stay(l, one, until, outcome)
		if err == nil {
			kept = append(kept, one.res)
		}
		errs = append(errs, err)
	}
	l.Warned = append(l.Warned, c.warn...)
	return kept, until, errors.Join(errs...)
}

func (c *change) stay(l *Lease, one *held, until time.Time, outcome Outcome) error {
	s, err := c.look(one.res)
	if err != nil {
		return err
	}
	s.close()
	if !s.exists || s.ino != one.ino { // as in Release
		if err := l.check(one); err != nil {
			return err
		}
	}
	st, err := c.lock.State()
	if err != nil {
		c.warn, st = append(c.warn, err), nil
	}
	step("stay.1")
	c.wakeAfter(st, one.res, true, l.after(one))
	step("stay.2")
	t := Terms{Token: l.Token, Fence: one.fence, Until: until}
	dir := c.path(one.res)
	if err := c.replace(dir, "claim.json", t.encode()); err != nil {
		return err
	}
	step("stay.3")
	unix.Unlink(filepath.Join(dir, "process.json"))
	step("stay.4")
	unix.Unlink(filepath.Join(dir, "witness"))
	h := l.request.Holder
	c.log(h.Party().Label(), "keep", state.Detail{
		Resource: one.res, Session: h.Session, Purpose: h.Purpose, Token: l.Token, Fence: one.fence,
		Outcome: string(outcome), HeldSeconds: c.now.Sub(l.since).Seconds(), Until: until,
	})
	return nil
}
