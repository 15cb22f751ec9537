package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed testdata/stamp.c testdata/limit.go
var sources embed.FS

// A bench is the place and the tools of one run. Everything that it makes lies below scratch, the peers' lock file
// included, so that both sides use the same file system.
type bench struct {
	quick   bool
	bin     string   // withlease
	limit   string   // a bare Go program that starts its arguments and waits; "" when it can't be built
	stamp   []string // the stamper: see stamp.go
	scratch string
	env     []string // the caller's, without what steers withlease
	null    *os.File
	errors  *os.File // every process's standard error, unless it has a terminal
	notes   []string
	started processes
	made    int
}

func setUp(bin string, quick bool) (*bench, error) {
	scratch, err := os.MkdirTemp("", "withlease-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{quick: quick, scratch: scratch, env: cleanEnvironment()}
	if err := b.prepare(bin); err != nil {
		b.tearDown()
		return nil, err
	}
	return b, nil
}

func (b *bench) prepare(bin string) (err error) {
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	if b.errors, err = os.OpenFile(b.path("errors"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	if b.bin, err = b.withlease(bin); err != nil {
		return err
	}
	if b.stamp, err = b.buildStamper(); err != nil {
		return err
	}
	if b.limit, err = b.buildLimit(); err != nil {
		b.notes = append(b.notes, fmt.Sprintf("the bare Go program wasn't built: %v", err))
	}
	return nil
}

func (b *bench) tearDown() {
	b.endAll()
	os.RemoveAll(b.scratch)
}

func (b *bench) path(name string) string { return filepath.Join(b.scratch, name) }

// fresh answers a path that nobody has used yet.
func (b *bench) fresh(name string) string {
	b.made++
	return b.path(fmt.Sprintf("%s-%d", name, b.made))
}

// rounds picks the number for this kind of run.
func (b *bench) rounds(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// cleanEnvironment drops what would change the caller's identity or withlease's ways.
func cleanEnvironment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "WITHLEASE_") && !strings.HasPrefix(entry, "CLAUDE_CODE_") {
			env = append(env, entry)
		}
	}
	return env
}

// withlease answers the program to measure, built as a release is when none was named.
func (b *bench) withlease(bin string) (string, error) {
	if bin != "" {
		return filepath.Abs(bin)
	}
	out := b.path("withlease")
	return out, b.build("", out, "withlease")
}

func (b *bench) buildLimit() (string, error) {
	source, err := b.unpack("limit.go")
	if err != nil {
		return "", err
	}
	out := b.path("limit")
	if err := b.build(b.scratch, out, source); err != nil {
		return "", err
	}
	return out, nil
}

// build compiles a Go package, or a file, in dir.
func (b *bench) build(dir, out, what string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, what)
	cmd.Dir, cmd.Env = dir, append(b.env, "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", what, err, text)
	}
	return nil
}

// unpack writes an embedded source file into the scratch directory.
func (b *bench) unpack(name string) (string, error) {
	text, err := sources.ReadFile("testdata/" + name)
	if err != nil {
		return "", err
	}
	return b.path(name), os.WriteFile(b.path(name), text, 0o600)
}
