package lease

import "golang.org/x/sys/unix"

// newWatch is an inotify instance, -1 when there is none to be had: a user has
// 128 of them (inotify(7), max_user_instances).
func newWatch() int {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1
	}
	return fd
}

// addWatch watches for the end of a lease directory: deleted, or renamed away.
func addWatch(fd int, dir string) {
	unix.InotifyAddWatch(fd, dir, unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
}

func drainWatch(fd int) {
	var buf [4096]byte
	for {
		if n, err := unix.Read(fd, buf[:]); n <= 0 || err != nil {
			return
		}
	}
}

// openPID is a descriptor that becomes readable when the process ends, -1 when
// there is none.
func openPID(p PID) int {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1
	}
	if !p.Alive() { // looked at after the open: the pid is not another's
		unix.Close(fd)
		return -1
	}
	return fd
}
