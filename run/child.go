package run

import (
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"withlease/signals"
)

// Share mode: the command gets our own descriptors 0, 1 and 2 and stays in our
// process group, so that pipes, redirections, make and job control are as
// without us. We never touch the terminal's settings here, and never read it.

// child is a command that runs in our process group.
type child struct {
	pid   int
	pidfd int         // -1 where there is none
	group int         // our own process group
	first bool        // and its first process, which a shell looks at
	front atomic.Bool // the group had the terminal when that could change last
}

// shared runs the command in share mode.
//
// It stays on one thread to the end: the command is told of the death of the
// thread that started it (PR_SET_PDEATHSIG, prctl(2); golang/go#27505).
func (r *run) shared() (Exit, error) {
	runtime.LockOSThread()
	r.mu.Lock()
	if err := r.begin(); err != nil {
		r.mu.Unlock()
		return Exit{}, err
	}
	c := &child{pidfd: -1, group: unix.Getpgrp(), first: unix.Getpgrp() == os.Getpid()}
	attr := &syscall.ProcAttr{Env: r.environ(), Files: []uintptr{0, 1, 2}, Sys: shareAttr(&c.pidfd)}
	var err error
	r.lease.Inherit(true)
	c.pid, err = forkExec(r.path, r.Argv, attr)
	r.lease.Inherit(false)
	if err != nil {
		r.mu.Unlock()
		return Exit{}, err
	}
	r.forward = func(s signals.Signal) {
		// What the terminal sent before the command was there reached us only.
		early := s.FromKernel && s.At.Before(r.forked)
		// What came while the last one was looked at, or the thread that forked wasn't
		// back (the kernel gives a signal to whoever unblocks it), has lost its sender.
		// To a command that doesn't catch it, it does no harm twice.
		early = early || !s.Known && s.Number != unix.SIGWINCH && !c.catches(s.Number)
		leader, shells := false, false
		if s.Number == unix.SIGHUP {
			// A session's leader alone is told that the terminal is gone (tty_io.c); the
			// others hear of it when it ends, and we wait for the command. A shell that
			// leads tells its jobs, each as a group.
			sid, _ := unix.Getsid(0)
			leader = s.FromKernel && sid == os.Getpid()
			shells = s.Sender == sid && !hasTerminal()
			if c.front.Load() {
				time.AfterFunc(r.Grace, func() { r.hungUp(c) })
			}
		}
		if early || leader || !shells && signals.Shared(s, inForeground(), c.started) {
			c.signal(s.Number)
		}
	}
	r.phase = running
	r.mu.Unlock()
	c.jobControl()

	r.lease.NoteChild(c.pid)
	if c.endsWithin(shortRun) {
		return exitOf(c.wait()), nil
	}
	keeper := r.keepLease(func() { r.endShared(c) }, func() {}) // the streams are the command's alone
	ws := c.wait()
	if keeper.stop() != nil {
		return Exit{Code: ExitLost}, nil
	}
	return exitOf(ws), nil
}

// shortRun is how long a command runs before anybody watches over its lease: a
// force is noticed that much later, and a short command costs two threads less.
const shortRun = 30 * time.Millisecond

// endsWithin says whether the command has ended within a time; false where that
// can't be told.
func (c *child) endsWithin(d time.Duration) bool {
	if c.pidfd < 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(d.Milliseconds()))
	return err == nil && n == 1
}

// wait waits for the command's end, and stops with it when it stops: os/exec's
// Wait never tells of a stop (golang/go#60321), and a shell that waits for us
// would wait for ever.
func (c *child) wait() syscall.WaitStatus {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0 // somebody set SIGCHLD to be ignored: its status is lost
		case ws.Stopped():
			if ws, ended := c.stopped(); ended {
				return ws
			}
		default:
			return ws
		}
	}
}

