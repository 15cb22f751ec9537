package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come. The machine may be
// busy: nothing here depends on how fast it comes.
const patience = 60 * time.Second

// scene is a base directory of its own. All that a test starts has it in its
// environment, so that what is left over can be found, and nothing else is ever
// signalled.
type scene struct {
	*testing.T
	dir   string // for the test's own files
	base  string
	files atomic.Int32
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, dir: t.TempDir()}
	s.base = filepath.Join(s.dir, "base")
	t.Cleanup(func() { // before the directory goes
		for range 100 {
			left := s.processes()
			if len(left) == 0 {
				break
			}
			for _, pid := range left {
				unix.Kill(pid, unix.SIGKILL)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return s
}

// inModes runs a test in share and in PTY mode. Without a terminal the latter
// passes stdin through, and shows the command's terminal on stdout.
func inModes(t *testing.T, test func(s *scene, pty string)) {
	t.Helper()
	for _, mode := range []struct{ name, pty string }{{"share", "--pty=never"}, {"pty", "--pty=always"}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			test(newScene(t), mode.pty)
		})
	}
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) env() []string {
	return append(os.Environ(), "WITHLEASE_DIR="+s.base, "W="+bin, "DIR="+s.dir)
}

// command is any program in the scene, in a session of its own: no terminal of
// who runs the tests, and a group that a `kill 0` may hit.
func (s *scene) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = s.env()
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// withlease is the program with these arguments.
func (s *scene) withlease(args ...string) *exec.Cmd { return s.command(bin, args...) }

// sh is a shell script; $W is the program, $DIR the scene's directory.
func (s *scene) sh(script string, args ...string) *exec.Cmd {
	return s.command("sh", append([]string{"-c", script, "sh"}, args...)...)
}

// process is a started program. Its output goes to files, so that waiting for
// its end is not waiting for that of whoever has inherited its output.
type process struct {
	*scene
	cmd      *exec.Cmd
	out, err string
	ended    chan struct{}
	ws       syscall.WaitStatus
	took     time.Duration
	usage    *syscall.Rusage
}

func (s *scene) start(cmd *exec.Cmd) *process {
	s.Helper()
	p := &process{scene: s, cmd: cmd, ended: make(chan struct{})}
	n := s.files.Add(1)
	p.out, p.err = s.path(fmt.Sprintf("out%d", n)), s.path(fmt.Sprintf("err%d", n))
	var opened []*os.File
	create := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			s.Fatal(err)
		}
		opened = append(opened, f)
		return f
	}
	if cmd.Stdout == nil {
		cmd.Stdout = create(p.out)
	}
	if cmd.Stderr == nil {
		cmd.Stderr = create(p.err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	for _, f := range opened {
		f.Close()
	}
	go func() {
		cmd.Wait()
		p.took = time.Since(began)
		p.ws = cmd.ProcessState.Sys().(syscall.WaitStatus)
		p.usage = cmd.ProcessState.SysUsage().(*syscall.Rusage)
		close(p.ended)
	}()
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.Errorf("%v to %d: %v", sig, p.pid(), err)
	}
}

// wait waits for the end of p.
func (p *process) wait() *process {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Fatalf("%q has not ended\nstdout: %.2000s\nstderr: %.2000s\nprocesses: %v", p.cmd.Args, p.stdout(), p.stderr(), p.processes())
	}
	return p
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) stdout() string { return slurp(p.out) }
func (p *process) stderr() string { return slurp(p.err) }

// plain is stdout without the carriage returns that a terminal adds.
func (p *process) plain() string { return strings.ReplaceAll(p.stdout(), "\r\n", "\n") }

