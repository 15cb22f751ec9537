package main

import (
	"fmt"
	"time"
)

// A waiter says a line when it has waited 10 s, and 30 s, and every five minutes then.
const said = 31 * time.Second

// line is a long line without a supervisor: what waiting costs, who wakes, and how fast it drains in order.
func line(b *bench) ([]row, error) {
	var ours, flock, fewOurs, fewFlock drains
	const few = 200
	if err := besideFlock(b, queue{n: few, steps: 5, settle: said, idle: 2 * time.Second}, &fewOurs, &fewFlock); err != nil {
		return nil, err
	}
	many := b.rounds(1000, few)
	if b.quick {
		ours, flock = fewOurs, fewFlock
	} else {
		for round := range 3 {
			q := queue{n: many}
			if round == 0 {
				q.settle, q.idle = said, 2*time.Second
			}
			if err := besideFlock(b, q, &ours, &flock); err != nil {
				return nil, err
			}
		}
	}
	return []row{
		compared(fmt.Sprintf("%d waiters: drain", many), "ms", ours.total, "flock", flock.total, ratioAtMost(1.75)),
		compared("  per hand-over", "ms", ours.each, "flock", flock.each, goal{}),
		compared("  processor time per hand-over", "ms", ours.cpuEach, "flock", flock.cpuEach, goal{}),
		beside("  ran out of order", "", ours.outOfOrder, "flock", flock.outOfOrder, medianAtMost(0)),
		beside("  processor time of all while waiting 2 s", "ticks", ours.idleTicks, "flock", flock.idleTicks, medianAtMost(0)),
		beside("  memory of a waiter", "KiB", ours.rss, "flock", flock.rss, p95AtMost(4096)),
		beside("  threads of a waiter", "", ours.threads, "flock", flock.threads, goal{}),
		beside(fmt.Sprintf("%d waiters: woken in 2 s of waiting", few), "", fewOurs.idleWoken, "flock", fewFlock.idleWoken, goal{}),
		beside("  woken by a hand-over, besides the claimer", "", fewOurs.woken, "flock", fewFlock.woken, p95AtMost(1)),
	}, nil
}

// besideFlock lets the same line wait for withlease, then for flock.
func besideFlock(b *bench, q queue, ours, flock *drains) error {
	a, _, err := b.withleaseLock()
	if err != nil {
		return err
	}
	f, err := b.flockLock()
	if err != nil {
		return err
	}
	if err := ours.add(b, q, a); err != nil {
		return err
	}
	return flock.add(b, q, f)
}

// grantedLine is a line under a supervisor. All were granted in the order in which they came.
func grantedLine(b *bench) ([]row, error) {
	const n = 200
	var ours, flock drains
	for range b.rounds(3, 1) {
		a, d, err := b.withleaseLock()
		if err != nil {
			return nil, err
		}
		f, err := b.flockLock()
		if err != nil {
			return nil, err
		}
		stop, err := b.startSupervisor(d)
		if err != nil {
			return nil, err
		}
		q := queue{n: n, steps: 3, settle: said, idle: 2 * time.Second, env: func(i int) []string {
			if i < 0 {
				return d.session(supervisorSession) // who needs no grant
			}
			return d.session(waiterName(i))
		}, inLine: func() error {
			for i := range n {
				if err := b.grant(d, "r", waiterName(i)); err != nil {
					return err
				}
			}
			return nil
		}}
		err = ours.add(b, q, a)
		stop()
		if err != nil {
			return nil, err
		}
		if err := flock.add(b, queue{n: n, steps: 3}, f); err != nil {
			return nil, err
		}
	}
	return []row{
		compared("200 waiters with grants: drain", "ms", ours.total, "flock", flock.total, goal{}),
		compared("  processor time per hand-over", "ms", ours.cpuEach, "flock", flock.cpuEach, medianAtMost(3)),
		measured("  ran out of order", "", ours.outOfOrder, medianAtMost(0)),
		measured("  processor time of all while waiting 2 s", "ticks", ours.idleTicks, medianAtMost(0)),
		measured("  woken in 2 s of waiting", "", ours.idleWoken, goal{}),
		beside("  woken by a hand-over, besides the claimer", "", ours.woken, "flock", flock.woken, goal{}),
		measured("  memory of a waiter", "KiB", ours.rss, p95AtMost(4096)),
	}, nil
}

// drains collects what several lines did.
type drains struct {
	total, each, cpuEach, outOfOrder, idleTicks, idleWoken, woken, rss, threads series
}

func (all *drains) add(b *bench, q queue, l lock) error {
	q.lock = l
	d, err := b.drain(q)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	all.total = append(all.total, d.total)
	all.each = append(all.each, d.each)
	all.cpuEach = append(all.cpuEach, d.cpuEach)
	all.outOfOrder = append(all.outOfOrder, float64(d.outOfOrder))
	if q.idle > 0 {
		all.idleTicks = append(all.idleTicks, float64(d.idleTicks))
		all.idleWoken = append(all.idleWoken, float64(d.idleWoken))
	}
	all.woken = append(all.woken, d.woken...)
	all.rss = append(all.rss, d.rss...)
	all.threads = append(all.threads, d.threads...)
	return nil
}
