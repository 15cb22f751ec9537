package run

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/signals"
)

// PTY mode: the command gets a terminal of its own, in a session that the
// monitor leads. What a person sees is copied.

// ptyRun is a command in a terminal of its own.
type ptyRun struct {
	*run
	t       *terminal
	copy    *copier
	link    link
	monitor int // its pid
	hup     chan struct{}
	ends    chan struct{} // the lease is lost
	asked   chan struct{} // somebody asks for it
	events  chan message
	keeper  *keeper
	front   bool           // the command has its terminal's foreground
	sent    syscall.Signal // the last signal that was handed on
}

// inPTY runs the command in a terminal of its own.
func (r *run) inPTY() (exit Exit, err error) {
	runtime.LockOSThread()
	program, err := ownProgram()
	var t *terminal
	if err == nil {
		t, err = newTerminal()
	}
	if err != nil {
		if r.PTY == "always" {
			return Exit{}, &startError{ExitFailed, fmt.Sprintf("no terminal is to be had: %v (run it with --pty=never)", err)}
		}
		say(r.Stderr, "no terminal is to be had (%v): the command shares yours", err)
		return r.shared()
	}
	defer t.close()
	defer t.restore() // on every way out, a panic's included
	p := &ptyRun{run: r, t: t, hup: make(chan struct{}, 1), ends: make(chan struct{}, 1), asked: make(chan struct{}, lease.MaxAsks), events: make(chan message)}
	if err := p.start(program); err != nil {
		return Exit{}, err
	}
	return p.follow()
}

// ownProgram is where the monitor is started from.
func ownProgram() (string, error) {
	if runtime.GOOS != "linux" {
		return os.Executable()
	}
	const self = "/proc/self/exe" // the running program, also when its file was replaced
	_, err := os.Lstat(self)      // no /proc: a chroot, a small container
	return self, err
}

// start starts the monitor, which is this program, and through it the command.
func (p *ptyRun) start(program string) error {
	r, t := p.run, p.t
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	p.link = link{ours}
	tty := -1
	if t.user != nil {
		tty = dupHigh(int(t.user.Fd()))
	}
	defer func() {
		unix.Close(theirs)
		if tty >= 0 {
			unix.Close(tty)
		}
	}()
	if p.copy, err = newCopier(t); err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Env: p.environ(), Files: t.files[:], Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: p.slaveIndex()}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin(); err != nil {
		return err
	}
	if p.front = t.wanted(); p.front && t.user != nil {
		t.typedAhead()
	}
	p.link.write(message{kind: msgSettings, settings: t.settings})
	args := append([]string{"withlease", MonitorVerb, fmt.Sprint(theirs), fmt.Sprint(tty), fmt.Sprint(int64(r.Grace)), fmt.Sprint(p.front), r.path}, r.Argv...)
	r.lease.Inherit(true)
	inheritable(theirs, true)
	inheritable(tty, true)
	p.monitor, err = syscall.ForkExec(program, args, attr)
	r.lease.Inherit(false)
	inheritable(theirs, false)
	if err != nil {
		return &startError{ExitFailed, "the monitor could not be started: " + Explain(err)}
	}
	unix.Close(theirs)
	theirs = -1
	t.slaveFile.Close() // or the end of file on the master never comes
	t.slaveFile = nil
	m, ok := p.link.receive()
	switch {
	case !ok:
		syscall.Wait4(p.monitor, nil, 0, nil)
		return &startError{ExitFailed, "the monitor ended before the command was started"}
	case m.kind == msgFailed:
		syscall.Wait4(p.monitor, nil, 0, nil)
		return execFailed(r.Argv[0], syscall.Errno(m.value))
	}
	r.lease.NoteChild(int(m.value))
	r.forward = p.signal
	r.phase = running
	return nil
}

// slaveIndex is which of the command's descriptors is its terminal.
func (p *ptyRun) slaveIndex() int {
	return max(0, slices.Index(p.t.files[:], uintptr(p.t.slave)))
}

func (p *ptyRun) environ() []string {
	env := p.run.environ()
	name := p.t.slaveFile.Name()
	if user := ttyName(0); user != "" {
		for i, kv := range env {
			if kv == "GPG_TTY="+user { // pinentry asks on the terminal that this names
				env[i] = "GPG_TTY=" + name
			}
		}
	}
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, insidePTY+"=") })
	return append(env, insidePTY+"="+name)
}

// signal hands on what arrives for the command. What is typed comes as bytes;
// a signal was sent to us, or the terminal went away.
func (p *ptyRun) signal(s signals.Signal) {
	switch {
	case s.Number == unix.SIGWINCH:
		p.t.copySize()
	case s.Number == unix.SIGHUP && (s.FromKernel || p.t.hungUp()):
		select {
		case p.hup <- struct{}{}:
		default:
		}
	default:
		p.sent = s.Number
		p.link.send(msgSignal, int(s.Number))
	}
}

