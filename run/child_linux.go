package run

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// shareAttr asks for the command's end when this process is killed, and for a
// descriptor of the command, which can't come to mean another process.
func shareAttr(pidfd *int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM, PidFD: pidfd}
}

// signal sends the command a signal. ESRCH is normal: it has ended.
func (c *child) signal(s syscall.Signal) {
	if c.pidfd < 0 || unix.PidfdSendSignal(c.pidfd, s, nil, 0) == unix.ENOSYS {
		unix.Kill(c.pid, s)
	}
}
