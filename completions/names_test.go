package completions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"withlease/completions/shelltest"
)

var shells = []string{"bash", "zsh", "fish"}

// question is a line with the cursor at its end, and what a shell must offer.
type question struct {
	line  string
	has   []string // among others
	only  []string // these, in any order; nil: not asked
	hasNo []string
}

// Layer A: what our own words complete to, in the real shells (checks 15 and 16
// of the shell notes).
func TestNames(t *testing.T) {
	id, dir := ticket(t), labDir
	verbs := []string{"run", "list", "status", "queue", "claim", "extend", "release", "ask", "verify", "grant", "revoke", "supervisor", "upgrade", "completion", "version"}
	questions := []question{
		{line: "withlease ", has: append(verbs, "kind-1", "gpu", "db@prod"), hasNo: []string{"tpyo", "--", "start"}},
		{line: "withlease gp", only: []string{"gpu"}},
		{line: "withlease gpu ", has: []string{"kind-1", "--"}, hasNo: []string{"gpu", "list"}},
		{line: "withlease -v gpu kind-1 --", has: []string{"--", "--wait", "--dir", "--pty"}, hasNo: []string{"--force", "--until"}},
		{line: "withlease run ", has: []string{"kind-1", "gpu"}, hasNo: []string{"list", "--"}},
		{line: "withlease status k", only: []string{"kind-1"}},
		{line: "withlease --json status g", only: []string{"gpu"}},
		{line: "withlease --name list status g", only: []string{"gpu"}},
		{line: "withlease status gpu ", only: []string{}},
		{line: "withlease queue ", only: []string{"gpu", "kind-1", "inst"}},
		{line: "withlease claim k", only: []string{"kind-1"}},
		{line: "withlease release ", only: []string{"kind-1"}},
		{line: "withlease extend ", only: []string{"kind-1"}},
		{line: "withlease extend kind-1 ", only: []string{"5m", "30m", "2h"}},
		{line: "withlease claim --for ", has: []string{"30m"}, hasNo: []string{"gpu"}},
		{line: "withlease ask ", only: []string{"kind-1", "gpu"}},
		{line: "withlease ask --message gpu g", only: []string{"gpu"}},
		{line: "withlease verify 17 ", only: []string{"kind-1", "gpu"}},
		{line: "withlease release --if 17 k", only: []string{"kind-1"}},
		{line: "withlease release --force ", only: []string{"kind-1", "gpu"}},
		{line: "withlease grant gpu s-e", only: []string{"s-eve"}},
		{line: "withlease grant gpu,kin", only: []string{"gpu,kind-1"}},
		{line: "withlease revoke ", only: []string{"kind-1"}},
		{line: "withlease revoke kind-1 ", only: []string{"s-eve"}},
		{line: "withlease supervisor ", only: []string{"start", "stop", "status"}},
		{line: "withlease upgrade ", only: []string{"begin", "end"}},
		{line: "withlease upgrade end ", only: []string{"inst/c1"}},
		{line: "withlease upgrade begin inst --u", only: []string{"--until"}},
		{line: "withlease completion ", only: []string{"bash", "zsh", "fish"}},
		{line: "withlease list ", only: []string{}},
		{line: "withlease gpu --pty al", only: []string{"always"}},
		{line: "withlease gpu --wait ", has: []string{"90s", "5m"}},
		{line: "withlease -nw ", has: []string{"90s", "5m"}, hasNo: []string{"gpu"}},
		{line: "withlease gpu --ticket ", only: []string{id}},
		{line: "withlease kind-1 --ticket ", only: []string{}},
		{line: "withlease --dir /nonexistent status ", only: []string{}},
		{line: "withlease --dir '" + dir + "' status g", only: []string{"gpu"}},
		{line: `withlease --dir="` + dir + `" status g`, only: []string{"gpu"}},
		{line: `withlease --dir="$(echo ` + dir + `)" status g`, only: []string{}}, // nothing is run for a TAB
		{line: "withlease --session s-ann release ", only: []string{"gpu"}},
		{line: "withlease --session=s-ann --name x release ", only: []string{"gpu"}},
		{line: "withlease nothing-begins-so", only: []string{}},
	}
	byShell := map[string][]question{
		"bash": {
			{line: "withlease port:80", only: []string{"8080"}},
			{line: "withlease gpu --pty=al", only: []string{"always"}},
			{line: "withlease grant gpu Bob", only: []string{`Bob\ O\'Neil`}},
			{line: `withlease grant gpu Bob\ O`, only: []string{`Bob\ O\'Neil`}},
			{line: `withlease grant gpu "Bob O`, only: []string{"Bob O'Neil"}},
			{line: `withlease grant gpu 'Bob O`, only: []string{}}, // it can't be written so
		},
		"zsh": {
			{line: "withlease port:80", only: []string{"port:8080"}},
			{line: "withlease db@p", only: []string{"db@prod"}},
			{line: "withlease gpu --pty=al", only: []string{"--pty=always"}},
			{line: "withlease grant gpu Bob", only: []string{`Bob\ O\'Neil`}},
			{line: `withlease grant gpu Bob\ O`, only: []string{`Bob\ O\'Neil`}},
			{line: `withlease grant gpu "Bob O`, only: []string{"Bob O'Neil"}},
		},
		"fish": {
			{line: "withlease port:80", only: []string{"port:8080"}},
			{line: "withlease db@p", only: []string{"db@prod"}},
			{line: "withlease gpu --pty=al", only: []string{"--pty=always"}},
			{line: "withlease grant gpu Bob", only: []string{"Bob O'Neil"}},
			{line: `withlease grant gpu Bob\ O`, only: []string{"Bob O'Neil"}},
			{line: `withlease grant gpu "Bob O`, only: []string{"Bob O'Neil"}},
		},
	}
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			packages := []string{""}
			if name == "bash" {
				packages = []string{shelltest.BashCompletion, shelltest.NoPackage}
				if more := os.Getenv("WITHLEASE_TEST_BASH_COMPLETION"); more != "" { // another version's file
					packages = append(packages, more)
				}
			}
			for _, pkg := range packages {
				more := byShell[name]
				switch pkg {
				case shelltest.NoPackage:
					more = append(more, question{line: "withlease db@p", only: []string{"prod"}})
				case shelltest.BashCompletion: // it takes the @ out of COMP_WORDBREAKS
					more = append(more, question{line: "withlease db@p", only: []string{"db@prod"}})
				}
				ask(t, shelltest.Shell{Name: name, Scripts: ".", Env: lab(t), Package: pkg}, slices.Concat(questions, more))
			}
		})
	}
}

