package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The text is one file of lines, shown as often as the size asks for; it stays in the page cache.
const textSize = 10_000_000

type text struct {
	path        string
	size, lines int
}

func (b *bench) newText() (text, error) {
	var buf bytes.Buffer
	for i := 0; buf.Len() < textSize; i++ {
		fmt.Fprintf(&buf, "%07d %s\n", i, strings.Repeat("the quick brown fox ", 1+i%5))
	}
	t := text{b.fresh("text"), buf.Len(), bytes.Count(buf.Bytes(), []byte{'\n'})}
	return t, os.WriteFile(t.path, buf.Bytes(), 0o600)
}

func (t text) cat(times int) []string {
	return append([]string{"cat"}, slices.Repeat([]string{t.path}, times)...)
}

// throughput sends lines through a pseudo-terminal into the null device. No descriptor is a terminal, so that both
// make one for all three, and the kernel's line discipline is paid once.
func throughput(b *bench) ([]row, error) {
	_, d, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	t, err := b.newText()
	if err != nil {
		return nil, err
	}
	defer os.Remove(t.path)
	ours := []string{b.bin, "--pty=always", "r", "--"}
	if err := b.losesNothing(command{argv: append(ours, t.cat(1)...), env: d.env}, t); err != nil {
		return nil, err
	}
	copies := b.rounds(100, 10)
	cat := t.cat(copies)
	times, err := takeTurns(b.rounds(5, 3),
		b.plainTurn(command{argv: append(ours, cat...), env: d.env, limit: 3 * time.Minute}),
		b.plainTurn(command{argv: []string{"script", "-qfc", strings.Join(cat, " "), "/dev/null"}, limit: 3 * time.Minute}))
	if err != nil {
		return nil, err
	}
	rate := func(s series) (rates series) {
		for _, ms := range s {
			rates = append(rates, float64(copies*t.size)/ms/1000)
		}
		return rates
	}
	what := fmt.Sprintf("PTY throughput, %d MB of lines", copies*t.size/1_000_000)
	return []row{
		compared(what, "MB/s", rate(times[0].wall), "script", rate(times[1].wall), ratioAtLeast(0.95)),
		compared("  processor time", "ms", times[0].cpu, "script", times[1].cpu, goal{}),
	}, nil
}

// losesNothing makes sure that all that is to be timed arrives: the text, with a carriage return before each newline.
func (b *bench) losesNothing(c command, t text) error {
	shown, err := b.output(c)
	if err != nil {
		return err
	}
	if want := t.size + t.lines; len(shown) != want {
		return fmt.Errorf("%d bytes went in, %d should come out of the terminal, %d did", t.size, want, len(shown))
	}
	return nil
}

// share sends lines into a pipe with and without the wrapper, which should be out of the way.
func share(b *bench) ([]row, error) {
	l, d, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	t, err := b.newText()
	if err != nil {
		return nil, err
	}
	defer os.Remove(t.path)
	cat := t.cat(b.rounds(200, 50))
	times, err := takeTurns(b.rounds(15, 7),
		b.pipeTurn(command{argv: append(l.wrap, cat...), env: d.env}),
		b.pipeTurn(command{argv: cat}))
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("share mode, %d MB into a pipe", b.rounds(200, 50)*t.size/1_000_000)
	return []row{compared(what, "ms", times[0].wall, "no wrapper", times[1].wall, ratioAtMost(1.02))}, nil
}

// pipeTurn runs the command with its output piped into a reader, and times both.
func (b *bench) pipeTurn(c command) turn {
	return turn{run: func(int) (usage, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return usage{}, err
		}
		reader, err := b.start(command{argv: []string{"cat"}, in: r})
		r.Close()
		if err != nil {
			w.Close()
			return usage{}, err
		}
		c.out = w
		writer, err := b.start(c)
		w.Close()
		if err != nil {
			reader.end()
			return usage{}, err
		}
		used, err := writer.wait()
		if err != nil {
			reader.end()
			return usage{}, err
		}
		read, err := reader.wait()
		used.wall, used.cpu = max(used.wall, read.wall), used.cpu+read.cpu
		return used, err
	}}
}
