//go:build !linux

package lease

import "syscall"

// Signal needs a start time to compare, which only /proc tells: elsewhere no
// other run's process is signalled.
func (p PID) Signal(s syscall.Signal) error { return syscall.ESRCH }
