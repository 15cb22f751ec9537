package run

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The monitor is the parent of a command that has a terminal of its own. It
// leads the new session. Without it the command would, and its process group
// would be an orphaned one, in which the kernel discards ^Z; and it outlives a
// wrapper that is killed, ends the command, and gives the user's terminal its
// settings back (dash leaves it raw).

// MonitorVerb is the hidden first argument that makes withlease the monitor:
//
//	withlease __monitor SOCKET TTY GRACE FRONT PATH COMMAND [ARG...]
const MonitorVerb = "__monitor"

// message is what wrapper and monitor, which are one program, tell each other
// over a socket pair that keeps messages apart. A closed socket says that the
// other is gone.
type message struct {
	kind  uint32
	value int32
	settings
}

// settings are those of the user's terminal, as they were and as we set them.
type settings struct{ saved, raw unix.Termios }

const (
	msgSettings = iota // wrapper: the settings, first of all and when they change
	msgStarted         // monitor: the command runs as pid value
	msgFailed          // monitor: the kernel refused it, errno value
	msgStopped         // monitor: it stopped by signal value
	msgExited          // monitor: it ended with wait status value
	msgContinue        // wrapper: go on; value 1: in the foreground
	msgSignal          // wrapper: send its group signal value
	msgEnd             // wrapper: end it: signal value first, KILL after the grace
	msgLeave           // wrapper: all is shown, go
)

// link is one end of the socket pair.
type link struct{ fd int }

func (l link) send(kind uint32, value int) error {
	return l.write(message{kind: kind, value: int32(value)})
}

func (l link) write(m message) error {
	for {
		// No SIGPIPE for a wrapper that is gone.
		err := unix.Sendto(l.fd, m.bytes(), unix.MSG_NOSIGNAL, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

func (l link) receive() (m message, ok bool) {
	for {
		n, err := unix.Read(l.fd, m.bytes())
		if err != unix.EINTR {
			return m, err == nil && n == len(m.bytes())
		}
	}
}

func (m *message) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}

func socketPair() (ours, theirs int, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, socketKind, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(p[0])
	theirs = dupHigh(p[1])
	unix.Close(p[1])
	return p[0], theirs, nil
}

// dupHigh copies a descriptor to a number that no command expects anything at,
// close-on-exec.
func dupHigh(fd int) int {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 210)
	if err != nil {
		n, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 10)
	}
	if err != nil {
		return -1
	}
	return n
}

func inheritable(fd int, yes bool) {
	flags := unix.FD_CLOEXEC
	if yes {
		flags = 0
	}
	if fd >= 0 {
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags)
	}
}

// monitor is the monitor's own state.
type monitor struct {
	link  link
	tty   int // the user's terminal, -1 when there is none
	grace time.Duration
	settings

	ctty  int // which of 0, 1 and 2 is the command's terminal
	pid   int // the command, and its process group
	ended bool
	kill  <-chan time.Time // the grace is over
	gone  chan struct{}    // the wrapper is gone
}

// Monitor is the monitor's whole life. It never returns to main's grammar.
func Monitor(args []string) int {
	if len(args) < 6 {
		return ExitFailed
	}
	runtime.LockOSThread()
	sock, _ := strconv.Atoi(args[0])
	tty, _ := strconv.Atoi(args[1])
	grace, _ := strconv.ParseInt(args[2], 10, 64)
	m := &monitor{link: link{sock}, tty: tty, grace: time.Duration(grace), gone: make(chan struct{})}
	inheritable(sock, false)
	inheritable(tty, false)
	first, ok := m.link.receive()
	if !ok || first.kind != msgSettings {
		return ExitFailed
	}
	m.settings = first.settings
	// The hang-up of the session is meant for the command; ours is the socket.
	// Caught and not ignored, so that the command doesn't inherit it.
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	adoptOrphans()
	if err := m.start(args[4], args[5:], args[3] == "true"); err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENOEXEC
		}
		m.link.send(msgFailed, int(errno))
		return 0
	}
	m.link.send(msgStarted, m.pid)
	orders := make(chan message)
	go m.listen(orders)
	reports := make(chan message)
	go m.wait(reports)
	m.serve(orders, reports)
	return 0
}

