package run_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stops types ^Z and waits for bash's word that the job is stopped, and its
// prompt.
func (x *screen) stops() {
	x.Helper()
	x.keys(ctrlZ)
	x.isStopped()
}

func (x *screen) isStopped() {
	x.Helper()
	x.expect(`\[1\]\+  Stopped.*\r\n`)
	x.ready()
}

// TestC29_StopAndContinue_B03: ^Z, jobs, fg, ^C.
func TestC29_StopAndContinue_B03(t *testing.T) { inBash(t, stopAndContinue) }

func stopAndContinue(x *screen, w string) {
	x.Helper()
	before := x.settings()
	x.line(w + up)
	x.isUp()
	x.stops()
	if now := x.settings(); now != before {
		x.Errorf("bash's prompt has other settings: %+v, before %+v", now, before)
	}
	if jobs := x.does("jobs"); !strings.Contains(jobs, "Stopped") {
		x.Errorf("jobs: %q", jobs)
	}
	if settings := x.does("stty -a"); !strings.Contains(settings, " echo ") || !strings.Contains(settings, " icanon ") {
		x.Errorf("a command sees %s", settings)
	}
	x.held("r")
	x.line("fg")
	x.expect("withlease .*\r\n")
	x.running(x.wrapper())
	x.keys(ctrlC)
	x.ready()
	if rc := x.rc(); rc != "130" {
		x.Errorf("rc %s", rc)
	}
	x.free("r")
	x.gone(x.cmd.Process.Pid)
}

// running waits until a process isn't stopped.
func (s *scene) running(pid int) {
	s.Helper()
	s.eventually(fmt.Sprintf("process %d goes on", pid), func() bool { return procState(pid) != 'T' })
}

// TestC30_StopFortyTimes: no round hangs, none stops twice.
func TestC30_StopFortyTimes(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.line(w + `sh -c 'echo u""p; exec sed -u "s/^/got /"'`)
		x.isUp()
		x.line("0")
		x.expect("got 0\r\n")
		pid := x.wrapper()
		for i := range 40 {
			// No person is so fast: while it wakes up from the last stop, ^Z stops it
			// before its command, which then can take the next key.
			x.eventually("the wrapper is awake", func() bool { return catches(pid, unix.SIGTSTP) })
			x.keys(ctrlZ)
			x.isStopped()
			x.line("fg")
			x.expect("withlease .*\r\n") // the terminal is no longer the shell's
			x.line(fmt.Sprint(i + 1))
			// A stop in between would show bash's word for it.
			if out := x.expect(fmt.Sprintf("got %d\r\n", i+1)); strings.Contains(out, "Stopped") {
				t.Fatalf("round %d: %q", i, out)
			}
		}
		x.keys(ctrlD)
		x.ready()
		if rc := x.rc(); rc != "0" {
			t.Errorf("rc %s", rc)
		}
		x.free("r")
	})
}

// catches says whether a process has a handler for a signal.
func catches(pid int, sig syscall.Signal) bool {
	_, mask, _ := strings.Cut(slurp(fmt.Sprintf("/proc/%d/status", pid)), "SigCgt:\t")
	n, _ := strconv.ParseUint(mask[:min(len(mask), 16)], 16, 64)
	return n&(1<<(uint(sig)-1)) != 0
}

// inner starts a bash under withlease, with a prompt of its own.
func (x *screen) inner(w string) {
	x.Helper()
	x.line(w + "bash --norc --noprofile -i")
	x.ready()
	x.line(`PS1='inner""> '`)
	x.expect(`inner""> $`)
}

// TestC31_JobInside: the jobs of a shell under withlease are its own.
func TestC31_JobInside(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.inner(w)
		x.line(up)
		x.isUp()
		x.keys(ctrlZ)
		x.expect(`\[1\]\+  Stopped.*\r\n`)
		x.expect(`inner""> $`)
		x.line("kill %1; while kill -0 %1 2>/dev/null; do :; done; jobs; echo level $SHLVL")
		out := x.expect(`inner""> $`)
		if !strings.Contains(out, "Terminated") || strings.Contains(out, "withlease") {
			t.Errorf("jobs inside: %q", out)
		}
		x.held("r")
		x.line("exit 5")
		x.ready()
		if rc := x.rc(); rc != "5" {
			t.Errorf("rc %s", rc)
		}
		x.free("r")
	})
}

// TestC32_Suspend: a shell that suspends itself gives the outer one the prompt,
// and comes back with its echo.
func TestC32_Suspend(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		before := x.settings()
		x.inner(w)
		for range 3 {
			x.line("suspend")
			x.isStopped()
			if now := x.settings(); now != before {
				t.Errorf("the outer prompt has other settings: %+v, before %+v", now, before)
			}
			x.held("r")
			x.line("fg")
			x.expect("withlease .*\r\n")
			x.line(`echo al''ive`)
			x.expect(`echo al''ive\r\nalive\r\n`)
			x.expect(`inner""> $`)
		}
		x.line("exit 6")
		x.ready()
		if rc := x.rc(); rc != "6" {
			t.Errorf("rc %s", rc)
		}
		x.free("r")
	})
}

// TestC33_StoppedFromOutside: kill -STOP of the command stops the job.
func TestC33_StoppedFromOutside(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.line(w + `sh -c 'echo $$ >pid; exec sed -u "s/^/got /"'`)
		pid := x.pidIn("pid")
		unix.Kill(pid, unix.SIGSTOP)
		x.isStopped()
		x.line("fg")
		x.expect("withlease .*\r\n")
		x.line("1")
		x.expect("got 1\r\n")
		x.keys(ctrlD)
		x.ready()
		if rc := x.rc(); rc != "0" {
			t.Errorf("rc %s", rc)
		}
	})
}

