package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// The command line is tested by scripts: testdata/script, one behaviour a
// file. What they have besides testscript's own commands is in scriptCommands below.

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"withlease": main,
		"hold":      holdProgram,
		"argv":      argvProgram,
	})
}

// tests are the tests themselves, not one of the programs above.
type tests struct{ *testing.M }

// Run takes the caller's own lease and session out of the environment first.
func (t tests) Run() int {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "WITHLEASE_") && name != "WITHLEASE_TRANSCRIPT" || strings.HasPrefix(name, "CLAUDE_") {
			os.Unsetenv(name)
		}
	}
	return t.M.Run()
}

// deadline is how long a test waits for what must happen: far longer than it
// takes, as a machine may be busy.
const deadline = 20 * time.Second

// holdProgram is a command for a lease to be held by: `hold FILE [STATUS]` makes FILE
// and ends once it is gone.
func holdProgram() {
	file := os.Args[1]
	if err := os.WriteFile(file, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		if _, err := os.Lstat(file); err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if len(os.Args) > 2 {
		status, _ := strconv.Atoi(os.Args[2])
		os.Exit(status)
	}
}

// argvProgram prints its arguments, each as a Go string.
func argvProgram() {
	for _, a := range os.Args[1:] {
		fmt.Printf("%q\n", a)
	}
}

func TestScript(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                scriptCommands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("WITHLEASE_DIR", filepath.Join(e.WorkDir, "base"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("LOGNAME", "ann") // who calls, where nothing else says so
			e.Setenv("TZ", "UTC")
			e.Setenv("COLUMNS", "80")
			e.Setenv("LEASES", filepath.Join(e.WorkDir, "base", "leases"))
			e.Setenv("HOST", host)
			e.Setenv("LABLOCK", filepath.Join(root, "scripts", "lab-lock.sh"))
			e.Setenv("MKFILE", filepath.Join(root, "scripts", "withlease.mk"))
			e.Values[jobsKey{}] = map[string]*job{}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "userns":
				return exec.Command("unshare", "-Urm", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("no condition %q", cond)
		},
	})
}

// scriptCommands are the scripts' own:
//
//	exits STATUS PROGRAM [ARG...]   run it; it must exit so, or die of SIGNAME
//	start JOB PROGRAM [ARG...]      run it in the background, with JOB.out, JOB.err and $JOB_pid
//	signal NAME JOB                 send it a signal
//	end JOB STATUS                  wait for its end; stdout and stderr are its then
//	waitfile FILE                   until there is such a file
//	waitfor PATTERN FILE            until a line of it matches
//	waitline N RESOURCE             until so many are in its line
//	oneline [PATTERN]               stderr is one line of withlease's, and matches
//	printable stdout|stderr|FILE    no control character but the end of a line
//	screen FILE                     no more than 24 lines
//	json stdout|stderr|FILE WANT    the same members; <time>, <number>, <string> stand for any,
//	                                and "member?" may be missing
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exits":     cmdExits,
	"start":     cmdStart,
	"signal":    cmdSignal,
	"end":       cmdEnd,
	"waitfile":  cmdWaitFile,
	"waitfor":   cmdWaitFor,
	"waitline":  cmdWaitLine,
	"oneline":   cmdOneLine,
	"printable": cmdPrintable,
	"screen":    cmdScreen,
	"json":      cmdJSON,
}

func need(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) >= 2, "exits STATUS PROGRAM [ARG...]")
	if got := endOf(ts.Exec(args[1], args[2:]...)); got != args[0] {
		ts.Fatalf("%s ended with %s, not %s", args[1], got, args[0])
	}
}

// endOf is how a process ended: its exit status, or the signal it died of.
func endOf(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case !errors.As(err, &exit):
		return err.Error()
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return unix.SignalName(ws.Signal())
	}
	return strconv.Itoa(exit.ExitCode())
}

type jobsKey struct{}

// job is a process in the background, in a process group of its own.
type job struct {
	cmd      *exec.Cmd
	ended    chan error
	out, err string // files
}

// inherited are the variables that a job gets: testscript doesn't hand out the
// script's whole environment.
var inherited = []string{"WORK", "PATH", "HOME", "TMPDIR", "LOGNAME", "TZ", "GORACE", "GOCOVERDIR", "LEASES", "LABLOCK", "TERM", "CI",
	"WITHLEASE_DIR", "WITHLEASE_LEASE_DIR", "WITHLEASE_STATE_DIR", "WITHLEASE_HELD", "WITHLEASE_SESSION", "WITHLEASE_NAME", "WITHLEASE_PERSON"}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) >= 2, "start JOB PROGRAM [ARG...]")
	name := args[0]
	jobs := ts.Value(jobsKey{}).(map[string]*job)
	if jobs[name] != nil {
		ts.Fatalf("job %s was started already", name)
	}
	path := args[1]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if file := filepath.Join(dir, args[1]); !strings.Contains(args[1], "/") && unix.Access(file, unix.X_OK) == nil {
			path = file
			break
		}
	}
	j := &job{cmd: exec.Command(path, args[2:]...), ended: make(chan error, 1), out: ts.MkAbs(name + ".out"), err: ts.MkAbs(name + ".err")}
	j.cmd.Args[0] = args[1]
	j.cmd.Dir = ts.MkAbs(".")
	for _, v := range inherited {
		if s := ts.Getenv(v); s != "" {
			j.cmd.Env = append(j.cmd.Env, v+"="+s)
		}
	}
	out, err := os.Create(j.out)
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(j.err)
	ts.Check(err)
	defer errs.Close()
	j.cmd.Stdout, j.cmd.Stderr = out, errs
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ts.Check(j.cmd.Start())
	go func() { j.ended <- j.cmd.Wait() }()
	ts.Defer(func() { unix.Kill(-j.cmd.Process.Pid, unix.SIGKILL) })
	jobs[name] = j
	ts.Setenv(name+"_pid", strconv.Itoa(j.cmd.Process.Pid))
}

