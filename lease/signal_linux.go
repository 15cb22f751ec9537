package lease

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to this very process: its descriptor is opened first
// and its start time compared then, so that a pid that has come again is never
// meant. ESRCH says that it has ended.
func (p PID) Signal(s syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ENOSYS {
		if !p.Alive() {
			return unix.ESRCH
		}
		return unix.Kill(p.PID, s)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, s, nil, 0)
}
