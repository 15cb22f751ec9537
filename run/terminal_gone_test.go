package run_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestC42_WindowCloses: the command of a closed window is told so, once, and
// nothing stays behind; below a shell, and as the window's own program.
//
// Corrected: once from us.
func TestC42_WindowCloses(t *testing.T) {
	const command = `sh -c 'trap "trap \"\" HUP; echo H >>f; exit" HUP; echo u""p; while :; do sleep 0.05; done'`
	inModes(t, func(s *scene, pty string) {
		t := s.T
		m := s.bashInTmux()
		m.line("withlease " + pty + " r -- " + command)
		m.shows(`(?m)^up`)
		m.do("kill-pane")
		s.gone()
		// Below a shell, in share mode, there may be two, as without us: the shell's,
		// and the kernel's when the shell ends.
		if got := slurp(s.path("f")); got != "H\n" && (pty == "--pty=always" || got != "H\nH\n") {
			t.Errorf("the command was told %q", got)
		}
		s.free("r")
	})
	t.Run("alone", func(t *testing.T) {
		inModes(t, func(s *scene, pty string) {
			t := s.T
			s.write("run", "#!/bin/sh\nexec withlease "+pty+" r -- "+command+"\n")
			m := s.tmux("./run")
			m.shows(`(?m)^up`)
			m.do("kill-pane")
			s.gone()
			if got := slurp(s.path("f")); got != "H\n" {
				t.Errorf("the command was told %q", got)
			}
			s.free("r")
		})
	})
}

// TestC43_WindowClosesOnStubborn: what ignores the HUP is killed after the
// grace, and holds the lease until then.
func TestC43_WindowClosesOnStubborn(t *testing.T) {
	const command = `sh -c 'trap "" HUP; echo $$ >pid; echo u""p; sleep 60; sleep 60'`
	inModes(t, func(s *scene, pty string) {
		t := s.T
		m := s.bashInTmux()
		m.line("withlease --grace=1s " + pty + " r -- " + command)
		m.shows(`(?m)^up`)
		pid := s.pidIn("pid")
		closed := time.Now()
		m.do("kill-pane")
		// Never free while it lives.
		for alive(pid) {
			if ran, _ := s.claim("r"); ran && alive(pid) {
				t.Error("the lease was given away while the command lived")
			}
			if time.Since(closed) > patience {
				t.Fatal("the command was not killed")
			}
		}
		if took := time.Since(closed); took < time.Second {
			t.Errorf("it was killed after %v, without its grace", took)
		}
		s.gone()
		s.free("r")
	})
	// A job in the background isn't the terminal's: nohup is its own affair.
	t.Run("nohup in the background", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		m := s.bashInTmux()
		m.line("withlease --grace=100ms r -- nohup sh -c 'echo $$ >pid; while ! test -e go; do sleep 0.05; done' >out 2>&1 &")
		pid := s.pidIn("pid")
		m.do("kill-pane")
		s.eventually("tmux is gone", func() bool { return !strings.Contains(s.describe(), "tmux") })
		time.Sleep(500 * time.Millisecond) // five graces
		if !alive(pid) {
			t.Error("it was killed")
		}
		s.held("r")
		s.write("go", "")
		s.gone()
		s.free("r")
	})
}

