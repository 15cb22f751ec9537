package run_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestC01_ExitStatus(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.withlease(pty, "r", "--", "sh", "-c", "exit 7")).exits(7)
		s.free("r")
	})
}

func TestC02_DeathBySignal(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		for _, sig := range []syscall.Signal{
			unix.SIGINT, unix.SIGTERM, unix.SIGKILL, unix.SIGSEGV, unix.SIGHUP,
			unix.SIGPIPE, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGALRM,
		} {
			// With cores allowed, so that the wrapper's own would be seen.
			p := s.run(s.sh(`ulimit -c unlimited 2>/dev/null; exec $W $1 r -- sh -c "kill -$2 \$\$"`, pty, fmt.Sprint(int(sig)))).dies(sig)
			if p.ws.CoreDump() {
				p.Errorf("signal %d: the wrapper has left a core", sig)
			}
			if said := p.stdout() + p.stderr(); said != "" {
				p.Errorf("signal %d: it says %.500q", sig, said)
			}
			s.free("r")
		}
	})
}

func TestC03_MakeSeesInterrupt(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.write("Makefile", "t:\n\t@$(W) "+pty+" r -- sh -c 'kill -INT $$$$'\nu:\n\t@$(W) "+pty+" r -- sh -c 'kill -KILL $$$$'\n")
		for target, word := range map[string]string{"t": "Interrupt", "u": "Killed"} {
			p := s.run(s.command("make", target))
			if !strings.Contains(p.stderr(), "*** [Makefile:") || !strings.Contains(p.stderr(), "] "+word) {
				t.Errorf("make says %q, want %s", p.stderr(), word)
			}
		}
	})
}

func TestC04_NoSuchCommand(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.write("no-interpreter", "#!/nonexistent/sh\n")
		os.Chmod(s.path("no-interpreter"), 0o755)
		for _, c := range []struct {
			command string
			code    int
			claims  bool // only the kernel can tell
		}{
			{"/nonexistent", 127, false},
			{"no-such-command-anywhere", 127, false},
			{"/etc/passwd", 126, false},
			{"/etc", 126, false},
			{"./no-interpreter", 127, true},
		} {
			p := s.run(s.withlease(pty, "r", "--", c.command)).exits(c.code)
			if said := p.stderr(); !strings.HasPrefix(said, "withlease: ") || strings.Count(said, "\n") != 1 || !strings.Contains(said, c.command) {
				p.Errorf("%s: it says %q", c.command, said)
			}
			if p.stdout() != "" {
				p.Errorf("%s: standard output has %q", c.command, p.stdout())
			}
			if _, err := os.Stat(s.base); !c.claims && err == nil {
				p.Errorf("%s: something was claimed", c.command)
			}
			s.free("r")
		}
	})
}

func TestC05_HeldElsewhere(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		h := s.holder("r", pty)
		for _, flag := range []string{"--wait=0", "--no-wait", "-w50ms"} {
			s.run(s.withlease(pty, flag, "r", "--", "touch", "ran")).exits(75)
		}
		s.run(s.withlease(pty, "-n", "-E", "9", "r", "--", "touch", "ran")).exits(9)
		if _, err := os.Stat(s.path("ran")); err == nil {
			t.Error("the command was started")
		}
		h.letGo()
		s.free("r")
		s.run(s.withlease(pty, "--wait=0", "r", "--", "touch", "ran")).exits(0)
	})
}

func TestC06_BadFlag(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, args := range []string{"--bogus r -- true", "--wait=-1s r -- true", "--wait=x r -- true", "--pty=maybe r -- true", "--pty= r -- true ", "-E 256 r -- true", "--grace=-1s r -- true"} {
		p := s.run(s.withlease(strings.Fields(args)...))
		if args == "--pty= r -- true " {
			p.exits(0) // as if it weren't there: a script's empty variable
			os.RemoveAll(s.base)
			continue
		}
		p.exits(125)
		if said := p.stderr(); !strings.HasPrefix(said, "withlease: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: it says %q", args, said)
		}
		s.free("r")
		if _, err := os.Stat(s.base); err == nil {
			t.Errorf("%s: something was claimed", args)
			os.RemoveAll(s.base)
		}
	}
}
