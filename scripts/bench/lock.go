package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A lock is one that both sides can play: withlease's or flock(1)'s.
type lock struct {
	name    string
	env     []string
	wrap    []string            // what stands in front of a command
	waiting func() (int, error) // how many are in line
}

// A base is a base directory of withlease with the environment that points at it.
type base struct {
	dir string
	env []string
}

func (b *bench) newBase() (base, error) {
	dir := b.fresh("base")
	return base{dir, []string{"WITHLEASE_DIR=" + dir}}, os.Mkdir(dir, 0o700)
}

// session is the environment of a party that is a session.
func (d base) session(name string) []string {
	return append(d.env[:len(d.env):len(d.env)], "WITHLEASE_SESSION="+name)
}

// withleaseIn is a withlease command line in this base directory.
func (b *bench) withleaseIn(d base, args ...string) command {
	return command{argv: append([]string{b.bin}, args...), env: d.env}
}

func (b *bench) withleaseLock() (lock, base, error) {
	d, err := b.newBase()
	line := filepath.Join(d.dir, "leases", ".queue", "r")
	return lock{
		name: "withlease", env: d.env, wrap: []string{b.bin, "r", "--"},
		waiting: func() (int, error) { return tickets(line) },
	}, d, err
}

// tickets counts the places in a line: the entries whose name is a number.
func tickets(line string) (int, error) {
	dir, err := os.Open(line)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	n := 0
	for _, name := range names {
		if _, err := strconv.ParseUint(name, 10, 64); err == nil {
			n++
		}
	}
	return n, err
}

func (b *bench) flockLock() (lock, error) {
	path := b.fresh("lock")
	err := os.WriteFile(path, nil, 0o600)
	return lock{
		name: "flock", wrap: []string{"flock", path},
		waiting: func() (int, error) { return blocked(path) },
	}, err
}

// blocked counts the processes that the kernel lists as waiting for a file's lock.
func blocked(path string) (int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	text, err := os.ReadFile("/proc/locks")
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "->") && strings.Contains(line, inode) {
			n++
		}
	}
	return n, err
}

// stamper is a command that stamps under this lock; with a gate it holds the lock until the gate opens.
func (l lock) stamper(b *bench, out stamps, name string, gates ...gate) command {
	argv := append(append(l.wrap[:len(l.wrap):len(l.wrap)], b.stamp...), name)
	for _, g := range gates {
		argv = append(argv, g.file.Name())
	}
	return command{argv: argv, env: l.env, out: out.file}
}

// awaitLine waits until n are in line, the last of which p is to be.
func (l lock) awaitLine(n int, p *process) error {
	return p.eventually(fmt.Sprintf("%d to wait for %s", n, l.name), func() (bool, error) {
		there, err := l.waiting()
		return there >= n, err
	})
}
