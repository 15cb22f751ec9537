package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// handOver is the time from the end of the holder's command to the start of the next command, both by their own stamps.
func handOver(b *bench) ([]row, error) {
	ours, flock, err := duel(b, b.rounds(60, 25), leave)
	if err != nil {
		return nil, err
	}
	return []row{compared("hand-over: release to next command", "ms", ours, "flock", flock, ratioAtMost(1.1))}, nil
}

// crash is the time from SIGKILL of the holder, wrapper and command at once, to the start of the next command.
func crash(b *bench) ([]row, error) {
	ours, flock, err := duel(b, b.rounds(60, 25), murder)
	if err != nil {
		return nil, err
	}
	return []row{
		compared("SIGKILL of holder to next command", "ms", ours, "flock", flock, ratioAtMost(1.1)),
		measured("  its p95", "ms", ours, p95AtMost(3)),
	}, nil
}

// duel plays the rounds in turns.
func duel(b *bench, n int, finish func(*process, gate) (int64, error)) (ours, flock series, err error) {
	a, _, err := b.withleaseLock()
	if err != nil {
		return nil, nil, err
	}
	f, err := b.flockLock()
	if err != nil {
		return nil, nil, err
	}
	for i := range n + 1 { // the first warms up
		x, err := b.succession(a, finish)
		if err != nil {
			return nil, nil, err
		}
		y, err := b.succession(f, finish)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			ours, flock = append(ours, x), append(flock, y)
		}
	}
	return ours, flock, nil
}

// succession lets one process wait for another, finishes that, and answers the milliseconds until the waiter's command ran.
func (b *bench) succession(l lock, finish func(*process, gate) (int64, error)) (float64, error) {
	out, err := b.newStamps()
	if err != nil {
		return 0, err
	}
	defer out.close()
	g, err := b.newGate()
	if err != nil {
		return 0, err
	}
	defer g.close()
	holder, err := b.start(l.stamper(b, out, "holder", g))
	if err != nil {
		return 0, err
	}
	defer holder.end()
	if err := out.await("holder-ready", holder); err != nil {
		return 0, err
	}
	waiter, err := b.start(l.stamper(b, out, "waiter"))
	if err != nil {
		return 0, err
	}
	defer waiter.end()
	if err := l.awaitLine(1, waiter); err != nil {
		return 0, err
	}
	time.Sleep(20 * time.Millisecond) // in line is not yet asleep
	ended, err := finish(holder, g)
	if err != nil {
		return 0, err
	}
	if _, err := waiter.wait(); err != nil {
		return 0, err
	}
	at, err := out.read()
	if err != nil {
		return 0, err
	}
	if ended == 0 {
		ended = at["holder"]
	}
	ran, ok := at["waiter"]
	if !ok || ended == 0 || ran < ended {
		return 0, fmt.Errorf("%s: the holder ended at %d, the waiter ran at %d", l.name, ended, ran)
	}
	return float64(ran-ended) / 1e6, nil
}

// leave lets the holder's command end by itself; it stamps its own end.
func leave(_ *process, g gate) (int64, error) { return 0, g.open() }

// murder kills the wrapper and its command, which are one process group.
func murder(holder *process, _ gate) (int64, error) {
	now := monotonic()
	return now, unix.Kill(-holder.Pid, unix.SIGKILL)
}
