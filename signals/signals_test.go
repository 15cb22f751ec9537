package signals_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"withlease/signals"
)

func TestShared(t *testing.T) {
	const command, stranger = 100, 200
	ofCommand := func(pid int) bool { return pid == command }
	known := func(n syscall.Signal, sender int) signals.Signal {
		return signals.Signal{Number: n, Known: true, Sender: sender}
	}
	kernel := func(n syscall.Signal) signals.Signal {
		return signals.Signal{Number: n, Known: true, FromKernel: true}
	}
	unknown := func(n syscall.Signal) signals.Signal { return signals.Signal{Number: n} }
	for _, c := range []struct {
		what    string
		s       signals.Signal
		inFront bool // what is forwarded when the group is the foreground group
		behind  bool // ... and when it isn't
	}{
		{"TERM of a stranger", known(unix.SIGTERM, stranger), true, true},
		{"INT of a stranger", known(unix.SIGINT, stranger), true, true},
		{"HUP of a stranger", known(unix.SIGHUP, stranger), true, true},
		{"WINCH of a stranger", known(unix.SIGWINCH, stranger), true, true},
		{"TERM from outside this PID namespace", known(unix.SIGTERM, 0), true, true},
		{"TERM of the command", known(unix.SIGTERM, command), false, false},
		{"USR1 of the command", known(unix.SIGUSR1, command), false, false},
		{"^C", kernel(unix.SIGINT), false, false},
		{"^\\", kernel(unix.SIGQUIT), false, false},
		{"a hang-up", kernel(unix.SIGHUP), false, false},
		{"a resize", kernel(unix.SIGWINCH), false, false},
		{"an alarm", kernel(unix.SIGALRM), false, false},
		{"INT of unknown origin", unknown(unix.SIGINT), false, true},
		{"QUIT of unknown origin", unknown(unix.SIGQUIT), false, true},
		{"HUP of unknown origin", unknown(unix.SIGHUP), false, true},
		{"WINCH of unknown origin", unknown(unix.SIGWINCH), false, false},
		{"TERM of unknown origin", unknown(unix.SIGTERM), true, true},
		{"USR1 of unknown origin", unknown(unix.SIGUSR1), true, true},
		{"ALRM of unknown origin", unknown(unix.SIGALRM), true, true},
	} {
		if got := signals.Shared(c.s, true, ofCommand); got != c.inFront {
			t.Errorf("%s, in the foreground: %v", c.what, got)
		}
		if got := signals.Shared(c.s, false, ofCommand); got != c.behind {
			t.Errorf("%s, in the background: %v", c.what, got)
		}
	}
}

