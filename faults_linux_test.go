package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Faults at every system call: strace makes the n-th call of a kind fail, or kills withlease there, for every n that
// there is. After each a fresh process must find everything in order. `make faults` does all of it; `make test` a part.

// allFaults is how the whole of it is asked for.
const allFaults = "FAULTS"

// ourCalls are the system calls that withlease makes for a lease, each with an error that it may get. The Go runtime's
// own are left out.
var ourCalls = map[string][]string{
	"openat":     {"EIO", "EMFILE", "EACCES", "EINTR"},
	"mkdirat":    {"ENOSPC", "EIO"},
	"renameat":   {"EIO", "ENOSPC"},
	"renameat2":  {"EIO", "ENOSPC"},
	"flock":      {"ENOLCK", "EINTR"},
	"write":      {"ENOSPC", "EINTR"},
	"pwrite64":   {"ENOSPC", "EINTR"},
	"pread64":    {"EIO"},
	"ftruncate":  {"EIO"},
	"fsync":      {"EIO", "ENOSPC"},
	"unlinkat":   {"EIO", "EACCES"},
	"mknodat":    {"ENOSPC", "EACCES"},
	"fstat":      {"EIO"},
	"newfstatat": {"EIO", "EACCES"},
	"fcntl":      {"EMFILE"},
	"ppoll":      {"EINTR"},
	"getdents64": {"EIO"},
	"fchmod":     {"EIO"},
	"pipe2":      {"EMFILE"},
	"utimensat":  {"EIO"},
}

// A faulty is a way through withlease, and what must be true when it has failed or died on the way.
type faulty struct {
	name   string
	before func(l *lab) (after func()) // nil: nothing
	args   []string
}

var faulties = []faulty{
	{"run", nil, []string{"gpu", "--", "touch", "ran"}},
	{"second run", func(l *lab) func() { l.withlease("gpu", "--", "true").ends("0"); return nil }, []string{"gpu", "--", "touch", "ran"}},
	{"run of several", nil, []string{"gpu", "net", "--", "touch", "ran"}},
	{"short wait", func(l *lab) func() {
		l.withlease("claim", "gpu").ends("0")
		return func() { l.withlease("release", "gpu").ends("0") }
	},
		[]string{"--wait", "50ms", "--keep-place", "1ms", "gpu", "--", "touch", "ran"}},
	{"renewal", nil, []string{"--ttl", "60ms", "gpu", "--", "sleep", "0.1"}},
	{"granted run", supervised, []string{"--session", "s1", "-n", "gpu", "--", "touch", "ran"}},
	{"grant", supervised, []string{"--session", "boss", "grant", "net", "s1"}},
	{"claim", nil, []string{"claim", "gpu"}},
	{"release", func(l *lab) func() { l.withlease("claim", "gpu").ends("0"); return nil }, []string{"release", "gpu"}},
	{"force", func(l *lab) func() { l.withlease("--session", "x", "claim", "gpu").ends("0"); return nil }, []string{"release", "--force", "--reason", "test", "gpu"}},
	{"takeover of a crash", func(l *lab) func() { crashed(l); return nil }, []string{"-n", "gpu", "--", "touch", "ran"}},
}

func supervised(l *lab) func() {
	l.withlease("--session", "boss", "supervisor", "start", "--pid=-1").ends("0")
	l.withlease("--session", "boss", "grant", "gpu", "s1").ends("0")
	return nil
}

// crashed leaves a lease whose run was killed with all of its processes.
func crashed(l *lab) {
	l.run("sh", "-c", `withlease gpu -- sh -c 'kill -9 $PPID $$'`)
}

func needStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace doesn't work here (make test installs it; ptrace must be permitted): %v %s", err, out)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	needStrace(t)
	if raceEnabled {
		t.Skip("a program with the race detector is linked with libc, whose loading would fail")
	}
	all := os.Getenv(allFaults) != ""
	for i, f := range faulties {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if !all {
				f.hereAndThere(t, i)
				return
			}
			f.everywhere(t)
		})
	}
}

// everywhere injects each fault at the first, the second ... call, until there is none any more.
func (f faulty) everywhere(t *testing.T) {
	done := 0
	for call, errs := range ourCalls {
		for _, how := range faultsOf(errs) {
			// Counted by thread, and Go's threads take turns: two misses end it.
			for n, misses := 1, 0; misses < 2; n++ {
				if f.once(t, fmt.Sprintf("inject=%s:%s:when=%d", call, how, n)) {
					misses, done = 0, done+1
				} else {
					misses++
				}
			}
		}
	}
	t.Logf("%d faults", done)
	if done < 20 {
		t.Errorf("%d faults: too few to be all", done)
	}
}