// TestB66_LineCut: the terminal goes away under a run, and under a wait.
func TestB66_LineCut(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		x := s.open(bin, pty, "r", "--", "sh", "-c", `echo u""p; exec tail -f /dev/null`)
		x.isUp()
		x.hangUp()
		if rc := x.wait(); rc != 129 {
			t.Errorf("rc %d, want 129", rc)
		}
		if used := x.cmd.ProcessState.UserTime() + x.cmd.ProcessState.SystemTime(); used > time.Second {
			t.Errorf("it used %v of CPU", used)
		}
		s.gone()
		s.free("r")

		// With a command that stays: no busy loop on EIO until its grace is over.
		x = s.open(bin, "--grace=1s", pty, "r", "--", "sh", "-c", `trap "" HUP; echo u""p; while :; do sleep 0.1; done`)
		x.isUp()
		x.hangUp()
		x.wait()
		if used := x.cmd.ProcessState.UserTime() + x.cmd.ProcessState.SystemTime(); used > 500*time.Millisecond && !raceEnabled {
			t.Errorf("it used %v of CPU", used)
		}
		s.gone()
		s.free("r")

		s.hold()
		x = s.openWith([]string{other}, bin, pty, "r", "--", "touch", "ran")
		x.expect("withlease: waiting")
		s.eventually("it is in the line", func() bool { return len(s.waiters()) > 0 })
		x.hangUp()
		if rc := x.wait(); rc != 129 {
			t.Errorf("waiting: rc %d, want 129", rc)
		}
		if left := s.waiters(); len(left) > 0 || s.has("ran") {
			t.Errorf("left in the line: %v, ran: %v", left, s.has("ran"))
		}
	})
}

// TestC69_KilledWrapperInDash: dash leaves a terminal as it finds it, so the
// monitor gives it its settings back. Also settings that the user changed while
// the job was stopped.
func TestC69_KilledWrapperInDash(t *testing.T) {
	for _, changed := range []bool{false, true} {
		name := "plain"
		if changed {
			name = "changed while stopped"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).dash()
			x.line("withlease --pty=always r -- " + up)
			x.isUp()
			if changed {
				x.keys(ctrlZ)
				x.ready()
				x.does("stty erase ^H")
				x.line("fg")
				x.isRaw()
			}
			unix.Kill(x.wrapper(), unix.SIGKILL)
			killed := time.Now()
			x.eventually("the terminal is sane", func() bool { return sane(x.settings()) })
			if took := time.Since(killed); took > 5*time.Second {
				t.Errorf("that took %v", took)
			}
			x.ready()
			if changed && x.settings().Cc[unix.VERASE] != 8 {
				t.Error("the user's last change is lost")
			}
			x.becomesFree("r")
			x.gone(x.cmd.Process.Pid)
		})
	}
}

// killedWrapper is C44 at a terminal: a plain command doesn't outlive its
// wrapper.
func killedWrapper(x *screen, w string) {
	x.Helper()
	x.line(w + up)
	x.isUp()
	unix.Kill(x.wrapper(), unix.SIGKILL)
	x.ready()
	x.gone(x.cmd.Process.Pid)
	x.becomesFree("r")
}

// TestC70_OtherBuilds: the fragile ones on one processor, and with the race
// detector, which reports on the terminal.
func TestC70_OtherBuilds(t *testing.T) {
	scenarios := []struct {
		name string
		run  func(x *screen, w string)
	}{{"C24", interruptTwice}, {"C29", stopAndContinue}, {"C44", killedWrapper}, {"C37", resizes}}
	run := func(t *testing.T, env ...string) {
		for _, c := range scenarios {
			t.Run(c.name, func(t *testing.T) {
				inModes(t, func(s *scene, pty string) {
					t := s.T
					x := s.bash(env...)
					c.run(x, "withlease "+pty+" r -- ")
					if strings.Contains(x.text(), "DATA RACE") {
						t.Error("a data race")
					}
				})
			})
		}
	}
	t.Run("GOMAXPROCS=1", func(t *testing.T) { run(t, "GOMAXPROCS=1") })
	t.Run("race", func(t *testing.T) {
		if raceEnabled {
			run(t) // the program is a race build already
			return
		}
		dir := t.TempDir()
		build := exec.Command("go", "build", "-race", "-o", filepath.Join(dir, "withlease"), "withlease")
		build.Env = append(os.Environ(), "CGO_ENABLED=1") // the tests themselves may run without
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build -race: %v\n%s", err, out)
		}
		run(t, "PATH="+dir+":/usr/local/bin:/usr/bin:/bin")
	})
}
