package run_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Wrapper death: the wrapper is killed with SIGKILL, and what it ran lives on or
// not. Two things are promised: the lease is never free while a process of the
// command lives, and as few as the kernel lets us outlive the wrapper.

// deadly are the commands. Each writes the pids that count, one a line, into
// "pids", and "ready" last.
var deadly = []struct {
	name, script string
	// survives: in share mode the kernel tells only the command itself, by
	// PR_SET_PDEATHSIG. The rest lives, and holds the lease.
	survives bool
}{
	{"plain", `echo $$ >>pids; echo >ready; exec sleep 300`, false},
	{"ignores HUP and TERM", `trap "" HUP TERM; echo $$ >>pids; echo >ready; while :; do sleep 1; done`, true},
	{"ignores HUP and TERM, child", `trap "" HUP TERM; sleep 300 & echo $$ $! | tr " " "\n" >>pids; echo >ready; wait`, true},
	{"background child", `sleep 300 & echo $$ $! | tr " " "\n" >>pids; echo >ready; wait`, true},
	{"setsid child", `echo $$ >>pids; setsid sh -c 'echo $$ >>pids; echo >ready; exec sleep 300' & wait`, true},
	{"setsid child that ignores HUP and TERM", `echo $$ >>pids; setsid sh -c 'trap "" HUP TERM; echo $$ >>pids; echo >ready; while :; do sleep 1; done' & wait`, true},
	{"double fork", `echo $$ >>pids; (setsid sh -c 'echo $$ >>pids; echo >ready; exec sleep 300' &); exec sleep 300`, true},
	{"python subprocess", `echo $$ >>pids; exec ` + python + ` -c '
import subprocess, time
child = subprocess.Popen(["sh", "-c", "echo $$ >>pids; echo >ready; exec sleep 300"])
child.wait()'`, true},
	{"python subprocess in a session of its own", `echo $$ >>pids; exec ` + python + ` -c '
import subprocess, time
child = subprocess.Popen(["sh", "-c", "trap : HUP TERM; echo $$ >>pids; echo >ready; while :; do sleep 1; done"], start_new_session=True)
child.wait()'`, true},
}

// python is the system's, where there is one: a version manager's shim is a
// shell script that takes long.
var python = func() string {
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	return "python3"
}()

func TestWrapperDeath(t *testing.T) {
	t.Parallel()
	for _, d := range deadly {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			inModes(t, func(s *scene, pty string) {
				p := s.start(s.withlease(pty, "--grace=300ms", "r", "--", "sh", "-c", d.script))
				s.appears("ready")
				pids := s.pids("pids")
				s.held("r")
				p.signal(unix.SIGKILL)
				p.wait()
				survives := d.survives && pty == "--pty=never"
				if survives {
					s.neverFreeAndAlive("r", pids, 300*time.Millisecond)
					left := living(pids)
					if len(left) == 0 {
						t.Fatal("nothing has survived: is there no gap any more?")
					}
					// It is named, and can be ended.
					_, said := s.claim("r")
					if !strings.Contains(said, "its wrapper is gone, still running: ") || !strings.Contains(said, fmt.Sprint(left[len(left)-1])) {
						t.Errorf("of %v is said: %s", left, said)
					}
					if s.state("r") != "orphaned" {
						t.Errorf("state %q", s.state("r"))
					}
					s.run(s.withlease("release", "--kill", "--grace=300ms", "r")).exits(0)
				}
				// Until it is free: nobody lives when a claim succeeds.
				s.neverFreeAndAlive("r", pids, 0)
				if left := living(pids); len(left) > 0 {
					t.Errorf("%v live on", left)
				}
			})
		})
	}
}

// pids are the numbers in a file.
func (s *scene) pids(name string) []int {
	s.Helper()
	var pids []int
	for f := range strings.FieldsSeq(slurp(s.path(name))) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			s.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func living(pids []int) (left []int) {
	for _, pid := range pids {
		if alive(pid) {
			left = append(left, pid)
		}
	}
	return left
}

// neverFreeAndAlive claims again and again, for a time or (0) until a claim
// succeeds. Whoever lives after a claim that succeeded has lived before it.
func (s *scene) neverFreeAndAlive(res string, pids []int, d time.Duration) {
	s.Helper()
	most := d
	if d == 0 {
		most = patience
	}
	for began := time.Now(); time.Since(began) < most; {
		ran, _ := s.claim(res)
		if left := living(pids); ran && len(left) > 0 {
			for _, pid := range left {
				s.Logf("%d: %s", pid, strings.ReplaceAll(slurp(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " "))
			}
			s.Fatalf("%s was free while %v lived", res, left)
		}
		if ran {
			if d > 0 {
				s.Fatalf("%s was given away, with nobody of %v alive", res, pids)
			}
			return
		}
	}
	if d == 0 {
		s.Fatalf("%s never became free:\n%s", res, s.status(res))
	}
}

// C44: the plain command is dead soon, and the lease free.
func TestC44_PlainCommand(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.start(s.withlease(pty, "r", "--", "sh", "-c", "echo $$ >pid; exec sleep 300"))
		pid := s.pidIn("pid")
		p.signal(unix.SIGKILL)
		s.within(atOnce, "the command is dead", func() bool { return !alive(pid) })
		s.within(atOnce, "the lease can be had", func() bool { ran, _ := s.claim("r"); return ran })
	})
}

// C45: as the matrix above, the row that ignores HUP and TERM, with the grace
// that a person has.
func TestC45_StubbornCommand(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.start(s.withlease(pty, "--grace=2s", "r", "--", "sh", "-c", deadly[2].script))
		s.appears("ready")
		pids := s.pids("pids")
		p.signal(unix.SIGKILL)
		p.wait()
		s.neverFreeAndAlive("r", pids, time.Second) // within the grace nobody is killed
		if len(living(pids)) != 2 {
			t.Errorf("within the grace only %v of %v live", living(pids), pids)
		}
		if pty == "--pty=never" {
			for _, pid := range pids {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		s.neverFreeAndAlive("r", pids, 0)
	})
}

