package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// PlaceError is a place in line that can't be taken again.
type PlaceError struct {
	ID     string
	Reason string
}

func (e *PlaceError) Error() string { return fmt.Sprintf("place %s: %s", e.ID, e.Reason) }

// wait is one run's way through the lines.
type wait struct {
	base    *Base
	rq      *Request
	opt     Options
	id      string
	since   time.Time
	mine    []*ticket
	cancel  [2]int // a pipe that the end of the context writes to
	inotify int
	armed   uint64 // the silent directory that the inotify watch is on
}

// Acquire claims all of rq's resources, together, and waits its turn for them
// as opt says. The error is a *Blocked when the wait is over, or the context's
// cause when it was cancelled; else a *NameError, a *PlaceError, a
// *state.BrokenError or an *fs.PathError.
func (b *Base) Acquire(ctx context.Context, rq *Request, opt Options) (*Lease, error) {
	for _, res := range rq.Resources {
		if err := CheckName(res); err != nil {
			return nil, err
		}
	}
	if err := b.Make(); err != nil {
		return nil, err
	}
	w := &wait{base: b, rq: rq, opt: opt, id: opt.Ticket, since: time.Now(), cancel: [2]int{-1, -1}, inotify: -1}
	defer w.close()
	return w.run(ctx)
}

func (w *wait) run(ctx context.Context) (*Lease, error) {
	byTimer := false
	last := &Blocked{Resource: w.rq.Resources[0], watch: -1}
	for {
		l, blocked, err := w.attempt(ctx, byTimer)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if errors.Is(err, ErrWaitOver) { // while somebody had the lock
				return nil, w.over(last)
			}
			return nil, w.leave(err)
		}
		last = blocked
		if l != nil {
			l.waited = time.Since(w.since)
			return l, nil
		}
		if w.opt.NoWait {
			blocked.close()
			return nil, w.over(blocked)
		}
		if w.arm(blocked) {
			blocked.close()
			continue // what nobody announces may have happened before the watch
		}
		byTimer, err = w.sleep(ctx, blocked)
		blocked.close()
		if errors.Is(err, ErrWaitOver) {
			return nil, w.over(blocked)
		}
		if err != nil {
			return nil, w.leave(err)
		}
	}
}

