package run

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The copy between the user's terminal and the command's: the one place where
// bytes pass. Two goroutines with plain system calls, so that a blocked write
// (the user's ^S, a slow pipe) keeps back only its own direction, and no
// goroutine stays behind in a read (creack/pty#88, #188).
type copier struct {
	t       *terminal
	done    sync.WaitGroup
	wakeIn  [2]int // a pipe: the input looks at its orders
	wakeOut [2]int
	input   atomic.Bool // the terminal may be read
	stop    atomic.Bool
	gone    chan struct{} // closed when the user's terminal is gone
	once    sync.Once
	flush   chan chan struct{}
	bells   atomic.Int32 // to be rung
}

// A read of a terminal's master returns at most 4 KiB nearly always; a larger
// buffer gains nothing.
const copyBuffer = 32 << 10

// drainMost and drainTime bound what is still copied after the command's end,
// against a grandchild that never stops talking.
const (
	drainMost = 1 << 20
	drainTime = 2 * time.Second
)

func newCopier(t *terminal) (*copier, error) {
	c := &copier{t: t, gone: make(chan struct{}), flush: make(chan chan struct{}, 1)}
	for _, p := range []*[2]int{&c.wakeIn, &c.wakeOut} {
		if err := pipe(p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func pipe(p *[2]int) error {
	if err := unix.Pipe(p[:]); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	for _, fd := range p {
		unix.CloseOnExec(fd)
		unix.SetNonblock(fd, true)
	}
	return nil
}

func (c *copier) start() {
	c.done.Add(2)
	go c.in()
	go c.out()
}

// read allows or forbids reading the user's terminal: in the background, or
// while it isn't raw, its input is not ours.
func (c *copier) read(yes bool) {
	c.input.Store(yes)
	unix.Write(c.wakeIn[1], []byte{1})
}

// drain returns when what the command has written so far is shown.
func (c *copier) drain() {
	shown := make(chan struct{})
	c.flush <- shown
	unix.Write(c.wakeOut[1], []byte{1})
	<-shown
}

// ring rings the user's bell when the command writes nothing for a moment: not
// in the middle of a sequence of its own, where the byte would mean another
// thing.
func (c *copier) ring() {
	c.bells.Add(1)
	unix.Write(c.wakeOut[1], []byte{1})
}

// finish copies what is left, and ends both directions.
func (c *copier) finish() {
	c.stop.Store(true)
	unix.Write(c.wakeIn[1], []byte{1})
	unix.Write(c.wakeOut[1], []byte{1})
	c.done.Wait()
	for _, fd := range []int{c.wakeIn[0], c.wakeIn[1], c.wakeOut[0], c.wakeOut[1]} {
		unix.Close(fd)
	}
}

func (c *copier) lose() { c.once.Do(func() { close(c.gone) }) }

// in copies keys to the command's terminal.
func (c *copier) in() {
	defer c.done.Done()
	buf := make([]byte, copyBuffer)
	master := c.t.master
	for !c.stop.Load() {
		fds := []unix.PollFd{{Fd: int32(c.wakeIn[0]), Events: unix.POLLIN}, {Fd: -1}}
		if c.input.Load() && c.t.in >= 0 {
			fds[1] = unix.PollFd{Fd: int32(c.t.in), Events: unix.POLLIN}
		}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents != 0 {
			drainPipe(c.wakeIn[0])
			continue
		}
		if fds[1].Revents == 0 {
			continue
		}
		n, err := unix.Read(c.t.in, buf)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case n <= 0: // end of file or EIO: the terminal is gone
			c.lose()
			return
		default:
			c.keys(master, buf[:n])
		}
	}
}

// keys writes what was typed. While the command doesn't read, it waits without
// keeping finish waiting.
func (c *copier) keys(master int, b []byte) {
	for len(b) > 0 && !c.stop.Load() {
		n, err := unix.Write(master, b)
		b = b[max(n, 0):]
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN:
			fds := []unix.PollFd{{Fd: int32(master), Events: unix.POLLOUT}, {Fd: int32(c.wakeIn[0]), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
				return
			}
			if fds[1].Revents != 0 {
				drainPipe(c.wakeIn[0])
			}
		default:
			return // hung up: nobody will read it
		}
	}
}

// out copies what the command writes. It asks the kernel whether there is more
// only when a read got nothing: under load that is seldom. When the command has
// been reaped it goes on until the terminal has nothing more: Linux hands over
// what is on its way before poll(2) says no, so no pause is needed, and an end
// of file may never come while a grandchild keeps the terminal open.
func (c *copier) out() {
	defer c.done.Done()
	buf := make([]byte, copyBuffer)
	master := c.t.master
	closed := false
	left, deadline := drainMost, time.Time{}
	for {
		ending := c.stop.Load()
		if ending && deadline.IsZero() {
			deadline = time.Now().Add(drainTime)
		}
		if !closed {
			n, err := unix.Read(master, buf)
			if n > 0 {
				c.show(buf[:n])
				if ending {
					if left -= n; left <= 0 || time.Now().After(deadline) {
						return
					}
				}
				continue
			}
			if err == unix.EINTR {
				continue
			}
			// EIO (Linux), 0 (macOS) and ENXIO: nobody has it open any more.
			closed = err != unix.EAGAIN
		}
		more, err := c.more(closed, ending)
		if err != nil || !more && ending {
			return
		}
	}
}

// more waits until the command has written more, or somebody wants something
// of out. Who waits for all to be shown is told when there is nothing more.
func (c *copier) more(closed, ending bool) (bool, error) {
	timeout := -1
	var shown chan struct{}
	select {
	case shown = <-c.flush:
	default:
	}
	if ending || shown != nil || c.bells.Load() > 0 {
		timeout = 0
	}
	fds := []unix.PollFd{{Fd: int32(c.t.master), Events: unix.POLLIN}, {Fd: int32(c.wakeOut[0]), Events: unix.POLLIN}}
	if closed {
		fds[0].Fd = -1
	}
	if _, err := unix.Poll(fds, timeout); err != nil && err != unix.EINTR {
		return false, err
	}
	if fds[1].Revents != 0 {
		drainPipe(c.wakeOut[0])
	}
	more := fds[0].Revents != 0
	for ; !more && c.bells.Load() > 0; c.bells.Add(-1) {
		c.show([]byte{'\a'})
	}
	switch {
	case shown == nil:
	case more: // not all is shown yet: ask again
		c.flush <- shown
	default:
		close(shown)
	}
	return more, nil
}

// show writes to the user's terminal, or to where stdout goes when there is
// none. EIO and EPIPE say that nobody is there any more.
func (c *copier) show(b []byte) {
	for len(b) > 0 {
		n, err := unix.Write(c.t.out, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN: // somebody made it non-blocking
			unix.Poll([]unix.PollFd{{Fd: int32(c.t.out), Events: unix.POLLOUT}}, -1)
		case err != nil:
			c.lose()
			return
		}
		b = b[max(n, 0):]
	}
}

func drainPipe(fd int) {
	var b [64]byte
	for {
		if n, err := unix.Read(fd, b[:]); n <= 0 || err != nil {
			return
		}
	}
}
