package run_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// screen is a terminal that the test made, and the program that runs in it as
// the leader of a session of its own. The test is the person: it types, reads,
// changes the size, closes the window.
type screen struct {
	*scene
	master int // a plain descriptor: its settings are the terminal's, seen from outside
	cmd    *exec.Cmd
	ended  chan struct{}

	mu     sync.Mutex
	shown  []byte        // all that ever came
	seen   int           // how far expect has read
	more   chan struct{} // closed when something came
	closed bool
}

// The size of a new screen.
const rows, cols = 40, 120

// open starts a program in a new terminal. $W and PATH lead to withlease.
func (s *scene) open(name string, args ...string) *screen {
	s.Helper()
	return s.openWith(nil, name, args...)
}

// openWith does it with more environment.
func (s *scene) openWith(env []string, name string, args ...string) *screen {
	s.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		s.Fatal(err)
	}
	if err := pty.Setsize(slave, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		s.Fatal(err)
	}
	x := &screen{scene: s, ended: make(chan struct{}), more: make(chan struct{})}
	if x.master, err = unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		s.Fatal(err)
	}
	unix.SetNonblock(x.master, true)
	master.Close()
	x.cmd = exec.Command(name, args...)
	x.cmd.Dir = s.dir
	x.cmd.Env = append(s.terminalEnv(), env...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = x.cmd.Start()
	slave.Close()
	if err != nil {
		s.Fatal(err)
	}
	go func() {
		x.cmd.Wait()
		close(x.ended)
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		x.read()
	}()
	s.Cleanup(func() { // before the scene's own: the window closes, then the rest is killed
		x.hangUp()
		<-gone
		if s.Failed() {
			s.Logf("the screen showed:\n%s", x.text())
		}
	})
	return x
}

// terminalEnv is what a terminal emulator and a person's profile would set.
func (s *scene) terminalEnv() []string {
	inputrc := s.path("inputrc")
	// Without it readline brackets each line with two more sequences.
	os.WriteFile(inputrc, []byte("set enable-bracketed-paste off\n"), 0o600)
	return append(s.env(), "TERM=xterm-256color", "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"),
		"PS1="+prompt, "HISTFILE=", "INPUTRC="+inputrc, "ENV=", "CI=")
}

func (x *screen) read() {
	buf := make([]byte, 64<<10)
	for {
		// The timeout only bounds how long a closed screen keeps this here.
		unix.Poll([]unix.PollFd{{Fd: int32(x.master), Events: unix.POLLIN}}, 50)
		x.mu.Lock()
		if x.closed {
			x.mu.Unlock()
			return
		}
		n, err := unix.Read(x.master, buf)
		if n > 0 {
			x.shown = append(x.shown, buf[:n]...)
			close(x.more)
			x.more = make(chan struct{})
		}
		x.mu.Unlock()
		if n <= 0 && err == unix.EIO {
			time.Sleep(5 * time.Millisecond) // nobody has it open, at the moment
		}
	}
}

// hangUp closes the window, or cuts the line.
func (x *screen) hangUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.closed = true
		unix.Close(x.master)
	}
}

// text is all that was ever shown.
func (x *screen) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.shown)
}

// keys types.
func (x *screen) keys(text string) {
	x.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(text) > 0 {
		n, err := unix.Write(x.master, []byte(text))
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			x.Fatalf("typing %q: %v", text, err)
		}
		text = text[max(n, 0):]
	}
}

// line types a line.
func (x *screen) line(text string) {
	x.Helper()
	x.keys(text + "\r")
}

const (
	ctrlC         = "\x03"
	ctrlD         = "\x04"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// expect waits until the pattern is shown after what was expected before, and
// returns what came up to its end.
func (x *screen) expect(pattern string) string {
	x.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		x.mu.Lock()
		fresh := x.shown[x.seen:]
		if at := re.FindIndex(fresh); at != nil {
			text := string(fresh[:at[1]])
			x.seen += at[1]
			x.mu.Unlock()
			return text
		}
		more := x.more
		x.mu.Unlock()
		select {
		case <-more:
		case <-deadline:
			x.Fatalf("%q was not shown; since the last match:\n%q\nprocesses: %v", pattern, fresh, x.describe())
		}
	}
}

