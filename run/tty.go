package run

import (
	"os"

	"golang.org/x/sys/unix"
)

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil
}

// openTerminal opens the controlling terminal; nil when there is none.
func openTerminal() *os.File {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "/dev/tty")
}

// hasTerminal says whether there is a controlling terminal.
func hasTerminal() bool {
	t := openTerminal()
	if t == nil {
		return false
	}
	t.Close()
	return true
}

// foreground is the foreground process group of a terminal, 0 when that can't
// be told (it is not the controlling one).
func foregroundGroup(fd int) int {
	pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

// inForeground says whether this process's group has the controlling terminal.
func inForeground() bool {
	t := openTerminal()
	if t == nil {
		return false
	}
	defer t.Close()
	return foregroundGroup(int(t.Fd())) == unix.Getpgrp()
}

// inBackground says whether fd is our controlling terminal, and another process
// group has its foreground.
func inBackground(fd int) bool {
	group := foregroundGroup(fd)
	return group != 0 && group != unix.Getpgrp()
}

// stopsWriters says whether the terminal stops a background job that writes to
// it (stty tostop).
func stopsWriters(fd int) bool {
	t, err := unix.IoctlGetTermios(fd, getTermios)
	return err == nil && t.Lflag&unix.TOSTOP != 0
}