// TestC34_BackgroundRead: a job in the background that reads is stopped, and
// fg gives it the keys, with a single echo.
func TestC34_BackgroundRead(t *testing.T) {
	for _, pty := range []string{"auto", "never", "always"} {
		t.Run(pty, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			before := x.settings()
			x.line("withlease --pty=" + pty + " r -- cat &")
			x.ready()
			x.stopped(x.wrapper())
			if now := x.settings(); now != before {
				t.Errorf("a job in the background changed the terminal: %+v, before %+v", now, before)
			}
			x.eventually("bash says so", func() bool { return strings.Contains(x.does("jobs"), "Stopped") })
			x.line("fg")
			x.expect("withlease .*\r\n")
			x.running(x.wrapper())
			if pty == "always" {
				x.isRaw() // typed before, it would be shown by both terminals
			}
			x.line("hello")
			if got := x.expect("hello\r\nhello\r\n"); got != "hello\r\nhello\r\n" {
				t.Errorf("shown: %q", got)
			}
			x.keys(ctrlD)
			x.ready()
			if rc := x.rc(); rc != "0" {
				t.Errorf("rc %s", rc)
			}
			if strings.Count(x.text(), "hello") != 2 {
				t.Error("hello was shown more than twice")
			}
			x.free("r")
		})
	}
}

// TestC35_StoppedHolder: a stopped wrapper can't renew its lease, and keeps it.
func TestC35_StoppedHolder(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		const ttl = 400 * time.Millisecond
		x := s.bash()
		x.line("withlease --ttl=" + ttl.String() + " " + pty + " r -- " + up)
		x.isUp()
		x.stops()
		time.Sleep(3 * ttl) // the point of the test: that time alone changes nothing
		if ran, said := s.claim("r"); ran || !strings.Contains(said, "held by") {
			t.Errorf("another claim: ran %v, said %q", ran, said)
		}
		x.line("fg")
		x.expect("withlease .*\r\n")
		x.running(x.wrapper())
		x.held("r")
		x.keys(ctrlC)
		x.ready()
		if rc := x.rc(); rc != "130" {
			t.Errorf("rc %s", rc)
		}
		x.free("r")
	})
}

// TestC36_LostWhileStopped: a lease that was forced away while its holder was
// stopped. With a terminal of its own the command never runs again; in share
// mode the shell continues both at once, and the command is ended at once.
func TestC36_LostWhileStopped(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.line(w + `sh -c 'echo u""p; while :; do echo x >>steps; done'`)
		x.isUp()
		x.stops()
		x.run(x.withlease("--name", "somebody", "release", "--force", "--reason", "test", "r")).exits(0)
		steps := slurp(x.path("steps"))
		x.line("fg")
		if out := x.ready(); !strings.Contains(out, "withlease: the lease was lost: r was taken away") {
			x.Errorf("it said: %q", out)
		}
		if rc := x.rc(); rc != "123" {
			t.Errorf("rc %s", rc)
		}
		if strings.Contains(w, "always") && slurp(x.path("steps")) != steps {
			t.Error("the command went on without the lease")
		}
		x.gone(x.cmd.Process.Pid)
	})
}

// TestB38_Background: what runs in the background leaves the terminal alone.
func TestB38_Background(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		w := "withlease " + pty + " r -- "
		x := s.dash() // no line editor: the settings at its prompt are the terminal's
		x.does("stty sane")
		before := x.settings()
		same := func(when string) {
			t.Helper()
			if now := x.settings(); now != before {
				t.Errorf("%s the terminal has other settings: %+v, before %+v", when, now, before)
			}
		}
		x.line(w + `sh -c 'echo u""p >&2; while ! test -e go; do sleep 0.05; done; echo d""one' &`)
		// Two terminals, and none raw: both add a carriage return, which nobody sees.
		x.expect("up\r+\n")
		same("while a job runs in the background")
		x.write("go", "")
		x.expect("done\r+\n")
		s.becomesFree("r")
		same("after it")

		// A command that would change the settings is stopped, as without us.
		x.line(w + "stty sane &")
		x.stopped(x.wrapper())
		same("while stty is stopped in the background")
		x.line("fg")
		s.becomesFree("r")
		s.gone(x.cmd.Process.Pid)

		x.line("stty tostop")
		s.eventually("tostop is set", func() bool { return x.settings().Lflag&unix.TOSTOP != 0 })
		x.line(w + `sh -c 'echo o""ut' &`)
		x.stopped(x.wrapper())
		if regexp.MustCompile(`out\r+\n`).MatchString(x.text()) {
			t.Error("it wrote from the background")
		}
		x.line("fg")
		x.expect("out\r+\n")
		s.becomesFree("r")
		s.gone(x.cmd.Process.Pid)
		x.line("stty -tostop")
		s.eventually("tostop is off again", func() bool { return x.settings().Lflag&unix.TOSTOP == 0 })
		same("at the end")
	})

	// In a script without job control the job is in the foreground group, with
	// its stdin from /dev/null: auto must see that.
	t.Run("script", func(t *testing.T) {
		t.Parallel()
		x := newScene(t).dash()
		before := x.settings()
		x.write("script", `withlease r -- sh -c 'echo u""p; sleep 0.3' & stty -a >settings; wait; echo d""one`+"\n")
		x.line("sh script")
		x.isUp()
		if now := x.settings(); now != before {
			t.Errorf("the terminal has other settings: %+v, before %+v", now, before)
		}
		x.expect("done\r\n")
		x.ready()
		x.free("r")
	})
}
