package lease

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A run of the holder's party under a claim that has an end [under] holds a
// shared lock on the FIFO `under` in the lease's directory, and so does its
// command, which inherits the descriptor. Time frees the claim only when nobody
// does: else the next in line would run beside the command.

const underName = "under"

// goUnder takes part in the claim of res. ok is false when there is no such
// claim any more. The descriptor stays open, and is inherited by the command.
func (b *Base) goUnder(ctx context.Context, res string, mine func(*sight) bool) (ok bool, err error) {
	l, err := b.Store.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer l.Unlock()
	s, err := b.look(res, time.Now())
	if err != nil {
		return false, err
	}
	defer s.close()
	if !mine(s) {
		return false, nil
	}
	path := filepath.Join(b.path(res), underName)
	fd, err := openFile(path, unix.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		fd, err = b.mkfifo(path)
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errNotOurs
	}
	if err == nil {
		// Nobody has it alone but who looks at this moment.
		_, err = retry(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_SH) })
	}
	if err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, WitnessFD); err == unix.EINVAL || err == unix.EMFILE {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 10)
		}
	}
	if err != nil {
		return false, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return true, nil
}

// runsUnder says whether a run goes on under a claim whose time is over. fd
// hangs up when the last of them ends; -1 when nothing will tell. It asks for
// the lock alone, since runs share it: two who only look may take each other for
// one, but who claims has the lock M to itself.
func (s *sight) runsUnder() (fd int, yes bool) {
	fd, err := openFile(filepath.Join(s.base.path(s.res), underName), unix.O_RDONLY, 0)
	if err != nil {
		return -1, false
	}
	var st unix.Stat_t
	yes = unix.Fstat(fd, &st) == nil && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
	if !yes || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		unix.Close(fd)
		fd = -1
	}
	return fd, yes
}