func ask(t *testing.T, s shelltest.Shell, questions []question) {
	t.Helper()
	var lines []string
	for _, q := range questions {
		lines = append(lines, q.line)
	}
	for i, answer := range s.Ask(t, lines...) {
		q, got := questions[i], shelltest.Texts(answer)
		for _, want := range q.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s %s: %q has no %q: %q", s.Name, s.Package, q.line, want, got)
			}
		}
		for _, not := range q.hasNo {
			if slices.Contains(got, not) {
				t.Errorf("%s %s: %q has %q", s.Name, s.Package, q.line, not)
			}
		}
		if q.only != nil && !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(q.only))) {
			t.Errorf("%s %s: %q is %q, want %q", s.Name, s.Package, q.line, got, q.only)
		}
	}
}

// The descriptions, in the shells that have them.
func TestDescriptions(t *testing.T) {
	for _, name := range shells[1:] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shelltest.Shell{Name: name, Scripts: ".", Env: lab(t)}
			answers := s.Ask(t, "withlease status ", "withlease gpu --ticket ", "withlease upgrade end ")
			all := ""
			for _, a := range answers {
				for _, c := range a {
					all += c.Text + "\t" + c.About + "\n"
				}
			}
			for _, want := range []string{
				"held by YOU since ", "held by ann since ", ", 1 waiting: nightly train", "last used ", " ago by bob",
				"held back by an upgrade: to 2.0", "place 1 of gpu, kept for ", "by sup since ",
			} {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not in\n%s", want, all)
				}
			}
		})
	}
}

// Check 19, B70: whatever is wrong, nothing is said and the static words are
// still there.
func TestWithoutNames(t *testing.T) {
	half := t.TempDir()
	write(t, filepath.Join(half, "state.json"), `{"grants":[{"resou`)
	write(t, filepath.Join(half, "events.jsonl"), `{"at":"2026-`)
	write(t, filepath.Join(half, "leases", "gpu", "holder.json"), `{"env":`)
	shut := t.TempDir()
	write(t, filepath.Join(shut, "leases", "gpu", "holder.json"), `{}`)
	if err := os.Chmod(filepath.Join(shut, "leases"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(shut, "leases"), 0o700)
	notThere := filepath.Join(t.TempDir(), "missing")
	empty := t.TempDir()
	noProgram := t.TempDir()
	for _, tool := range []string{"bash", "zsh", "fish", "cat", "mktemp", "rm", "tr", "sed", "uname", "grep"} {
		if path, err := exec.LookPath(tool); err == nil {
			if err := os.Symlink(path, filepath.Join(noProgram, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	static := func(flags string) []question {
		return []question{
			{line: "withlease " + flags, has: []string{"run", "list", "version"}},
			{line: "withlease " + flags + "--pty al", only: []string{"always"}},
			{line: "withlease " + flags + "release ", only: []string{}},
		}
	}
	for _, name := range shells {
		for what, env := range map[string][]string{
			"no home":    {"HOME=/dev/null", "XDG_CONFIG_HOME=/no"},
			"no program": {"PATH=" + noProgram, "WITHLEASE_DIR=" + empty},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				if name == "fish" && what == "no program" {
					t.Skip("fish loads no completion of a command that it doesn't find")
				}
				questions := static("")
				if what == "no home" {
					questions = slices.Concat(questions, static("--dir "+half+" "), static("--dir "+shut+" "), static("--dir "+notThere+" "), static("--dir= "), static("--dir '' "))
				}
				ask(t, shelltest.Shell{Name: name, Scripts: ".", Env: env}, questions)
			})
		}
	}
	t.Cleanup(func() {
		for _, dir := range []string{notThere, filepath.Join(empty, "leases")} {
			if _, err := os.Lstat(dir); err == nil {
				t.Errorf("%s was made", dir)
			}
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