// hereAndThere injects a few faults, others for each way.
func (f faulty) hereAndThere(t *testing.T, way int) {
	for i, call := range slices.Sorted(maps.Keys(ourCalls)) {
		if (i+way)%4 == 0 {
			how := faultsOf(ourCalls[call])
			f.once(t, fmt.Sprintf("inject=%s:%s:when=%d", call, how[way%len(how)], 1+(i+way)%3))
		}
	}
}

func faultsOf(errs []string) []string {
	how := []string{"signal=KILL"}
	for _, e := range errs {
		how = append(how, "error="+e)
	}
	return how
}

// once runs one fault, and says whether it took place.
func (f faulty) once(t *testing.T, inject string) (injected bool) {
	l := newLab(t)
	defer os.RemoveAll(l.dir)
	var after func()
	if f.before != nil {
		after = f.before(l)
	}
	document, _ := os.ReadFile(filepath.Join(l.base, "state.json"))
	trace := filepath.Join(l.dir, "trace")
	call, _, _ := strings.Cut(strings.TrimPrefix(inject, "inject="), ":")
	args := append([]string{"-f", "-qq", "-b", "execve", "-o", trace, "-e", "trace=" + call, "-e", inject, "withlease"}, f.args...)
	a := l.run("strace", args...)
	text, _ := os.ReadFile(trace)
	// The Go runtime ends itself where its own eventfd refuses a byte, as no kernel's does (eventfd(2)).
	threw := strings.Contains(a.err, "runtime: netpollBreak write failed")
	killed := threw || strings.Contains(string(text), "+++ killed by SIGKILL")
	if !strings.Contains(string(text), "(INJECTED)") && !killed {
		return false
	}
	if strings.Contains(a.err, "cannot open standard fds") {
		return true // a fault in the start of Go's runtime
	}
	what := f.name + ", " + inject
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s; it ended with %s, err %q; %s", what, fmt.Sprintf(format, args...), a.status, a.err, injectedLines(text))
	}
	if after != nil {
		defer after()
	}
	// What it says is lines of its own, or of a command that it started.
	for line := range strings.Lines(a.err) {
		if !strings.HasPrefix(line, "withlease: ") && !strings.HasPrefix(line, "Killed") && !threw {
			fail("it says %q", line)
			break
		}
	}
	_, err := os.Lstat(filepath.Join(l.dir, "ran"))
	ran := err == nil
	switch {
	case a.status == "0", killed, a.status == "SIGKILL":
	case a.status == "75" && f.name == "short wait", a.status == "75" && strings.Contains(a.err, "withlease: not run: "):
	case a.status == "125" && (a.err != "" || strings.Contains(injectedLines(text), " write(2, ")), a.status == "1" && a.err != "" && !strings.Contains(strings.Join(f.args, " "), " -- "):
	default:
		fail("not a way to end")
	}
	if a.status == "0" && strings.Contains(strings.Join(f.args, " "), "touch") && !ran {
		fail("the command did not run")
	}
	if ran && a.status != "0" && !killed && a.status != "SIGKILL" {
		fail("the command ran")
	}
	if strings.Contains(a.err, "was lost") || strings.Contains(a.err, "taken away") {
		fail("nobody took anything away")
	}
	f.inOrder(l, string(document), a, killed, fail)
	return true
}

var injectedLine = regexp.MustCompile(`(?m)^.*INJECTED.*$`)

func injectedLines(trace []byte) string {
	return strings.Join(injectedLine.FindAllString(string(trace), 3), " / ")
}