func slurp(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// code is the exit status as a shell has it.
func (p *process) code() int {
	if p.ws.Signaled() {
		return 128 + int(p.ws.Signal())
	}
	return p.ws.ExitStatus()
}

// exits checks the exit status.
func (p *process) exits(code int) *process {
	p.Helper()
	p.wait()
	if p.code() != code || p.ws.Signaled() {
		p.Errorf("%q: %s, want exit status %d\nstdout: %.2000s\nstderr: %.2000s", p.cmd.Args, ending(p.ws), code, p.stdout(), p.stderr())
	}
	return p
}

// dies checks that the wait status is a death by a signal.
func (p *process) dies(sig syscall.Signal) *process {
	p.Helper()
	p.wait()
	if !p.ws.Signaled() || p.ws.Signal() != sig {
		p.Errorf("%q: %s, want death by signal %d\nstdout: %.2000s\nstderr: %.2000s", p.cmd.Args, ending(p.ws), sig, p.stdout(), p.stderr())
	}
	return p
}

func ending(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("death by signal %d (core: %v)", ws.Signal(), ws.CoreDump())
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// run runs cmd to its end.
func (s *scene) run(cmd *exec.Cmd) *process {
	s.Helper()
	return s.start(cmd).wait()
}

// eventually waits until something is so.
func (s *scene) eventually(what string, is func() bool) {
	s.Helper()
	s.within(patience, what, is)
}

func (s *scene) within(most time.Duration, what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(most); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within %v: %s\nprocesses: %v", most, what, s.processes())
		}
	}
}

// appears waits for a file with a complete line in it, and returns it.
func (s *scene) appears(name string) string {
	s.Helper()
	s.eventually(name+" is written", func() bool { return strings.HasSuffix(slurp(s.path(name)), "\n") })
	return strings.TrimSpace(slurp(s.path(name)))
}

// pidIn waits for a file with a pid in it.
func (s *scene) pidIn(name string) int {
	s.Helper()
	pid, err := strconv.Atoi(s.appears(name))
	if err != nil {
		s.Fatal(err)
	}
	return pid
}

// free checks that a run gave its lease back itself: nothing of it is left.
func (s *scene) free(res string) {
	s.Helper()
	if _, err := os.Lstat(filepath.Join(s.base, "leases", res)); err == nil {
		s.Errorf("%s is not free:\n%s", res, s.status(res))
	}
}

func (s *scene) status(res string) string {
	out, _ := s.withlease("status", res).CombinedOutput()
	return string(out)
}

// state is the state of a resource as `status --json` says it.
func (s *scene) state(res string) string {
	var v struct{ State string }
	out, _ := s.withlease("--json", "status", res).Output()
	json.Unmarshal(out, &v)
	return v.State
}

// claim tries a run that doesn't wait, and says whether it ran.
func (s *scene) claim(res string) (ran bool, said string) {
	s.Helper()
	cmd := s.withlease("-n", res, "--", "true")
	var text bytes.Buffer
	cmd.Stderr = &text
	cmd.Run()
	switch code := cmd.ProcessState.ExitCode(); code {
	case 0:
		return true, ""
	case 75:
		return false, text.String()
	default:
		s.Fatalf("claim of %s: exit status %d: %s", res, code, text.String())
		return false, ""
	}
}

