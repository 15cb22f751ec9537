package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestC07_Redirections_B67: whatever of 0, 1 and 2 is a terminal for a command
// without us is one with us, and nothing else.
func TestC07_Redirections_B67(t *testing.T) {
	const command = `sh -c 'for fd in 0 1 2; do test -t $fd; printf %s $? >>got; done'`
	for _, w := range []string{"", "withlease r -- ", "withlease --pty=always r -- ", "withlease --pty=never r -- "} {
		t.Run(w, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			for mask := range 8 {
				line, want := w+command, ""
				for fd, redirection := range []string{" </dev/null", " >/dev/null", " 2>/dev/null"} {
					if mask&(1<<fd) != 0 {
						line += redirection
						want += "1"
					} else {
						want += "0"
					}
				}
				if mask == 7 && strings.Contains(w, "always") {
					want = "100" // asked for where there is none: unbuffer's use
				}
				x.does(line)
				if got := slurp(x.path("got")); got != want {
					t.Errorf("%s: %q, want %q", line, got, want)
				}
				x.does("rm got")
			}
			// In a pipeline the last is the terminal's.
			x.does(w + command + " | cat")
			x.does("true | " + w + command)
			if got := slurp(x.path("got")); got != "010100" {
				t.Errorf("in pipelines: %q", got)
			}
		})
	}
}

// TestB67_NoTerminal: closed descriptors, and a session without a terminal.
func TestB67_NoTerminal(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		for _, row := range []struct{ before, command, after string }{
			{"", "true", "<&-"},
			{"", "true", ">&-"},
			{"", "true", "2>&-"},
			{"", "true", "<&- >&- 2>&-"},
			{"setsid -w ", "true", ""},
			{"setsid -w ", "true", "</dev/null >/dev/null 2>&1"},
			{"env -u TERM ", "true", ""},
			{"TERM=dumb ", "true", ""},
		} {
			x.does(row.before + w + row.command + " " + row.after)
			if rc := x.rc(); rc != "0" {
				t.Errorf("%s%s%s %s: rc %s", row.before, w, row.command, row.after, rc)
			}
		}
		// Our files take no number that the command or we write to.
		x.line(w + "sh -c 'echo $$ >pid; exec sleep 60' <&- >&- 2>&-")
		x.pidIn("pid")
		pid := x.wrapper()
		for fd := range 3 {
			to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
			if err == nil && to != "/dev/null" && !strings.HasPrefix(to, "/dev/") {
				t.Errorf("its descriptor %d is %s", fd, to)
			}
		}
		x.keys(ctrlC)
		x.ready()
		x.free("r")
	})
}

// TestC38_Size: the command's terminal has the size of the user's from the
// start.
func TestC38_Size(t *testing.T) {
	for _, pty := range []string{"auto", "never", "always"} {
		t.Run(pty, func(t *testing.T) {
			t.Parallel()
			x := newScene(t).bash()
			if got := x.does("withlease --pty=" + pty + " r -- stty size"); got != "40 120" {
				t.Errorf("size %q", got)
			}
		})
	}
}

// TestC39_Settings: the keys that the user has chosen, inside; and as they were,
// after.
func TestC39_Settings(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		x := s.dash()
		x.does("stty erase ^H intr ^G -ixon -echoctl")
		before := x.settings()
		with := x.does("withlease " + pty + " r -- stty -a")
		if without := x.does("stty -a"); with != without {
			t.Errorf("with:\n%s\nwithout:\n%s", with, without)
		}
		if !strings.Contains(with, "erase = ^H") {
			t.Errorf("the user's erase key is not there: %s", with)
		}
		x.ready2(before)
		// What the command changes is its own terminal's; in share mode it is the
		// user's, as without us.
		x.does("withlease " + pty + " r -- stty erase ^X")
		if changed := x.settings() != before; changed != (pty == "--pty=never") {
			t.Errorf("the user's settings changed: %v", changed)
		}
	})
}

