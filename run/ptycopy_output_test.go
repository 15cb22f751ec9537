package run_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The copy path of PTY mode: what a command writes comes out, all of it and
// once, whatever the reader and the moment of its end.

// piped runs withlease in PTY mode with a pipe for its output, and returns all
// of it.
func (s *scene) piped(args ...string) (string, *process) {
	s.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	cmd := s.withlease(append([]string{"--pty=always"}, args...)...)
	cmd.Stdout = w
	p := s.start(cmd)
	w.Close()
	all := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		r.Close()
		all <- string(b)
	}()
	return <-all, p.wait()
}

// side runs f n times, some at a time.
func side(n, at int, f func(i int)) {
	numbers := make(chan int)
	var done sync.WaitGroup
	for range at {
		done.Add(1)
		go func() {
			defer done.Done()
			for i := range numbers {
				f(i)
			}
		}()
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	done.Wait()
}

func TestC15_LastBytes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	want := strings.Repeat("x", 20000) + "END\r\n"
	side(300, 4, func(i int) {
		got, p := s.piped(fmt.Sprintf("r%d", i%4), "--", "sh", "-c", `head -c 20000 /dev/zero | tr "\0" x; echo END`)
		if got != want || p.code() != 0 {
			t.Errorf("run %d: %d bytes of %d, %s, the last are %q", i, len(got), len(want), ending(p.ws), got[max(0, len(got)-20):])
		}
	})
}

// Five hundred commands that end at once, of several kinds: nothing but a word; a
// burst; a grandchild that keeps the terminal open.
func TestPTYCopy_FastExit(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	burst := strings.Repeat("0123456789\r\n", 1000)
	kinds := []struct {
		script, want string
		code         int
	}{
		{`echo END`, "END\r\n", 0},
		{`printf END; exit 7`, "END", 7},
		{`yes 0123456789 | head -n 1000; exit 8`, burst, 8},
		{`(trap "" HUP; exec sleep 5) & echo END`, "END\r\n", 0},
		{`echo END; kill -KILL $$`, "END\r\n", 137},
	}
	side(500, 4, func(i int) {
		k := kinds[i%len(kinds)]
		// A resource of its own each: none waits for another.
		got, p := s.piped(fmt.Sprintf("r%d", i), "--", "sh", "-c", k.script)
		if got != k.want || p.code() != k.code {
			t.Errorf("run %d, %q: %s, %d bytes of %d: %.60q", i, k.script, ending(p.ws), len(got), len(k.want), got)
		}
	})
}

func TestC16_ReaderSleeps(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.withlease("--pty=always", "r", "--", "sh", "-c", `head -c 200000 /dev/zero | tr "\0" x`)
	cmd.Stdout = w
	p := s.start(cmd)
	w.Close()
	time.Sleep(3 * time.Second) // the check's own
	if !p.running() {
		t.Error("it has ended although nobody has read")
	}
	got, _ := io.ReadAll(r)
	if len(got) != 200000 || strings.Trim(string(got), "x") != "" {
		t.Errorf("%d bytes came", len(got))
	}
	p.exits(0)
}

// B40: a terminal that is slow, 1 kB in 5 ms: the last line is there, and the
// status, and no error of ours.
func TestB40_SlowTerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var want strings.Builder
	for i := 1; i <= 20000; i++ {
		fmt.Fprintf(&want, "%d\r\n", i)
	}
	side(200, 20, func(i int) {
		got, code := s.slowTerminal("--pty=always", fmt.Sprintf("r%d", i), "--", "sh", "-c", "seq 1 20000; exit 7")
		if got != want.String() || code != 7 {
			t.Errorf("run %d: status %d, %d bytes of %d, the last are %q", i, code, len(got), want.Len(), got[max(0, len(got)-60):])
		}
	})
}

