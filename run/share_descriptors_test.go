package run_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// descriptors are those of a process, by number, with what they lead to.
func descriptors(pid int) map[string]string {
	all := map[string]string{}
	names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, n := range names {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, n.Name()))
		if err == nil {
			all[n.Name()] = to
		}
	}
	return all
}

func TestC47_DaemonKeepsNothing(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.withlease(pty, "r", "--", "sh", "-c", daemon)).exits(0)
		s.free("r") // at once, though the daemon has the witness
		if ran, said := s.claim("r"); !ran {
			t.Errorf("the next can't have it: %s", said)
		}
		pid := s.pidIn("daemon")
		if !alive(pid) {
			t.Fatal("the daemon is gone")
		}
		for _, to := range descriptors(pid) {
			if strings.HasSuffix(to, "/witness (deleted)") {
				return
			}
		}
		t.Errorf("the daemon has no witness, so nothing was tested: %v", descriptors(pid))
	})
}

// daemon leaves a process with its own session and streams, as ssh-agent does.
const daemon = `setsid sh -c 'echo $$ >daemon; exec sleep 300' >/dev/null 2>&1 </dev/null &
	until test -s daemon; do sleep .01; done`

// C59, B43: the command gets what the caller left open, and the witness.
func TestC59_Descriptors(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		list := `for f in /proc/$$/fd/*; do echo "$(basename $f) $(readlink $f)"; done >&7`
		given := func(withlease ...string) []string {
			name := s.path(fmt.Sprintf("given%d", len(withlease)))
			s.run(s.sh(`exec 7>$1 8<Given; shift; exec "$@"`, append([]string{name}, append(withlease, "bash", "-c", list)...)...)).exits(0)
			return strings.Split(strings.TrimSpace(slurp(name)), "\n")
		}
		s.write("Given", "")
		without := given()
		with := given(bin, pty, "r", "--")
		var numbers, witness []string
		for _, line := range with {
			number, to, _ := strings.Cut(line, " ")
			if strings.HasSuffix(to, "/leases/r/witness") {
				witness = append(witness, number)
				continue
			}
			numbers = append(numbers, number)
			if strings.Contains(to, "anon_inode") || strings.Contains(to, "ptmx") || strings.Contains(to, "socket") || strings.Contains(to, "/base/") {
				t.Errorf("the command has %s", line)
			}
		}
		var want []string
		for _, line := range without {
			number, _, _ := strings.Cut(line, " ")
			want = append(want, number)
		}
		if !slices.Equal(numbers, want) || !slices.Equal(witness, []string{"200"}) {
			t.Errorf("with %q, without %q", with, without)
		}
	})
}

func TestC60_ProcessSubstitution(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.command("bash", "-c", `$W $0 r -- diff <(echo a) <(echo a)`, pty)).exits(0)
		s.run(s.command("bash", "-c", `$W $0 r -- diff <(echo a) <(echo b)`, pty)).exits(1)
	})
}

// C61, B44: make's jobserver reaches the inner make. The jobs run together, or
// each would wait for the others for ever; that it takes less than 0.8 s would
// say the same only on an idle machine.
func TestC61_Jobserver(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.write("Makefile", "all:\n\t+$(W) "+pty+" r -- $(MAKE) -f sub.mk\n")
		s.write("sub.mk", `all: a b c
a b c:
	@touch $@; n=0; until test -e a -a -e b -a -e c; do n=$$((n+1)); test $$n -lt 2000 || exit 1; sleep .01; done
.PHONY: all
`)
		p := s.run(s.command("make", "-j4")).exits(0)
		if said := p.stdout() + p.stderr(); strings.Contains(said, "jobserver") {
			t.Errorf("make says %q", said)
		}
		s.free("r")
	})
}