// ready2 checks the settings at a prompt.
func (x *screen) ready2(want unix.Termios) {
	x.Helper()
	if now := x.settings(); now != want {
		x.Errorf("the terminal's settings are %+v, they were %+v", now, want)
	}
}

// TestC40_Restored_B37: the terminal's settings after every kind of end are
// those from before. The wrapper runs without a shell that would repair them.
func TestC40_Restored_B37(t *testing.T) {
	const stay = `echo u""p; read x; `
	// toWrapper signals the wrapper, which is the terminal's first process.
	toWrapper := func(sig syscall.Signal) func(x *screen) {
		return func(x *screen) { unix.Kill(x.cmd.Process.Pid, sig) }
	}
	enter := func(x *screen) { x.line("") }
	for _, row := range []struct {
		name    string
		command []string
		how     func(x *screen) // nil: it ends by itself
		rc      int
	}{
		{"exit 0", []string{"sh", "-c", stay}, enter, 0},
		{"exit 1", []string{"sh", "-c", stay + "exit 1"}, enter, 1},
		{"signal", []string{"sh", "-c", stay + "kill -TERM $$"}, enter, 143},
		{"killed", []string{"sh", "-c", stay + "kill -KILL $$"}, enter, 137},
		{"settings changed", []string{"sh", "-c", "stty raw -echo; echo; " + stay}, func(x *screen) { x.keys("\n") }, 0},
		{"interrupt", []string{"sh", "-c", stay}, func(x *screen) { x.keys(ctrlC) }, 130},
		{"quit", []string{"sh", "-c", stay}, func(x *screen) { x.keys(ctrlBackslash) }, 131},
		{"127", []string{"no-such-command"}, nil, 127},
		{"no interpreter", []string{"./script"}, nil, 127},
		{"stdout closed", []string{"sh", "-c", "exec >&-; read x; echo gone"}, nil, 1},
		{"TERM", []string{"sh", "-c", stay}, toWrapper(unix.SIGTERM), 143},
		{"HUP", []string{"sh", "-c", stay}, toWrapper(unix.SIGHUP), 129},
		{"QUIT", []string{"sh", "-c", stay}, toWrapper(unix.SIGQUIT), 131},
		// The shipped program has no hook for a panic. For the runtime ABRT is the
		// same: no deferred call runs, and the monitor is what is left.
		{"panic", []string{"sh", "-c", stay}, toWrapper(unix.SIGABRT), 2},
		{"KILL", []string{"sh", "-c", stay}, toWrapper(unix.SIGKILL), 137},
	} {
		t.Run(row.name, func(t *testing.T) {
			inModes(t, func(s *scene, pty string) {
				t := s.T
				s.write("script", "#!/no/such/interpreter\n")
				x := s.open("sh", append([]string{"-c", `read x; exec "$@"`, "sh", bin, pty, "--grace=1s", "r", "--"}, row.command...)...)
				before := x.settings()
				if !sane(before) {
					t.Fatalf("a new terminal's settings: %+v", before)
				}
				x.line("")
				if row.how != nil {
					x.isUp()
					if pty == "--pty=always" && !raw(x.settings()) {
						t.Error("the terminal is not raw while the command runs")
					}
				}
				switch {
				case row.name == "stdout closed":
					x.expect(`\r\n`)
					s.wrapper()
					s.eventually("it holds r", func() bool { return s.state("r") != "free" })
					x.line("")
				case row.how != nil:
					row.how(x)
				}
				if rc := x.wait(); rc != row.rc {
					t.Errorf("rc %d, want %d", rc, row.rc)
				}
				if pty == "--pty=never" && row.name == "settings changed" {
					return // the command's own doing, as without us
				}
				x.eventually(fmt.Sprintf("the settings are %+v again, now %+v", before, x.settings()), func() bool { return x.settings() == before })
				x.gone()
				x.becomesFree("r")
			})
		})
	}
}