// processes are the live processes of the scene.
func (s *scene) processes() []int {
	var found []int
	dirs, _ := os.ReadDir("/proc")
	mark := []byte("WITHLEASE_DIR=" + s.base + "\x00")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err == nil && bytes.Contains(env, mark) && alive(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// alive says whether a process runs: a zombie doesn't.
func alive(pid int) bool {
	st := procState(pid)
	return st != 0 && st != 'Z' && st != 'X'
}

// procState is the letter of proc(5); 0 for no process.
func procState(pid int) byte {
	text := slurp(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndexByte(text, ')'); i >= 0 && len(text) > i+2 {
		return text[i+2]
	}
	return 0
}

// The commands that no shell can be are this test binary again: a shell's traps
// lose signals that come together, and Python takes long to start.

const helperVariable = "RUN_TEST_HELPER"

var helpers = map[string]func(args []string) int{
	"tally": tally,
	"argv":  printArgv,
}

func addHelper(name string, f func([]string) int) bool {
	helpers[name] = f
	return true
}

func init() {
	if name := os.Getenv(helperVariable); name != "" {
		os.Unsetenv(helperVariable)
		os.Exit(helpers[name](os.Args[1:]))
	}
}

// helper is the command line of one.
func helper(name string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{"env", helperVariable + "=" + name, self}, args...)
}

// helper is one, run without withlease.
func (s *scene) helper(name string, args ...string) *exec.Cmd {
	line := helper(name, args...)
	return s.command(line[0], line[1:]...)
}

// tally writes the name of each signal that it gets to a file, and ends when
// its stdin does. With "self" it begins by sending USR1 to its process group.
func tally(args []string) int {
	sigs := make(chan os.Signal, 4096)
	for n := syscall.Signal(1); n <= 64; n++ {
		if n != unix.SIGURG { // Go's own
			signal.Notify(sigs, n)
		}
	}
	log, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 99
	}
	fmt.Fprintf(log, "ready %d\n", os.Getpid())
	go func() {
		for s := range sigs {
			fmt.Fprintf(log, "%s\n", unix.SignalName(s.(syscall.Signal)))
		}
	}()
	if len(args) > 1 && args[1] == "self" {
		unix.Kill(0, unix.SIGUSR1)
	}
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// printArgv writes its arguments, each quoted on a line.
func printArgv(args []string) int {
	for _, a := range args {
		fmt.Printf("%q\n", a)
	}
	return 0
}

// tallied is a run of tally.
type tallied struct {
	*process
	log   string
	stdin io.WriteCloser
}

// tally starts withlease with these arguments, and the helper under it.
func (s *scene) tally(withlease []string, more ...string) *tallied {
	s.Helper()
	log := s.path("tally")
	cmd := s.withlease(append(append(withlease, "--"), helper("tally", append([]string{log}, more...)...)...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	t := &tallied{process: s.start(cmd), log: log, stdin: stdin}
	s.eventually("the command is ready", func() bool {
		return strings.HasPrefix(slurp(log), "ready ") && strings.Contains(slurp(log), "\n") || !t.running()
	})
	return t
}

// count is how often the command got a signal.
func (t *tallied) count(sig syscall.Signal) int {
	n := 0
	for line := range strings.Lines(slurp(t.log)) {
		if strings.TrimSpace(line) == unix.SignalName(sig) {
			n++
		}
	}
	return n
}

// comes waits until the command has got a signal n times.
func (t *tallied) comes(sig syscall.Signal, n int) {
	t.Helper()
	t.eventually(fmt.Sprintf("the command gets %s, %d times; its log is %s", unix.SignalName(sig), n, t.log), func() bool { return t.count(sig) >= n })
}

// finish ends the command by its stdin.
func (t *tallied) finish() {
	t.Helper()
	t.stdin.Close()
	t.exits(0)
}

// holding is a run that holds a lease until it is let go.
type holding struct {
	*process
	stdin io.Closer
}

// holder starts a run that holds res, and waits until it does.
func (s *scene) holder(res string, flags ...string) *holding {
	s.Helper()
	cmd := s.withlease(append(flags, res, "--", "cat")...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	h := &holding{s.start(cmd), stdin}
	s.eventually(res+" is held", func() bool { return s.state(res) == "running" && s.childOf(res) > 0 || !h.running() })
	return h
}

// letGo ends the run.
func (h *holding) letGo() {
	h.Helper()
	h.stdin.Close()
	h.exits(0)
}

// childOf is the command's pid, as the lease records it; 0 when it doesn't.
func (s *scene) childOf(res string) int {
	var v struct{ Child struct{ PID int } }
	json.Unmarshal([]byte(slurp(filepath.Join(s.base, "leases", res, "process.json"))), &v)
	return v.Child.PID
}

// timeOf runs a command that must succeed, with nothing between.
func (s *scene) timeOf(cmd *exec.Cmd) time.Duration {
	s.Helper()
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		s.Fatalf("%q: %v: %s", cmd.Args, err, out)
	}
	return time.Since(began)
}

func quartile(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/4]
}

// ptsCount is how many terminals the machine has made. Others make some too,
// so what is left over is waited for.
func ptsCount() int {
	names, _ := os.ReadDir("/dev/pts")
	return len(names)
}

func fdCount() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

// ptyPair is a new terminal; its master is a plain descriptor.
func ptyPair() (master int, slave *os.File, err error) {
	m, slave, err := pty.Open()
	if err != nil {
		return -1, nil, err
	}
	defer m.Close()
	master, err = unix.FcntlInt(m.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	return master, slave, err
}
