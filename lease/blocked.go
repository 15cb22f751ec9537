package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// Recheck is how often the first in line looks for what nobody announces: the
// shell lock's release, another tool's write to the document, a file system
// without FIFOs.
const Recheck = 2 * time.Second

// Blocked is why a claim has to wait, and what will end that.
type Blocked struct {
	Resource string
	Caller   state.Party // who asked
	Sight    Sight       // who has it, if anybody
	Refused  *Refusal    // the supervisor's or the upgrade's no; nil when it is only held or a line
	Place    int         // in the resource's line, from 1
	Behind   Waiter      // the place directly ahead; number 0 when this is the first

	Supervisor   *state.Supervisor
	Watched      bool // its process is: it runs, unless one of these is set
	RestartUntil time.Time
	Gone         bool

	ID      string    // of the place, to take it again
	Kept    time.Time // how long it is kept, once the wait is over
	NotKept error     // why it could not be kept

	watch   int       // hangs up when what blocks goes away; -1: nothing will tell
	ends    []PID     // ... or when these end: an orphaned run's processes, the supervisor's
	recheck time.Time // look again then; zero: no need
	silent  uint64    // the inode of a directory whose release nobody announces
}

// Error is the short form, without what to do about it.
func (b *Blocked) Error() string {
	switch {
	case b.Refused != nil:
		return b.Refused.Reason
	case b.Sight.Held:
		return fmt.Sprintf("%s is held by %s", b.Resource, b.Sight.Party().Label())
	}
	return fmt.Sprintf("%s: others wait before you", b.Resource)
}

func (b *Blocked) close() {
	if b != nil && b.watch >= 0 {
		unix.Close(b.watch)
		b.watch = -1
	}
}

// blockedByLine says who is before us in the line of s; nil when nobody is.
// Under a supervisor only those count that need no grant either.
func (c *change) blockedByLine(st *state.State, rq *Request, s *sight, mine *ticket) (*Blocked, error) {
	if st.Supervisor != nil {
		ahead, err := c.exemptAhead(st, s.res, mine)
		if err != nil || !ahead {
			return nil, err
		}
		return c.blocked(st, rq, s, mine, nil)
	}
	p, found, count, err := c.ahead(s.res, mine)
	if err != nil || !found {
		return nil, err
	}
	b := c.newBlocked(st, rq, s)
	b.Place, b.Behind = count+1, c.waiter(s.res, p.n)
	b.watch = p.watch
	if !p.live {
		b.recheck = p.kept
	}
	if b.watch < 0 && b.recheck.IsZero() {
		b.recheck = c.now.Add(Recheck) // nothing tells of the end of one that can't be read
	}
	return b, nil
}

// exemptAhead says whether a party that needs no grant waits before us.
func (c *change) exemptAhead(st *state.State, res string, mine *ticket) (bool, error) {
	ns, err := c.numbers(res)
	if err != nil {
		return false, err
	}
	for _, m := range ns {
		if mine != nil && m >= mine.n {
			break
		}
		p, ok := c.seePlace(res, m, c.now)
		if p.watch >= 0 {
			unix.Close(p.watch)
		}
		if !ok {
			c.remove(res, m)
			continue
		}
		if exempt(st, c.waiter(res, m).Who(), false) {
			return true, nil
		}
	}
	return false, nil
}

func (c *change) newBlocked(st *state.State, rq *Request, s *sight) *Blocked {
	b := &Blocked{Resource: s.res, Caller: rq.party(), Sight: s.Sight(), Supervisor: st.Supervisor, watch: -1}
	g := c.gateOf(st, s, state.Party{})
	b.RestartUntil, b.Gone = g.RestartUntil, g.Gone
	_, b.Watched = SupervisorPID(st)
	return b
}

