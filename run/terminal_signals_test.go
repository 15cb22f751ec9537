package run_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// up is a command that says when it runs, and stays.
const up = "sh -c 'echo u\"\"p; exec sleep 60'"

// isUp waits for it.
func (x *screen) isUp() {
	x.Helper()
	x.expect(`up\r?\n`)
}

// TestC19_MakeInterrupt is ^C in a recipe: make stops as it does without us,
// whatever its flags. C20 is make -k; C22 is a terminal that was asked for.
func TestC19_MakeInterrupt(t *testing.T) {
	for _, row := range []struct{ name, make, w string }{
		{"without", "make", ""},
		{"C19", "make", "withlease r -- "},
		{"C20", "make -k", "withlease r -- "},
		{"C22", "make", "withlease --pty=always r -- "},
		{"C22 -k", "make -k", "withlease --pty=always r -- "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			x.write("Makefile", "all: a b\na:\n\t@"+row.w+up+"\nb:\n\t@touch b-ran\n")
			out := x.interrupts(row.make, func() { x.isUp() })
			if !strings.Contains(out, "Interrupt") {
				t.Errorf("make said %q, without Interrupt", out)
			}
			if rc := x.rc(); rc != "130" {
				t.Errorf("rc %s", rc)
			}
			if x.has("b-ran") {
				t.Error("make went on with the next target")
			}
			x.free("r")
			x.gone(x.cmd.Process.Pid)
		})
	}
}

// interrupts types a make, and ^C when it is up, and returns what make said. GNU
// make 4.3 can lose its job's end at that, with or without us: then once more.
func (x *screen) interrupts(line string, isUp func()) (out string) {
	x.Helper()
	for range 5 {
		x.line(line)
		isUp()
		x.keys(ctrlC)
		if out = x.ready(); !strings.Contains(out, "wait: No child processes") {
			break
		}
	}
	return out
}

// TestC21_MakeParallel: the terminal stays as it is for make's other jobs.
func TestC21_MakeParallel(t *testing.T) {
	t.Parallel()
	x := newScene(t).bash()
	x.write("Makefile", "all: a b\na:\n\t@withlease r -- "+up+"\n"+
		"b:\n\t@i=0; while [ $$i -lt 3000 ]; do echo line-$$i; i=$$((i+1)); sleep 0.02; done; touch b-ran\n")
	began := 0
	x.interrupts("make -j2", func() {
		x.isUp()
		began = len(x.text())
		x.expect(`line-\d*7\r?\n`)
		x.expect(`line-\d*9\r?\n`)
	})
	if stairs := regexp.MustCompile(`[^\r]\n`).FindString(x.text()[began:]); stairs != "" {
		t.Errorf("a line ended without a carriage return: %q", x.text()[began:])
	}
	if rc := x.rc(); rc != "130" {
		t.Errorf("rc %s", rc)
	}
	if x.has("b-ran") {
		t.Error("the other job ran to its end")
	}
	x.free("r")
	x.gone(x.cmd.Process.Pid)
}

// TestC23_LoopInterrupt: a script's loop ends with its command.
func TestC23_LoopInterrupt(t *testing.T) {
	for _, pty := range []string{"auto", "always"} {
		t.Run(pty, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			x.write("loop", "for i in 1 2 3; do withlease --pty="+pty+" r -- "+up+"; echo went on; done\n")
			x.line("bash loop")
			x.isUp()
			x.keys(ctrlC)
			if out := x.ready(); strings.Contains(out, "went on") {
				t.Errorf("the loop went on: %q", out)
			}
			if rc := x.rc(); rc != "130" {
				t.Errorf("rc %s", rc)
			}
			x.free("r")
		})
	}
}

// total ends a counter and returns what it counted. What was on its way to the
// command arrives before: the wrapper hands signals on in their order.
func (x *screen) total() string {
	x.Helper()
	unix.Kill(x.wrapper(), unix.SIGUSR1)
	x.expect("USR1:1\r\n")
	x.line("q")
	total := regexp.MustCompile(`total map.*`).FindString(x.expect(`total map\[.*\]`))
	x.ready()
	if rc := x.rc(); rc != "0" {
		x.Errorf("rc %s", rc)
	}
	x.free("r")
	return total
}

// TestC24_InterruptTwice_B15: ^C reaches the command once each time it is
// typed. A second SIGINT means "quit by force" to many programs.
func TestC24_InterruptTwice_B15(t *testing.T) { inBash(t, interruptTwice) }

func interruptTwice(x *screen, w string) {
	x.Helper()
	x.line(w + counter())
	x.expect("ready\r\n")
	x.keys(ctrlC)
	x.expect("INT:1\r\n")
	x.keys(ctrlC)
	x.expect("INT:2\r\n")
	if got := x.total(); got != "total map[INT:2 USR1:1]" {
		x.Errorf("^C twice: %s", got)
	}
}

// TestC25_InterruptFromOutside_B15: kill -INT of the wrapper reaches the command
// once.
func TestC25_InterruptFromOutside_B15(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		x.line(w + counter())
		x.expect("ready\r\n")
		unix.Kill(x.wrapper(), unix.SIGINT)
		x.expect("INT:1\r\n")
		if got := x.total(); got != "total map[INT:1 USR1:1]" {
			x.Errorf("kill -INT: %s", got)
		}
	})
}

