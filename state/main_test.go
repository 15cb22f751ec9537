package state_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// The tests of locks, crashes and full disks need other processes: this binary
// again, with what to do there in the environment.
const helperEnv = "WITHLEASE_STATE_TEST"

func TestMain(m *testing.M) {
	what := os.Getenv(helperEnv)
	if what == "" {
		os.Exit(m.Run())
	}
	help, ok := helpers[what]
	if !ok {
		fmt.Fprintf(os.Stderr, "no helper %q\n", what)
		os.Exit(2)
	}
	if err := help(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "helper %s %q: %v\n", what, os.Args[1:], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// helpers are what this binary does as another process. Each says "ready" and
// begins when its standard input ends. Those of one platform are in its files.
var helpers = map[string]func(args []string) error{
	"hold":  helpHold,
	"block": func([]string) error { return ready() },
	"count": helpCount,
	"grant": helpGrant,
	"log":   helpLog,
	"limit": helpLimit,
}

func ready() error {
	fmt.Println("ready")
	_, err := io.ReadAll(os.Stdin)
	return err
}

// helpHold holds the lock of a directory.
func helpHold(args []string) error {
	l, err := (&state.Store{Dir: args[0], Modes: state.Private}).Lock(context.Background())
	if err != nil {
		return err
	}
	defer l.Unlock()
	return ready()
}

// helpCount adds 1 to a number in a file, n times, each under the lock.
func helpCount(args []string) error {
	s := &state.Store{Dir: args[0], Modes: state.Private}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "count")
	for range n {
		l, err := s.Lock(context.Background())
		if err != nil {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		was, err := strconv.Atoi(string(b))
		if err != nil {
			return fmt.Errorf("the count is %q: somebody else was writing it", b)
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(was+1)), 0o600); err != nil {
			return err
		}
		l.Unlock()
	}
	return nil
}

// helpGrant adds grants to the document, one a save.
func helpGrant(args []string) error {
	s := &state.Store{Dir: args[0], Modes: state.Private}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	for i := range n {
		l, err := s.Lock(context.Background())
		if err != nil {
			return err
		}
		st, err := l.State()
		if err != nil {
			return err
		}
		st.Grants = append(st.Grants, state.Grant{Resource: fmt.Sprintf("r-%s-%d", args[2], i)})
		if err := l.Save(st); err != nil {
			return err
		}
		l.Unlock()
	}
	return nil
}

// helpLog appends events whose purposes are numbered.
func helpLog(args []string) error {
	s := &state.Store{Dir: args[0], Modes: state.Private}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	for i := range n {
		l, err := s.Lock(context.Background())
		if err != nil {
			return err
		}
		e := state.Event{At: time.Now(), By: args[2], Verb: "claim", Detail: state.Detail{
			Resource: "kind-1", Purpose: strings.Repeat("ä\n", i%300), Fence: int64(i + 1)}}
		if err := l.Log(e); err != nil {
			return err
		}
		l.Unlock()
	}
	return nil
}

// helpLimit saves a document that is larger than a file of this process may be
// (RLIMIT_FSIZE): a short write that needs no full disk.
func helpLimit(args []string) error {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return err
	}
	l, err := (&state.Store{Dir: args[0], Modes: state.Private}).Lock(context.Background())
	if err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.Save(bigState(100)); !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("save: %v, want %v", err, unix.EFBIG)
	}
	return nil
}

// proc is this binary as another process.
type proc struct {
	*exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

// command is a helper that isn't started yet.
func command(t *testing.T, what string, args ...string) *proc {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &proc{Cmd: exec.Command(exe, args...)}
	p.Env = append(os.Environ(), helperEnv+"="+what)
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	return p
}

// start starts a helper and waits until it is ready.
func start(t *testing.T, what string, args ...string) *proc {
	t.Helper()
	p := command(t, what, args...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	said := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(p.out, said); err != nil {
		t.Fatalf("helper %s didn't get ready: %v", what, err)
	}
	return p
}

// together runs n of a helper at once, the number of each behind args, and does
// something meanwhile until done is closed.
func together(t *testing.T, n int, meanwhile func(done <-chan struct{}), what string, args ...string) {
	t.Helper()
	var ps []*proc
	for i := range n {
		ps = append(ps, start(t, what, append(args, strconv.Itoa(i))...))
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if meanwhile != nil {
			meanwhile(done)
		}
	}()
	for _, p := range ps {
		p.in.Close()
	}
	for i, p := range ps {
		if err := p.Wait(); err != nil {
			t.Errorf("helper %s %d: %v", what, i, err)
		}
	}
	close(done)
	<-stopped
}

// over says whether a channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// newStore is a store in a directory of its own.
func newStore(t *testing.T) *state.Store {
	t.Helper()
	return &state.Store{Dir: t.TempDir(), Modes: state.Private}
}

// lock takes the lock, which must be free within a minute, for the test's time.
func lock(t *testing.T, s *state.Store) *state.Locked {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := s.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Unlock)
	return l
}

// write puts a file in place.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read is a file's text.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names are the files of a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ns []string
	for _, e := range es {
		ns = append(ns, e.Name())
	}
	return ns
}

// bigState has n grants as a busy lab's are.
func bigState(n int) *state.State {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	sup := state.Party{Session: "0b6ff2f6-5d3c-4e5e-8f43-3f6a4ed1f7c2", Name: "lab", Person: "Ann", Host: "build-1"}
	st := &state.State{Supervisor: &state.Supervisor{Party: sup, Since: at}, Released: map[string]time.Time{}}
	for i := range n {
		st.Grants = append(st.Grants, state.Grant{
			Resource: fmt.Sprintf("kind-%d", i%50),
			To:       state.Party{Session: fmt.Sprintf("5e0a2f5c-6d3c-4e5e-8f43-%012d", i), Name: fmt.Sprintf("agent %d", i), Person: "Bob", Host: "build-2"},
			By:       sup,
			At:       at.Add(time.Duration(i) * time.Second),
		})
		st.Released[fmt.Sprintf("kind-%d", i%50)] = at
	}
	return st
}
