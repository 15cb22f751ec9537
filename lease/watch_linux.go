package lease

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

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

// watchDir watches what happens to the names in a directory, and to itself; -1
// when it can't. Once more for the same directory it is the same number.
func watchDir(fd int, dir string) int {
	wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE|
		unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		return -1
	}
	return wd
}

// readWatch reads what has happened, and says whether any of it matters.
func readWatch(fd int, matters func(wd int, name string) bool) (news bool) {
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(fd, buf[:])
		if n <= 0 || err != nil {
			return news
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:length], []byte{0})
			news = news || matters(int(int32(binary.NativeEndian.Uint32(b))), string(name))
			b = b[length:]
		}
	}
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
