package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"withlease/completions"
	"withlease/completions/shelltest"
	"withlease/run"
)

// Read at the start: the tests run without withlease's variables.
var (
	testShells = os.Getenv("WITHLEASE_TEST_SHELLS")
	testTools  = os.Getenv("WITHLEASE_TEST_TOOLS")
)

// grammar is kong's model of the command line.
func grammar(t testing.TB) *kong.Application {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("withlease"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// nodes calls each with every visible verb, as it is typed, and with the top.
func nodes(app *kong.Application, each func(verb string, n *kong.Node)) {
	var walk func(verb string, n *kong.Node)
	walk = func(verb string, n *kong.Node) {
		each(verb, n)
		for _, sub := range n.Children {
			if !sub.Hidden {
				walk(strings.TrimSpace(verb+" "+sub.Name), sub)
			}
		}
	}
	walk("", app.Node)
}

// flagWords are the visible flags of a verb, long and short.
func flagWords(n *kong.Node) []string {
	var words []string
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			words = append(words, "--"+f.Name)
			if f.Short != 0 {
				words = append(words, "-"+string(f.Short))
			}
		}
	}
	return words
}

// Layer D (checks 22 and 24 of the shell notes): the scripts offer every visible
// verb and flag, with the values that an enum has, and nothing else.
func TestCompletionKnowsTheGrammar(t *testing.T) {
	t.Setenv("WITHLEASE_TEST_SHELLS", testShells)
	app := grammar(t)
	var runFlags []string
	nodes(app, func(verb string, n *kong.Node) {
		if verb == "run" {
			runFlags = flagWords(n)
		}
	})
	type question struct {
		line string
		want []string // in any order
		may  []string
		not  []string
	}
	var questions []question
	nodes(app, func(verb string, n *kong.Node) {
		words := flagWords(n)
		if verb == "" {
			words = append(words, runFlags...) // the word run may be left out
		}
		line := "withlease "
		if verb != "" {
			line += verb + " "
		}
		questions = append(questions, question{line: line + "-", want: words})
		if len(n.Children) > 0 {
			var subs []string
			for _, sub := range n.Children {
				if !sub.Hidden {
					subs = append(subs, sub.Name)
				}
			}
			questions = append(questions, question{line: line, want: subs})
		}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				if f.IsBool() {
					continue
				}
				q := question{line: line + "--" + f.Name + " ", not: []string{"list", "run", "status", "--help"}}
				if f.Enum != "" {
					q.want = f.EnumSlice()
				}
				questions = append(questions, q, question{line: line + "--" + f.Name + " value -", want: without(words, f), may: words})
			}
		}
	})
	var lines []string
	for _, q := range questions {
		lines = append(lines, q.line)
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		t.Run(name, func(t *testing.T) {
			s := shelltest.Shell{Name: name, Scripts: "completions", Env: []string{"WITHLEASE_DIR=" + t.TempDir()}, Dir: t.TempDir()}
			for i, answer := range s.Ask(t, lines...) {
				q, got := questions[i], shelltest.Texts(answer)
				got = slices.DeleteFunc(got, func(w string) bool { return w == "--" })
				for _, w := range q.want {
					if !slices.Contains(got, w) {
						t.Errorf("%q offers no %s: completions/ must follow the grammar", q.line, w)
					}
				}
				for _, g := range got {
					if q.want != nil && !slices.Contains(q.want, g) && !slices.Contains(q.may, g) {
						t.Errorf("%q offers %s, which isn't in the grammar", q.line, g)
					}
					if slices.Contains(q.not, g) {
						t.Errorf("%q offers %s, where a value must come", q.line, g)
					}
				}
			}
		})
	}
}

// without is words without a flag that has been given: a shell may offer it
// again or not.
func without(words []string, f *kong.Flag) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		name := strings.TrimLeft(w, "-")
		// Flags that exclude each other go together.
		exclusive := []string{"wait", "w", "no-wait", "n"}
		return name == f.Name || name == string(f.Short) || slices.Contains(exclusive, name) && slices.Contains(exclusive, f.Name)
	})
}

// Check 23: what is printed is what is installed.
func TestCompletionVerb(t *testing.T) {
	for shell, file := range map[string]string{"bash": "withlease.bash", "zsh": "_withlease", "fish": "withlease.fish"} {
		want, err := os.ReadFile("completions/" + file)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("withlease", "completion", shell)
		cmd.Env = shelltest.Clean("/dev/null", nil)
		got, err := cmd.CombinedOutput()
		if err != nil || string(got) != string(want) || completions.Script(shell) != string(want) {
			t.Errorf("withlease completion %s: %v, %d bytes; %s has %d", shell, err, len(got), file, len(want))
		}
	}
	zsh := completions.Script("zsh")
	if first, _, _ := strings.Cut(zsh, "\n"); first != "#compdef withlease" {
		t.Errorf("line 1 of the zsh script is %q", first)
	}
	out, err := exec.Command("withlease", "completion", "tcsh").CombinedOutput()
	if code := exitStatus(err); code != run.ExitUsage {
		t.Errorf("withlease completion tcsh exits %d, want %d", code, run.ExitUsage)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if !strings.Contains(string(out), shell) {
			t.Errorf("%q doesn't name %s", out, shell)
		}
	}
	full := exec.Command("sh", "-c", "withlease completion bash >/dev/full")
	if out, err := full.CombinedOutput(); exitStatus(err) != run.ExitFailed || !strings.Contains(string(out), "no space left") {
		t.Errorf("on a full disk: %v, %q", err, out)
	}
}

func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return -1
}

// Check 24: the shells and shellcheck accept the scripts.
func TestCompletionSyntax(t *testing.T) {
	t.Setenv("WITHLEASE_TEST_SHELLS", testShells)
	for _, c := range [][]string{
		{"bash", "-n", "completions/withlease.bash"},
		{"zsh", "-n", "completions/_withlease"},
		{"fish", "-n", "completions/withlease.fish"},
		{"zsh", "-n", "completions/init.zsh"},
		{"fish", "-n", "completions/init.fish"},
	} {
		t.Run(c[2], func(t *testing.T) {
			shelltest.Need(t, c[0])
			if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%q: %v\n%s", c, err, out)
			}
		})
	}
	t.Run("shellcheck", func(t *testing.T) {
		needTool(t, "shellcheck")
		if out, err := exec.Command("shellcheck", "-s", "bash", "completions/withlease.bash", "completions/init.bash", "completions/shelltest/driver.bash").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// needTool skips a test whose tool isn't there; it fails where
// WITHLEASE_TEST_TOOLS=all says that all must be.
func needTool(t *testing.T, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	switch {
	case err == nil:
	case testTools == "all":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Hidden words stay hidden, and nothing but names is answered to a shell.
func TestCompleteVerbIsQuiet(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"--dir=/nonexistent", "resources"}, {"resources", "--", "x"}} {
		cmd := exec.Command("withlease", append([]string{run.CompleteVerb}, args...)...)
		cmd.Env = shelltest.Clean("/dev/null", nil)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}
