//go:build !linux

package run

import (
	"os/signal"

	"golang.org/x/sys/unix"
)

// setForegroundGroup gives the terminal to a process group.
func setForegroundGroup(fd, pgrp int) (err error) {
	unstopped(func() { err = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pgrp) })
	return err
}

// unstopped does from the background what the terminal answers with SIGTTOU
// unless that is ignored; there is no mask to be had without cgo, and no command
// is started meanwhile.
func unstopped(f func()) {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	f()
}