// describe is the scene's processes as a person debugs them.
func (x *scene) describe() string {
	var b strings.Builder
	for _, pid := range x.processes() {
		cmd := strings.ReplaceAll(slurp(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " ")
		fmt.Fprintf(&b, "\n  %d %c %s", pid, procState(pid), cmd)
		for line := range strings.Lines(slurp(fmt.Sprintf("/proc/%d/status", pid))) {
			if strings.HasPrefix(line, "PPid") || strings.HasPrefix(line, "Sig") && !strings.HasPrefix(line, "SigQ") {
				b.WriteString(" " + strings.Join(strings.Fields(line), ""))
			}
		}
	}
	return b.String()
}

// These are Linux's: elsewhere these tests are only compiled.
const (
	tcgets = 0x5401
	tcsets = 0x5402
)

// settings are the terminal's (stty -g), seen from outside.
func (x *screen) settings() unix.Termios {
	x.Helper()
	s, err := unix.IoctlGetTermios(x.master, tcgets)
	if err != nil {
		x.Fatal(err)
	}
	return *s
}

// sane says whether a line can be typed: cooked, echoing, signals on.
func sane(s unix.Termios) bool {
	const want = unix.ICANON | unix.ECHO | unix.ISIG
	return s.Lflag&want == want && s.Oflag&unix.OPOST != 0 && s.Iflag&unix.ICRNL != 0
}

// raw says whether every key is passed on.
func raw(s unix.Termios) bool {
	return s.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// isRaw waits until the terminal is raw, as it must be for a command in a
// terminal of its own.
func (x *screen) isRaw() {
	x.Helper()
	x.eventually("the terminal is raw", func() bool { return raw(x.settings()) })
}

// resize is the person's pull at the window's corner.
func (x *screen) resize(rows, cols uint16) {
	x.Helper()
	if err := unix.IoctlSetWinsize(x.master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		x.Fatal(err)
	}
}

// wait waits for the end of the program in the terminal, and returns its exit
// status as a shell has it.
func (x *screen) wait() int {
	x.Helper()
	select {
	case <-x.ended:
	case <-time.After(patience):
		x.Fatalf("%q has not ended%s", x.cmd.Args, x.describe())
	}
	ws := x.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// write makes a file in the scene's directory, where its programs run.
func (s *scene) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o755); err != nil {
		s.Fatal(err)
	}
}

// has says whether a file is there.
func (s *scene) has(name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}

// prompt is a mark that nothing else prints.
const prompt = "[ready] "

// bash is an interactive bash with job control, at its prompt.
func (s *scene) bash(env ...string) *screen {
	s.Helper()
	x := s.openWith(env, "bash", "--norc", "--noprofile", "-i")
	x.ready()
	return x
}

// dash is an interactive dash: it has no line editor, so the terminal's
// settings at its prompt are what the last program left.
func (s *scene) dash() *screen {
	s.Helper()
	x := s.open("dash", "-i")
	x.ready()
	return x
}

// ready waits for the next prompt, and returns what came before.
func (x *screen) ready() string {
	x.Helper()
	return strings.TrimSuffix(x.expect(regexp.QuoteMeta(prompt)+"$"), prompt)
}

// does types a line and returns what it printed, when the prompt is back.
func (x *screen) does(line string) string {
	x.Helper()
	x.line(line)
	_, out, _ := strings.Cut(x.ready(), "\r\n") // the line itself
	return strings.TrimSuffix(out, "\r\n")
}

// rc is $? at the prompt.
func (x *screen) rc() string {
	x.Helper()
	return x.does("echo $?")
}

// wrapper waits for the one process of the scene that is a wrapper: not its
// monitor, nor what it has just forked.
func (s *scene) wrapper() int {
	s.Helper()
	is := func(pid int) bool {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		return filepath.Base(exe) == filepath.Base(bin)
	}
	found := 0
	s.eventually("a wrapper runs", func() bool {
		found = 0
		for _, pid := range s.processes() {
			if is(pid) && !is(s.parent(pid)) {
				found = pid
			}
		}
		return found != 0
	})
	return found
}

// parent is a process's parent.
func (s *scene) parent(pid int) int {
	text := slurp(fmt.Sprintf("/proc/%d/stat", pid))
	var state byte
	var ppid int
	fmt.Sscanf(text[strings.LastIndexByte(text, ')')+1:], " %c %d", &state, &ppid)
	return ppid
}

// stopped waits until a process is stopped.
func (s *scene) stopped(pid int) {
	s.Helper()
	s.eventually(fmt.Sprintf("process %d is stopped", pid), func() bool { return procState(pid) == 'T' })
}

// gone waits until all processes but the terminal's own have ended.
func (s *scene) gone(but ...int) {
	s.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		left := slices.DeleteFunc(s.processes(), func(pid int) bool { return slices.Contains(but, pid) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("left behind: %v of%s", left, s.describe())
		}
	}
}

// becomesFree waits until the resource can be had.
func (s *scene) becomesFree(res string) {
	s.Helper()
	said := ""
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ran := false
		if ran, said = s.claim(res); ran {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s did not become free: %s%s", res, said, s.describe())
		}
	}
}

