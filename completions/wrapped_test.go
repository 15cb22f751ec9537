package completions_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"withlease/completions/shelltest"
)

// Layer B: what follows -- completes as it does without withlease (B24, checks
// 16 and 17 of the shell notes). No list of candidates is written down here:
// the shell itself says what is right.
func TestWrappedCommand(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Makefile"), "all:\ntest-fast:\ntest-slow:\n")
	write(t, filepath.Join(dir, "file one"), "")
	write(t, filepath.Join(dir, "file-two"), "")
	write(t, filepath.Join(dir, "a b", "inner file"), "")
	if _, err := exec.LookPath("git"); err == nil {
		for _, args := range [][]string{{"init", "-q", "a b"}, {"-C", "a b", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"}, {"-C", "a b", "branch", "checked-by-me"}} {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v\n%s", args, err, out)
			}
		}
	}
	commands := []string{
		"git che", "git -C 'a b' check", "git -C 'a b' checkout check", "git --ver", "make te", "ls --col", "tar --exc", "ssh -o Stri",
		"env FOO=1 git check", "sudo timeout 5 git rebas", "cat fi", "cat 'file o", `cat a\ b/`, "nosuchcommand fi", "git checkout -- ",
		"ls --", "kill -", "cat ",
	}
	prefixes := []string{"withlease gpu -- ", "withlease a b --wait 5m -- ", "withlease --wait=5s port:80 -- ", "withlease run list -- ",
		"sudo withlease gpu -- ", "withlease a -- withlease b -- "}
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shelltest.Shell{Name: name, Scripts: ".", Env: lab(t), Dir: dir}
			same(t, s, prefixes[:1], "", commands)
			same(t, s, prefixes[1:], "", []string{"git che", "make te"})
			// The command's own name: as for another program that runs one.
			switch name {
			case "bash":
				same(t, s, prefixes[:4], "timeout 5 ", []string{"gi", "./", "nosuchcomm"})
			case "zsh":
				same(t, s, prefixes[:2], "nohup ", []string{"gi", "./", "nosuchcomm", ""})
			case "fish":
				same(t, s, prefixes[:2], "", []string{"gi", "./", "nosuchcomm", ""})
			}
		})
	}
}

func same(t *testing.T, s shelltest.Shell, prefixes []string, oracle string, commands []string) {
	t.Helper()
	var lines []string
	for _, c := range commands {
		lines = append(lines, oracle+c)
		for _, p := range prefixes {
			lines = append(lines, p+c)
		}
	}
	answers := s.Ask(t, lines...)
	n := len(prefixes) + 1
	some := 0
	for i, c := range commands {
		want := set(answers[i*n])
		if len(want) > 0 {
			some++
		}
		for j, p := range prefixes {
			if got := set(answers[i*n+j+1]); !slices.Equal(got, want) {
				t.Errorf("%s: %s%s: %s", s.Name, p, c, difference(got, want))
			}
		}
	}
	if some < len(commands)/2 {
		t.Errorf("%s: only %d of %d commands complete at all", s.Name, some, len(commands))
	}
}

// set are candidates with their descriptions, sorted.
func set(list []shelltest.Candidate) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.Text+"\t"+c.About)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func difference(got, want []string) string {
	var more, less []string
	for _, g := range got {
		if !slices.Contains(want, g) {
			more = append(more, g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			less = append(less, w)
		}
	}
	return fmt.Sprintf("%d candidates, %d without withlease; only here %.20q, only there %.20q", len(got), len(want), more[:min(len(more), 8)], less[:min(len(less), 8)])
}

// Without the package bash-completion: the commands, functions that somebody
// has registered, and files (B24, check 17).
func TestBareBash(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file one"), "")
	own := filepath.Join(dir, "own.bash")
	write(t, own, `_mine() { COMPREPLY=("line=$COMP_LINE" "point=$COMP_POINT" "words=${#COMP_WORDS[@]}" "cword=$COMP_CWORD" "args=$1/$2/$3"); }
complete -F _mine mine
`)
	s := shelltest.Shell{Name: "bash", Scripts: ".", Env: lab(t), Dir: dir, Package: shelltest.NoPackage}
	ask(t, s, []question{
		{line: "withlease gpu -- shelltest-no", only: []string{}},
		{line: "withlease gpu -- withlea", has: []string{"withlease"}},
		{line: "withlease --wait=5s port:80 -- ls fi", only: []string{"file one"}},
		{line: "withlease gpu -- ls nothing", only: []string{}},
	})
	s.Package = own
	ask(t, s, []question{
		{line: "withlease port:80 -n -- mine a b", only: []string{"line=mine a b", "point=8", "words=3", "cword=2", "args=mine/b/a"}},
		{line: "withlease gpu -- mine ", only: []string{"line=mine", "point=5", "words=2", "cword=1", "args=mine//mine"}},
	})
}

// Newer versions of bash-completion have renamed the function, and count in an
// array called words where there is one (scop/bash-completion#860).
func TestNewerBashCompletion(t *testing.T) {
	stub := filepath.Join(t.TempDir(), "stub.bash")
	write(t, stub, `_comp_command_offset() {
    if declare -p words &>/dev/null; then COMPREPLY=(words-in-scope); return; fi
    COMPREPLY=("offset=$1" "first=${COMP_WORDS[$1]}")
}
_completion_loader() { :; }
`)
	s := shelltest.Shell{Name: "bash", Scripts: ".", Env: lab(t), Package: stub}
	ask(t, s, []question{
		{line: "withlease gpu -- git che", only: []string{"offset=3", "first=git"}},
		{line: "withlease port:80 --wait=5s -- git che", only: []string{"offset=8", "first=git"}},
	})
}
