// Package shelltest asks the real shells what they complete, for the tests of
// the completion scripts.
package shelltest

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bash's package bash-completion, and none.
const (
	BashCompletion = "/usr/share/bash-completion/bash_completion"
	NoPackage      = "-"
)

var (
	//go:embed driver.bash
	bashDriver string
	//go:embed driver.zsh
	zshDriver string
	//go:embed driver.fish
	fishDriver string
)

// Candidate is what a shell offers.
type Candidate struct {
	Text  string
	About string // bash has no descriptions
}

// Need is where a shell is. A test that needs one that isn't there is skipped;
// it fails where WITHLEASE_TEST_SHELLS=all says that all must be there.
func Need(t testing.TB, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err == nil {
		return path
	}
	if os.Getenv("WITHLEASE_TEST_SHELLS") == "all" {
		t.Fatalf("%s is not installed, and WITHLEASE_TEST_SHELLS=all", shell)
	}
	t.Skipf("%s is not installed", shell)
	return ""
}

// Shell is a shell with its completion system and our script.
type Shell struct {
	Name    string // bash, zsh, fish
	Scripts string // the directory of our scripts
	Package string // of bash: BashCompletion, another such file, or NoPackage
	Env     []string
	Dir     string // where it works
}

// Ask asks for what completes each line with the cursor at its end. Everything
// that a shell says on standard error fails the test: a person would find it
// lying across the prompt.
func (s Shell) Ask(t testing.TB, lines ...string) [][]Candidate {
	t.Helper()
	path := Need(t, s.Name)
	scripts, err := filepath.Abs(s.Scripts)
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	driver := filepath.Join(tmp, "driver")
	var args []string
	var text string
	switch s.Name {
	case "bash":
		if s.Package == "" {
			s.Package = BashCompletion
		}
		if _, err := os.Stat(s.Package); s.Package != NoPackage && err != nil {
			if os.Getenv("WITHLEASE_TEST_SHELLS") == "all" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
		text, args = bashDriver, []string{"--norc", driver, s.Package, filepath.Join(scripts, "withlease.bash")}
	case "zsh":
		text, args = zshDriver, []string{"-f", driver, scripts}
	case "fish":
		text, args = fishDriver, []string{"--no-config", driver, scripts}
	}
	if err := os.WriteFile(driver, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(len(lines))*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.Dir = s.Dir
	cmd.Env = Clean(tmp, s.Env)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v\nstderr: %s\nstdout: %s", s.Name, err, stderr.String(), out)
	}
	var answers [][]Candidate
	answer := []Candidate{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if status, ok := strings.CutPrefix(line, "== "); ok {
			if line := lines[min(len(answers), len(lines)-1)]; s.Name == "bash" && status != "0" && strings.HasPrefix(line, "withlease ") {
				t.Errorf("bash: %q: the completion function returned %s", line, status)
			}
			answers = append(answers, answer)
			answer = []Candidate{}
			continue
		}
		word, about, _ := strings.Cut(line, "\t")
		answer = append(answer, Candidate{word, about})
	}
	if len(answers) != len(lines) {
		t.Fatalf("%s: %d answers to %d questions:\n%s", s.Name, len(answers), len(lines), out)
	}
	return answers
}

// Clean is an environment in which a shell behaves as for a new user, whose
// home is home, with more set.
func Clean(home string, more []string) []string {
	env := []string{"HOME=" + home, "TERM=dumb", "LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH"), "LOGNAME=tester", "USER=tester"}
	if race := os.Getenv("GORACE"); race != "" { // how long the detector sleeps at each exit
		env = append(env, "GORACE="+race)
	}
	return append(env, more...)
}

// Texts are the candidates without their descriptions, each once, in the order
// in which they are offered.
func Texts(list []Candidate) []string {
	seen := map[string]bool{}
	var texts []string
	for _, c := range list {
		text := strings.TrimSuffix(c.Text, " ")
		if !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}