// attempt tries once, under the lock, and takes a place in line when it fails
// and hasn't one.
func (w *wait) attempt(ctx context.Context, byTimer bool) (*Lease, *Blocked, error) {
	lock, err := w.base.Store.Lock(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Unlock()
	c := w.base.change(lock)
	c.ready = w.opt.Ready
	if w.opt.Ticket != "" && w.mine == nil {
		if err := w.again(c); err != nil {
			return nil, nil, err
		}
	}
	for _, t := range w.mine {
		t.drain()
	}
	l, blocked, err := c.try(w.rq, w.mine, byTimer)
	if err != nil {
		return nil, nil, err
	}
	if l != nil {
		w.mine = nil
		l.waited = time.Since(w.since)
		c.logClaim(l)
		l.Warned = append(l.Warned, c.warn...)
		return l, nil, nil
	}
	if w.mine == nil && (!w.opt.NoWait || w.opt.Keep > 0) {
		// In the same hold of the lock as the look: whoever changes something
		// after it finds the ticket.
		if err := w.join(c); err != nil {
			blocked.close()
			return nil, nil, err
		}
	}
	blocked.ID = w.id
	return nil, blocked, nil
}

// join takes a place in every line, under one hold of the lock: taken line by
// line, two runs could each be first where the other is second.
func (w *wait) join(c *change) error {
	c.getReady()
	if w.id == "" {
		w.id = fmt.Sprintf("%08x", rand.Uint32())
	}
	for _, res := range w.rq.Resources {
		t, err := c.join(res, w.waiter())
		if err != nil {
			for _, t := range w.mine {
				t.unlink()
				t.close()
			}
			w.mine = nil
			return err
		}
		w.mine = append(w.mine, t)
	}
	return nil
}

func (w *wait) waiter() Waiter {
	h := w.rq.Holder
	pid := os.Getpid()
	return Waiter{
		ID: w.id, Party: partyOf(w.rq.party()), Holder: h.Holder, Purpose: h.Purpose, Since: w.since.UTC(),
		PID: pid, Start: startTime(pid), Resources: w.rq.Resources, BudgetGiB: h.BudgetGiB,
	}
}

// again takes the kept places of a ticket. A line where it has lapsed is
// joined at the end, by join.
func (w *wait) again(c *change) error {
	c.getReady()
	var mine []*ticket
	for _, res := range w.rq.Resources {
		n, err := c.keptPlace(res, w.opt.Ticket)
		if err != nil {
			for _, t := range mine {
				t.close()
			}
			return err
		}
		if n == 0 {
			if w.opt.Lapsed != nil {
				w.opt.Lapsed(res)
			}
			continue
		}
		// [back.2] Who is behind has a timer at the place's deadline only, which is
		// none any more, and must watch us again.
		c.wakeAll(res)
		t, err := c.reoccupy(res, n, w.waiter())
		if err != nil {
			for _, t := range mine {
				t.close()
			}
			return err
		}
		mine = append(mine, t)
	}
	if len(mine) == len(w.rq.Resources) {
		w.mine = mine
		return nil
	}
	for _, t := range mine { // some lines lapsed: one place in all or none
		t.unlink()
		t.close()
	}
	w.opt.Ticket = ""
	return nil
}

// reoccupy takes the kept place n again. What is written of it says that it is
// kept until its lock says that it is live: a failure in between, and a kill,
// leaves it as it was.
func (c *change) reoccupy(res string, n int64, seat Waiter) (*ticket, error) {
	seat.Number = n
	seat.Since = c.waiter(res, n).Since
	t, err := c.occupy(res, n)
	if err != nil {
		return nil, err
	}
	if err = c.writeWaiter(res, seat); err == nil {
		c.addParty(res, seat, []int64{n})
		t.earlier, err = c.numbers(res)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	i, _ := slices.BinarySearch(t.earlier, n)
	t.earlier = t.earlier[:i]
	return t, nil
}

// keptPlace is the number of the kept place with that id; 0 when there is none.
func (c *change) keptPlace(res, id string) (int64, error) {
	ns, err := c.numbers(res)
	if err != nil {
		return 0, err
	}
	for _, n := range ns {
		w := c.waiter(res, n)
		if w.ID != id {
			continue
		}
		p, ok := c.seePlace(res, n, c.now)
		if p.watch >= 0 {
			unix.Close(p.watch)
		}
		if ok && p.live {
			return 0, &PlaceError{id, fmt.Sprintf("pid %d still waits with it; wait for that one, or end it", w.PID)}
		}
		if ok {
			return n, nil
		}
	}
	return 0, nil
}

// arm puts an inotify watch on a directory whose release nobody announces. True
// when it is new: what it watches for may have happened before. Without one (a
// user has 128) the re-check finds it.
func (w *wait) arm(b *Blocked) bool {
	if b.silent == 0 || b.silent == w.armed {
		return false
	}
	if w.inotify < 0 {
		w.inotify = newWatch()
	}
	w.armed = b.silent
	if w.inotify < 0 {
		return false
	}
	addWatch(w.inotify, w.base.path(b.Resource)) // it fails when the directory is gone: time to look again
	return true
}

// sleep waits for news: the mailbox, the end of what blocks, the clock. It says
// whether it was the clock. The error is the context's cause.
func (w *wait) sleep(ctx context.Context, b *Blocked) (byTimer bool, err error) {
	if err := w.openCancel(); err != nil {
		return false, err
	}
	if w.rq.self.PID == 0 {
		w.rq.self = thisProcess()
	}
	stop := context.AfterFunc(ctx, func() { unix.Write(w.cancel[1], []byte{'c'}) })
	defer stop()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	fds := []unix.PollFd{{Fd: int32(w.cancel[0]), Events: unix.POLLIN}}
	for _, t := range w.mine {
		fds = append(fds, unix.PollFd{Fd: int32(t.fd), Events: unix.POLLIN})
	}
	if w.inotify >= 0 {
		fds = append(fds, unix.PollFd{Fd: int32(w.inotify), Events: unix.POLLIN})
	}
	if b.watch >= 0 {
		// No events asked for: hang-up is always told, and bytes in another's
		// mailbox are not ours.
		fds = append(fds, unix.PollFd{Fd: int32(b.watch)})
	}
	for _, o := range b.ends {
		if fd := openPID(o); fd >= 0 {
			defer unix.Close(fd)
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		} else if !o.Alive() {
			return false, nil
		}
	}
	tick := w.tell(b)
	for {
		timeout, isTick := -1, false
		if !b.recheck.IsZero() {
			timeout = milliseconds(time.Until(b.recheck))
		}
		if !tick.IsZero() {
			if ms := milliseconds(time.Until(tick)); timeout < 0 || ms < timeout {
				timeout, isTick = ms, true
			}
		}
		n, err := unix.Poll(fds, timeout)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false, os.NewSyscallError("poll", err)
		case n == 0 && isTick:
			b.refresh(w.base, placeOf(w.mine, b.Resource))
			tick = w.tell(b)
		case n == 0:
			return true, nil
		case fds[0].Revents != 0:
			return false, context.Cause(ctx)
		default:
			if w.inotify >= 0 {
				drainWatch(w.inotify)
			}
			return false, nil
		}
	}
}

func (w *wait) tell(b *Blocked) time.Time {
	if w.opt.Tell == nil {
		return time.Time{}
	}
	if again := w.opt.Tell(b); again > 0 {
		return time.Now().Add(again)
	}
	return time.Time{}
}

// milliseconds rounds up, so that the clock has really reached the moment.
func milliseconds(d time.Duration) int {
	return int(max(0, (d+time.Millisecond-1)/time.Millisecond))
}

func (w *wait) openCancel() error {
	if w.cancel[0] >= 0 {
		return nil
	}
	if err := unix.Pipe(w.cancel[:]); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	for _, fd := range w.cancel {
		unix.CloseOnExec(fd)
	}
	return nil
}

// over ends a wait that ran out: the place is kept, where that was asked for [keep].
func (w *wait) over(b *Blocked) error {
	if w.opt.Keep <= 0 || w.mine == nil {
		return w.leave(b)
	}
	lock, err := w.lockToLeave()
	if err != nil {
		return b
	}
	defer lock.Unlock()
	c := w.base.change(lock)
	until := c.now.Add(w.opt.Keep).UTC()
	for _, t := range w.mine {
		seat := w.waiter()
		seat.Number, seat.Kept = t.n, until
		if err := c.writeWaiter(t.res, seat); err != nil {
			for _, t := range w.mine { // one place in all lines or none
				t.unlink()
			}
			b.NotKept = err
			return b
		}
	}
	b.Kept = until
	return b
}

// leave gives up the places in line. The kernel tells those behind when the
// tickets close.
func (w *wait) leave(why error) error {
	if w.mine == nil {
		return why
	}
	lock, err := w.lockToLeave()
	if err != nil {
		return why // closed tickets are dead ones: the next who looks unlinks them
	}
	defer lock.Unlock()
	for _, t := range w.mine {
		t.unlink()
	}
	return why
}

// lockToLeave doesn't wait long: whoever leaves may have been asked to by a
// signal.
func (w *wait) lockToLeave() (*state.Locked, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return w.base.Store.Lock(ctx)
}

func (w *wait) close() {
	for _, t := range w.mine {
		t.close()
	}
	for _, fd := range []int{w.cancel[0], w.cancel[1], w.inotify} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