// TestB37_OfAnother: settings that somebody else made during the run are theirs,
// and stay.
func TestB37_OfAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	x := s.open(bin, "--pty=always", "r", "--", "sh", "-c", `echo u""p; read x`)
	x.isUp()
	x.isRaw()
	theirs := x.settings()
	theirs.Cc[unix.VERASE] = 'e'
	if err := unix.IoctlSetTermios(x.master, tcsets, &theirs); err != nil {
		t.Fatal(err)
	}
	x.line("")
	if rc := x.wait(); rc != 0 {
		t.Errorf("rc %d", rc)
	}
	x.ready2(theirs)
}

// TestC40_Pipeline: a command that reads the terminal from a pipeline makes it raw,
// and still what the others print are lines (sudo-project/sudo#258).
func TestC40_Pipeline(t *testing.T) {
	t.Parallel()
	x := newScene(t).dash()
	before := x.settings()
	x.line(`withlease --pty=always r -- sh -c 'read x </dev/tty; printf "one\ntwo\n"; read x </dev/tty' | cat; echo ende""d`)
	x.isRaw()
	if x.settings().Oflag&unix.OPOST == 0 {
		t.Error("no output processing")
	}
	x.line("")
	x.expect("one\r\ntwo\r\n")
	x.line("")
	x.expect("ended\r\n")
	x.ready()
	x.ready2(before)
}

// TestC39_Enter: Enter comes as the byte that the key sends.
func TestC39_Enter(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		x := s.dash()
		x.line("withlease " + pty + ` r -- sh -c 'stty raw -echo; echo u""p; dd bs=1 count=3 2>/dev/null | od -An -tx1; stty sane'`)
		x.isUp()
		x.keys("\r\n\x13")
		x.expect("0d 0a 13")
		x.ready()
	})
}

// TestC41_TypeAhead: what is typed while a command runs that doesn't read it is
// the shell's in share mode. In a terminal of its own it went to the command,
// and is lost with it (documented); nothing half of it reaches the shell.
func TestC41_TypeAhead(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.line(w + `sh -c 'echo u""p; while ! test -e go; do sleep 0.01; done'`)
		x.isUp()
		x.line("echo ty''ped")
		x.expect("ty''ped\r\n")
		x.keys("echo ha''lf")
		x.expect("ha''lf")
		x.write("go", "")
		if !strings.Contains(w, "always") {
			x.expect("\ntyped\r\n")
			x.expect("ha''lf")
			x.line("")
			x.expect("half\r\n")
			return
		}
		x.ready()
		if next := x.does("echo ne''xt"); next != "next" {
			t.Errorf("the shell's next line made %q", next)
		}
		if strings.Contains(x.text(), "typed\r\n") {
			t.Error("it was executed")
		}
	})
}

// TestC62_PasswordPrompt: a program that asks on /dev/tty while its output goes
// elsewhere, as ssh and sudo do.
func TestC62_PasswordPrompt(t *testing.T) {
	for _, pty := range []string{"auto", "never", "always"} {
		for _, where := range []string{" | cat", " </dev/null", " </dev/null 2>/dev/null | cat"} {
			if pty == "always" && where == " </dev/null 2>/dev/null | cat" {
				// Asked for where none of 0, 1 and 2 is a terminal: /dev/tty is the new
				// one, and nobody types there (documented).
				continue
			}
			t.Run(pty+where, func(t *testing.T) {
				t.Parallel()
				x := newScene(t).bash()
				x.write("ask", `printf 'Pass""word: ' >/dev/tty
stty -echo </dev/tty
printf 'now: ' >/dev/tty
read p </dev/tty
stty echo </dev/tty
echo "got <$p>"
`)
				x.line("withlease --pty=" + pty + " r -- sh ask" + where)
				x.expect("now: ")
				x.line("secret")
				x.expect("got <secret>")
				x.ready()
				if n := strings.Count(x.text(), "secret"); n != 1 {
					t.Errorf("the password was shown %d times", n-1)
				}
				if rc := x.rc(); rc != "0" {
					t.Errorf("rc %s", rc)
				}
				x.free("r")
			})
		}
	}
}

