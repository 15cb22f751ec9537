package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// GrantTTL is how long a grant of a free resource waits to be claimed.
const GrantTTL = 10 * time.Minute

// RestartGrace is how long a supervisor's process may be away before the
// supervisor counts as gone.
const RestartGrace = 30 * time.Second

// Base is a lease directory and the state that goes with it. Whoever shares the
// one must share the other.
type Base struct {
	Leases Dir
	Store  *state.Store
	// Public is the first of its directories that every user of the machine may
	// write to; empty as it should be.
	Public string
}

// Open is the base of a lease and a state directory, which need not exist yet.
// Their modes follow dir, the base directory: a group-writable one is shared
// by its group.
func Open(dir, leases, stateDir string) *Base {
	modes, public, found := state.Private, "", false
	for i, d := range [...]string{dir, leases, stateDir} {
		if i == 2 && d == dir {
			break
		}
		st, err := os.Stat(d)
		if err != nil {
			continue
		}
		if !found {
			modes, found = state.ModesOf(st), true
		}
		if st.Mode().Perm()&0o002 != 0 && public == "" {
			public = d
		}
	}
	return &Base{Leases: Dir(leases), Store: &state.Store{Dir: stateDir, Modes: modes}, Public: public}
}

// Make makes the directories that don't exist yet, with their modes set
// whatever the umask. The error is an *fs.PathError.
func (b *Base) Make() error {
	var st unix.Stat_t
	if unix.Stat(string(b.Leases), &st) == nil && unix.Stat(b.Store.Dir, &st) == nil {
		return nil // as nearly always
	}
	for _, d := range []string{b.Store.Dir, string(b.Leases)} {
		if err := b.mkdirAll(d); err != nil {
			return err
		}
	}
	return nil
}

func (b *Base) mkdirAll(dir string) error {
	st, err := os.Stat(dir)
	if err == nil {
		if !st.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := b.mkdirAll(parent); err != nil {
			return err
		}
	}
	return b.mkdir(dir)
}

// mkdir makes one directory; one that somebody else makes first will do.
func (b *Base) mkdir(dir string) error {
	err := os.Mkdir(dir, b.Store.Modes.Dir.Perm())
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil || b.Store.Modes != state.Shared {
		return err
	}
	fd, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// S_ISGID by number: Fchmod knows no os.FileMode.
	if err := unix.Fchmod(fd, 0o2770); err != nil {
		return &fs.PathError{Op: "chmod", Path: dir, Err: err}
	}
	return nil
}

// path is where the lease of res lies.
func (b *Base) path(res string) string { return filepath.Join(string(b.Leases), res) }

// queue is where the tickets of res lie.
func (b *Base) queue(res string) string { return filepath.Join(string(b.Leases), ".queue", res) }

// trash is where a retired lease of res goes, to be deleted without the lock.
// One name a resource: what a killed process left there is found by the next
// claim without reading the directory, whose size would cost it.
func (b *Base) trash(res string) string { return filepath.Join(string(b.Leases), ".trash."+res) }

// staging is where a lease is made. Only under the exclusive lock, so one name
// does, and what lies there is a killed process's.
func (b *Base) staging() string { return filepath.Join(string(b.Leases), ".staging.new") }

// discard deletes a retired or half-made lease. It follows no link and, as a
// lease has no directories in it, goes no deeper than one.
func discard(dir string) {
	switch unix.Rmdir(dir) {
	case nil, unix.ENOENT:
		return
	case unix.ENOTDIR: // a file, or a link: never what it points at
		unix.Unlink(dir)
		return
	}
	for _, n := range [...]string{"holder.json", "process.json", "witness", "claim.json", "asked.json", underName} {
		unix.Unlink(filepath.Join(dir, n))
	}
	if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
		os.RemoveAll(dir) // somebody else's files; RemoveAll follows no link
	}
}