// jobControl keeps a job's first process running at ^Z until its command has
// stopped: a command that ignores it, or has to tidy up before, isn't a stopped
// job, and one that reads would take the first keys that are typed at the
// shell's prompt. Where make or a script comes first, the shell looks at that.
func (c *child) jobControl() {
	c.front.Store(inForeground())
	jobs := make(chan os.Signal, 4)
	signal.Notify(jobs, unix.SIGCONT)
	if c.first && !signals.Ignored(unix.SIGTSTP) {
		signal.Notify(jobs, unix.SIGTSTP)
	}
	go func() {
		for s := range jobs {
			front := inForeground()
			if front || hasTerminal() { // a hang-up brings a CONT too
				c.front.Store(front)
			}
			if s == unix.SIGTSTP && !front { // sent by kill, and to us alone
				c.signal(unix.SIGTSTP)
			}
		}
	}()
}

// stopped is called when the command has stopped. Our whole group must stop
// with it, so that the shell above sees a stopped job; under make or a script
// the group's first process is another's, and must stop too (as sudo does). By
// TSTP, which the kernel discards where nobody could continue us (a container's
// first process).
func (c *child) stopped() (ws syscall.WaitStatus, ended bool) {
	if !c.first {
		// After ^Z we are stopped as well, at this very point, and when we go on
		// the command does too.
		time.Sleep(15 * time.Millisecond)
	}
	if ws, news := c.news(); news && !ws.Stopped() {
		return ws, !ws.Continued()
	}
	t := openTerminal()
	if t == nil {
		return 0, false // no terminal, no job control: whoever stopped it continues it
	}
	defer t.Close()
	for {
		group, _ := unix.Getpgid(c.pid)
		had := group > 0 && foregroundGroup(int(t.Fd())) == group
		if !stopGroup(unix.SIGTSTP) {
			return 0, false // whoever stopped it continues it
		}
		// The shell has continued us, in the foreground or not, and with us the
		// command when it is of our group. It may have been stopped again since.
		ws, news := c.news()
		switch {
		case news && ws.Stopped():
			continue
		case news:
			return ws, !ws.Continued()
		case group > 0 && group != c.group:
			if had && foregroundGroup(int(t.Fd())) == c.group {
				setForegroundGroup(int(t.Fd()), group)
			}
			unix.Kill(-group, unix.SIGCONT)
		default: // only we were
			c.signal(unix.SIGCONT)
		}
		return 0, false
	}
}

// news says whether a stopped command was continued, was stopped once more, or
// has ended.
func (c *child) news() (ws syscall.WaitStatus, news bool) {
	pid, err := syscall.Wait4(c.pid, &ws, syscall.WUNTRACED|syscall.WCONTINUED|syscall.WNOHANG, nil)
	return ws, err == nil && pid == c.pid
}

// hungUp ends a command that has outlived the terminal that it had in the
// foreground, with what else is in the group. Whoever wants one to outlive it
// puts nohup in front of withlease: then we don't hear of it either. A job in
// the background is left alone (nohup server &).
func (r *run) hungUp(c *child) {
	r.mu.Lock() // we don't end before the last of them is killed
	defer r.mu.Unlock()
	if r.phase != running || hasTerminal() { // somebody sent the HUP
		return
	}
	c.signal(unix.SIGKILL)
	for _, m := range r.lease.Members() {
		if group, err := unix.Getpgid(m.PID.PID); err == nil && group == c.group {
			m.Signal(unix.SIGKILL)
		}
	}
}

// endShared ends a command whose lease is lost: TERM and CONT (a stopped
// process can't handle TERM) to it and to what else runs with its token, KILL
// after the grace. Not to the group, which is also our own and make's.
func (r *run) endShared(c *child) {
	signalAll := func(s syscall.Signal) {
		c.signal(s)
		for _, m := range r.lease.Members() {
			if m.PID.PID != c.pid && m.PID.PID != os.Getpid() {
				m.Signal(s)
			}
		}
	}
	signalAll(unix.SIGTERM)
	signalAll(unix.SIGCONT)
	time.AfterFunc(r.Grace, func() { signalAll(unix.SIGKILL) })
}
