package run_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// B05: TERM at any moment between the start of withlease and that of its
// command. 300 rounds, eight at a time, each in a base directory of its own.
func TestB05_SignalBetweenClaimAndStart(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		rounds := 300
		if pty == "--pty=always" {
			rounds = 150
		}
		var mu sync.Mutex
		var moments = map[string]int{}
		numbers := make(chan int)
		var done sync.WaitGroup
		for range 8 {
			done.Add(1)
			go func() {
				defer done.Done()
				for n := range numbers {
					base := s.path(fmt.Sprintf("base%d", n))
					moment := roundOfB05(t, s, pty, base)
					mu.Lock()
					moments[moment]++
					mu.Unlock()
				}
			}()
		}
		for n := range rounds {
			numbers <- n
		}
		close(numbers)
		done.Wait()
		t.Logf("TERM came: %v", moments)
		if moments["before the claim"] == rounds || moments["after the start"] == rounds {
			t.Errorf("no moment of interest was hit: %v", moments)
		}
		s.eventually("no command lives on", func() bool { return len(s.processes()) == 0 })
	})
}

// roundOfB05 says in which part of the way the signal came.
func roundOfB05(t *testing.T, s *scene, pty, base string) string {
	cmd := s.withlease(pty, "gpu", "--", "sleep", "301")
	cmd.Env = append(cmd.Env, "WITHLEASE_DIR="+base)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return ""
	}
	// Half of the rounds at a random time, the others when the lease shows, and a
	// moment later: the machine is slower or faster than any time that one names.
	lease := base + "/leases/gpu"
	if rand.IntN(2) == 0 {
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
	} else {
		for time.Since(began) < patience {
			if _, err := os.Lstat(lease); err == nil {
				break
			}
		}
		time.Sleep(time.Duration(rand.IntN(3_000)) * time.Microsecond)
	}
	moment := "before the claim"
	if _, err := os.Lstat(lease); err == nil {
		moment = "between claim and start"
		if strings.Contains(slurp(lease+"/process.json"), `"child"`) {
			moment = "after the start"
		}
	}
	cmd.Process.Signal(unix.SIGTERM)
	hung := time.AfterFunc(patience, func() {
		t.Errorf("%s: it has not ended", moment)
		cmd.Process.Kill()
	})
	cmd.Wait()
	hung.Stop()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != unix.SIGTERM {
		t.Errorf("%s: %s, want death by TERM", moment, ending(ws))
	}
	if _, err := os.Lstat(lease); err == nil {
		t.Errorf("%s: the lease is left", moment)
	}
	return moment
}

// B07: what the caller ignores stays ignored, for withlease and for the command.
func TestB07_IgnoredStaysIgnored(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := s.run(s.sh(`trap "" HUP; exec $W --pty=never gpu -- sh -c "kill -HUP \$PPID; sleep .3; grep SigIgn /proc/self/status"`)).exits(0)
	if sigMask(t, p.stdout(), "SigIgn")&bit(unix.SIGHUP) == 0 {
		t.Errorf("the command has %s", p.stdout())
	}
	inModes(t, func(s *scene, pty string) {
		p := s.start(s.sh(`trap "" HUP INT; exec $W $1 gpu -- sh -c 'echo $$ >pid; until test -e end; do sleep .01; done; grep SigIgn /proc/self/status'`, pty))
		s.pidIn("pid")
		p.signal(unix.SIGHUP)
		p.signal(unix.SIGINT)
		s.write("end", "")
		p.exits(0)
		if got := sigMask(t, p.stdout(), "SigIgn"); got&bit(unix.SIGHUP) == 0 || got&bit(unix.SIGINT) == 0 {
			t.Errorf("the command ignores %#x", got)
		}
		s.free("gpu")
	})
}

// B29: 128+N, and N itself, for every kind.
func TestB29_StatusOfADeath(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		for _, sig := range []syscall.Signal{1, 2, 3, 6, 9, 11, 13, 15, 40} {
			p := s.run(s.sh(`ulimit -c 0; $W $1 gpu -- sh -c "kill -$2 \$\$"; echo $?`, pty, fmt.Sprint(int(sig)))).exits(0)
			if got := strings.TrimSpace(p.stdout()); got != fmt.Sprint(128+int(sig)) {
				t.Errorf("signal %d: status %s", sig, got)
			}
			if strings.Contains(p.stderr(), "goroutine") {
				t.Errorf("signal %d: it says %.300q", sig, p.stderr())
			}
			s.free("gpu")
		}
	})
}