// held checks that the resource is held now.
func (s *scene) held(res string) {
	s.Helper()
	if ran, _ := s.claim(res); ran {
		s.Errorf("%s is not held", res)
	}
}

// inBash runs a test in share and in PTY mode, in an interactive bash; w is the
// beginning of a command line.
func inBash(t *testing.T, test func(x *screen, w string)) {
	t.Helper()
	inModes(t, func(s *scene, pty string) { test(s.bash(), "withlease "+pty+" r -- ") })
}

// tmux is a server of its own, without anybody's configuration, with one
// window that runs an interactive bash.
type tmux struct {
	*scene
	socket string
}

// tmux starts a server whose one pane runs a command.
func (s *scene) tmux(command string) *tmux {
	s.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		s.Fatal("tmux is needed: ", err)
	}
	m := &tmux{s, fmt.Sprintf("withlease-%d-%s-%d", os.Getpid(), filepath.Base(filepath.Dir(s.dir)), s.files.Add(1))}
	os.WriteFile(s.path("tmux.conf"), []byte("set -g status off\nset -g default-terminal screen-256color\n"), 0o600)
	cmd := exec.Command("tmux", "-L", m.socket, "-f", s.path("tmux.conf"), "new-session", "-d", "-x", "100", "-y", "30", command)
	cmd.Env, cmd.Dir = s.terminalEnv(), s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("tmux: %v\n%s", err, out)
	}
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("tmux showed:\n%s", m.capture())
		}
		exec.Command("tmux", "-L", m.socket, "kill-server").Run()
	})
	return m
}

// bashInTmux is an interactive bash in tmux, at its prompt.
func (s *scene) bashInTmux() *tmux {
	s.Helper()
	// tmux starts it by a shell, which drops PS1.
	m := s.tmux("exec env 'PS1=" + prompt + "' bash --norc --noprofile -i")
	m.shows(`\[ready\]`)
	return m
}

func (m *tmux) do(args ...string) string {
	out, _ := exec.Command("tmux", append([]string{"-L", m.socket}, args...)...).CombinedOutput()
	return string(out)
}

// capture is the screen as a person sees it, without what is blank at the end.
func (m *tmux) capture() string {
	return strings.TrimRight(m.do("capture-pane", "-p"), "\n ")
}

// line types a line.
func (m *tmux) line(text string) {
	m.do("send-keys", "-l", text)
	m.do("send-keys", "Enter")
}

// shows waits until the screen matches, and returns it.
func (m *tmux) shows(pattern string) string {
	m.Helper()
	re := regexp.MustCompile(pattern)
	text := ""
	m.eventually(fmt.Sprintf("tmux shows %q", pattern), func() bool {
		text = m.capture()
		return re.MatchString(text)
	})
	return text
}

// counter is the arguments of a program that counts: this test binary, under
// another name (see init). It says "ready", then each signal with its count
// ("INT:1", "WINCH:1 40x120"), at the line s the size, and at q the counts, and
// ends.
func counter() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self + " " + counterVerb
}

const counterVerb = "count-signals"

func init() {
	if len(os.Args) > 1 && os.Args[1] == counterVerb {
		os.Exit(countSignals())
	}
}

var counted = map[os.Signal]string{
	unix.SIGINT: "INT", unix.SIGQUIT: "QUIT", unix.SIGTERM: "TERM", unix.SIGHUP: "HUP",
	unix.SIGUSR1: "USR1", unix.SIGUSR2: "USR2", unix.SIGWINCH: "WINCH", unix.SIGCONT: "CONT",
}

func countSignals() int {
	sigs := make(chan os.Signal, 1000)
	for s := range counted {
		signal.Notify(sigs, s)
	}
	keys := make(chan byte)
	go func() {
		b := make([]byte, 1)
		for {
			if n, err := os.Stdin.Read(b); n == 0 || err == io.EOF {
				close(keys)
				return
			}
			keys <- b[0]
		}
	}()
	fmt.Println("ready")
	counts := map[string]int{}
	quit := false
	for {
		select {
		case s := <-sigs:
			name := counted[s]
			counts[name]++
			size := ""
			if s == unix.SIGWINCH {
				size = sizeOf(1)
			}
			fmt.Printf("%s:%d%s\n", name, counts[name], size)
		case k, ok := <-keys:
			if k == 's' {
				fmt.Println("size" + sizeOf(1))
			}
			quit = quit || k == 'q'
			if !ok || quit && k == '\n' { // the end of its line too, or the shell reads it
				fmt.Println("total", counts)
				return 0
			}
		}
	}
}

func sizeOf(fd int) string {
	ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return " " + err.Error()
	}
	return fmt.Sprintf(" %dx%d", ws.Row, ws.Col)
}
