package run

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
)

// noFlags is what the grammar makes of a withlease without flags.
func noFlags(left []string) []string { return left }

var kindRule = []lease.GuardRule{{Resource: "kind-1", Programs: []string{"kind", "kubectl"}, Args: []string{"kind-1"}}}

// What an agent types, and what of it needs the lease: the first such command
// as it is suggested, or nothing.
var guardTable = []struct{ script, want string }{
	{"kubectl --context kind-1 get pods", "kubectl --context kind-1 get pods"},
	{"/usr/local/bin/kind delete cluster --name=kind-1", "/usr/local/bin/kind delete cluster --name=kind-1"},
	{"kubectl get pods", ""},
	{"echo kubectl kind-1", ""},
	{"git commit -m 'kubectl kind-1; kubectl kind-1'", ""},
	{`echo "a; kubectl kind-1"`, ""},
	{"true; kubectl kind-1", "kubectl kind-1"},
	{"true && kubectl kind-1", "kubectl kind-1"},
	{"true||kubectl kind-1", "kubectl kind-1"},
	{"true|kubectl kind-1", "kubectl kind-1"},
	{"true & kubectl kind-1&", "kubectl kind-1"},
	{"true\nkubectl kind-1\n", "kubectl kind-1"},
	{"cd x\r\nkubectl kind-1\r\n", "kubectl kind-1"},
	{"(kubectl kind-1)", "kubectl kind-1"},
	{"((kubectl kind-1))", "kubectl kind-1"},
	{"{ kubectl kind-1; }", "kubectl kind-1"},
	{"! kubectl kind-1", "kubectl kind-1"},
	{"if kubectl kind-1; then true; fi", "kubectl kind-1"},
	{"while true; do kubectl kind-1; done", "kubectl kind-1"},
	{"case a in a) kubectl kind-1;; esac", "kubectl kind-1"},
	{"for c in kubectl kind-1; do true; done", ""},
	{"echo $(kubectl kind-1)", "kubectl kind-1"},
	{"echo x$(kubectl kind-1)y", "kubectl kind-1"},
	{`echo "a $(kubectl kind-1) b"`, "kubectl kind-1"},
	{`echo "a $(echo "$(kubectl kind-1)")"`, "kubectl kind-1"},
	{`echo '$(kubectl kind-1)'`, ""},
	{`echo "\$(kubectl kind-1)"`, ""},
	{"echo `kubectl kind-1`", "kubectl kind-1"},
	{"echo \"`kubectl kind-1`\"", "kubectl kind-1"},
	{"echo `echo \\`kubectl kind-1\\``", "kubectl kind-1"},
	{"echo '`kubectl kind-1`'", ""},
	{`echo ${X:-$(kubectl kind-1)}`, "kubectl kind-1"},
	{`echo "${X:-it's $(kubectl kind-1)}"`, "kubectl kind-1"},
	{"echo $((1 << 2))\nkubectl kind-1", "kubectl kind-1"},
	{"diff <(kubectl kind-1) x", "kubectl kind-1"},
	{"sh -c 'kubectl kind-1'", "kubectl kind-1"},
	{`/bin/bash -euo pipefail -c "true; kubectl kind-1"`, "kubectl kind-1"},
	{"bash -lc 'kubectl kind-1' x", "kubectl kind-1"},
	{"bash -c 'sh -c \"kubectl kind-1\"'", ""}, // one level
	{"bash kubectl kind-1", ""},
	{"true # kubectl kind-1", ""},
	{"# kubectl kind-1\ntrue", ""},
	{"kubectl a#b kind-1", "kubectl a#b kind-1"},
	{`kube"ct"l 'kind-1'`, `kube"ct"l 'kind-1'`},
	{`\kubectl kind-1`, `\kubectl kind-1`},
	{"kubectl \\\n  kind-1", "kubectl kind-1"},
	{"kubectl 'a b' \"$X\" kind-1", "kubectl 'a b' \"$X\" kind-1"},
	{"kubectl $'it\\'s' kind-1 x", "kubectl $'it\\'s' kind-1 x"},
	{"A=1 B='2 3' kubectl kind-1", "A=1 B='2 3' | kubectl kind-1"},
	{"KUBECONFIG=kind-1.yaml kubectl get", "KUBECONFIG=kind-1.yaml | kubectl get"},
	{"sudo -u ann kubectl kind-1", "sudo -u ann kubectl kind-1"},
	{"env -i A=1 kubectl kind-1", "env -i A=1 kubectl kind-1"},
	{"time -p kubectl kind-1", "kubectl kind-1"},
	{"nohup kubectl kind-1 &", "nohup kubectl kind-1"},
	{"exec kubectl kind-1", "kubectl kind-1"},
	{"command kubectl kind-1", "kubectl kind-1"},
	{"command -v kubectl kind-1", ""},
	{"timeout -k 1 5s kubectl kind-1", "timeout -k 1 5s kubectl kind-1"},
	{"timeout --signal=KILL 5 kubectl kind-1", "timeout --signal=KILL 5 kubectl kind-1"},
	{"nice -n 5 kubectl kind-1", "nice -n 5 kubectl kind-1"},
	{"echo kind-1 | xargs -I {} kubectl kind-1 {}", "xargs -I {} kubectl kind-1 {}"},
	{"sudo env A=1 timeout 5 nice kubectl kind-1", "sudo env A=1 timeout 5 nice kubectl kind-1"},
	{"2>/dev/null >x kubectl kind-1 2>&1 >>y <z", "kubectl kind-1"},
	{"kubectl get >kind-1.txt", ""},
	{"echo a &>b; kubectl kind-1", "kubectl kind-1"},
	{"echo a >kubectl kind-1", ""},
	{"cat >x <<EOF\nkubectl kind-1\nEOF\n", ""},
	{"cat <<EOF\n$(kubectl kind-1)\nEOF\n", "kubectl kind-1"},
	{"cat <<'EOF'\n$(kubectl kind-1)\nEOF\n", ""},
	{"cat <<-EOF && true\n\tx\n\tEOF\nkubectl kind-1", "kubectl kind-1"},
	{"git commit -m \"$(cat <<'EOF'\nkubectl kind-1\nEOF\n)\"", ""},
	{"cat <<<kubectl kind-1", ""},
	{"kubectl apply --context kind-1 -f - <<EOF\nx\nEOF", "kubectl apply --context kind-1 -f -"},

	{"withlease kind-1 -- kubectl kind-1", ""},
	{"withlease gpu kind-1 -- sudo kubectl kind-1", ""},
	{"sudo withlease kind-1 -- kubectl kind-1", ""},
	{"withlease kind-1 -- sh -c 'kubectl kind-1'", ""},
	{"withlease gpu -- kubectl kind-1", "withlease gpu -- kubectl kind-1"},
	{"withlease gpu -- withlease kind-1 -- kubectl kind-1", ""},
	{"withlease kind-1 -- true; kubectl kind-1", "kubectl kind-1"},
	{"withlease kind-1 -- echo $(kubectl kind-1)", "kubectl kind-1"}, // runs before it
	{"withlease status kind-1", ""},
	{"withlease", ""},
}

