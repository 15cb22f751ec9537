package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal with bench at the keyboard. It is read with poll(2) and read(2), the same for every
// contender, so that nothing of Go's own waiting is in the figures.
type terminal struct {
	master *os.File
	tty    *os.File // the side that a process gets
	quit   chan struct{}
	done   chan struct{}
	last   []byte
}

func openTerminal() (*terminal, error) {
	master, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	t := &terminal{master: master, tty: tty}
	return t, pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80})
}

// drain reads what is shown, in the background, until the terminal is closed or nobody has it open.
func (t *terminal) drain() {
	t.quit, t.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.done)
		buf := make([]byte, 32<<10)
		for {
			n, err := t.read(buf, 50*time.Millisecond)
			t.last = append(t.last, buf[:n]...)
			t.last = t.last[max(0, len(t.last)-2000):]
			select {
			case <-t.quit:
				return
			default:
			}
			if err != nil {
				return
			}
		}
	}()
}

// read answers 0, nil when nothing came in time.
func (t *terminal) read(buf []byte, limit time.Duration) (int, error) {
	fd := int(t.master.Fd())
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds()))
		switch {
		case err == unix.EINTR && time.Now().Before(deadline): // the Go runtime's own signal
			continue
		case err == unix.EINTR || n == 0:
			return 0, nil
		case err != nil:
			return 0, os.NewSyscallError("poll", err)
		}
		n, err = unix.Read(fd, buf)
		return max(n, 0), err
	}
}

// awaitText reads until text has been shown.
func (t *terminal) awaitText(text string) error {
	var seen []byte
	buf := make([]byte, 4096)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := t.read(buf, 100*time.Millisecond)
		if err != nil {
			return fmt.Errorf("waiting for %q, saw %q: %w", text, seen, err)
		}
		if seen = append(seen, buf[:n]...); bytes.Contains(seen, []byte(text)) {
			return nil
		}
	}
	return fmt.Errorf("waited 10 s for %q, saw %q", text, seen)
}

func (t *terminal) close() {
	t.tty.Close()
	if t.done != nil {
		close(t.quit)
		<-t.done
	}
	t.master.Close()
}
