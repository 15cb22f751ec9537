package run_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// B04: what the command doesn't read is left for the next, also what comes
// while it waits.
func TestB04_InputIsNotEaten(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		p := s.run(s.sh(`printf 'a\nb\nc\n' | while read x; do $W $1 gpu -- echo $x; done`, pty)).exits(0)
		if p.plain() != "a\nb\nc\n" {
			t.Errorf("the loop prints %q", p.stdout())
		}
		lines := strings.Repeat("a line of a file\n", 5000)
		s.write("file", lines)
		p = s.run(s.sh(`{ $W $1 gpu -- true; cat; } <file`, pty)).exits(0)
		if p.stdout() != lines {
			t.Errorf("cat has %d bytes of %d", len(p.stdout()), len(lines))
		}
		// While it waits, and gives up.
		h := s.holder("gpu")
		p = s.run(s.sh(`{ $W $1 -w 200ms gpu -- true; cat; } <file`, pty)).exits(0)
		if p.stdout() != lines {
			t.Errorf("after a wait cat has %d bytes of %d", len(p.stdout()), len(lines))
		}
		// While it waits, and gets it.
		w := s.start(s.sh(`printf 'x\ny\n' | { $W $1 gpu -- head -c 2; cat; }`, pty))
		s.eventually("it waits", func() bool { return strings.Contains(w.stderr(), "waiting for gpu") })
		h.letGo()
		w.exits(0)
		if w.plain() != "x\ny\n" {
			t.Errorf("after a wait the command and cat have %q", w.stdout())
		}
	})
}

// B22: bytes are the command's own.
func TestB22_OutputUnchanged(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := s.run(s.withlease("gpu", "--", "printf", `x\n`)).exits(0)
	if p.stdout() != "x\n" {
		t.Errorf("it prints %q", p.stdout())
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	s.write("all", string(all))
	s.run(s.sh(`$W gpu -- cat <all >copy && cmp all copy`)).exits(0)

	// On a terminal with stdout a pipe: no carriage returns in it, and the
	// terminal's own output processing stays on.
	for _, mode := range []string{"auto", "always"} {
		os.Remove(s.path("go"))
		os.Remove(s.path("ready"))
		x := s.open("sh", "-c", `$W --pty=$1 gpu -- sh -c 'echo >ready; until test -e go; do sleep .01; done; seq 3' | od -c; echo END`, "sh", mode)
		s.appears("ready")
		// Nor are its keys taken: another program of the pipeline may want them.
		if x.settings().Lflag&unix.ICANON == 0 {
			t.Errorf("%s: the terminal's keys are taken", mode)
		}
		if x.settings().Oflag&unix.OPOST == 0 {
			t.Errorf("%s: the terminal doesn't process output", mode)
		}
		s.write("go", "")
		if text := x.expect(`END\r\n`); strings.Contains(text, `\r`) || !strings.Contains(text, `1  \n`) {
			t.Errorf("%s: the terminal shows %q", mode, text)
		}
	}

	// What the command sees of 0, 1 and 2 is what withlease has, in auto under a
	// script, whose leader somebody else is. (C07 has all eight, at a shell.)
	isatty := `for f in 0 1 2; do test -t $f; printf %s $?; done >&9; echo >&9`
	for _, redirections := range []string{"", "<file", ">file", "2>file", "<file >file", "<file 2>file", ">file 2>file", "<file >file 2>file"} {
		s.write("file", "")
		s.write("with", "")
		s.write("without", "")
		x := s.open("sh", "-c", fmt.Sprintf(`sh -c '%s' 9>>without %s; $W gpu -- sh -c '%s' 9>>with %s; echo END`, isatty, redirections, isatty, redirections))
		x.wait()
		if with, without := slurp(s.path("with")), slurp(s.path("without")); with != without || len(with) != 4 {
			t.Errorf("%q: with %q, without %q", redirections, with, without)
		}
	}
}

// B23: a pipe on stdin is the command's, whatever the rest is.
func TestB23_InputThroughAPipe(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "never", "always"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			pty := "--pty=" + mode
			p := s.run(s.sh(`head -c 100000 /dev/zero | tr '\0' x | $W $1 gpu -- wc -c`, pty)).exits(0)
			if p.plain() != "100000\n" {
				t.Errorf("wc has %q", p.stdout())
			}
			p = s.run(s.sh(`printf '\003\004\032z' | $W $1 gpu -- od -An -c`, pty)).exits(0)
			if p.plain() != " 003 004 032   z\n" {
				t.Errorf("od has %q", p.stdout())
			}
			s.run(s.sh(`$W $1 gpu -- cat </dev/null`, pty)).exits(0)
			// A terminal on stdout and stderr only.
			x := s.open("sh", "-c", `printf 'a\003\004\032z' | $W $1 gpu -- od -An -c`, "sh", pty)
			x.expect(`  a 003 004 032   z\r\n`)
			if code := x.wait(); code != 0 || strings.Contains(x.text(), "^C") || strings.Count(x.text(), "a") != 1 {
				t.Errorf("exit status %d, the terminal shows %q", code, x.text())
			}
			s.free("gpu")
		})
	}
}

// B31: the command's words are its own.
func TestB31_ArgumentsVerbatim(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		words := []string{"--help", "-v", "--wait", "3", "--", "x", "", " a  b ", "n\nl", "*", "-", "-la", "$HOME", "`id`", "é\xff", "--pty=never", "run"}
		p := s.run(s.withlease(append([]string{pty, "gpu", "--"}, helper("argv", words...)...)...)).exits(0)
		want := ""
		for _, w := range words {
			want += fmt.Sprintf("%q\n", w)
		}
		if p.plain() != want {
			t.Errorf("the command got\n%s\nwant\n%s", p.plain(), want)
		}
		// A second -- in front is the command's name, which there is not.
		s.run(s.withlease(pty, "gpu", "--", "--", "true")).exits(127)
	})
}

func TestB31_WordsMissing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, c := range []struct {
		args string
		code int
		hint string
	}{
		{"gpu true", 2, "--"}, // no run without --: a verb's usage error
		{"gpu", 2, "--"},
		{"-- true", 125, "RESOURCE"},
		{"gpu --", 125, "COMMAND"},
		{"--", 125, "RESOURCE"},
		{"--bogus gpu -- true", 125, "--bogus"},
		{"-w gpu -- true", 125, "--wait"},
		{"--pty gpu -- true", 125, ""},
	} {
		p := s.run(s.withlease(strings.Fields(c.args)...)).exits(c.code)
		if said := p.stderr(); !strings.HasPrefix(said, "withlease: ") || strings.Count(said, "\n") != 1 || !strings.Contains(said, c.hint) {
			t.Errorf("withlease %s says %q", c.args, said)
		}
		if s.has("base") {
			t.Fatalf("withlease %s: something was claimed or queued", c.args)
		}
	}
}
