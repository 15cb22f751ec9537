//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A handOver is how the next one heard of a release: told by the wake alone, or by the hang-up of the witness too; with a
// supervisor the wake goes another way.
type handOver struct{ daemon, supervised bool }

// handOvers takes the time between a command's end and the next one's begin, where that one has waited. Every other
// command leaves a daemon that keeps the witness open: it doesn't hang up then. Both are persons, who need no grant, and
// nobody does them any harm.
func (t *torture) handOvers(r *rand.Rand) {
	w := &worker{torture: t, name: "hand", rand: r}
	supervised := func() bool {
		t.followLog()
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.log.supervised
	}
	for daemon := false; !t.isOver(); daemon = !daemon {
		before := supervised()
		took, err := w.handOn(daemon)
		if err != nil {
			t.violation("a hand-over: %v", err)
			return
		}
		if supervised() == before { // a supervisor that starts or stops wakes everybody
			h := handOver{daemon, before}
			t.took[h] = append(t.took[h], took)
		}
	}
}

func (w *worker) handOn(daemon bool) (took time.Duration, err error) {
	run := func(flags ...string) (o *op, finish func() ending, err error) {
		o = w.newOp("hand-over", longWait, handed)
		o.session = ""
		args := append(w.party(o), "-p", o.id, handed, "--")
		_, finish, err = w.launch(append(args, w.commandLine(o, time.Millisecond, flags...)...), false)
		return o, finish, err
	}
	gate := filepath.Join(w.dir, fmt.Sprintf("gate-%d", w.made))
	flags := []string{"--until", gate}
	if daemon {
		flags = append(flags, "--daemon")
	}
	first, end1, err := run(flags...)
	if err != nil {
		return 0, err
	}
	for !w.hasBegun(first) {
		time.Sleep(time.Millisecond)
	}
	next, end2, err := run()
	if err != nil {
		return 0, err
	}
	for !w.inLine(next) {
		time.Sleep(time.Millisecond)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		return 0, err
	}
	w.ended(first, end1())
	w.ended(next, end2())
	os.Remove(gate)
	w.readStamps()
	w.mu.Lock()
	defer w.mu.Unlock()
	if first.ended == 0 || next.begin == 0 {
		return 0, fmt.Errorf("%s and %s ended with %v and %v", first.id, next.id, *first.end, *next.end)
	}
	return time.Duration(next.begin - first.ended), nil
}

// inLine says whether an op has a place in line.
func (t *torture) inLine(o *op) bool {
	t.sampleLines()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tickets[o.id+" "+o.res[0]] > 0
}

// checkHandOvers checks that who waits is told of a release: where only that tells, it takes no longer, on the whole, than
// where the witness hangs up too. A waiter that isn't told looks by itself every two seconds.
func (t *torture) checkHandOvers() {
	const few = 2
	for _, supervised := range []bool{false, true} {
		told, hungUp := t.took[handOver{true, supervised}], t.took[handOver{false, supervised}]
		if len(told) < few || len(hungUp) < few {
			continue
		}
		slices.Sort(told)
		slices.Sort(hungUp)
		a, b := told[(len(told)-1)/2], hungUp[(len(hungUp)-1)/2] // in the middle: the machine does much else
		t.did["hand-overs whose time was taken"] += len(told) + len(hungUp)
		if a > b+time.Second {
			t.wrongLocked("after a command that leaves a daemon the next began after %v, after others after %v (supervised: %v): a release tells nobody", a, b, supervised)
		}
	}
}
