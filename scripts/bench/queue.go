package main

import (
	"fmt"
	"time"
)

// A queue is a line of waiters to be measured while it waits and while it drains.
type queue struct {
	lock    lock
	n       int
	steps   int                  // so many single hand-overs first, to count who wakes
	settle  time.Duration        // before that, for what they say once in a while
	idle    time.Duration        // watch them wait that long
	env     func(i int) []string // of waiter i; the holder is -1
	inLine  func() error         // when all wait: for instance, give them grants
	holder  *process
	waiters []*process
}

// What the waiters did.
type drained struct {
	total, each  float64 // milliseconds from the last single release to the last command, and per hand-over
	cpuEach      float64 // processor milliseconds per hand-over of all that drained
	outOfOrder   int     // how many ran after one that came later
	idleTicks    int     // clock ticks used by all while nothing happened
	idleWoken    int     // processes that woke while nothing happened
	woken        series  // processes that woke for each single hand-over, the claimer left out
	rss, threads series
}

func waiterName(i int) string { return fmt.Sprintf("waiter-%04d", i) }

// assemble starts the holder and the waiters, each when the one before is in line.
func (q *queue) assemble(b *bench, out stamps, gates []gate) error {
	start := func(i int, name string, at ...gate) error {
		c := q.lock.stamper(b, out, name, at...)
		if q.env != nil {
			c.env = q.env(i)
		}
		c.limit = 3 * time.Minute
		p, err := b.start(c)
		if err != nil {
			return err
		}
		if i < 0 {
			q.holder = p
		} else {
			q.waiters = append(q.waiters, p)
		}
		return nil
	}
	if err := start(-1, "holder", gates[0]); err != nil {
		return err
	}
	if err := out.await("holder-ready", q.holder); err != nil {
		return err
	}
	for i := range q.n {
		var own []gate
		if i < q.steps {
			own = gates[i+1 : i+2]
		}
		if err := start(i, waiterName(i), own...); err != nil {
			return err
		}
		if err := q.lock.awaitLine(i+1, q.waiters[i]); err != nil {
			return err
		}
	}
	time.Sleep(time.Second) // in line is not yet asleep
	return nil
}

// watch looks at the waiters while nothing happens.
func (q *queue) watch(d *drained) error {
	for _, w := range q.waiters {
		kib, threads, err := size(w.Pid)
		if err != nil {
			return err
		}
		d.rss, d.threads = append(d.rss, float64(kib)), append(d.threads, float64(threads))
	}
	if q.idle == 0 {
		return nil
	}
	time.Sleep(q.settle)
	slept, err := sleepsOf(q.waiters)
	if err != nil {
		return err
	}
	used, err := ticksOf(q.waiters)
	if err != nil {
		return err
	}
	time.Sleep(q.idle)
	usedAfter, err := ticksOf(q.waiters)
	if err != nil {
		return err
	}
	sleptAfter, err := sleepsOf(q.waiters)
	if err != nil {
		return err
	}
	d.idleTicks = usedAfter - used
	d.idleWoken = differences(slept, sleptAfter)
	return nil
}
