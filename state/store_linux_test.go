package state_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

func init() {
	helpers["full"] = helpFull
	helpers["inodes"] = helpInodes
}

// asNobody runs f without root's permissions: on this thread the file system
// sees another user, whose files dir's are not. Where the tests run as somebody
// else, as that.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if unix.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsgidRetGid(nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.SetfsuidRetUid(nobody); err != nil {
		t.Fatal(err)
	}
	defer func() {
		unix.SetfsuidRetUid(0)
		unix.SetfsgidRetGid(0)
	}()
	f()
}

// openTo makes a directory that others can reach: t.TempDir is the owner's.
func openTo(t *testing.T, mode fs.FileMode) *state.Store {
	t.Helper()
	dir, err := os.MkdirTemp("", "state-test.")
	must(t, err)
	t.Cleanup(func() { os.Chmod(dir, 0o700); os.RemoveAll(dir) })
	s := &state.Store{Dir: dir, Modes: state.Private}
	l := lock(t, s)
	must(t, l.Save(bigState(2)))
	l.Unlock()
	must(t, os.Chmod(dir, mode))
	return s
}

// Without permission to lock, a look is unlocked, and still true where the
// document may be read; a lock is refused with the file's name.
func TestWithoutPermission(t *testing.T) {
	for name, c := range map[string]struct {
		dir, doc, lock fs.FileMode // 0 for lock: no such file
		readable       bool
	}{
		"all readable":          {0o555, 0o444, 0o444, true},
		"a lock of the owner's": {0o555, 0o444, 0o200, true},
		"no lock yet":           {0o555, 0o444, 0, true},
		"a private document":    {0o555, 0o200, 0o444, false},
		"a private directory":   {0o300, 0o444, 0o444, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTo(t, c.dir)
			must(t, os.Chmod(s.Path(), c.doc))
			if c.lock == 0 {
				must(t, os.Chmod(s.Dir, 0o755))
				must(t, os.Remove(lockFile(s)))
				must(t, os.Chmod(s.Dir, c.dir))
			} else {
				must(t, os.Chmod(lockFile(s), c.lock))
			}
			if unix.Geteuid() != 0 && c.dir == 0o300 {
				t.Skip("needs another user")
			}
			asNobody(t, func() {
				l, err := s.Look(context.Background())
				if err != nil {
					t.Errorf("look: %v", err)
					return
				}
				defer l.Unlock()
				st, err := l.State()
				if c.readable && (err != nil || len(st.Grants) != 2) {
					t.Errorf("got %v, %v", st, err)
				}
				var path *fs.PathError
				if !c.readable && (!errors.As(err, &path) || !errors.Is(err, fs.ErrPermission) || path.Path != s.Path() || st != nil) {
					t.Errorf("got %v, %v", st, err)
				}
				if l, err := s.Lock(context.Background()); !errors.As(err, &path) || !errors.Is(err, fs.ErrPermission) || path.Path != lockFile(s) {
					t.Errorf("lock: %v, %v", l, err)
				}
			})
		})
	}
}

// A look with permission to read the lock is a shared lock, though nothing may
// be written.
func TestLookOfAReader(t *testing.T) {
	s := openTo(t, 0o755)
	must(t, os.Chmod(lockFile(s), 0o444))
	asNobody(t, func() {
		l, err := s.Look(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Unlock()
		f, err := os.Open(lockFile(s))
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
			t.Errorf("the look holds no lock: %v", err)
		}
	})
}