// slowTerminal runs withlease in a terminal of its own, reads it slowly, and
// returns what it showed.
func (s *scene) slowTerminal(args ...string) (string, int) {
	s.Helper()
	master, slave, err := ptyPair()
	if err != nil {
		s.Error(err)
		return "", -1
	}
	defer unix.Close(master)
	cmd := s.withlease(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		s.Error(err)
		return "", -1
	}
	var all bytes.Buffer
	buf := make([]byte, 1024)
	for began := time.Now(); ; {
		fds := []unix.PollFd{{Fd: int32(master), Events: unix.POLLIN}}
		unix.Poll(fds, 1000)
		n, err := unix.Read(master, buf)
		if n > 0 {
			all.Write(buf[:n])
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if err == unix.EIO || time.Since(began) > patience {
			break // nobody has it open any more
		}
	}
	cmd.Wait()
	return all.String(), cmd.ProcessState.ExitCode()
}

// A grandchild that doesn't stop talking when the command has ended doesn't
// keep withlease: what it still copies is bounded. The reader is slower than
// the grandchild, so that there is always more to copy.
func TestPTYCopy_ChattyGrandchild(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.withlease("--pty=always", "r", "--", "sh", "-c", `(trap "" HUP; exec yes) & until test -e go; do sleep .01; done; echo END; exit 5`)
	cmd.Stdout = w
	p := s.start(cmd)
	w.Close()
	var all bytes.Buffer
	buf := make([]byte, 8192)
	for end := false; ; time.Sleep(time.Millisecond) {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			break
		}
		if all.Len() > 1<<20 && !end {
			end = true
			s.write("go", "")
		}
		if all.Len() > 50<<20 {
			t.Fatal("it copies without an end")
		}
	}
	p.exits(5)
	if !bytes.Contains(all.Bytes(), []byte("END\r\n")) {
		t.Error("the command's own last line is missing")
	}
	s.free("r")
}

// A reader that doesn't read holds the command back, and costs no memory.
func TestPTYCopy_Backpressure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.withlease("--pty=always", "r", "--", "sh", "-c", `
		i=0
		while test $i -lt 200; do
			i=$((i+1)); echo $i >progress
			head -c 50000 /dev/zero | tr "\0" x
		done`)
	cmd.Stdout = w
	p := s.start(cmd)
	w.Close()
	progress := func() int { n, _ := strconv.Atoi(strings.TrimSpace(slurp(s.path("progress")))); return n }
	blocked, since := 0, time.Now()
	s.eventually("the command is held back", func() bool {
		if n := progress(); n != blocked {
			blocked, since = n, time.Now()
		}
		return blocked > 0 && time.Since(since) > time.Second
	})
	if blocked > 20 { // a pipe takes 64 kB, the terminals a few more
		t.Errorf("with nobody reading it has written %d kB", 50*blocked)
	}
	if rss := residentKB(t, p.pid()); rss > 40<<10 && !raceEnabled {
		t.Errorf("the wrapper has %d kB", rss)
	}
	got, _ := io.ReadAll(r)
	p.exits(0)
	if len(got) != 200*50000 || strings.Trim(string(got), "x") != "" {
		t.Errorf("%d bytes came", len(got))
	}
}

// A signal reaches the command while the output is stuck.
func TestPTYCopy_SignalWhileStuck(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := s.withlease(append([]string{"--pty=always", "r", "--", "sh", "-c", `(trap "" USR1; exec yes) & exec "$@"`, "sh"}, helper("tally", s.path("tally"))...)...)
	cmd.Stdout = w
	stdin, _ := cmd.StdinPipe()
	p := &tallied{process: s.start(cmd), log: s.path("tally"), stdin: stdin}
	defer w.Close()
	s.eventually("the command is ready", func() bool { return slurp(p.log) != "" })
	s.eventually("the pipe is full", func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}, 0)
		return err == nil && n == 0
	})
	for n := 1; n <= 20; n++ {
		p.signal(unix.SIGUSR1)
		p.comes(unix.SIGUSR1, n)
	}
}

func residentKB(t *testing.T, pid int) int {
	t.Helper()
	for line := range strings.Lines(slurp(fmt.Sprintf("/proc/%d/status", pid))) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	t.Errorf("no VmRSS of %d", pid)
	return 0
}
