//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package signals

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct of 64-bit Linux, large enough for every
// variant: the default action needs none of its fields.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// Die ends this process by the signal that its command died of, so that a
// shell or make sees the same as without us: bash's loops stop for a real
// SIGINT only, and make says "Interrupt", "Killed". It returns where that
// doesn't work; the caller exits with 128+N then.
//
// os/signal can't: Reset is right for HUP, INT and TERM; QUIT, ABRT, SEGV and
// their like print a goroutine dump, USR1, PIPE and others do nothing. So the
// default action is set by the system call. No core: the command's own is
// there, and ours would overwrite it (timeout(1) and sudo(8) do the same).
func Die(s syscall.Signal) {
	runtime.LockOSThread()
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if s != unix.SIGKILL {
		setAction(s, &sigaction{}, nil)
		sigprocmask(unix.SIG_UNBLOCK, setOf([]syscall.Signal{s}), nil)
	}
	unix.Tgkill(unix.Getpid(), unix.Gettid(), s)
}

// Default gives s its default action until restore is called. os/signal can't:
// once a signal was asked for, the runtime keeps its own handler and Reset
// makes that swallow it (runtime.sigdisable; golang/go#46321).
func Default(s syscall.Signal) (restore func()) {
	old := new(sigaction)
	setAction(s, &sigaction{}, old)
	return func() { setAction(s, old, nil) }
}

// Ignored says whether the caller ignored s. os/signal knows that of HUP and
// INT only.
func Ignored(s syscall.Signal) bool {
	old := new(sigaction)
	setAction(s, nil, old)
	return old.handler == 1 // SIG_IGN
}

func setAction(s syscall.Signal, act, old *sigaction) {
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(act)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(act.mask), 0, 0)
}