// In a read-only directory nothing can be replaced, and nothing is lost.
func TestSaveReadOnly(t *testing.T) {
	s := openTo(t, 0o555)
	for _, f := range []string{s.Path(), lockFile(s)} {
		must(t, os.Chmod(f, 0o666))
	}
	before := read(t, s.Path())
	asNobody(t, func() {
		l, err := s.Lock(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Unlock()
		var path *fs.PathError
		if err := l.Save(bigState(3)); !errors.As(err, &path) || !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(path.Path, s.Dir) {
			t.Errorf("save: %v", err)
		}
		if err := l.Log(state.Event{At: time.Now(), Verb: "v"}); !errors.As(err, &path) || !errors.Is(err, fs.ErrPermission) || path.Path != s.Events() {
			t.Errorf("log: %v", err)
		}
		if st, err := l.State(); err != nil || len(st.Grants) != 2 {
			t.Errorf("afterwards: %v, %v", st, err)
		}
	})
	if read(t, s.Path()) != before {
		t.Error("the document was changed")
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"state.json", "state.lock"}) {
		t.Errorf("it left %q", got)
	}
}

// In a sticky directory the kernel refuses O_CREAT on another's file
// (fs.protected_regular, even to root): an existing one is opened without it.
func TestSticky(t *testing.T) { // B57
	if unix.Geteuid() != 0 {
		t.Skip("needs two users")
	}
	dir, err := os.MkdirTemp("", "state-test.")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	s := &state.Store{Dir: dir, Modes: state.Shared}
	asNobody(t, func() {
		l, err := s.Lock(context.Background())
		if err == nil {
			err = l.Log(state.Event{At: t0, Verb: "nobody's"})
			l.Unlock()
		}
		if err != nil {
			t.Error(err)
		}
	})
	for _, f := range []string{lockFile(s), s.Events()} {
		must(t, os.Chmod(f, 0o666))
	}
	l := lock(t, s)
	must(t, l.Log(state.Event{At: t0, Verb: "root's"}))
	if es := events(t, s, t0); len(es) != 2 {
		t.Errorf("events %v", es)
	}
}

// Where anything else than a file lies, no device is opened.
func TestDocumentIsADevice(t *testing.T) {
	s := newStore(t)
	if err := unix.Mknod(s.Path(), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
		t.Skipf("no device can be made: %v", err)
	}
	must(t, unix.Mknod(s.Events(), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	l := lock(t, s)
	promptly(t, func() {
		st, err := l.State()
		var broken *state.BrokenError
		if !errors.As(err, &broken) || st != nil {
			t.Errorf("got %v, %v", st, err)
		}
		if err := l.Log(state.Event{At: t0, Verb: "v"}); err == nil {
			t.Error("logged to /dev/zero")
		}
		if err := s.ReadEvents(t0, func(state.Event) {}); err == nil {
			t.Error("/dev/zero was read")
		}
	})
}

// inNamespace runs a helper as root of its own user namespace, where it may
// mount a small file system on args[0].
func inNamespace(t *testing.T, what string) {
	t.Helper()
	p := command(t, what, t.TempDir())
	p.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := p.Start(); err != nil {
		t.Skipf("no user namespace can be made here: %v", err)
	}
	said, err := io.ReadAll(p.out)
	must(t, err)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if why, ok := strings.CutPrefix(string(said), "skip: "); ok {
		t.Skip(strings.TrimSpace(why))
	}
}

func TestFullDisk(t *testing.T)      { inNamespace(t, "full") } // B12
func TestNoMoreInodes(t *testing.T)  { inNamespace(t, "inodes") }
func helpFull(args []string) error   { return onSmallDisk(args[0], "size=64k", fullDisk) }
func helpInodes(args []string) error { return onSmallDisk(args[0], "nr_inodes=4", noMoreInodes) }

func onSmallDisk(dir, options string, f func(s *state.Store) error) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		fmt.Println("skip: mount:", err)
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		fmt.Println("skip: mount tmpfs:", err)
		return nil
	}
	defer unix.Unmount(dir, 0)
	return f(&state.Store{Dir: dir, Modes: state.Private})
}

