package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// B06: nested under its own lease it runs at once, and the outer run keeps it.
func TestB06_Nested(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		s.run(s.withlease(pty, "gpu", "--", bin, pty, "gpu", "--", "sh", "-c", "exit 6")).exits(6)
		s.free("gpu")

		// The inner end releases nothing, and changes nothing in the record.
		p := s.run(s.sh(`$W $1 gpu -- sh -c '
			cat base/leases/gpu/holder.json >before
			$W gpu -- true || exit 1
			$W gpu -- $W gpu -- true || exit 2
			cmp before base/leases/gpu/holder.json || exit 3
			env -u WITHLEASE_HELD -u WITHLEASE_TOKEN $W -n gpu -- true 2>/dev/null
			test $? = 75 || exit 4'`, pty)).exits(0)
		if p.took > atOnce {
			t.Errorf("it took %v", p.took)
		}
		s.free("gpu")

		s.write("Makefile", "a:\n\t$(W) "+pty+" gpu -- $(MAKE) b\nb:\n\t$(W) gpu -- touch made\n")
		s.run(s.command("make", "a")).exits(0)
		if !s.has("made") {
			t.Error("the inner recipe has not run")
		}
	})
}

// B06: the environment alone proves nothing.
func TestB06_Forged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	// Without a live lease it claims its own.
	cmd := s.withlease("gpu", "--", "sh", "-c", `grep -q "$WITHLEASE_TOKEN" base/leases/gpu/process.json && test "$WITHLEASE_TOKEN" != forgedforgedforgedforgedforgedfo`)
	cmd.Env = append(cmd.Env, "WITHLEASE_HELD=gpu=forgedforgedforgedforgedforgedfo", "WITHLEASE_TOKEN=forgedforgedforgedforgedforgedfo")
	s.run(cmd).exits(0)
	h := s.holder("gpu")
	for _, forged := range []string{"gpu=forgedforgedforgedforgedforgedfo", "gpu=", "gpu", "=", ",,", "usb=x,gpu=\x01"} {
		cmd := s.withlease("-n", "gpu", "--", "touch", "ran")
		cmd.Env = append(cmd.Env, "WITHLEASE_HELD="+forged)
		s.run(cmd).exits(75)
	}
	if s.has("ran") {
		t.Error("a forged environment ran the command without the lease")
	}
	h.letGo()
}

// B06: A then B against B then A ends with the wait's limit, and not in a
// deadlock.
func TestB06_Crossed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	script := `$W $1 -- sh -c 'echo >'$1'; until test -e a -a -e b; do sleep .01; done; exec $W -w 300ms '$2' -- true'`
	ab, ba := s.start(s.sh(script, "a", "b")), s.start(s.sh(script, "b", "a"))
	if codes := ab.wait().code() + ba.wait().code(); codes != 75 && codes != 150 {
		t.Errorf("%s and %s", ending(ab.ws), ending(ba.ws)) // one may have it when the other has given up
	}
	s.free("a")
	s.free("b")
}

// B08: the run ends with the direct command. What it left in the background
// lives: in share mode always, in PTY mode unless the hang-up of the terminal
// ends it.
func TestB08_BackgroundGrandchild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		livesInPTY   bool
	}{
		{"plain", `sleep 300 & echo $! >bg; echo started`, false},
		{"ignores HUP", `(trap "" HUP; echo >ignores; exec sleep 300) & echo $! >bg; until test -s ignores; do sleep .01; done; echo started`, true},
		{"nohup", `nohup sh -c 'echo $$ >bg; exec sleep 300' >/dev/null 2>&1 & until test -s bg; do sleep .01; done; echo started`, true},
		{"setsid", `setsid sh -c 'echo $$ >bg; exec sleep 300' & until test -s bg; do sleep .01; done; echo started`, true},
		{"double fork", `(sh -c 'echo $$ >bg; exec sleep 300' &); until test -s bg; do sleep .01; done; echo started`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inModes(t, func(s *scene, pty string) {
				p := s.run(s.withlease(pty, "gpu", "--", "sh", "-c", c.script)).exits(0)
				if p.took > atOnce || p.plain() != "started\n" {
					t.Errorf("after %v standard output has %q", p.took, p.stdout())
				}
				s.free("gpu")
				bg := s.pidIn("bg")
				if pty == "--pty=always" && !c.livesInPTY {
					s.eventually("the hang-up ends the grandchild", func() bool { return !alive(bg) })
				} else if !alive(bg) {
					t.Error("the grandchild is gone")
				}
			})
		})
	}
}

