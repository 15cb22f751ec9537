//go:build !linux

package run

import (
	"os/signal"

	"golang.org/x/sys/unix"
)

// setForegroundGroup gives the terminal to a process group. From the
// background that is answered with SIGTTOU unless it is ignored; there is no
// mask to be had without cgo, and no command is started meanwhile.
func setForegroundGroup(fd, pgrp int) error {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pgrp)
}
