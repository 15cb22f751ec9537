//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// resources are few, so that everybody meets everybody.
var resources = []string{"alpha", "beta", "gamma"}

// handed is one more, for the hand-overs whose time is taken (handover.go).
const handed = "delta"

func everything() []string { return append(slices.Clone(resources), handed) }

// A torture is the place of one, and what is known of it.
type torture struct {
	dir, base, leases string
	bin, self, shell  string
	seed              uint64
	env               []string
	over              chan struct{} // closed when nobody begins anything new

	// A shell lock that is forced away may delete its successor (design: R8): nobody forces what a shell has.
	shells map[string]*sync.RWMutex

	mu       sync.Mutex
	started  map[int]*os.Process // children of ours that are waited for by whoever started them
	did      map[string]int      // what was done, by name, and how often
	wrong    []string            // the violations
	moved    int                 // grows while anything happens
	ops      map[string]*op
	tickets  map[string]int64 // the place of an op in a line, by "op resource"
	log      eventLog
	stamps   int64 // how far the commands' file was read
	document int64 // what the other tool wrote last

	pids      map[int]*op // the latest command with that pid
	conflicts []conflict

	took map[handOver][]time.Duration // how long they took
}

func setUp(bin string, seed uint64) (*torture, error) {
	dir, err := os.MkdirTemp("", "withlease-torture-")
	if err != nil {
		return nil, err
	}
	t := &torture{
		dir: dir, base: filepath.Join(dir, "base"), leases: filepath.Join(dir, "base", "leases"), seed: seed,
		over: make(chan struct{}), shells: map[string]*sync.RWMutex{}, started: map[int]*os.Process{},
		did: map[string]int{}, pids: map[int]*op{}, ops: map[string]*op{}, tickets: map[string]int64{}, took: map[handOver][]time.Duration{}, log: eventLog{of: map[string]*history{}, verbs: map[string]int{}},
	}
	for _, res := range everything() {
		t.shells[res], t.log.of[res] = &sync.RWMutex{}, &history{}
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "WITHLEASE_") && !strings.HasPrefix(kv, "CLAUDE_") {
			t.env = append(t.env, kv)
		}
	}
	t.env = append(t.env, "WITHLEASE_DIR="+t.base, "LOGNAME=torture")
	if t.self, err = os.Executable(); err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "list", "-f", "{{.Dir}}", "withlease").Output()
	if err != nil {
		return nil, fmt.Errorf("go list withlease: %w: run inside the source tree", err)
	}
	t.shell = filepath.Join(strings.TrimSuffix(string(root), "\n"), "scripts", "lab-lock.sh")
	for _, d := range []string{t.base, filepath.Join(dir, "oracle")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "stamps"), nil, 0o600); err != nil {
		return nil, err
	}
	if t.bin = filepath.Join(dir, "withlease"); bin != "" {
		t.bin, err = filepath.Abs(bin)
	} else {
		build := exec.Command("go", "build", "-o", t.bin, "withlease")
		build.Env = append(slices.Clone(t.env), "CGO_ENABLED=0")
		var text []byte
		if text, err = build.CombinedOutput(); err != nil {
			err = fmt.Errorf("go build: %w\n%s", err, text)
		}
	}
	if err != nil {
		return nil, err
	}
	// What a killed wrapper leaves is ours, to be waited for.
	return t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// violation notes what must not be.
func (t *torture) violation(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrongLocked(format, args...)
}

func (t *torture) wrongLocked(format string, args ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf(format, args...))
	if n := len(t.wrong); n <= 20 {
		fmt.Printf("torture: VIOLATION: %s\n", t.wrong[n-1])
	}
}

func (t *torture) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.wrong) > 0
}

// count notes that something was done.
func (t *torture) count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.did[what]++
	t.moved++
}