func TestGuardCommands(t *testing.T) {
	for _, c := range guardTable {
		got := ""
		for _, g := range guarded(c.script, noFlags) {
			if len(g.needs(kindRule)) > 0 {
				got = strings.Join(g.typed, " ")
				if len(g.assigned) > 0 {
					got = strings.Join(g.assigned, " ") + " | " + got
				}
				break
			}
		}
		if got != c.want {
			t.Errorf("%q: %q needs the lease, want %q", c.script, got, c.want)
		}
	}
}

func TestGuardRules(t *testing.T) {
	rules := []lease.GuardRule{{Resource: "a", Programs: []string{"x"}}, {Resource: "b", Programs: []string{"x"}, Args: []string{"q", "-b-"}}}
	for script, want := range map[string][]string{"x": {"a"}, "x 1-b-2": {"a", "b"}, "withlease a -- x q": {"b"}, "y -b-": nil} {
		var got []string
		for _, r := range guarded(script, noFlags)[0].needs(rules) {
			got = append(got, r.Resource)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s needs %q, want %q", script, got, want)
		}
	}
}

// guardOf runs the hook with a rule for kind-1 and an event.
func guardOf(t testing.TB, event, rules string) (code int, said string) {
	t.Helper()
	dir := t.TempDir()
	if rules != "" {
		if err := os.WriteFile(filepath.Join(dir, "guard.json"), []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr strings.Builder
	s := &Session{Flags: Flags{Dir: dir}, Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Now: time.Now}
	code = s.Guard(strings.NewReader(event), "", noFlags).Code
	if stdout.String() != "" {
		t.Errorf("standard output has %q", stdout.String())
	}
	return code, stderr.String()
}

const oneRule = `{"rules":[{"resource":"kind-1","programs":["kubectl"],"args":["kind-1"],"reason":"it is shared\u001b[2J"}],"more":1}`

func bash(command string) string {
	text, _ := json.Marshal(map[string]any{"session_id": "7f31", "tool_name": "Bash", "tool_input": map[string]string{"command": command}})
	return string(text)
}

// No failure exits with 2, which is the refusal alone.
func TestGuardExits(t *testing.T) {
	deep := strings.Repeat("[", 20000)
	for _, c := range []struct {
		event, rules string
		code         int
	}{
		{bash("kubectl kind-1"), oneRule, 2},
		{bash("kubectl kind-2"), oneRule, 0},
		{bash("kubectl kind-1"), "", 0},
		{bash("kubectl kind-1"), `{}`, 0},
		{bash(""), oneRule, 0},
		{`{"tool_name":"Read","tool_input":{"command":"kubectl kind-1"}}`, oneRule, 0},
		{`{"tool_name":"Read","tool_input":[1]}`, `no`, 0},
		{`{"tool_name":"Bash"}`, oneRule, 0},
		{`{"tool_name":"Bash","tool_input":{"command":7}}`, oneRule, 1},
		{`{"tool_name":"Bash","tool_input":"kubectl kind-1"}`, oneRule, 1},
		{`{"tool_name":7}`, oneRule, 1},
		{``, oneRule, 1},
		{`[]`, oneRule, 1},
		{`{"tool_name":"Bash`, oneRule, 1},
		{deep, oneRule, 1},
		{bash("true " + strings.Repeat("x", maxScript)), oneRule, 1},
		{strings.Repeat(" ", maxEvent+1), oneRule, 1},
		{bash("kubectl kind-1"), `{"rules":[{"resource":"../x","programs":["kubectl"]}]}`, 1},
		{bash("kubectl kind-1"), `{"rules":[{"resource":"kind-1"}]}`, 1},
		{bash("kubectl kind-1"), `{"rules":{}}`, 1},
		{bash("kubectl kind-1"), `rules`, 1},
		{bash("kubectl kind-1"), oneRule + strings.Repeat(" ", 1<<20), 1},
	} {
		code, said := guardOf(t, c.event, c.rules)
		if code != c.code || (said == "") != (code == 0) || strings.Count(said, "\n") != min(code, 1) {
			t.Errorf("%.80q with %.80q: %d, want %d; %q", c.event, c.rules, code, c.code, said)
		}
		harmless(t, c.event, strings.TrimSuffix(said, "\n"))
	}
}

// A hook must not exit with 2 as a Go program that panics does.
func TestGuardPanics(t *testing.T) {
	var stderr strings.Builder
	s := &Session{Stderr: &stderr, Getenv: func(string) string { return "" }, Now: time.Now}
	if e := s.Guard(nil, "", noFlags); e.Code != ExitRefused || !strings.HasPrefix(stderr.String(), "withlease: guard: ") {
		t.Errorf("exit %d, %q", e.Code, stderr.String())
	}
}

func TestGuardFollowsNoLink(t *testing.T) { // B58
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(oneRule), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"file": nil, "none": fs.ErrNotExist, "link": syscall.ELOOP} {
		if _, err := lease.ReadGuard(filepath.Join(dir, name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"fifo", "."} {
		if _, err := lease.ReadGuard(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// Nests without end: no stack overflows, which nothing can recover from.
func TestGuardDeep(t *testing.T) { // B50
	for _, piece := range []string{"(", "$(", "`", "\"$(", "${", "\"${x:-", "<(", "$((", "{ ", "'", "\\`", "<<a\n", "$'", "((", ")", "sudo ", "withlease -- ", "A= ", "sh -c '"} {
		script := strings.Repeat(piece, maxScript/len(piece)-20) + "kubectl kind-1"
		if code, said := guardOf(t, bash(script), oneRule); code == 1 {
			t.Errorf("%q without end: exit %d, %q", piece, code, said)
		}
	}
	for depth, want := range map[int]int{deepest - 1: 1, deepest: 0} {
		if got := len(splitShell(strings.Repeat("(", depth) + "kubectl")); got != want {
			t.Errorf("%d parentheses: %d commands, want %d", depth, got, want)
		}
	}
}

// Whatever the command: no panic, no word that isn't in it, and the same when it
// is asked again.
func FuzzGuard(f *testing.F) {
	for _, c := range guardTable {
		f.Add(c.script)
	}
	f.Add(nasty)
	f.Add("\"$(`${x:-\\")
	f.Fuzz(func(t *testing.T, script string) {
		if len(script) > 1<<12 {
			return
		}
		for _, c := range splitShell(script) {
			if len(c.words) == 0 || len(c.words) != len(c.raw) {
				t.Fatalf("%q: words %q, raw %q", script, c.words, c.raw)
			}
			for _, r := range c.raw {
				if !strings.Contains(strings.ReplaceAll(script, `\`, ""), strings.ReplaceAll(r, `\`, "")) {
					t.Fatalf("%q: %q is not in it", script, r)
				}
			}
		}
		for _, g := range guarded(script, noFlags) {
			if (g.program == "") != (len(g.typed) == 0) {
				t.Fatalf("%q: program %q, typed %q", script, g.program, g.typed)
			}
		}
		code, said := guardOf(t, bash(script), oneRule)
		if code != 0 && code != ExitGuarded {
			t.Fatalf("%q: exit %d, %s", script, code, said)
		}
		harmless(t, script, strings.TrimSuffix(said, "\n"))
	})
}