// Die dies of every signal that a process can die of.
func TestDie(t *testing.T) {
	t.Parallel()
	doesNotKill := map[syscall.Signal]bool{
		unix.SIGSTOP: true, unix.SIGTSTP: true, unix.SIGTTIN: true, unix.SIGTTOU: true,
		unix.SIGCHLD: true, unix.SIGCONT: true, unix.SIGURG: true, unix.SIGWINCH: true,
	}
	for n := syscall.Signal(1); n <= 64; n++ {
		if doesNotKill[n] {
			continue
		}
		t.Run(fmt.Sprint(int(n)), func(t *testing.T) {
			t.Parallel()
			cmd := role("die", fmt.Sprint(int(n)))
			cmd.Dir = t.TempDir()
			out, _ := cmd.CombinedOutput()
			ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ws.Signaled() || ws.Signal() != n || ws.CoreDump() {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
			if len(out) > 0 {
				t.Errorf("it says %.300q", out)
			}
			if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

// Where a signal doesn't kill, Die returns.
func TestDieReturns(t *testing.T) {
	t.Parallel()
	for _, n := range []syscall.Signal{unix.SIGCHLD, unix.SIGCONT, unix.SIGURG, unix.SIGWINCH} {
		cmd := role("die", fmt.Sprint(int(n)))
		cmd.Run()
		if cmd.ProcessState.ExitCode() != 98 {
			t.Errorf("%s: it ended with %v", unix.SignalName(n), cmd.ProcessState)
		}
	}
}

// A process's signal comes with its sender.
func TestMainTellsTheSender(t *testing.T) {
	t.Parallel()
	p := startTeller(t, role("tell"))
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH} {
		p.tellsSender(s, os.Getpid(), func() { p.send(s) })
	}
	p.send(unix.SIGTERM)
	p.ends(5)
}

// tellsSender checks that a signal comes with its sender; pid 0 is the kernel.
// One that comes while the main thread isn't waiting loses it, so that it may be
// sent again, more and more slowly.
func (p *teller) tellsSender(s syscall.Signal, pid int, send func()) {
	p.Helper()
	name := unix.SignalName(s)
	for round := range 20 {
		time.Sleep(time.Duration(round) * 10 * time.Millisecond)
		send()
		switch got := p.next(); got {
		case fmt.Sprintf("%s known=true kernel=%v sender=%d", name, pid == 0, pid):
			return
		case name + " known=false kernel=false sender=0":
		default:
			p.Fatalf("it says %q", got)
		}
	}
	p.Errorf("%s never comes with its sender", name)
}

// ... also a process of its own group.
func TestMainTellsTheSenderOfItsGroup(t *testing.T) {
	t.Parallel()
	self := role("tell")
	cmd := exec.Command("sh", "-c", `"$0" & while read go; do kill -USR1 $!; done; kill -TERM $!; wait $!`, self.Path)
	cmd.Env, cmd.SysProcAttr = self.Env, self.SysProcAttr
	stdin, _ := cmd.StdinPipe()
	p := startTeller(t, cmd)
	p.tellsSender(unix.SIGUSR1, cmd.Process.Pid, func() { io.WriteString(stdin, "go\n") })
	stdin.Close()
	p.ends(5)
}

// What the terminal sends comes from the kernel.
func TestMainTellsTheTerminal(t *testing.T) {
	t.Parallel()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	cmd := role("tell")
	cmd.Stdin = slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := startTeller(t, cmd)
	slave.Close()
	p.tellsSender(unix.SIGINT, 0, func() { io.WriteString(master, "\x03") })
	p.tellsSender(unix.SIGQUIT, 0, func() { io.WriteString(master, "\x1c") })
	size := uint16(10)
	p.tellsSender(unix.SIGWINCH, 0, func() {
		size++
		pty.Setsize(master, &pty.Winsize{Rows: size, Cols: size})
	})
	master.Close() // which comes once
	if got := p.next(); got != "SIGHUP known=true kernel=true sender=0" && got != "SIGHUP known=false kernel=false sender=0" {
		t.Errorf("it says %q", got)
	}
	p.send(unix.SIGTERM)
	p.ends(5)
}

// Two thousand signals, each sent when the one before has come: none is lost,
// and none comes twice.
func TestMainLosesNothing(t *testing.T) {
	t.Parallel()
	p := startTeller(t, role("tell"))
	unknown := 0
	for i := range 2000 {
		s := []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2}[i%2]
		p.send(s)
		got := p.next()
		if !strings.HasPrefix(got, unix.SignalName(s)+" ") {
			t.Fatalf("signal %d: it says %q", i, got)
		}
		if strings.Contains(got, "known=false") {
			unknown++
		}
	}
	t.Logf("%d of 2000 came without their sender", unknown)
	p.send(unix.SIGTERM)
	if got := p.next(); !strings.HasPrefix(got, "SIGTERM ") {
		t.Errorf("one more came: %q", got)
	}
	p.ends(5)
}

// Two thousand at once: the kernel makes few of them, and never more. The TERM
// behind them isn't lost, however many are still unread.
func TestMainInABurst(t *testing.T) {
	t.Parallel()
	p := startTeller(t, role("tell"))
	for range 2000 {
		p.send(unix.SIGUSR1)
	}
	if got := p.next(); !strings.HasPrefix(got, "SIGUSR1 ") {
		t.Fatalf("it says %q", got)
	}
	p.send(unix.SIGTERM)
	came := 1
	for line := p.next(); line != "(end)"; line = p.next() {
		if strings.HasPrefix(line, "SIGUSR1 ") {
			came++
		}
	}
	if came > 2000 {
		t.Errorf("%d came", came)
	}
	p.ends(5)
}

// A TERM that comes when nobody reads, behind a flood of others.
func TestMainKeepsEachKind(t *testing.T) {
	t.Parallel()
	cmd := role("sleepy")
	stdin, _ := cmd.StdinPipe()
	p := startTeller(t, cmd)
	for range 500 {
		p.send(unix.SIGUSR1)
		time.Sleep(50 * time.Microsecond) // so that many of them arrive
	}
	p.send(unix.SIGUSR2)
	p.send(unix.SIGTERM)
	time.Sleep(50 * time.Millisecond) // so that it arrives before it is read
	stdin.Close()
	came := map[string]int{}
	for line := p.next(); line != "(end)"; line = p.next() {
		name, _, _ := strings.Cut(line, " ")
		came[name]++
	}
	t.Logf("came: %v", came)
	if came["SIGUSR1"] < 60 || came["SIGTERM"] != 1 {
		t.Errorf("came: %v", came)
	}
	p.ends(5)
}

// What the caller ignores isn't caught: nohup's promise.
func TestMainLeavesIgnoredSignals(t *testing.T) {
	t.Parallel()
	self := role("tell")
	cmd := exec.Command("sh", "-c", `trap "" HUP INT; exec "$0"`, self.Path)
	cmd.Env, cmd.SysProcAttr = self.Env, self.SysProcAttr
	p := startTeller(t, cmd)
	p.send(unix.SIGHUP)
	p.send(unix.SIGINT)
	p.send(unix.SIGUSR1)
	if got := p.next(); !strings.HasPrefix(got, "SIGUSR1 ") {
		t.Errorf("it says %q", got)
	}
	for mask, want := range map[string]uint64{"SigIgn": 3, "SigCgt": 0} {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		_, rest, _ := strings.Cut(string(status), mask+":\t")
		var got uint64
		fmt.Sscanf(rest, "%x", &got)
		if got&3 != want {
			t.Errorf("%s has %#x of HUP and INT, want %#x", mask, got&3, want)
		}
	}
	p.send(unix.SIGTERM)
	p.ends(5)
}

// Nobody reads what it writes: an error, and not its end.
func TestMainSurvivesABrokenPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := role("pipe")
	cmd.Stdout = w
	cmd.Run()
	w.Close()
	if cmd.ProcessState.ExitCode() != 6 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
