package lease

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Trial is what the file system of a directory really does of what leases rest
// on; nil is well.
type Trial struct {
	Lock    error         // flock(2) keeps a second open file out, and ends with the first
	FIFO    error         // a FIFO hangs up when its owner goes
	Rename  error         // a rename that replaces nothing, not even an empty directory
	Watch   error         // inotify(7) tells when a directory goes
	Forward time.Duration // how far the file system's clock is before ours
}

// trialPatience is how long news may take that the kernel gives at once.
const trialPatience = 2 * time.Second

var (
	errNoLock   = errors.New("a second open file got the lock as well")
	errStuck    = errors.New("the lock outlives its owner")
	errNoFIFO   = errors.New("there are no FIFOs")
	errNoHangUp = errors.New("no hang-up came")
	errReplaced = errors.New("it replaced an empty directory")
	errNoNews   = errors.New("no news came")
	errNoWatch  = errors.New("no inotify instance is to be had")
)

// Try does all that a lease does, in a directory of its own below dir, which it
// removes again. The error is an *fs.PathError: nothing could be tried.
func (b *Base) Try(dir string) (t Trial, err error) {
	own, err := os.MkdirTemp(dir, TrialPrefix)
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(own)
	if st, err := os.Stat(own); err == nil {
		t.Forward = time.Until(st.ModTime())
	}
	t.Lock, t.FIFO = b.tryWitness(filepath.Join(own, "witness"))
	t.Rename = tryRename(filepath.Join(own, "from"), filepath.Join(own, "to"))
	t.Watch = tryWatch(filepath.Join(own, "watched"))
	return t, nil
}

// TrialPrefix is how the directory of a trial begins: one that stays was left
// by a killed process.
const TrialPrefix = ".doctor."

func (b *Base) tryWitness(path string) (lock, fifo error) {
	owner, err := b.lockFIFO(path)
	if err != nil {
		return err, err
	}
	watch, alive, isFIFO, err := probe(path)
	if err != nil {
		unix.Close(owner)
		return err, err
	}
	defer unix.Close(watch)
	if !alive {
		lock = errNoLock
	}
	unix.Close(owner)
	switch {
	case !isFIFO:
		fifo = errNoFIFO
	case !hears(watch, 0, unix.POLLHUP):
		fifo = errNoHangUp
	}
	if fd, alive, _, err := probe(path); err == nil {
		unix.Close(fd)
		if alive {
			lock = errStuck
		}
	}
	return lock, fifo
}

func tryRename(from, to string) error {
	for _, dir := range []string{from, to} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	switch err := renameNew(from, to); err {
	case unix.EEXIST:
	case nil:
		return errReplaced
	default:
		return err
	}
	if err := os.Remove(to); err != nil {
		return err
	}
	return renameNew(from, to)
}

func tryWatch(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	fd := newWatch()
	if fd < 0 {
		return errNoWatch
	}
	defer unix.Close(fd)
	addWatch(fd, dir)
	if err := os.Remove(dir); err != nil {
		return err
	}
	if !hears(fd, unix.POLLIN, unix.POLLIN) {
		return errNoNews
	}
	return nil
}

// hears waits for news on a descriptor.
func hears(fd int, events, want int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	n, err := retry(func() (int, error) { return unix.Poll(fds, milliseconds(trialPatience)) })
	return err == nil && n > 0 && fds[0].Revents&want != 0
}
