package run

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// setForegroundGroup gives the terminal to a process group.
func setForegroundGroup(fd, pgrp int) (err error) {
	unstopped(func() { err = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pgrp) })
	return err
}

// unstopped does from the background what the terminal answers with SIGTTOU
// unless that is blocked; it is blocked on this thread only, so that no command
// inherits it.
func unstopped(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (uint(unix.SIGTTOU) - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	f()
}
