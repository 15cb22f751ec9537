package run

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// setForegroundGroup gives the terminal to a process group. From the
// background that is answered with SIGTTOU unless it is blocked; it is blocked
// on this thread only, so that no command inherits it.
func setForegroundGroup(fd, pgrp int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (uint(unix.SIGTTOU) - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pgrp)
}
