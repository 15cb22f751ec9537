package main

import (
	"fmt"
	"slices"
	"time"
)

// drain builds the line one by one, so that its order is known, and lets it go.
func (b *bench) drain(q queue) (d drained, err error) {
	out, err := b.newStamps()
	if err != nil {
		return d, err
	}
	defer out.close()
	gates := make([]gate, q.steps+1) // the holder's, then those of the first waiters
	for i := range gates {
		if gates[i], err = b.newGate(); err != nil {
			return d, err
		}
		defer gates[i].close()
	}
	defer b.endAll()
	if err := q.assemble(b, out, gates); err != nil {
		return d, err
	}
	if q.inLine != nil {
		if err := q.inLine(); err != nil {
			return d, err
		}
	}
	if err := q.watch(&d); err != nil {
		return d, err
	}
	for i := range q.steps {
		woken, err := q.step(i, gates[i], out)
		if err != nil {
			return d, err
		}
		d.woken = append(d.woken, float64(woken))
	}
	return d, q.letGo(&d, gates[q.steps], out)
}

// step opens one gate, which lets waiter i claim and hold, and answers how many of those behind it woke.
func (q *queue) step(i int, g gate, out stamps) (int, error) {
	behind := q.waiters[i+1:]
	before, err := sleepsOf(behind)
	if err != nil {
		return 0, err
	}
	if err := g.open(); err != nil {
		return 0, err
	}
	if err := out.await(waiterName(i)+"-ready", q.waiters[i]); err != nil {
		return 0, err
	}
	time.Sleep(100 * time.Millisecond)
	after, err := sleepsOf(behind)
	return differences(before, after), err
}

// letGo opens the last gate and measures the rest of the line until its last command has run.
func (q *queue) letGo(d *drained, g gate, out stamps) error {
	rest := q.waiters[q.steps:]
	var before time.Duration
	for _, w := range rest {
		ns, err := busy(w.Pid)
		if err != nil {
			return err
		}
		before += time.Duration(ns)
	}
	if err := g.open(); err != nil {
		return err
	}
	var cpu time.Duration
	for i, w := range slices.Backward(q.waiters) { // the last first: bench sleeps until then
		used, err := w.wait()
		if err != nil {
			return err
		}
		if i >= q.steps {
			cpu += used.cpu
		}
	}
	if _, err := q.holder.wait(); err != nil {
		return err
	}
	at, err := out.read()
	if err != nil {
		return err
	}
	released, latest := at["holder"], at["holder"]
	if q.steps > 0 {
		released = at[waiterName(q.steps-1)]
	}
	for i := range q.n {
		ran, ok := at[waiterName(i)]
		if !ok {
			return fmt.Errorf("%s never ran its command", waiterName(i))
		}
		if ran < latest {
			d.outOfOrder++
		}
		latest = max(latest, ran)
	}
	d.total = float64(latest-released) / 1e6
	d.each = d.total / float64(len(rest))
	d.cpuEach = milliseconds(cpu-before) / float64(len(rest))
	return nil
}
