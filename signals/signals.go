// Package signals says which signals a run hands on to its command, and how a
// wrapper dies of the signal that its command died of.
//
// A signal is judged by its sender, as sudo(8) does: what the kernel sent (a
// key at the terminal, a hang-up) the command's process group has got already,
// and a second SIGINT means "quit by force" to many programs; what a process
// sent was meant for the command.
package signals

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Signal is a signal that arrived, with its sender as far as the system tells.
type Signal struct {
	Number syscall.Signal
	// FromKernel: the terminal or the kernel itself sent it.
	FromKernel bool
	// Sender is the process that sent it; 0 when that isn't known.
	Sender int
	// Known is whether FromKernel and Sender are known.
	Known bool
	At    time.Time
}

// forwarded are the signals that a wrapper catches, for its command or for
// itself. Not here, and why:
//
//	KILL STOP                 can't be caught
//	CHLD                      ours: wait(2) tells about the command
//	URG                       Go's own, to preempt goroutines (docker filters it too)
//	PIPE                      ours: see Main
//	TSTP TTIN TTOU CONT       job control: the group has them already (share), or the
//	                          terminal's own (PTY)
//	ILL TRAP ABRT BUS FPE SEGV SYS  our own faults when the kernel sends them
//	PROF VTALRM XCPU XFSZ     our own limits
var forwarded = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH,
}

// caught are the forwarded signals that the caller didn't ignore. Notify on an
// ignored one would un-ignore it for us and for the command, and defeat nohup.
// Go tells this of HUP and INT only: the others are default again before main
// begins.
func caught() []syscall.Signal {
	var list []syscall.Signal
	for _, s := range append(forwarded, more...) {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}

// Main runs body in a goroutine of its own, with the signals that arrive, and
// returns what it returns. It must be called from main, with the main thread
// locked (see init): that is the thread that the kernel offers a process's
// signals to first, and here it waits for them with their senders.
//
// body starts the command, so that this happens on a thread whose signal mask
// is the caller's. It begins before the signals are caught, which takes a
// while, and must call ready before it does what a signal must not cut short:
// until then a signal ends the process as if we were not there.
func Main(body func(sigs <-chan Signal, ready func()) int) int {
	in := newPost()
	list := caught()
	registered := make(chan struct{})
	go func() {
		net := make(chan os.Signal, 64)
		signal.Notify(net, asOS(list)...)
		// A command's reader may go away while we still have something to say
		// on the same pipe: EPIPE is an error, SIGPIPE would end us with the
		// lease held. Not Ignore, which the command would inherit.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		close(registered)
		for s := range net {
			if n, ok := s.(syscall.Signal); ok {
				in.offer(Signal{Number: n})
			}
		}
	}()
	done := make(chan int, 1)
	main := threadID()
	parked := make(chan struct{}) // on a busy machine this thread may come late
	go func() {
		done <- body(in.out, func() { <-registered; <-parked })
		wake(main)
	}()
	receive(list, in, done, parked)
	return <-done
}

// post is where signals wait to be read. Offering never blocks. Of more than
// enough unread ones it takes one of each kind: a TERM isn't lost to a flood of
// others.
type post struct {
	out  chan Signal
	mu   sync.Mutex
	late []syscall.Signal // the kinds that were taken beyond enough
}

const enough = 64

func newPost() *post { return &post{out: make(chan Signal, 2*enough)} }

func (p *post) offer(s Signal) {
	s.At = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) < enough {
		p.late = nil
	} else if slices.Contains(p.late, s.Number) {
		return
	} else {
		p.late = append(p.late, s.Number)
	}
	p.out <- s // there are fewer than enough kinds
}

func asOS(list []syscall.Signal) []os.Signal {
	var all []os.Signal
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

func init() { runtime.LockOSThread() }

// Shared says whether the command, which runs in the wrapper's own process
// group, is to be sent s: foreground is whether that group is the foreground
// group of the controlling terminal, ofCommand whether a process is the command
// or below it: a `kill 0` of its own must not come back. By descent and not by
// group, since a script's `kill $!` and make's TERM to its recipes come from
// that group too, and reach only the wrapper. (A group signalled as a whole from
// outside, as timeout(1) does, gets it twice: nothing tells that apart.)
//
// Where the sender isn't known (other systems than Linux, and a signal that
// came while the last one was looked at), a terminal's kind of signal that
// comes while the group is in the foreground counts as the terminal's.
func Shared(s Signal, foreground bool, ofCommand func(pid int) bool) bool {
	if s.Number == syscall.SIGWINCH && (!s.Known || s.FromKernel) {
		return false
	}
	if s.Known {
		return !s.FromKernel && !(s.Sender > 0 && ofCommand(s.Sender))
	}
	switch s.Number {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP:
		return !foreground
	}
	return true
}