// TestB43_Descriptors: the command has 0, 1, 2 and the witness, nothing of the
// terminal's other side; when the wrapper is killed, so is cat.
func TestB43_Descriptors(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		links := regexp.MustCompile(` (\d+ -> \S+)`)
		without := x.does("ls -l /proc/self/fd") // what who runs the tests has left open
		for _, m := range links.FindAllStringSubmatch(x.does(w+"ls -l /proc/self/fd"), -1) {
			switch fd, to, _ := strings.Cut(m[1], " -> "); {
			case fd <= "2" && strings.HasPrefix(to, "/dev/pts/"):
			case strings.HasPrefix(to, "/proc/"): // ls's own
			case strings.HasSuffix(to, "/witness"):
			case strings.Contains(without, m[1]):
			default:
				t.Errorf("the command has %s", m[1])
			}
		}
		x.line(w + `sh -c 'echo u""p; exec cat'`)
		x.isUp()
		x.line("1")
		x.expect("1\r\n1\r\n")
		unix.Kill(x.wrapper(), unix.SIGKILL)
		x.ready()
		x.gone(x.cmd.Process.Pid)
		x.becomesFree("r")
	})
}

// TestB68_TypedWhileWaiting: what is typed during the wait is the command's,
// once, and shown once.
func TestB68_TypedWhileWaiting(t *testing.T) {
	inModes(t, func(s *scene, pty string) {
		t := s.T
		letGo := s.hold()
		x := s.bash(other)
		x.line("withlease " + pty + ` r -- sh -c 'read a; read b; read c; echo "<$a|$b|$c>"; cat'`)
		x.expect("withlease: waiting")
		x.line("hello")
		x.line("wrong" + strings.Repeat(x.erase(), 5) + "world")
		x.keys("half")
		x.expect("half")
		letGo()
		if pty == "--pty=always" {
			x.isRaw()
		}
		x.line(" and half")
		got := x.expect(`<.*>\r\n`)
		if !strings.HasSuffix(got, "<hello|world|half and half>\r\n") {
			t.Errorf("the command got %q", got)
		}
		x.keys(ctrlD)
		x.ready()
		if n := strings.Count(x.text(), "hello"); n != 2 {
			t.Errorf("hello was shown %d times, want its echo and the command's word", n)
		}
		x.free("r")
	})
}

// erase is the terminal's erase key.
func (x *screen) erase() string {
	s := x.settings()
	return string(rune(s.Cc[unix.VERASE]))
}

// TestB68_Secret: what is typed with the echo off is not shown.
func TestB68_Secret(t *testing.T) {
	inBash(t, func(x *screen, w string) {
		t := x.T
		x.line(w + `sh -c 'stty -echo; printf "Se""cret: "; read x; stty echo; echo; echo "len ${#x}"'`)
		x.expect("Secret: ")
		x.line("hunter2")
		x.expect("len 7\r\n")
		x.ready()
		if strings.Contains(x.text(), "hunter2") {
			t.Error("the secret was shown")
		}
	})
}

// TestC65_NoOuterTerminal would be C65's; see the share tests. Here: a run under
// a run has no terminal in a terminal.
func TestNestedTerminal(t *testing.T) {
	t.Parallel()
	x := newScene(t).bash()
	x.line("withlease r -- bash --norc --noprofile -i")
	x.ready()
	outer := x.does("tty")
	if inner := x.does("withlease other -- tty"); inner != outer || !strings.HasPrefix(outer, filepath.Clean("/dev/pts/")) {
		t.Errorf("the inner run has the terminal %s, in %s", inner, outer)
	}
	x.line("exit")
	x.ready()
}
