package signals_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/signals"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

// A test of signals needs a process of its own: this test binary again, on its
// main thread, which the package has locked.
const roleVariable = "SIGNALS_TEST"

func TestMain(m *testing.M) {
	switch role, arg, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
	case "":
		os.Exit(m.Run())
	case "tell":
		os.Exit(tell())
	case "sleepy":
		os.Exit(tellLate())
	case "die":
		os.Exit(die(arg))
	case "pipe":
		os.Exit(writeToNobody())
	}
}

// tell says of each signal what Main says of it, and ends with TERM.
func tell() int {
	return signals.Main(func(sigs <-chan signals.Signal, ready func()) int {
		ready()
		fmt.Println("ready")
		for s := range sigs {
			fmt.Printf("%s known=%v kernel=%v sender=%d\n", unix.SignalName(s.Number), s.Known, s.FromKernel, s.Sender)
			if s.At.IsZero() || time.Since(s.At) > time.Hour {
				return 98
			}
			if s.Number == syscall.SIGTERM {
				return 5
			}
		}
		return 99
	})
}

// tellLate reads no signal before its stdin ends, and tells then.
func tellLate() int {
	return signals.Main(func(sigs <-chan signals.Signal, ready func()) int {
		ready()
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		for s := range sigs {
			fmt.Println(unix.SignalName(s.Number), len(sigs))
			if s.Number == syscall.SIGTERM {
				return 5
			}
		}
		return 99
	})
}

// die does what withlease does at its end.
func die(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return 99
	}
	signals.Main(func(_ <-chan signals.Signal, ready func()) int {
		ready()
		return 0
	})
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	signals.Die(syscall.Signal(n))
	return 98 // it returned
}

// writeToNobody writes where nobody reads: with its main thread, to stdout.
func writeToNobody() int {
	return signals.Main(func(_ <-chan signals.Signal, ready func()) int {
		ready()
		for range 3 {
			if _, err := os.Stdout.WriteString("x\n"); err == nil {
				return 98
			}
		}
		return 6
	})
}

// role is this test binary in another role, in a session of its own.
func role(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join(args, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// teller is a process that tells what Main delivers.
type teller struct {
	*testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
}

func startTeller(t *testing.T, cmd *exec.Cmd) *teller {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &teller{t, cmd, make(chan string, 4096), make(chan struct{})}
	go func() {
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			p.lines <- scan.Text()
		}
		close(p.lines)
		cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.ended
	})
	if line := p.next(); line != "ready" {
		t.Fatalf("it says %q", line)
	}
	return p
}

func (p *teller) next() string {
	p.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "(end)"
		}
		return line
	case <-time.After(patience):
		p.Fatal("nothing comes")
		return ""
	}
}

func (p *teller) send(s syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// ends checks the end of the process.
func (p *teller) ends(code int) {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Fatal("it doesn't end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.Errorf("it ended with %v, want %d", p.cmd.ProcessState, code)
	}
}
