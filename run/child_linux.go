package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

// catches says whether the command has a handler for a signal (SigCgt, proc(5)).
func (c *child) catches(s syscall.Signal) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		return false // it has ended
	}
	_, rest, _ := strings.Cut(string(b), "SigCgt:")
	mask, err := strconv.ParseUint(strings.TrimSpace(rest[:min(len(rest), 17)]), 16, 64)
	return err != nil || mask&(1<<(uint(s)-1)) != 0
}

// started says whether a process is the command or below it.
func (c *child) started(pid int) bool {
	for pid > 1 && pid != c.pid {
		pid = parentOf(pid)
	}
	return pid == c.pid
}