// TestC37_Resize: one WINCH, and the right size, also after a resize while the
// job was stopped.
//
// Corrected: after that in share mode there is no WINCH, with or without us. The
// kernel tells the foreground group of that moment, the shell's (tty_do_resize);
// a program asks for the size when it is continued.
func TestC37_Resize(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		resizes(x, w)
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		x := newScene(t).bash()
		x.line(counter())
		x.expect("ready\r\n")
		x.resize(25, 100)
		x.expect("WINCH:1 25x100\r\n")
		x.stops()
		x.resize(30, 90)
		x.line("fg")
		x.expect("CONT:1\r\n")
		x.line("s")
		x.expect("size 30x90\r\n")
		x.line("q")
		if got := x.expect(`total map\[.*\]`); !strings.HasSuffix(got, "total map[CONT:1 WINCH:1]") {
			t.Errorf("without us: %s", got)
		}
	})
}

func resizes(x *screen, w string) {
	x.line(w + counter())
	x.expect("ready\r\n")
	x.resize(25, 100)
	x.expect("WINCH:1 25x100\r\n")
	x.stops()
	x.resize(30, 90)
	x.line("fg")
	want := 1
	if strings.Contains(w, "always") {
		x.expect("WINCH:2 30x90\r\n")
		want = 2
	} else {
		x.expect("CONT:1\r\n")
	}
	x.line("s")
	x.expect("size 30x90\r\n")
	if got := x.total(); !regexp.MustCompile(fmt.Sprintf(`^total map\[CONT:\d+ USR1:1 WINCH:%d\]$`, want)).MatchString(got) {
		x.Errorf("two resizes: %s", got)
	}
}

// hold holds r until the test lets it go.
func (s *scene) hold() (letGo func()) {
	s.Helper()
	s.run(s.withlease("claim", "r")).exits(0)
	return func() {
		s.Helper()
		s.run(s.withlease("--name", "somebody", "release", "--force", "--reason", "test", "r")).exits(0)
	}
}

// waiters are the places in r's line.
func (s *scene) waiters() []string {
	found, _ := filepath.Glob(filepath.Join(s.base, "leases", ".queue", "r", "[0-9]*"))
	return found
}

// other is the environment of another party: the same one's claim would count
// as its own.
const other = "WITHLEASE_NAME=other"

// TestC66_InterruptWhileWaiting: ^C gives up at once.
func TestC66_InterruptWhileWaiting(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		s.hold()
		x := s.bash(other)
		before := x.settings()
		x.line("withlease " + pty + " r -- touch ran")
		x.expect("withlease: waiting")
		s.eventually("it is in the line", func() bool { return len(s.waiters()) > 0 })
		x.keys(ctrlC)
		x.ready()
		if rc := x.rc(); rc != "130" {
			t.Errorf("rc %s", rc)
		}
		// bash ends a loop only for a real death by SIGINT.
		x.line("for i in 1 2; do withlease " + pty + " r -- touch ran; echo went on; done")
		x.expect("withlease: waiting")
		x.keys(ctrlC)
		if out := x.ready(); strings.Contains(out, "went on") {
			t.Errorf("bash did not see a death by SIGINT: %q", out)
		}
		if left := s.waiters(); len(left) > 0 {
			t.Errorf("left in the line: %v", left)
		}
		if s.has("ran") {
			t.Error("the command ran")
		}
		if x.settings() != before {
			t.Error("the terminal has other settings")
		}
	})
}

// TestC67_StopWhileWaiting: ^Z keeps the place in the line, and fg goes on.
func TestC67_StopWhileWaiting(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		letGo := s.hold()
		x := s.bash(other)
		x.line("withlease " + pty + " r -- sh -c 'echo first >>order'")
		x.expect("withlease: waiting")
		s.eventually("it is in the line", func() bool { return len(s.waiters()) > 0 })
		pid := s.wrapper()
		n := len(s.waiters())
		x.keys(ctrlZ)
		x.expect("Stopped")
		x.ready()
		s.stopped(pid)
		cmd := s.withlease("r", "--", "sh", "-c", "echo second >>order")
		cmd.Env = append(cmd.Env, other)
		second := s.start(cmd)
		s.eventually("the second is in the line", func() bool { return len(s.waiters()) > n })
		letGo()
		x.line("fg")
		x.ready()
		if rc := x.rc(); rc != "0" {
			t.Errorf("rc %s", rc)
		}
		second.exits(0)
		if got := slurp(s.path("order")); got != "first\nsecond\n" {
			t.Errorf("they ran in the order %q", got)
		}
	})
}

// TestB45_MakeEnds: whatever ends make ends the command, or the wait.
func TestB45_MakeEnds(t *testing.T) {
	for _, pty := range []string{"auto", "always"} {
		recipe := "t:\n\t@withlease --pty=" + pty + " r -- " + up + "\n"
		t.Run("kill make/"+pty, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			x.write("Makefile", recipe)
			x.line("make t")
			x.isUp()
			// make hands the signal to its job, from within our process group.
			unix.Kill(x.parent(x.wrapper()), unix.SIGTERM)
			if out := x.ready(); !strings.Contains(out, "Terminated") {
				t.Errorf("make said %q", out)
			}
			x.gone(x.cmd.Process.Pid)
			x.free("r")
			x.line("make t")
			x.isUp()
			x.keys(ctrlC)
			x.ready()
			x.free("r")
		})
		t.Run("waiting/"+pty, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.hold()
			x := s.bash(other)
			x.write("Makefile", recipe)
			x.line("make t")
			x.expect("withlease: waiting")
			s.eventually("it is in the line", func() bool { return len(s.waiters()) > 0 })
			x.keys(ctrlC)
			if out := x.ready(); !strings.Contains(out, "Interrupt") {
				t.Errorf("make said %q", out)
			}
			x.gone(x.cmd.Process.Pid)
			if left := s.waiters(); len(left) > 0 {
				t.Errorf("left in the line: %v", left)
			}
		})
	}
}
