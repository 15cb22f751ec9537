package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// MaxDocument is how large a document may be, in bytes. A larger one is not
// this program's.
const MaxDocument = 64 << 20

// Modes are the permissions of what is made: a shared directory's are for its
// group, whatever the umask.
type Modes struct {
	Dir  os.FileMode
	File os.FileMode
}

var (
	// Private is for the owner alone.
	Private = Modes{0o700, 0o600}
	// Shared is for the group of an administrator's setgid directory.
	Shared = Modes{os.ModeSetgid | 0o770, 0o660}
)

// ModesOf are the modes that follow from dir: a group-writable directory is
// shared.
func ModesOf(dir fs.FileInfo) Modes {
	if dir.Mode().Perm()&0o020 != 0 {
		return Shared
	}
	return Private
}

// Store is the directory of the document, its lock and the event log.
type Store struct {
	Dir   string
	Modes Modes

	last  *State // what the document said when it was seen as
	seen  identity
	text  []byte // what last was read from, or written as
	young bool   // it was seen so soon after its change that the next may look the same
	buf   []byte // for the next reading
}

// identity tells one version of a file from the next: it is replaced by
// rename, and by another tool perhaps written in place.
type identity struct {
	ino   uint64
	size  int64
	mtime unix.Timespec
}

// Paths of the store's files.
func (s *Store) Path() string     { return filepath.Join(s.Dir, "state.json") }
func (s *Store) LockPath() string { return filepath.Join(s.Dir, "state.lock") }
func (s *Store) Events() string   { return filepath.Join(s.Dir, "events.jsonl") }

// Locked is the store while its lock is held. It must be given back with
// Unlock, which is safe to call twice.
type Locked struct {
	*Store
	f *os.File
}

// Lock takes the one lock, exclusively. It waits for microseconds as a rule;
// for as long as ctx allows when the process that has it is stopped. The
// kernel drops the lock when its owner dies (flock(2)); the descriptor is
// close-on-exec, so no command can inherit it.
//
// The error is an *fs.PathError, or the context's.
func (s *Store) Lock(ctx context.Context) (*Locked, error) {
	return s.acquire(ctx, unix.LOCK_EX)
}

// Look takes the lock shared: what is read then is true together. Where it
// can't be had for want of permission the look is unlocked, as good as a
// reader can get.
func (s *Store) Look(ctx context.Context) (*Locked, error) {
	l, err := s.acquire(ctx, unix.LOCK_SH)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist) {
		return s.Unlocked(), nil
	}
	return l, err
}

// Unlocked is a look without the lock: nothing is made for it, and what it reads
// need not be true together.
func (s *Store) Unlocked() *Locked {
	s.doubt()
	return &Locked{Store: s}
}

func (s *Store) acquire(ctx context.Context, how int) (*Locked, error) {
	for {
		f, err := s.openLock(how)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f, how); err != nil {
			if ctx.Err() == nil {
				f.Close()
				err = &fs.PathError{Op: "flock", Path: s.LockPath(), Err: err}
			}
			return nil, err
		}
		// Somebody may have deleted the file meanwhile, and a lock on a
		// deleted file keeps nobody out (awslabs/aws-c-common#1192).
		var held, there unix.Stat_t
		if unix.Fstat(int(f.Fd()), &held) == nil && unix.Lstat(s.LockPath(), &there) == nil &&
			held.Ino == there.Ino && held.Dev == there.Dev {
			if held.Mode&unix.S_IFMT != unix.S_IFREG {
				f.Close()
				return nil, &fs.PathError{Op: "lock", Path: s.LockPath(), Err: errors.New("not a regular file")}
			}
			s.doubt()
			return &Locked{s, f}, nil
		}
		f.Close()
	}
}

// openLock opens the lock file without O_CREAT first: in a sticky directory
// the kernel refuses O_CREAT on another user's file (fs.protected_regular).
func (s *Store) openLock(how int) (*os.File, error) {
	flags := unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if how == unix.LOCK_SH {
		flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	}
	return s.openOrCreate(s.LockPath(), flags)
}

