package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// echo is the time from a key to its sight: on a bare terminal, in script(1), in withlease. The three stand side by
// side and get each key in turn. The innermost terminal echoes, so what differs is the wrapper's way there and back.
func echo(b *bench) ([]row, error) {
	_, d, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	const cat = "echo ready; exec cat"
	typists := make([]typist, 3)
	for i, c := range []command{
		{argv: []string{b.bin, "--pty=always", "r", "--", "sh", "-c", cat}, env: d.env},
		{argv: []string{"script", "-qfc", cat, "/dev/null"}},
		{argv: []string{"sh", "-c", cat}},
	} {
		if err := typists[i].sit(b, c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.argv[0], err)
		}
		defer typists[i].term.close()
	}
	for range b.rounds(2000, 500) {
		for i := range typists {
			if err := typists[i].typeKey(); err != nil {
				return nil, err
			}
		}
	}
	for i := range typists {
		if err := typists[i].leave(); err != nil {
			return nil, err
		}
	}
	ours, script, bare := typists[0].seen, typists[1].seen, typists[2].seen
	return []row{
		compared("key echo, --pty=always", "µs", ours, "script", script, ratioAtMost(0.9)),
		compared("  its p99", "µs", series{ours.p99()}, "script", series{script.p99()}, goal{}),
		compared("key echo, --pty=always", "µs", ours, "bare terminal", bare, goal{}),
	}, nil
}

// A typist sits at a terminal and waits for each key's echo before the next.
type typist struct {
	term    *terminal
	process *process
	seen    series
	typed   int
}

func (t *typist) sit(b *bench, c command) (err error) {
	if t.term, err = openTerminal(); err != nil {
		return err
	}
	c.tty = t.term.tty
	if t.process, err = b.start(c); err == nil {
		err = t.term.awaitText("ready\r\n")
	}
	if err != nil {
		t.term.close()
		return err
	}
	time.Sleep(100 * time.Millisecond)
	return nil
}

func (t *typist) typeKey() error {
	key := []byte{'a' + byte(t.typed%26)}
	t.typed++
	began := time.Now()
	if _, err := unix.Write(int(t.term.master.Fd()), key); err != nil {
		return os.NewSyscallError("write", err)
	}
	var shown [64]byte
	n, err := t.term.read(shown[:], 2*time.Second)
	took := time.Since(began)
	if err != nil || n != 1 || shown[0] != key[0] {
		return fmt.Errorf("%s: key %d: typed %q, saw %q: %v", t.process.argv[0], t.typed, key, shown[:n], err)
	}
	t.seen = append(t.seen, float64(took)/1e3)
	return nil
}

// leave types end-of-file, twice since the line isn't empty, and waits for the process.
func (t *typist) leave() error {
	t.term.drain()
	if _, err := unix.Write(int(t.term.master.Fd()), []byte{4, 4}); err != nil {
		return err
	}
	t.process.timer.Reset(5 * time.Second)
	_, err := t.process.wait()
	return err
}
