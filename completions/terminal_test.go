package completions_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"withlease/completions/shelltest"
)

// Layer C: what a person sees on a terminal (check 18 of the shell notes).
func TestOnATerminal(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file-of-mine"), "")
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startShell(t, name, dir, lab(t))
			c.tab("withlease gp", "withlease gpu ")
			c.tab("withlease port:80", "withlease port:8080 ")
			c.tab("withlease db@p", "withlease db@prod ")
			c.tab("withlease gpu --pty=al", "withlease gpu --pty=always ")
			c.tab("withlease gpu port:8080 --wait=5s -- cat file-o", "-- cat file-of-mine ")
			if name != "bash" {
				c.tab("withlease status ", "held by ann")
				c.tab("withlease release --force ", "held by YOU")
			}
		})
	}
}

// B70: shells that stop at what is unset, at the first failure, or that don't
// overwrite files.
func TestStrictShells(t *testing.T) {
	for name, strict := range map[string]string{"bash": "set -eu -o noclobber -o pipefail", "zsh": "setopt errexit nounset noclobber warncreateglobal ksharrays"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startShell(t, name, t.TempDir(), lab(t))
			c.say(strict)
			c.tab("withlease gp", "withlease gpu ")
			c.tab("withlease --dir /nonexistent nothing --pty=al", "--pty=always ")
			c.tab("withlease gpu --on-lost wa", "--on-lost warn ")
			c.tab("withlease release --force k", "--force kind-1 ")
			c.tab("withlease port:80", "withlease port:8080 ")
			c.tab("withlease nothing-like-it-", "nothing-like-it-")
			c.tab("withlease upgrade end in", "inst/c1 ")
			c.say("echo sti''ll-here")
			if text := c.until("still-here"); regexp.MustCompile(`unbound|not set|parameter|error|not found|created`).MatchString(text) {
				t.Errorf("the shell complained:\n%s", text)
			}
		})
	}
}

// Check 21, B51: other people's text is text.
func TestHostileNames(t *testing.T) {
	base, witness := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	evil := "$(touch " + witness + ") `touch " + witness + "` \x1b]0;owned\x07\x1b[2J\tTAB\nNEWLINE \u009b31m \u202e " + strings.Repeat("x", 500)
	write(t, filepath.Join(base, "leases", "gpu", "holder.json"), fmt.Sprintf(`{"env":"gpu","holder":%s,"session":"s","name":%[1]s,"purpose":%[1]s,"since":"2026-01-01T00:00:00Z"}`, quoted(evil)))
	write(t, filepath.Join(base, "leases", "$(touch "+witness[1:3]+")", "holder.json"), `{}`)
	write(t, filepath.Join(base, "leases", "x\x1b[2J", "holder.json"), `{}`)
	write(t, filepath.Join(base, "leases", "kind-1", "holder.json"), fmt.Sprintf(`{"env":"kind-1","holder":"x@y","session":%s,"name":"evil","purpose":"p","since":"2026-01-01T00:00:00Z"}`, quoted("$(touch "+witness+")")))
	write(t, filepath.Join(base, "leases", "kind-2", "holder.json"), fmt.Sprintf(`{"env":"kind-2","holder":"x@y","session":"s2","name":%s,"purpose":"p","since":"2026-01-01T00:00:00Z"}`, quoted("party $(touch "+witness+")")))
	env := []string{"WITHLEASE_DIR=" + base}
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shelltest.Shell{Name: name, Scripts: ".", Env: env}
			ask(t, s, []question{
				{line: "withlease status ", only: []string{"gpu", "kind-1", "kind-2"}},
				{line: "withlease grant gpu s", only: []string{"s"}},
			})
			c := startShell(t, name, t.TempDir(), env)
			c.tab("withlease status g", "withlease status gpu ")
			if name != "bash" {
				c.tab("withlease status ", "held by $(touch ")
			}
			c.complete("withlease grant gpu part", "touch")
			c.say("") // run it, as completed
			c.say("echo sti''ll-here")
			c.until("still-here")
			if raw := c.raw(); strings.Contains(raw, "\x1b]0;owned") || strings.Contains(raw, "\u009b31m") || strings.Contains(raw, "\u202e") {
				t.Errorf("control characters came through: %q", raw)
			}
		})
	}
	t.Cleanup(func() {
		if _, err := os.Lstat(witness); err == nil {
			t.Error("what a name says was run")
		}
	})
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r >= 0x7f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// console is an interactive shell on a terminal of its own.
type console struct {
	*testing.T
	pty *os.File

	mu   sync.Mutex
	seen bytes.Buffer
	mark int // what was seen before the last line
}

func startShell(t *testing.T, name, dir string, env []string) *console {
	t.Helper()
	path := shelltest.Need(t, name)
	scripts, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	var args, setup []string
	env = append(shelltest.Clean(home, env), "PS1=", "SCRIPTS="+scripts)
	switch name {
	case "bash":
		args = []string{"--norc", "--noprofile", "-i"}
		setup = []string{
			"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'",
			"if [ -r " + shelltest.BashCompletion + " ]; then . " + shelltest.BashCompletion + "; fi; . $SCRIPTS/withlease.bash; PS1='$ '",
		}
	case "zsh":
		args = []string{"-f", "-i"}
		setup = []string{"PS1='%% '; unsetopt beep zle_bracketed_paste 2>/dev/null; fpath=($SCRIPTS $fpath); autoload -Uz compinit; compinit -u -D"}
	case "fish":
		args = []string{"--no-config", "-i"}
		env = append(env, "TERM=xterm")
		setup = []string{"set fish_greeting; set -g fish_autosuggestion_enabled 0; function fish_prompt; echo '> '; end; set fish_complete_path $SCRIPTS $__fish_data_dir/completions"}
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = env, dir
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	c := &console{T: t, pty: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			c.mu.Lock()
			c.seen.Write(buf[:n])
			c.mu.Unlock()
			if bytes.Contains(buf[:n], []byte("\x1b[c")) {
				f.WriteString("\x1b[?62c") // what a terminal answers to fish
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		f.Close()
		<-done
	})
	for _, line := range setup {
		c.say(line)
	}
	c.say("echo set''up-done")
	c.until("setup-done")
	return c
}

func (c *console) say(line string) {
	c.mu.Lock()
	c.mark = c.seen.Len()
	c.mu.Unlock()
	c.pty.WriteString(line + "\n")
}

func (c *console) raw() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

var escape = regexp.MustCompile(`\x1b(\[[0-9;?>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>M78])`)

// text is what was written since the last line, without escape sequences, and
// with what backspaces took away gone.
func (c *console) text() string {
	c.mu.Lock()
	raw := c.seen.String()[c.mark:]
	c.mu.Unlock()
	return escape.ReplaceAllString(raw, "")
}

// until waits for a text.
func (c *console) until(want string) string {
	c.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text := c.text(); strings.Contains(text, want) {
			return text
		}
	}
	c.Fatalf("%q didn't come; the terminal shows:\n%s\nraw: %q", want, c.text(), c.raw())
	return ""
}

// tab types a line and a TAB, waits for what must show, and takes the line away.
func (c *console) tab(line, want string) {
	c.Helper()
	c.complete(line, want)
	c.pty.WriteString("\x15")
}

// complete is tab that leaves the line.
func (c *console) complete(line, want string) {
	c.Helper()
	c.mu.Lock()
	c.mark = c.seen.Len()
	c.mu.Unlock()
	c.pty.WriteString(line + "\t")
	c.until(want)
}