// inOrder checks from fresh processes that nothing is stuck, lost, damaged or left behind.
func (f faulty) inOrder(l *lab, document string, a *answer, killed bool, fail func(string, ...any)) {
	l.Helper()
	if d, err := os.ReadFile(filepath.Join(l.base, "state.json")); err == nil {
		if b := l.withlease("supervisor", "status"); b.status != "0" && b.status != "1" {
			fail("the document is %q", d)
		}
	}
	switch f.name {
	case "granted run":
		// The grant was used, by a claim that the log has, or it is there still. The claim of
		// a command that the system then refused to start (EMFILE) has used it.
		claimed := regexp.MustCompile(`"verb":"claim".*"session":"s1"`).MatchString(l.read("base/events.jsonl"))
		if b := l.withlease("queue", "--json"); !claimed && !killed && a.status != "0" && !strings.Contains(b.out, `"session": "s1"`) {
			fail("the grant is lost: %s", b.out)
		}
		l.withlease("--session", "boss", "supervisor", "stop").ends("0")
	case "grant":
		b := l.withlease("queue", "--json", "net")
		if there := strings.Contains(b.out, `"session": "s1"`); there != (a.status == "0") && !killed && a.status != "SIGKILL" {
			fail("granted: %v", there)
		}
		l.withlease("--session", "boss", "supervisor", "stop").ends("0")
	case "short wait":
		return // it is held
	case "claim":
		// A killed claim may have been made.
		if b := l.withlease("status", "gpu"); b.status == "1" {
			if a.status != "0" && !killed && a.status != "SIGKILL" {
				fail("it was claimed all the same")
			}
			l.withlease("release", "gpu").ends("0")
		}
	case "release", "force":
		b := l.withlease("status", "gpu")
		if b.status == "1" {
			if a.status == "0" {
				fail("it is held still")
			}
			l.withlease("release", "--force", "--reason", "test", "gpu").ends("0")
		}
	}
	began := time.Now()
	for _, res := range []string{"gpu", "net"} {
		if b := l.withlease("--wait", "5s", res, "--", "true"); b.status != "0" || b.err != "" {
			fail("%s is stuck: %s, %q after %v", res, b.status, b.err, time.Since(began))
		}
	}
	for _, dir := range []string{l.leases, filepath.Join(l.leases, ".queue", "gpu"), l.base} {
		ents, _ := os.ReadDir(dir)
		for _, e := range ents {
			switch name := e.Name(); name {
			case ".queue", "last", "index", "spare", "state.json", "state.lock", "events.jsonl", "leases":
			case ".state.json.new": // goes with the next change of the document
			default:
				fail("%s is left in %s", name, dir)
			}
		}
	}
}

// A release that can't open the witness at the moment, or ask whether it is held, has lost nothing: the lease goes back
// as always, and nobody is told of a loss.
func TestReleaseThatCannotLook(t *testing.T) {
	t.Parallel()
	needStrace(t)
	l := newLab(t)
	l.run("strace", "-f", "-qq", "-b", "execve", "-o", "trace", "-P", filepath.Join(l.leases, "gpu", "witness"),
		"-e", "trace=flock", "-e", "inject=flock:error=ENOLCK", "withlease", "gpu", "--", "sh", "-c", "exit 3").ends("3").silent()
	if text := l.read("trace"); !strings.Contains(text, "INJECTED") {
		t.Errorf("nothing was injected: %s", text)
	}
	l.withlease("list").says("nothing is held")
}

// Without a descriptor left to start the command with, nothing is wrong with the command: withlease has failed.
func TestStartWithoutDescriptors(t *testing.T) {
	t.Parallel()
	needStrace(t)
	l := newLab(t)
	l.run("strace", "-f", "-qq", "-b", "execve", "-o", os.DevNull, "-e", "trace=pipe2", "-e", "inject=pipe2:error=EMFILE", "withlease", "gpu", "--", "true").
		ends("125").says("^withlease: true: too many open files")
	l.withlease("-n", "gpu", "--", "true").ends("0").silent()
}

// What a killed claim of one resource left half-made goes with the next claim of any, also of one that has a spare.
func TestHalfMadeGoesWithAnyClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("gpu", "--", "true").ends("0").silent()
	l.write("base/leases/.staging.new/holder.json", "{}")
	l.withlease("gpu", "--", "true").ends("0").silent()
	if _, err := os.Lstat(filepath.Join(l.leases, ".staging.new")); err == nil {
		t.Error(".staging.new is left")
	}
}

// What a document says is on the disk before it takes the old one's place: after a power cut there is one of both.
func TestDocumentIsSynced(t *testing.T) {
	t.Parallel()
	needStrace(t)
	l := newLab(t)
	l.run("strace", "-f", "-qq", "-b", "execve", "-o", "trace", "-y", "-e", "trace=fsync,fdatasync,renameat,rename,renameat2", "withlease", "supervisor", "start", "--pid=-1").ends("0")
	text := l.read("trace")
	if !regexp.MustCompile(`(?s)sync\(\d+<[^>]*/\.state\.json\.new>\) = 0\n.*rename[^\n]*/state\.json"`).MatchString(text) {
		t.Errorf("it did\n%s", text)
	}
}
