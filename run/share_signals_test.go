package run_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestC26_SignalsForwardedOnce(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		c := s.tally([]string{pty, "r"})
		sent := []syscall.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT}
		for _, sig := range sent {
			c.signal(sig)
			c.comes(sig, 1)
		}
		// Each a second time, as "hurry": what was doubled shows by now.
		for i, sig := range sent {
			for _, before := range sent[i:] {
				if n := c.count(before); n != 1 {
					t.Errorf("%s came %d times", unix.SignalName(before), n)
				}
			}
			c.signal(sig)
			c.comes(sig, 2)
		}
		c.finish()
		for _, sig := range sent {
			if n := c.count(sig); n != 2 {
				t.Errorf("%s came %d times, sent twice", unix.SignalName(sig), n)
			}
		}
		s.free("r")
	})
}

// A script's `kill $!` and make's TERM to its recipes come from a process of the
// wrapper's own group.
func TestC26_SignalOfTheOwnGroup(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.run(s.sh(`
			$W $1 r -- sleep 300 & w=$!
			until grep -q '"child"' base/leases/r/process.json 2>/dev/null; do sleep .01; done
			kill -TERM $w
			wait $w`, pty)).exits(143)
		if p.took > atOnce {
			t.Errorf("after %v", p.took)
		}
		s.free("r")
		s.write("Makefile", "t:\n\t$(W) "+pty+" r -- sh -c 'echo $$$$ >pid; exec sleep 300'\n")
		m := s.start(s.command("make"))
		pid := s.pidIn("pid")
		m.signal(unix.SIGTERM)
		s.eventually("make's recipe is ended", func() bool { return !alive(pid) })
		m.wait()
		s.becomesFree("r")
	})
}

func TestC27_OwnSignalDoesNotComeBack(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		c := s.tally([]string{pty, "r"}, "self")
		c.comes(unix.SIGUSR1, 1)
		c.signal(unix.SIGUSR2) // what comes back would be there before it
		c.comes(unix.SIGUSR2, 1)
		c.signal(unix.SIGTERM)
		c.comes(unix.SIGTERM, 1)
		c.finish()
		if n := c.count(unix.SIGUSR1); n != 1 {
			t.Errorf("its own USR1 came %d times", n)
		}
	})
}

// What is ours, and not the command's.
func TestC28_SignalsNotForwarded(t *testing.T) {
	t.Parallel()
	ours := []syscall.Signal{unix.SIGURG, unix.SIGCHLD, unix.SIGPROF, unix.SIGPIPE}
	inModes(t, func(s *scene, pty string) {
		c := s.tally([]string{pty, "r"})
		for _, sig := range ours {
			c.signal(sig)
		}
		c.signal(unix.SIGUSR1)
		c.comes(unix.SIGUSR1, 1)
		c.signal(unix.SIGUSR1)
		c.comes(unix.SIGUSR1, 2)
		c.finish()
		for _, sig := range ours {
			if n := c.count(sig); n != 0 {
				t.Errorf("%s came", unix.SignalName(sig))
			}
		}
	})
}

func TestC51_HeldWhileTheCommandCleansUp(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.start(s.withlease(pty, "r", "--", "sh", "-c", `
			trap 'echo >cleaning; until test -e clean; do sleep .01; done; exit 9' TERM
			echo >ready
			while :; do sleep .01; done`))
		s.appears("ready")
		p.signal(unix.SIGTERM)
		s.appears("cleaning")
		p.signal(unix.SIGTERM) // and again
		for range 20 {
			if ran, _ := s.claim("r"); ran {
				t.Fatal("the lease was given away while the command cleans up")
			}
		}
		s.write("clean", "")
		p.exits(9)
		s.free("r")
	})
}

func TestC53_Timeout(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		for _, c := range []struct {
			args []string
			code int
		}{
			{nil, 124},
			{[]string{"-s", "KILL"}, 137},
			{[]string{"--foreground"}, 124},
			{[]string{"--foreground", "-s", "KILL"}, 137},
		} {
			args := append(append([]string{}, c.args...), "1", bin, "--grace=1s", pty, "r", "--", "sleep", "300")
			if p := s.run(s.command("timeout", args...)); p.code() != c.code {
				t.Errorf("timeout %v: %s", c.args, ending(p.ws))
			}
			s.eventually("the command is gone", func() bool { return len(s.processes()) == 0 })
			if ran, said := s.claim("r"); !ran {
				t.Errorf("timeout %v: %s", c.args, said)
			}
		}
	})
}

// sigMask is a line of /proc/self/status.
func sigMask(t *testing.T, status, name string) uint64 {
	t.Helper()
	m := regexp.MustCompile(name + `:\s*([0-9a-f]{16})`).FindStringSubmatch(status)
	if m == nil {
		t.Fatalf("no %s in %q", name, status)
	}
	mask, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

func bit(sig syscall.Signal) uint64 { return 1 << (uint(sig) - 1) }

func TestC55_Nohup(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.run(s.command("nohup", bin, pty, "r", "--", "grep", "SigIgn", "/proc/self/status")).exits(0)
		if sigMask(t, p.stdout(), "SigIgn")&bit(unix.SIGHUP) == 0 {
			t.Errorf("HUP is not ignored: %s", p.stdout())
		}
	})
}

// A shell without job control ignores INT and QUIT in its background jobs. Go
// keeps that of INT; QUIT is default again before main begins, which no pure Go
// program can help (a documented gap).
func TestC56_BackgroundOfAScript(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.run(s.sh(`$W $1 r -- grep SigIgn /proc/self/status & wait $!`, pty)).exits(0)
		if got := sigMask(t, p.stdout(), "SigIgn"); got&bit(unix.SIGINT) == 0 {
			t.Errorf("INT is not ignored: %#x", got)
		}
	})
}

func TestC58_FileLimit(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		// 64 leaves no room for the witness at its usual number.
		for _, limit := range []int{256, 64} {
			p := s.run(s.sh(fmt.Sprintf(`ulimit -Sn %d; $W $1 r -- sh -c 'ulimit -Sn; ulimit -Hn'`, limit), pty)).exits(0)
			want := s.run(s.sh(fmt.Sprintf(`ulimit -Sn %d; ulimit -Sn; ulimit -Hn`, limit))).stdout()
			if p.plain() != want {
				t.Errorf("with %q, without %q", strings.Fields(p.stdout()), strings.Fields(want))
			}
		}
	})
}