// unharmed says what is wrong after a write that failed for want of room.
func unharmed(s *state.Store, l *state.Locked, err error, before []byte, files ...string) error {
	var path *fs.PathError
	if !errors.Is(err, unix.ENOSPC) || !errors.As(err, &path) || !strings.HasPrefix(path.Path, s.Dir) {
		return fmt.Errorf("save: %v, want %v and the path", err, unix.ENOSPC)
	}
	if now, err := os.ReadFile(s.Path()); err != nil || string(now) != string(before) {
		return fmt.Errorf("the document has %d bytes, had %d: %v", len(now), len(before), err)
	}
	if st, err := l.State(); err != nil || len(st.Grants) != 2 {
		return fmt.Errorf("afterwards: %v, %v", st, err)
	}
	es, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	var got []string
	for _, e := range es {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, files) {
		return fmt.Errorf("it left %q, want %q", got, files)
	}
	return nil
}

func fullDisk(s *state.Store) error {
	l, err := s.Lock(context.Background())
	if err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.Save(bigState(2)); err != nil {
		return err
	}
	for i := range 30 { // a page, nearly
		if err := l.Log(state.Event{At: t0, By: "b", Verb: "before", Detail: state.Detail{Fence: int64(i + 1), Purpose: strings.Repeat("p", 60)}}); err != nil {
			return err
		}
	}
	before, err := os.ReadFile(s.Path())
	if err != nil {
		return err
	}
	// Room for a part of the new document, then for none of it, then for none
	// of its first page.
	fill, err := os.Create(filepath.Join(s.Dir, "fill"))
	if err != nil {
		return err
	}
	defer fill.Close()
	for _, room := range []int64{8 << 10, 4 << 10, 0} {
		if err := fill.Truncate(0); err != nil {
			return err
		}
		if _, err := fill.Seek(0, 0); err != nil {
			return err
		}
		page := make([]byte, 4<<10)
		var size int64
		for ; err == nil; size += int64(len(page)) {
			_, err = fill.Write(page)
		}
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		if err = fill.Truncate(size - int64(len(page)) - room); err != nil {
			return err
		}
		if err := unharmed(s, l, l.Save(bigState(200)), before, "events.jsonl", "fill", "state.json", "state.lock"); err != nil {
			return fmt.Errorf("with %d bytes free: %w", room, err)
		}
	}
	// An event that doesn't fit harms those before and behind it not at all.
	failed := 0
	for i := range 100 {
		if err := l.Log(state.Event{At: t0, By: "b", Verb: "full", Detail: state.Detail{Fence: int64(i + 1), Purpose: strings.Repeat("p", 100)}}); err != nil {
			var path *fs.PathError
			if !errors.Is(err, unix.ENOSPC) || !errors.As(err, &path) || path.Path != s.Events() {
				return fmt.Errorf("log: %v", err)
			}
			failed++
		}
	}
	if err := os.Remove(filepath.Join(s.Dir, "fill")); err != nil {
		return err
	}
	fill.Close()
	if err := l.Log(state.Event{At: t0, By: "b", Verb: "after"}); err != nil {
		return err
	}
	count := map[string]int{}
	if err := s.ReadEvents(time.Time{}, func(e state.Event) { count[e.Verb]++ }); err != nil {
		return err
	}
	if count["before"] != 30 || count["full"] != 100-failed || failed == 0 || count["after"] != 1 {
		return fmt.Errorf("%d failed, and of the rest there are %v", failed, count)
	}
	return l.Save(bigState(20))
}

func noMoreInodes(s *state.Store) error {
	l, err := s.Lock(context.Background())
	if err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.Save(bigState(2)); err != nil { // the root, the lock, the document, and one more
		return err
	}
	before, err := os.ReadFile(s.Path())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "fill"), nil, 0o600); err != nil {
		return err
	}
	if err := unharmed(s, l, l.Save(bigState(3)), before, "fill", "state.json", "state.lock"); err != nil {
		return err
	}
	if err := l.Log(state.Event{At: t0, Verb: "v"}); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("log: %v", err)
	}
	return nil
}