// C46, C48: whoever lives on is named, and what it held is free soon after its
// end.
func TestC46_SetsidChildHoldsTheLease(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := s.start(s.withlease("--pty=never", "r", "--", "sh", "-c", deadly[4].script))
	s.appears("ready")
	pids := s.pids("pids")
	child := pids[1]
	p.signal(unix.SIGKILL)
	p.wait()
	s.eventually("the command is dead", func() bool { return !alive(pids[0]) })
	ran, said := s.claim("r")
	if ran || !strings.Contains(said, fmt.Sprintf("its wrapper is gone, still running: %d sleep 300", child)) || !strings.Contains(said, "withlease release --kill r") {
		t.Errorf("C48: the contender is told %q", said)
	}
	waiter := s.start(s.withlease("r", "--", "true"))
	s.eventually("it says why it waits", func() bool { return strings.HasSuffix(waiter.stderr(), "\n") })
	if !strings.Contains(waiter.stderr(), fmt.Sprintf("%d sleep 300", child)) {
		t.Errorf("C48: who waits is told %q", waiter.stderr())
	}
	unix.Kill(child, unix.SIGKILL)
	waiter.exits(0) // the kernel wakes it; nobody polls
	s.free("r")
}

// C49: the witness is at no number that a script closes or uses.
func TestC49_ScriptClosesLowDescriptors(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.start(s.withlease(pty, "--grace=60s", "r", "--", "bash", "-c", `
			trap "" HUP TERM
			for fd in 3 4 5 6 7 8 9 10 11 255; do eval "exec $fd>/dev/null"; eval "exec $fd>&-"; done
			echo $$ >>pids; echo >ready
			while :; do sleep 1; done`))
		s.appears("ready")
		pids := s.pids("pids")
		p.signal(unix.SIGKILL)
		p.wait()
		// By the witness itself, and not by the token: this is what a process of
		// another user, whose environment can't be read, would go by.
		if to := descriptors(pids[0])["200"]; !strings.HasSuffix(to, "/leases/r/witness") {
			t.Errorf("the command's descriptors are %v", descriptors(pids[0]))
		}
		s.neverFreeAndAlive("r", pids, 300*time.Millisecond)
	})
}

// C50: a normal end is the end, whoever lives on: design.md section 5.
func TestC50_PythonEndsNormally(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.withlease(pty, "r", "--", python, "-c", `
import subprocess, os, time
subprocess.Popen(["sh", "-c", "trap : HUP; echo $$ >pid; exec setsid sleep 300"])
while not (os.path.exists("pid") and open("pid").read()): time.sleep(.01)`)).exits(0)
		s.free("r")
		if ran, said := s.claim("r"); !ran {
			t.Errorf("the next can't have it: %s", said)
		}
	})
}

// C52: a lost lease ends a stopped command too: TERM and CONT, then KILL.
func TestC52_LostWhileStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, trap string }{{"plain", ""}, {"ignores TERM", `trap "" TERM; `}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inModes(t, func(s *scene, pty string) {
				p := s.start(s.withlease(pty, "--grace=300ms", "r", "--", "sh", "-c", c.trap+`echo $$ >pid; while :; do sleep 1; done`))
				pid := s.pidIn("pid")
				unix.Kill(pid, unix.SIGSTOP)
				s.stopped(pid)
				s.run(s.withlease("release", "--force", "--reason", "test", "r")).exits(0)
				s.run(s.withlease("-n", "r", "--", "true")).exits(0) // it was forced: the next has it at once
				p.exits(123)
				if !strings.Contains(p.stderr(), "the lease was lost") {
					t.Errorf("it says %q", p.stderr())
				}
				if procState(pid) != 0 {
					t.Errorf("the command is left, in state %c", procState(pid))
				}
				s.free("r")
			})
		})
	}
}

// A force is heard of at once, by the byte in the witness, and not with the next
// renewal, which is 200 s away here.
func TestC52_LossIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		for range 10 {
			p := s.start(s.withlease(pty, "--ttl=600s", "r", "--", "sleep", "300"))
			s.eventually("the command runs", func() bool { return s.childOf("r") > 0 })
			s.run(s.withlease("release", "--force", "--reason", "test", "r")).exits(0)
			p.exits(123)
		}
	})
}

// B02: the case as it was reported.
func TestB02_CommandOutlivesItsWrapper(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script string }{
		{"command", `trap "" HUP TERM; echo $$ >>pids; echo >ready; until test -e end; do sleep .05; done`},
		{"grandchild", `trap "" HUP TERM; sh -c 'echo $$ >>pids; echo >ready; until test -e end; do sleep .05; done' & echo $$ >>pids; wait`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inModes(t, func(s *scene, pty string) {
				p := s.start(s.withlease(pty, "--grace=60s", "gpu", "--", "sh", "-c", c.script))
				s.appears("ready")
				pids := s.pids("pids")
				p.signal(unix.SIGKILL)
				p.wait()
				ran, said := s.claim("gpu")
				if ran || !strings.Contains(said, "its wrapper is gone, still running: ") || !strings.Contains(said, fmt.Sprint(pids[0])) {
					t.Errorf("the second is told %q", said)
				}
				s.neverFreeAndAlive("gpu", pids, 200*time.Millisecond)
				os.WriteFile(s.path("end"), nil, 0o600)
				s.neverFreeAndAlive("gpu", pids, 0)
			})
		})
	}
}