// B28: the command's status passes through, whatever it is; ours are ours.
func TestB28_StatusPassesThrough(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		for _, n := range []int{0, 1, 2, 75, 123, 124, 125, 126, 127, 128, 129, 254, 255} {
			s.run(s.withlease(pty, "gpu", "--", "sh", "-c", fmt.Sprint("exit ", n))).exits(n)
		}
		for _, code := range []string{"256", "-1", "600", "x"} {
			s.run(s.withlease(pty, "-E", code, "gpu", "--", "touch", "ran")).exits(125)
		}
		h := s.holder("gpu")
		s.run(s.withlease(pty, "-n", "gpu", "--", "touch", "ran")).exits(75)
		s.run(s.withlease(pty, "-w", "20ms", "gpu", "--", "touch", "ran")).exits(75) // design.md: not 124
		s.run(s.withlease(pty, "-n", "-E", "0", "gpu", "--", "touch", "ran")).exits(0)
		s.run(s.withlease(pty, "-n", "-E", "42", "gpu", "--", "touch", "ran")).exits(42)
		h.letGo()
		if s.has("ran") {
			t.Error("a command was started")
		}
	})
}

// B34: who waits is told for whom, and where, and again when that changes.
func TestB34_WaitingSaysForWhom(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	host, _ := os.Hostname()
	h := s.holder("gpu", "--session", "session-1", "--name", "alice-agent", "--person", "Alice", "-p", "flash the board")
	next := s.start(s.withlease("--name", "bob", "-p", "measure", "gpu", "--", "sh", "-c", "echo >next; until test -e end; do sleep .01; done"))
	s.eventually("bob says why he waits", func() bool { return strings.HasSuffix(next.stderr(), "\n") })
	last := s.start(s.withlease("--name", "carol", "gpu", "--", "true"))
	s.eventually("carol says why she waits", func() bool { return strings.HasSuffix(last.stderr(), "\n") })
	for _, want := range []string{"withlease: ", "gpu", "alice-agent", "Alice", "session-1", host, fmt.Sprint(h.pid()), "flash the board", " for ", "place 1 in line", filepath.Join(s.base, "leases/gpu")} {
		if !strings.Contains(next.stderr(), want) {
			t.Errorf("bob isn't told %q: %s", want, next.stderr())
		}
	}
	for _, want := range []string{"alice-agent", "place 2 in line, behind bob: measure"} {
		if !strings.Contains(last.stderr(), want) {
			t.Errorf("carol isn't told %q: %s", want, last.stderr())
		}
	}
	h.letGo()
	s.appears("next")
	s.eventually("carol is told of the new holder", func() bool { return strings.Contains(last.stderr(), "held by bob") })
	s.write("end", "")
	next.exits(0)
	last.exits(0)

	// A record that can't be read doesn't hide where it is.
	h = s.holder("gpu")
	os.WriteFile(filepath.Join(s.base, "leases/gpu/holder.json"), []byte("{"), 0o600)
	p := s.start(s.withlease("gpu", "--", "true"))
	s.eventually("it says why it waits", func() bool { return strings.HasSuffix(p.stderr(), "\n") })
	for _, want := range []string{"unreadable", filepath.Join(s.base, "leases/gpu"), fmt.Sprint(h.pid())} {
		if !strings.Contains(p.stderr(), want) {
			t.Errorf("isn't told %q: %s", want, p.stderr())
		}
	}
	h.letGo()
	p.exits(0)
}

// B36: in a log one line, and one a change; no redrawing.
func TestB36_WaitingInALog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	h := s.holder("gpu")
	quiet := s.start(s.withlease("-q", "gpu", "--", "true"))
	p := s.start(s.withlease("gpu", "--", "true"))
	s.eventually("it says why it waits", func() bool { return strings.HasSuffix(p.stderr(), "\n") })
	time.Sleep(5 * time.Second) // the case's own: what repeats would have repeated
	h.letGo()
	p.exits(0)
	quiet.exits(0)
	said := p.stderr()
	if strings.ContainsAny(said, "\r\x1b") {
		t.Errorf("it redraws: %q", said)
	}
	if n := strings.Count(said, "\n"); n > 2 {
		t.Errorf("%d lines: %q", n, said)
	}
	if quiet.stderr() != "" {
		t.Errorf("with -q it says %q", quiet.stderr())
	}
}

// B36: on a terminal the line is wiped before the command's first byte.
func TestB36_WaitingOnATerminal(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		h := s.holder("gpu")
		x := s.open(bin, pty, "gpu", "--", "echo", "FIRST")
		x.expect("withlease: waiting 0s for gpu: held by")
		x.expect("withlease: waiting 1s") // it is redrawn
		h.letGo()
		x.expect("FIRST\r\n")
		if code := x.wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		shown := x.text()
		if i := strings.LastIndex(shown, "waiting"); !strings.HasSuffix(shown, "\r\x1b[KFIRST\r\n") || strings.Contains(shown[:i], "\n") {
			t.Errorf("the terminal shows %q", shown)
		}
	})
}
