package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// inLine waits until n are in the line of a resource.
func (s *scene) inLine(res string, n int) {
	s.Helper()
	s.eventually("they are in the line", func() bool {
		names, _ := filepath.Glob(filepath.Join(s.base, "leases/.queue", res, "[1-9]*.json"))
		return len(names) == n
	})
}

// TestB34_NarrowTerminal: who has it, for how long, and the place in line are
// seen however narrow the terminal is, and it may change its size.
func TestB34_NarrowTerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := s.holder("gpu", "--session", "7b1f2c9e-1d2a-4f58-9a77-0a1b2c3d4e5f", "--name", "alice", "-p", "flash the board, then measure for a long while")
	x := s.bash()
	x.resize(rows, 300)
	x.line("withlease gpu -- echo FIRST")
	x.expect(`\rwithlease: waiting \d+s for gpu: held by alice \(session 7b1f2c9e-.*, pid \d+, on .*\) for \d+s.*; place 1 in line.*\x1b\[K`)
	x.resize(rows, 30)
	x.expect(`\rgpu: (held by )?alice( for)? \d+s; place 1( in line)?\x1b\[K`)
	x.resize(rows, 60)
	x.expect(`\rwithlease: gpu: held by alice for \d+s; place 1 in line\x1b\[K`)
	h.letGo()
	x.expect(`\r\x1b\[KFIRST\r\n`)
	x.ready()
}

// TestB36_RedrawnTwiceASecond: news doesn't make the line flicker.
func TestB36_RedrawnTwiceASecond(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := s.holder("gpu")
	x := s.open(bin, "--pty=never", "gpu", "--", "true")
	x.expect("waiting 0s")
	queue := filepath.Join(s.base, "leases/.queue/gpu")
	began := time.Now()
	for time.Since(began) < 2*time.Second { // the case's own
		names, _ := filepath.Glob(queue + "/[1-9]*")
		for _, name := range names {
			if !strings.HasSuffix(name, ".json") {
				if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
					f.Write([]byte("w"))
					f.Close()
				}
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(began)
	if n := strings.Count(x.text(), "\x1b[K"); n > int(took/(500*time.Millisecond))+2 {
		t.Errorf("drawn %d times in %v", n, took)
	}
	h.letGo()
	if code := x.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

var redrawnLine = regexp.MustCompile(`\r[^\n]*\x1b\[K`)

// TestB38_WaitInTheBackground: a job in the background says a line and redraws
// nothing, and goes on redrawing once it is in the foreground.
func TestB38_WaitInTheBackground(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := s.holder("gpu")
	x := s.dash() // it draws nothing itself
	x.line("withlease --pty=never gpu -- echo FIRST &")
	x.expect(`withlease: waiting for gpu: gpu is held by [^\r]*; place 1 in line`)
	before := len(x.text())
	time.Sleep(2500 * time.Millisecond) // longer than it is between two redraws
	if said := x.text()[before:]; redrawnLine.MatchString(said) || strings.Contains(said, "waiting") {
		t.Errorf("in the background it draws %q", said)
	}
	x.line("fg")
	x.expect(`\rwithlease: waiting \d+s for gpu: held by .*\x1b\[K`)
	x.keys(ctrlZ)
	x.expect("Stopped")
	x.line("bg")
	x.expect(`withlease --pty=never`)
	x.ready()
	before = len(x.text())
	time.Sleep(1500 * time.Millisecond)
	if said := x.text()[before:]; redrawnLine.MatchString(said) {
		t.Errorf("in the background it draws %q", said)
	}
	h.letGo()
	x.expect("FIRST\r\n")
	if said := x.text()[before:]; strings.Contains(said, "\x1b[K") {
		t.Errorf("in the background it wipes: %q", said)
	}
}

// TestB38_WaitWithTostop: where the terminal stops a background job that writes,
// the wait is silent: a stopped one would keep its place from those behind.
func TestB38_WaitWithTostop(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := s.holder("gpu")
	x := s.dash()
	x.does("stty tostop")
	x.line("withlease --pty=never gpu -- touch ran &")
	s.inLine("gpu", 1)
	first := s.wrapperIn("gpu --")
	x.line("withlease --pty=never -w 1500ms gpu -- touch never &")
	s.inLine("gpu", 2)
	second := s.wrapperIn("-w 1500ms")
	// What it has to say in the end it says as any job would, with its place
	// given up.
	s.stopped(second)
	s.inLine("gpu", 1)
	if st := procState(first); st == 'T' {
		t.Error("the wait is stopped")
	}
	if strings.Contains(x.text(), "waiting for") {
		t.Errorf("it says %q", x.text())
	}
	x.line("fg %2")
	x.expect("not run: gpu is held by")
	h.letGo()
	s.eventually("the command has run", func() bool { return s.has("ran") })
	s.becomesFree("gpu")
}

// wrapperIn waits for the process with these words in its command line.
func (s *scene) wrapperIn(words string) int {
	s.Helper()
	found := 0
	s.eventually("it runs", func() bool {
		for _, pid := range s.processes() {
			if strings.Contains(strings.ReplaceAll(slurp(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " "), words) {
				found = pid
			}
		}
		return found != 0
	})
	return found
}