func findJob(ts *testscript.TestScript, name string) *job {
	j := ts.Value(jobsKey{}).(map[string]*job)[name]
	if j == nil {
		ts.Fatalf("no job %s was started", name)
	}
	return j
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 2, "signal NAME JOB")
	s := unix.SignalNum("SIG" + strings.TrimPrefix(args[0], "SIG"))
	if s == 0 {
		ts.Fatalf("no signal %s", args[0])
	}
	ts.Check(findJob(ts, args[1]).cmd.Process.Signal(s))
}

func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 2, "end JOB STATUS")
	j := findJob(ts, args[0])
	var err error
	select {
	case err = <-j.ended:
	case <-time.After(deadline):
		ts.Fatalf("%s has not ended: out %q, err %q", args[0], ts.ReadFile(j.out), ts.ReadFile(j.err))
	}
	fmt.Fprint(ts.Stdout(), ts.ReadFile(j.out))
	fmt.Fprint(ts.Stderr(), ts.ReadFile(j.err))
	if got := endOf(err); got != args[1] {
		ts.Fatalf("%s ended with %s, not %s: out %q, err %q", args[0], got, args[1], ts.ReadFile(j.out), ts.ReadFile(j.err))
	}
}

// until waits for ok to come true.
func until(ts *testscript.TestScript, ok func() bool, format string, args ...any) {
	for begin := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > deadline {
			for name, j := range ts.Value(jobsKey{}).(map[string]*job) {
				ts.Logf("job %s: out %q, err %q", name, ts.ReadFile(j.out), ts.ReadFile(j.err))
			}
			ts.Fatalf("waited in vain for "+format, args...)
		}
	}
}

func cmdWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 1, "waitfile FILE")
	file := ts.MkAbs(args[0])
	until(ts, func() bool { _, err := os.Lstat(file); return err == nil }, "%s", args[0])
}

func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 2, "waitfor PATTERN FILE")
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	file := ts.MkAbs(args[1])
	until(ts, func() bool {
		text, err := os.ReadFile(file)
		return err == nil && pattern.Match(text)
	}, "%q in %s", args[0], args[1])
}

func cmdWaitLine(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 2, "waitline N RESOURCE")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	queue := filepath.Join(ts.Getenv("LEASES"), ".queue", args[1])
	until(ts, func() bool {
		ents, _ := os.ReadDir(queue)
		n := 0
		for _, e := range ents {
			if _, err := strconv.Atoi(e.Name()); err == nil {
				n++
			}
		}
		return n == want
	}, "%d in the line of %s", want, args[1])
}

func cmdOneLine(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) <= 1, "oneline [PATTERN]")
	text := ts.ReadFile("stderr")
	if !strings.HasPrefix(text, "withlease: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("not one line of withlease's on stderr: %q", text)
	}
	if len(args) > 0 && !regexp.MustCompile("(?m)"+args[0]).MatchString(text) {
		ts.Fatalf("stderr is not %q: %s", args[0], text)
	}
}

func cmdPrintable(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 1, "printable stdout|stderr|FILE")
	for i, r := range ts.ReadFile(args[0]) {
		bidi := r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || bidi || r == 0x2028 || r == 0x2029 {
			ts.Fatalf("%s has %U at byte %d", args[0], r, i)
		}
	}
}

func cmdScreen(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 1, "screen FILE")
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); n > 24 {
		ts.Fatalf("%s has %d lines, more than a screen", args[0], n)
	}
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, !neg && len(args) == 2, "json stdout|stderr|FILE WANT")
	decode := func(text string) (v any) {
		d := json.NewDecoder(bytes.NewBufferString(text))
		d.UseNumber()
		ts.Check(d.Decode(&v))
		if d.More() {
			ts.Fatalf("more than one JSON value")
		}
		return v
	}
	got := decode(ts.ReadFile(args[0]))
	want := decode(os.Expand(ts.ReadFile(args[1]), ts.Getenv))
	if diff := differs("", got, want); diff != "" {
		ts.Fatalf("%s: %s", args[1], diff)
	}
}

// differs says where got is not as want has it; empty when it is.
func differs(at string, got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, not an object", at, got)
		}
		for k := range have {
			_, must := want[k]
			if _, may := want[k+"?"]; !must && !may {
				return fmt.Sprintf("%s.%s is more than wanted", at, k)
			}
		}
		for k, v := range want {
			k, optional := strings.CutSuffix(k, "?")
			if _, ok := have[k]; !ok && optional {
				continue
			} else if !ok {
				return fmt.Sprintf("%s.%s is missing", at, k)
			}
			if d := differs(at+"."+k, have[k], v); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s is %v, not a list of %d", at, got, len(want))
		}
		for i, v := range want {
			if d := differs(fmt.Sprintf("%s[%d]", at, i), have[i], v); d != "" {
				return d
			}
		}
		return ""
	case string:
		ok := got == want
		switch want {
		case "<time>":
			s, _ := got.(string)
			_, err := time.Parse(time.RFC3339, s)
			ok = err == nil
		case "<number>":
			_, ok = got.(json.Number)
		case "<string>":
			s, isString := got.(string)
			ok = isString && s != ""
		}
		if ok {
			return ""
		}
	default:
		if got == want {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, not %v", at, got, want)
}