// start starts the command in a group of its own, in the foreground of its
// terminal or not.
func (m *monitor) start(path string, argv []string, front bool) error {
	for fd := range 3 {
		if foregroundGroup(fd) > 0 {
			m.ctty = fd
			break
		}
	}
	attr := &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: monitorAttr(m.ctty, front),
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		pid, err = syscall.ForkExec(shell, append([]string{shell, path}, argv[1:]...), attr)
	}
	m.pid = pid
	return err
}

func (m *monitor) listen(orders chan<- message) {
	for {
		o, ok := m.link.receive()
		if !ok {
			close(m.gone)
			return
		}
		orders <- o
	}
}

// wait waits for every child: the command, and the orphans of its tree that
// the kernel gives to us.
func (m *monitor) wait(reports chan<- message) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // no child is left
			close(reports)
			return
		case pid != m.pid:
		case ws.Stopped():
			reports <- message{kind: msgStopped, value: int32(ws.StopSignal())}
		default:
			reports <- message{kind: msgExited, value: int32(ws)}
		}
	}
}

// serve does what the wrapper orders and tells what the command does, until
// the wrapper lets it go, or is gone.
func (m *monitor) serve(orders, reports <-chan message) {
	for {
		select {
		case r, ok := <-reports:
			if !ok {
				reports = nil // no child is left
				continue
			}
			if r.kind == msgExited {
				m.ended = true
			}
			m.link.send(r.kind, int(r.value))
		case o := <-orders:
			switch o.kind {
			case msgSettings:
				m.settings = o.settings
			case msgContinue:
				if o.value == 1 {
					setForegroundGroup(m.ctty, m.pid)
				}
				m.signalGroup(unix.SIGCONT)
			case msgSignal:
				m.signalGroup(syscall.Signal(o.value))
			case msgEnd:
				m.end(syscall.Signal(o.value))
			case msgLeave:
				return
			}
		case <-m.kill:
			m.signalTree(unix.SIGKILL)
		case <-m.gone:
			m.orphaned(reports)
			return
		}
	}
}

// signalGroup signals the command's group: the process that the user named,
// and what belongs to it (as sudo does). A group whose leader is reaped isn't
// signalled any more: its number may come again.
func (m *monitor) signalGroup(s syscall.Signal) {
	if !m.ended {
		unix.Kill(-m.pid, s)
	}
}

// end ends the command: s, and CONT so that a stopped one can handle it, to its
// group and to the foreground group of its terminal; KILL, to all that is below
// us, after the grace.
func (m *monitor) end(s syscall.Signal) {
	front := foregroundGroup(m.ctty)
	for _, sig := range []syscall.Signal{s, unix.SIGCONT} {
		m.signalGroup(sig)
		if front > 0 && front != m.pid && front != unix.Getpgrp() {
			unix.Kill(-front, sig)
		}
	}
	if m.kill == nil {
		m.kill = time.After(m.grace)
	}
}

// orphaned is what is left to do when the wrapper was killed: the user's
// terminal gets its settings back, and the command's whole tree is ended, what
// has left its group and session included: the kernel gave us its orphans. The
// witness is ours too, so the lease is held until nobody is left.
//
// Where this stops: a process that a setuid program started under another user
// can't be signalled by us. It keeps the lease by its token or its witness.
func (m *monitor) orphaned(reports <-chan message) {
	if m.tty >= 0 {
		m.settings.restore(m.tty)
	}
	if reports == nil {
		return // nobody is left
	}
	m.end(unix.SIGHUP)
	m.signalTree(unix.SIGTERM)
	m.signalTree(unix.SIGCONT)
	for {
		select {
		case r, ok := <-reports:
			if !ok {
				return
			}
			if r.kind == msgExited {
				m.ended = true
			}
		case <-m.kill:
			// Again and again: a tree that forks while it is killed.
			m.signalTree(unix.SIGKILL)
			m.kill = time.After(50 * time.Millisecond)
		}
	}
}