// blocked says what a request that isn't behind anybody's ticket waits for, or,
// under a supervisor, whatever it waits for.
//
// Who watches the holder: the first in line, and where grants decide the first
// two grantees that wait, and the parties that need no grant [wait.3, wait.5].
// A later grantee watches the grantee before it that waits, in the order of the
// grants [wait.6]; all others watch the place ahead of them, so that there
// always is a first. Two, because the first may be stopped.
func (c *change) blocked(st *state.State, rq *Request, s *sight, mine *ticket, refused *Refusal) (*Blocked, error) {
	b := c.newBlocked(st, rq, s)
	b.Refused = refused
	p, behind, count, err := c.ahead(s.res, mine)
	if err != nil {
		return nil, err
	}
	b.Place = count + 1
	if behind {
		b.Behind = c.waiter(s.res, p.n)
	}
	hold := st.Upgrade(s.res, c.now)
	if hold != nil && !hold.Until.IsZero() {
		b.soonest(hold.Until) // nobody announces that it has run out
	}
	if st.Supervisor != nil || hold != nil {
		place, granted, holder := c.granteeAhead(st, rq.party(), s, hold != nil)
		if granted || holder {
			if p.watch >= 0 {
				unix.Close(p.watch)
			}
			p, behind = place, !holder
		}
	}
	if behind && p.live && (st.Supervisor != nil || hold != nil) {
		if b.watch = p.watch; b.watch < 0 {
			b.soonest(c.now.Add(Recheck))
		}
		return b, nil
	}
	if p.watch >= 0 {
		unix.Close(p.watch)
	}
	b.watch, s.watch = s.watch, -1
	for _, o := range s.orphans {
		b.ends = append(b.ends, o.PID)
	}
	if p, watched := SupervisorPID(st); watched {
		b.ends = append(b.ends, p)
	}
	if !b.RestartUntil.IsZero() {
		b.soonest(b.RestartUntil)
	}
	if until := s.until(); until.After(c.now) {
		b.soonest(until) // nobody announces that either
	}
	b.soonest(c.now.Add(Recheck))
	if s.exists && (s.kind == Recorded || s.kind == Claiming || s.kind == Odd) {
		b.silent = s.dirIno
	}
	if !s.held() {
		if pending := c.pending(st, s.res, false, false); len(pending) > 0 {
			b.soonest(expiry(st, pending[0], GrantTTL).Add(time.Millisecond))
		}
	}
	return b, nil
}

func (b *Blocked) soonest(t time.Time) {
	if b.recheck.IsZero() || t.Before(b.recheck) {
		b.recheck = t
	}
}

// refresh looks again, without the lock, at what people are shown.
func (b *Blocked) refresh(base *Base, mine *ticket) {
	if s, err := base.Look(b.Resource); err == nil {
		b.Sight = s
	}
	ns, err := base.numbers(b.Resource)
	if err != nil || mine == nil {
		return
	}
	if i, found := slices.BinarySearch(ns, mine.n); found {
		b.Place = i + 1
		if i == 0 {
			b.Behind = Waiter{}
		} else if b.Behind.Number != ns[i-1] {
			b.Behind = base.waiter(b.Resource, ns[i-1])
		}
	}
}

// Options say how to wait.
type Options struct {
	// NoWait gives up at once. So does a context that ends, later.
	NoWait bool
	// Keep is how long the place is kept when the wait runs out (not when
	// somebody cancels it); zero: it is given up.
	Keep time.Duration
	// Ticket takes the kept place of that ID again.
	Ticket string
	// Tell is called when there is something new to tell, and then whenever
	// the time that it returned has passed; zero: not before the next news.
	Tell func(*Blocked) time.Duration
	// Ready is called before anything of a claim or a place shows, and returns
	// when a signal can't cut it short any more.
	Ready func()
	// Lapsed is called when the ticket asked for is no place any more.
	Lapsed func(resource string)
}

// ErrWaitOver is the cause of a context whose time for waiting ran out.
// It is a context.DeadlineExceeded too.
var ErrWaitOver error = waitOver{}

// waitOver is a type, since fmt.Errorf at start-up costs every run half a
// millisecond.
type waitOver struct{}

func (waitOver) Error() string { return "the wait ran out: " + context.DeadlineExceeded.Error() }
func (waitOver) Unwrap() error { return context.DeadlineExceeded }