// B46: each signal once, and the wrapper stays. CONT isn't handed on: whoever
// continues a job continues the whole group (terminal-checks.md section 10
// against the case).
func TestB46_EverySignalWhileRunning(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		c := s.tally([]string{pty, "gpu"})
		sent := []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
		for _, sig := range sent {
			c.signal(unix.SIGCONT)
			c.signal(sig)
			c.comes(sig, 1)
		}
		c.finish()
		for _, sig := range sent {
			if n := c.count(sig); n != 1 {
				t.Errorf("%s came %d times", unix.SignalName(sig), n)
			}
		}
		if n := c.count(unix.SIGCONT); n != 0 {
			t.Errorf("CONT came %d times", n)
		}
		if c.stderr() != "" {
			t.Errorf("it says %q", c.stderr())
		}
	})
}

func TestB46_EverySignalWhileWaiting(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		h := s.holder("gpu")
		for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM} {
			p := s.start(s.withlease(pty, "gpu", "--", "touch", "ran"))
			s.eventually("it waits", func() bool { return strings.Contains(p.stderr(), "waiting for gpu") })
			p.signal(unix.SIGWINCH) // changes nothing
			p.signal(unix.SIGCONT)
			p.signal(sig)
			p.dies(sig)
			if p.ws.CoreDump() || strings.Contains(p.stderr(), "goroutine") {
				t.Errorf("%s: %s, it says %.300q", unix.SignalName(sig), ending(p.ws), p.stderr())
			}
			if places, _ := filepath.Glob(s.base + "/leases/.queue/gpu/[.0-9]*"); len(places) > 0 {
				t.Errorf("%s: a place is left: %v", unix.SignalName(sig), places)
			}
		}
		h.letGo()
		s.free("gpu")
		if s.has("ran") {
			t.Error("the command was started")
		}
	})
}

// B48: a command that has ended before anybody looks.
func TestB48_VeryShortCommand(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		busy := s.command("sh", "-c", "while :; do :; done") // a load of its own
		s.start(busy)
		for range 2 {
			for range 250 {
				s.timeOf(s.withlease(pty, "gpu", "--", "true"))
			}
		}
		busy.Process.Kill()
		s.free("gpu")
	})
}

// B49: the parent's death signal is that of a thread. No command is killed
// because a thread of withlease ends.
func TestB49_NoCommandIsKilled(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		var all []*process
		for i := range 30 {
			cmd := s.withlease(pty, fmt.Sprintf("r%d", i), "--", "sleep", "3")
			cmd.Env = append(cmd.Env, "GOMAXPROCS=2", "GOGC=1")
			all = append(all, s.start(cmd))
		}
		for _, p := range all {
			p.exits(0)
		}
	})
}

// B80: as the init of a container.
func TestB80_Init(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.run(s.command("unshare", "-Urpf", "--mount-proc", bin, pty, "gpu", "--", "sh", "-c", `(sleep .2 &) ; exit 3`))
		if strings.Contains(p.stderr(), "unshare") {
			t.Skipf("no namespaces here: %s", p.stderr())
		}
		p.exits(3)
		s.free("gpu")
		// With orphans that it is given and doesn't wait for.
		s.run(s.command("unshare", "-Urpf", "--mount-proc", bin, pty, "gpu", "--", "sh", "-c", `for i in 1 2 3 4 5 6 7 8; do (true &); done; sleep .2; exit 4`)).exits(4)
		// TERM to it: unshare has pid 1 as its only child.
		q := s.start(s.command("unshare", "-Urpf", "--mount-proc", bin, pty, "gpu", "--", "sh", "-c", `trap 'exit 5' TERM; echo >ready; while :; do sleep .01; done`))
		s.appears("ready")
		children := strings.Fields(slurp(fmt.Sprintf("/proc/%d/task/%d/children", q.pid(), q.pid())))
		if len(children) != 1 {
			t.Fatalf("unshare has the children %v", children)
		}
		var init int
		fmt.Sscan(children[0], &init)
		unix.Kill(init, unix.SIGTERM)
		q.exits(5)
		s.free("gpu")
		// Dying of a signal: pid 1 can't, so it is the status.
		r := s.run(s.command("unshare", "-Urpf", "--mount-proc", bin, pty, "gpu", "--", "sh", "-c", `kill -TERM $$`))
		if r.code() != 143 {
			t.Errorf("a death by TERM: %s", ending(r.ws))
		}
	})
}