// noPTYs begin a script that runs in namespaces of its own, in which no terminal
// is to be had: there are none, or as many as the kernel allows are open, or
// withlease finds no descriptors for it, or not itself for the monitor.
var noPTYs = map[string]string{
	"few descriptors": `ulimit -n 20`,
	"no /proc":        `mount -t tmpfs none /proc`,
	"absent":          `mount --bind /dev/null /dev/ptmx`,
	"full":            `mount -t devpts -o newinstance,max=1,ptmxmode=0666 none /dev/pts; mount --bind /dev/pts/ptmx /dev/ptmx; exec 9<>/dev/ptmx`,
}

func TestC65_NoTerminalToBeHad(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector wants /proc")
	}
	t.Parallel()
	for name, mount := range noPTYs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			inside := func(script string) string { return "set -e; " + mount + "; set +e; " + script }
			p := s.run(s.command("unshare", "-Urm", "sh", "-c", inside(`$W --pty=always r -- touch ran; echo $?`)))
			if p.code() != 0 {
				t.Skipf("no namespaces here: %s", p.stderr())
			}
			if p.stdout() != "125\n" || strings.Count(p.stderr(), "\n") != 1 || !regexp.MustCompile(`^withlease: no terminal is to be had: .* \(run it with --pty=never\)\n$`).MatchString(p.stderr()) {
				t.Errorf("it exits %q and says %q", p.stdout(), p.stderr())
			}
			if s.has("ran") {
				t.Error("the command was started")
			}
			s.free("r")

			// auto falls back, and says so. It asks for one only as the leader of
			// a terminal's foreground, so that is what the script makes it.
			x := s.openWith(nil, "unshare", "-Urm", "sh", "-c", inside(`exec $W r -- sh -c 'echo; echo shares: $(tty)'`))
			said := x.expect(`shares: .*\n`)
			if code := x.wait(); code != 0 {
				t.Errorf("it exits %d", code)
			}
			if !strings.Contains(said, "withlease: no terminal is to be had") {
				t.Errorf("it doesn't say so: %q", said)
			}
			s.free("r")
		})
	}
}

// B43: a command that reads its terminal doesn't outlive the wrapper: nobody
// else keeps the master.
func TestB43_NobodyKeepsTheMaster(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		x := s.open(bin, pty, "--grace=100ms", "r", "--", "sh", "-c", "echo $$ >pid; exec cat")
		pid := s.pidIn("pid")
		s.eventually("cat waits", func() bool { return procState(pid) == 'S' })
		for n, to := range descriptors(pid) {
			if strings.Contains(to, "ptmx") || strings.Contains(to, "anon_inode") || strings.Contains(to, "socket") {
				t.Errorf("the command has %s: %s", n, to)
			}
		}
		x.cmd.Process.Kill()
		s.eventually("cat has ended", func() bool { return !alive(pid) })
		s.eventually("the lease can be had", func() bool { ran, _ := s.claim("r"); return ran })
	})
}

// B44: a descriptor that the caller opened is the command's.
func TestB44_PassedDescriptor(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.write("file", "seven\n")
		p := s.run(s.sh(`$W $1 r -- sh -c 'cat <&7' 7<file`, pty)).exits(0)
		if p.plain() != "seven\n" {
			t.Errorf("descriptor 7 gives %q", p.stdout())
		}
	})
}

// B09: as C47, and nothing else of withlease's stays with the daemon. The case
// wants no descriptor into the lease directory at all; design.md keeps the
// witness, which a process can't be made to close: it is a deleted file that
// nobody asks any more.
func TestB09_Daemon(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.withlease(pty, "gpu", "--", "sh", "-c", daemon)).exits(0)
		if ran, said := s.claim("gpu"); !ran {
			t.Errorf("the next can't have it: %s", said)
		}
		for n, to := range descriptors(s.pidIn("daemon")) {
			ours := strings.Contains(to, s.base) || strings.Contains(to, "ptmx") || strings.Contains(to, "anon_inode") || strings.Contains(to, "socket")
			if ours && !(strings.HasSuffix(to, "/witness (deleted)") && n == "200") {
				t.Errorf("the daemon has %s: %s", n, to)
			}
		}
	})
}