// follow copies and waits until the command has ended.
func (p *ptyRun) follow() (Exit, error) {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, unix.SIGCONT)
	tstp := make(chan os.Signal, 1)
	signal.Notify(tstp, unix.SIGTSTP) // sent by kill: ^Z comes as a byte
	go func() {
		for {
			m, ok := p.link.receive()
			if !ok {
				close(p.events)
				return
			}
			p.events <- m
		}
	}()
	p.keeper = p.keepLease(func() { p.ends <- struct{}{} }, p.ask) // ends: once
	if p.front {
		p.toFront()
	}
	p.copy.start()
	hungUp := false
	gone := p.copy.gone
	hangUp := func() {
		if !hungUp {
			hungUp = true
			p.copy.read(false)
			p.link.send(msgEnd, int(unix.SIGHUP))
		}
	}
	for {
		select {
		case m, ok := <-p.events:
			switch {
			case !ok:
				return p.monitorGone()
			case m.kind == msgStopped:
				p.suspend(syscall.Signal(m.value))
			case m.kind == msgExited:
				p.copy.finish()
				raw := p.t.restore()
				p.link.send(msgLeave, 0)
				p.reapMonitor()
				if p.keeper.stop() != nil {
					return Exit{Code: ExitLost}, nil
				}
				exit := exitOf(syscall.WaitStatus(m.value))
				if hungUp {
					return dying(unix.SIGHUP), nil
				}
				if raw {
					p.passOn(exit)
				}
				return exit, nil
			}
		case <-p.ends:
			p.link.send(msgEnd, int(unix.SIGTERM))
		case <-p.asked:
			p.copy.ring()
		case <-p.hup:
			hangUp()
		case <-gone:
			gone = nil
			hangUp()
		case <-tstp:
			p.link.send(msgSignal, int(unix.SIGTSTP))
		case <-cont: // continued, perhaps into the foreground
			p.toFront()
		}
	}
}

// ask has the terminal's bell rung. Where there is none it would be a byte of
// the output.
func (p *ptyRun) ask() {
	if p.t.user == nil {
		return
	}
	select {
	case p.asked <- struct{}{}:
	default: // it rings enough
	}
}

// toFront gives the command the user's terminal, when that is ours to give and
// the command has the foreground of its own.
func (p *ptyRun) toFront() {
	yes := p.front && p.t.inFront()
	if yes {
		p.t.enterRaw()
		p.link.write(message{kind: msgSettings, settings: p.t.settings})
	}
	p.t.copySize()
	p.copy.read(yes)
}

// suspend is told that the command has stopped. When it wanted the terminal,
// and may have it, it goes on at once. Else we stop as well, so that the shell
// above sees a stopped job with its terminal as it was.
func (p *ptyRun) suspend(s syscall.Signal) {
	if p.t.user == nil {
		return // nobody's job: whoever stopped it continues it
	}
	wanted := s == unix.SIGTTIN || s == unix.SIGTTOU
	if !wanted || !p.t.inFront() {
		p.copy.read(false)
		p.copy.drain()
		p.t.restore()
		if !wanted {
			s = unix.SIGTSTP
		}
		stopGroup(s)

		// Before the command touches anything again: is the lease still ours?
		// If not it is ended, and not continued.
		if err := p.lease.Check(); err != nil {
			p.keeper.lost(err)
			if p.OnLost != "warn" {
				return
			}
		}
	}
	p.front = p.t.inFront()
	p.toFront()
	front := 0
	if p.front {
		front = 1
	}
	p.link.send(msgContinue, front)
}

// passOn makes an interrupt that was typed into the command's terminal known
// outside: with raw settings ^C reaches only the inner terminal, and make or a
// script above would go on. The group of a job of its own has nobody else in
// it to tell, and one that came to us was not typed.
func (p *ptyRun) passOn(exit Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (exit.Signal == unix.SIGINT || exit.Signal == unix.SIGQUIT) && exit.Signal != p.sent && unix.Getpgrp() != unix.Getpid() {
		p.phase = done // it comes back to us as well
		unix.Kill(0, exit.Signal)
	}
}

func (p *ptyRun) reapMonitor() {
	for {
		_, err := syscall.Wait4(p.monitor, nil, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// errMonitor is a monitor that somebody killed. Its command may live.
var errMonitor = errors.New("the monitor was killed; the lease stays until the last process of the command has ended")

func (p *ptyRun) monitorGone() (Exit, error) {
	p.copy.finish()
	p.t.restore()
	p.reapMonitor()
	return Exit{}, errMonitor
}
