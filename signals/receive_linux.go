package signals

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// more are the forwarded signals that only Linux has.
var more = []syscall.Signal{syscall.SIGPWR}

// siginfo is the head of the kernel's siginfo_t (sigaction(2)); the sender is
// where SI_USER, SI_QUEUE and SI_TKILL have it.
type siginfo struct {
	signo, errno, code int32
	_                  int32
	pid                int32
	uid                uint32
	_                  [104]byte
}

// sigset is the kernel's sigset_t: 64 signals.
type sigset uint64

func setOf(list []syscall.Signal) (set sigset) {
	for _, s := range list {
		set |= 1 << (uint(s) - 1)
	}
	return set
}

// receive parks the main thread in rt_sigtimedwait(2), which takes a signal
// together with its sender; os/signal hides it. The signals are blocked on this
// thread and unblocked while it waits, so what comes in between goes to another
// thread, and to the net of Notify.
func receive(list []syscall.Signal, in *post, done chan int, parked chan<- struct{}) {
	set := setOf(list) | setOf([]syscall.Signal{wakeSignal})
	var old sigset
	sigprocmask(unix.SIG_BLOCK, set, &old)
	defer sigprocmask(unix.SIG_SETMASK, old, nil)
	close(parked)
	for len(done) == 0 {
		var info siginfo
		n, _, errno := syscall.Syscall6(unix.SYS_RT_SIGTIMEDWAIT,
			uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(&info)), 0, unsafe.Sizeof(set), 0, 0)
		if errno != 0 {
			if errno == unix.EINTR || errno == unix.EAGAIN {
				continue
			}
			return // no such call here: the net has them all
		}
		s := syscall.Signal(n)
		if s == wakeSignal && info.code == siTKILL {
			continue
		}
		if s == wakeSignal {
			continue // URG is nobody's to forward
		}
		in.offer(Signal{Number: s, Known: true, FromKernel: info.code > 0, Sender: senderOf(info)})
	}
}

const siTKILL = -6 // SI_TKILL of <signal.h>

// senderOf is the pid of a signal that a process sent (code <= 0).
func senderOf(info siginfo) int {
	if info.code > 0 {
		return 0
	}
	return int(info.pid)
}

func sigprocmask(how int, set sigset, old *sigset) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, uintptr(how), uintptr(unsafe.Pointer(&set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(set), 0, 0)
}

// wakeSignal ends the wait. URG: Go uses it for its own threads in the same
// way, and nobody's command is sent one.
const wakeSignal = unix.SIGURG

func threadID() int { return unix.Gettid() }

func wake(tid int) { unix.Tgkill(unix.Getpid(), tid, wakeSignal) }
