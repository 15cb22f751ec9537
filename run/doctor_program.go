package run

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// fewFiles is the number of open files below which a run may fail: what it
// hands to its command has a high number.
const fewFiles = lease.WitnessFD + 56

// openFiles says how many files may be open at once.
func (d *doctor) openFiles() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return
	}
	if limit.Cur < fewFiles {
		d.add(resultWrong, "open files", fixes("ulimit -Hn 1024"), "at most %d may be open: a run needs numbers from %d on", limit.Cur, lease.WitnessFD)
		return
	}
	d.ok("open files", "%d may be open", uint64(limit.Cur))
}

// program says which withlease a shell starts, and whether another one is in
// the way.
func (d *doctor) program() {
	self, err := os.Executable()
	if err != nil {
		d.add(resultWarning, "program", nil, "%s", show(err.Error()))
		return
	}
	mine, _ := os.Stat(self)
	var there []string // what PATH has, each once
	for _, dir := range filepath.SplitList(d.Getenv("PATH")) {
		file := filepath.Join(dir, "withlease")
		if filepath.IsAbs(file) && executable(file) == nil && !sameAsOne(file, there) {
			there = append(there, file)
		}
	}
	switch {
	case len(there) == 0 || mine == nil:
		d.add(resultWarning, "program", fixes(`export PATH="$PATH:`+show(filepath.Dir(self))+`"`), "%s is not on PATH", show(self))
	case sameAsOne(self, there[:1]):
		d.ok("program", "%s", show(there[0]))
	default:
		theirs := versionOf(there[0])
		if theirs == Version() {
			d.ok("program", "%s, of the same version as %s on PATH", show(self), show(there[0]))
			return
		}
		d.add(resultWarning, "program", fixes(command(there[0], "version"), command(self, "version")),
			"PATH starts another: %s (%s)", show(there[0]), theirs)
	}
}

func sameAsOne(file string, others []string) bool {
	st, err := os.Stat(file)
	if err != nil {
		return false
	}
	for _, o := range others {
		if other, err := os.Stat(o); err == nil && os.SameFile(st, other) {
			return true
		}
	}
	return false
}

// versionOf asks a program of our name what it is.
func versionOf(file string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil || line == "" {
		return "it doesn't say its version"
	}
	return show(line)
}
