package lease

import (
	"bytes"
	"io/fs"

	"golang.org/x/sys/unix"
)

// The lease's files are opened by plain system calls: os.File would cost a
// short run a tenth of its time, and hand every FIFO to the poller.

func retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != unix.EINTR {
			return v, err
		}
	}
}

func openFile(path string, flags int, perm uint32) (int, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// readFile reads at most limit bytes of a regular file.
func readFile(path string, flags int, limit int) ([]byte, error) {
	text, _, err := readWithStat(path, flags, limit)
	return text, err
}

// readWithStat is readFile, and says whose the file is that was read.
func readWithStat(path string, flags int, limit int) ([]byte, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openFile(path, flags, 0)
	if err != nil {
		return nil, st, err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, &fs.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	room := 64 // bytes, for what is read at once
	if st.Size == 0 {
		room = 512 // /proc says that its files have none
	}
	b := make([]byte, 0, int(min(st.Size, int64(limit)))+room)
	for len(b) < limit {
		if cap(b)-len(b) < room {
			b = append(make([]byte, 0, len(b)+max(4096, len(b))), b...)
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, b[len(b):min(cap(b), limit)]) })
		if err != nil {
			return nil, st, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		b = b[:len(b)+n]
	}
	return b, st, nil
}

// alone says whether a file is a regular one that has no other name. What is
// written in place must not land in a file elsewhere: a hard link is followed
// by every open.
func alone(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 1
}

// readSmall reads a system file that one read holds.
func readSmall(path string) ([]byte, error) {
	fd, err := openFile(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var b [4096]byte // on the stack: a list of many leases reads many
	n, err := retry(func() (int, error) { return unix.Read(fd, b[:]) })
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return bytes.Clone(b[:n]), nil
}

// writeNew writes a file that must not exist yet and returns it open.
func (b *Base) writeNew(path string, data []byte) (int, error) {
	return b.writeNewAs(path, data, uint32(b.Store.Modes.File))
}

func (b *Base) writeNewAs(path string, data []byte, mode uint32) (int, error) {
	fd, err := openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return -1, err
	}
	err = b.chmod(fd, mode)
	for len(data) > 0 && err == nil {
		var n int
		n, err = retry(func() (int, error) { return unix.Write(fd, data) })
		data = data[max(n, 0):]
	}
	if err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return fd, nil
}

// chmod gives what was just made the group's permissions, whatever the umask.
func (b *Base) chmod(fd int, mode uint32) error {
	if b.Store.Modes.File&0o020 == 0 {
		return nil
	}
	return unix.Fchmod(fd, mode)
}

// processMode is the mode of process.json: only who wrote it may change it, for
// it says which processes `release --kill` may end.
func (b *Base) processMode() uint32 { return uint32(b.Store.Modes.File) &^ 0o020 }

// mkfifo makes a FIFO and opens it for both ends, so that opening never waits
// and the owner alone keeps it connected. Where the file system has no FIFOs a
// regular file carries the lock; there is no hang-up then.
func (b *Base) mkfifo(path string) (int, error) {
	err := unix.Mkfifo(path, uint32(b.Store.Modes.File))
	if err == unix.EPERM || err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		fd, err := b.writeNew(path, nil)
		return fd, err
	}
	if err != nil {
		return -1, &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	fd, err := openFile(path, unix.O_RDWR, 0)
	if err != nil {
		return -1, err
	}
	// A member of the group may have put something else there meanwhile.
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_IFMT != unix.S_IFIFO || st.Nlink != 1) {
		err = errNotOurs
	}
	if err == nil {
		err = b.chmod(fd, uint32(b.Store.Modes.File))
	}
	if err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return fd, nil
}

// lockFIFO makes a FIFO at path whose lock says that its owner lives.
func (b *Base) lockFIFO(path string) (int, error) {
	fd, err := b.mkfifo(path)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return fd, nil
}

// probe opens a FIFO for reading and asks whether its owner lives. It asks
// after the open and with the descriptor that is returned, so that when the
// owner lives this descriptor will see it go: the kernel drops the lock first
// and hangs up then [wait.2]. Shared, so that probes don't disturb each other
// (R2), and read-only, so that a probe is no writer.
//
// fd is -1 and the error fs.ErrNotExist when there is no such file. fifo is
// false for a regular file, which never hangs up.
func probe(path string) (fd int, alive, fifo bool, err error) {
	fd, err = openFile(path, unix.O_RDONLY, 0)
	if err != nil {
		return -1, false, false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, false, false, &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFIFO && kind != unix.S_IFREG {
		unix.Close(fd)
		return -1, false, false, &fs.PathError{Op: "open", Path: path, Err: errNotOurs}
	}
	_, err = retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	switch err {
	case nil:
		return fd, false, kind == unix.S_IFIFO, nil
	case unix.EWOULDBLOCK:
		return fd, true, kind == unix.S_IFIFO, nil
	}
	unix.Close(fd)
	return -1, false, false, &fs.PathError{Op: "flock", Path: path, Err: err}
}

// poke writes the byte that wakes a FIFO's owner. ENXIO (nobody has it open)
// and EAGAIN (it is full of news already) are nothing to tell.
func poke(path string, what byte) {
	fd, err := openFile(path, unix.O_WRONLY, 0)
	if err != nil {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
		unix.Write(fd, []byte{what})
	}
	unix.Close(fd)
}

// readNames lists a directory. A link in its place is not followed.
func readNames(dir string) ([]string, error) {
	fd, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if err != nil {
			return nil, &fs.PathError{Op: "readdir", Path: dir, Err: err}
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