// openOrCreate opens a file, or makes it, to be read and written then.
func (s *Store) openOrCreate(path string, flags int) (*os.File, error) {
	for { // once, unless somebody makes it or deletes it meanwhile
		f, err := open(path, flags, 0)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if f, err = s.create(path, unix.O_RDWR|flags&unix.O_APPEND); !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// open is os.OpenFile without its poller and its retries: a plain descriptor.
func open(path string, flags int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, perm)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if flags&unix.O_NONBLOCK != 0 {
			// Asked for so that a planted FIFO can't make us wait; a file that
			// says so would be handed to the poller.
			if err := unix.SetNonblock(fd, false); err != nil {
				unix.Close(fd)
				return nil, &fs.PathError{Op: "open", Path: path, Err: err}
			}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// create makes a new file with the store's mode, whatever the umask.
func (s *Store) create(path string, flags int) (*os.File, error) {
	f, err := open(path, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, uint32(s.Modes.File.Perm()))
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(s.Modes.File); err != nil && s.Modes == Shared {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A lock that is taken is nearly always free again within the time that it
// takes to go to sleep for it: who is woken by a release waits for its end.
const (
	spins    = 10
	spinTime = 20 * time.Microsecond
)

// flock takes the lock on f. A blocked flock(2) can't be called off in a Go
// program (its handlers restart system calls), so it blocks in a goroutine,
// which is left behind when ctx ends first; f is its then.
func flock(ctx context.Context, f *os.File, how int) error {
	fd := int(f.Fd())
	for range spins {
		err := ignoringEINTR(func() error { return unix.Flock(fd, how|unix.LOCK_NB) })
		if err != unix.EWOULDBLOCK {
			return err
		}
		pause := unix.NsecToTimeval(int64(spinTime))
		unix.Select(0, nil, nil, nil, &pause)
	}
	if ctx.Err() != nil {
		f.Close()
		return context.Cause(ctx)
	}
	got := make(chan error) // unbuffered: f is handed over, or it is not
	go func() {
		err := ignoringEINTR(func() error { return unix.Flock(fd, how) })
		select {
		case got <- err:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Unlock gives the lock back.
func (l *Locked) Unlock() {
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
}

// BrokenError is a document that can't be read as one. It is never
// overwritten.
type BrokenError struct {
	Path string
	Err  error // a *SyntaxError, or why the file can't be a document
}

func (e *BrokenError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }
func (e *BrokenError) Unwrap() error { return e.Err }

// State reads the document; one that doesn't exist is empty. The value is
// shared with later calls until it changes on disk: whoever changes it saves
// it. The error is an *fs.PathError or a *BrokenError.
func (l *Locked) State() (*State, error) {
	var st unix.Stat_t
	err := unix.Lstat(l.Path(), &st)
	if err == unix.ENOENT {
		l.last = nil
		return &State{}, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: l.Path(), Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		return nil, &BrokenError{l.Path(), errors.New("is a symbolic link")}
	default:
		return nil, &BrokenError{l.Path(), errors.New("is not a regular file")}
	}
	if l.last != nil && identify(&st) == l.seen {
		return l.last, nil
	}
	f, err := open(l.Path(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Without the lock it may be another by now.
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "fstat", Path: l.Path(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &BrokenError{l.Path(), errors.New("is not a regular file")}
	}
	if st.Size > MaxDocument {
		return nil, &BrokenError{l.Path(), fmt.Errorf("has %d bytes, more than the %d that a state document may have", st.Size, MaxDocument)}
	}
	if int64(cap(l.buf)) <= st.Size {
		l.buf = make([]byte, st.Size+st.Size/8+512)
	}
	buf := l.buf[:st.Size+1]
	n, err := io.ReadFull(f, buf)
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		if err == nil {
			err = errors.New("it grew while it was read")
		}
		return nil, &fs.PathError{Op: "read", Path: l.Path(), Err: err}
	}
	doc := buf[:n]
	said := l.last
	if said != nil && bytes.Equal(doc, l.text) {
		doc = l.text
	} else {
		l.buf = nil // it is the state's
		if said, err = Parse(doc); err != nil {
			return nil, &BrokenError{l.Path(), err}
		}
	}
	l.remember(said, doc, &st)
	return said, nil
}

// Forget drops a document that was changed and won't be saved.
func (l *Locked) Forget() { l.last = nil }

func identify(st *unix.Stat_t) identity { return identity{st.Ino, st.Size, st.Mtim} }

// remember keeps what a document says. Two replacements later its inode number
// may be in use again, within one tick of the file system's clock: a young one
// is read again after the lock was given back, and compared.
func (s *Store) remember(said *State, text []byte, st *unix.Stat_t) {
	s.last, s.text, s.seen = said, text, identify(st)
	s.young = time.Since(time.Unix(st.Mtim.Unix())) < 2*time.Second
}

// doubt makes the next reading go by the text, where its looks tell nothing.
func (s *Store) doubt() {
	if s.young {
		s.seen = identity{}
	}
}

// Save replaces the document: a temporary file, fsync, rename. A reader sees
// the old one or the new one; a full disk leaves the old one. The error is an
// *fs.PathError.
//
// There is one saver at a time, so the temporary file has one name, and what
// lies there was left by a killed saver, or planted: it is unlinked, never
// followed.
func (l *Locked) Save(st *State) error {
	tmp := filepath.Join(l.Dir, ".state.json.new")
	l.last = nil
	f, err := l.create(tmp, unix.O_WRONLY)
	if errors.Is(err, fs.ErrExist) {
		os.Remove(tmp)
		f, err = l.create(tmp, unix.O_WRONLY)
	}
	if err != nil {
		return err
	}
	text := st.Document()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp, l.Path())
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	var id unix.Stat_t
	if unix.Lstat(l.Path(), &id) == nil {
		l.remember(st, text, &id)
	}
	return nil
}
