package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"withlease/lease"
	"withlease/run"
)

// understand is what kong makes of words, as parse asks it.
func understand(words []string) (c cli, verb string, err error) {
	parser, err := kong.New(&c, kong.Name("withlease"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(n int) { panic(exited(n)) }))
	if err != nil {
		panic(err)
	}
	ctx, err := parser.Parse(words)
	if err != nil {
		return c, "", err
	}
	return c, ctx.Command(), nil
}

// says parses a command line that must not be understood, or is asked for help,
// and gives the status and what went to the two streams.
func says(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	left, command, split := cut(args)
	code = parse(left, command, split, &out, &errs)
	return code, out.String(), errs.String()
}

func TestCut(t *testing.T) { // checks 1 and 3
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		args, left, command []string
		split               bool
	}{
		{nil, nil, nil, false},
		{[]string{"list"}, []string{"list"}, nil, false},
		{[]string{"--"}, []string{}, []string{}, true},
		{[]string{"gpu", "--"}, []string{"gpu"}, []string{}, true},
		{[]string{"gpu", "--", "make", "test"}, []string{"gpu"}, []string{"make", "test"}, true},
		{[]string{"--", "gpu", "make"}, []string{}, []string{"gpu", "make"}, true},
		{[]string{"gpu", "--", "--", "--help", "-h", "-V", "--version", "list"}, []string{"gpu"}, []string{"--", "--help", "-h", "-V", "--version", "list"}, true},
		{[]string{"gpu", "--", "", "a b", "n\nl", "t\tb", "\xff\xfe", "\x00", long}, []string{"gpu"}, []string{"", "a b", "n\nl", "t\tb", "\xff\xfe", "\x00", long}, true},
		{[]string{"gpu", "---", "-- ", " --", "--x"}, []string{"gpu", "---", "-- ", " --", "--x"}, nil, false},
		{[]string{"-n", "--wait", "5s", "gpu", "--", "-n"}, []string{"-n", "--wait", "5s", "gpu"}, []string{"-n"}, true},
	} {
		args := slices.Clone(c.args)
		left, command, split := cut(args)
		if !slices.Equal(left, c.left) || !slices.Equal(command, c.command) || split != c.split {
			t.Errorf("%.200q is %q and %.200q, %v", c.args, left, command, split)
		}
		if !slices.Equal(args, c.args) {
			t.Errorf("the arguments were changed to %q", args)
		}
	}
}

func TestPlain(t *testing.T) { // checks 2 and 9
	for _, c := range []struct {
		left []string
		want bool
	}{
		{[]string{"gpu"}, true},
		{[]string{"gpu", "kind-1", "A.b_c@d:e+f-0"}, true},
		{[]string{strings.Repeat("x", lease.MaxName)}, true},
		{[]string{"lists", "List", "LIST", "list.", "runs"}, true},
		{nil, false},
		{[]string{}, false},
		{[]string{""}, false},
		{[]string{"-"}, false},
		{[]string{"-n", "gpu"}, false},
		{[]string{"gpu", "--json"}, false},
		{[]string{"gpu", ".hidden"}, false},
		{[]string{"a/b"}, false},
		{[]string{"..", "gpu"}, false},
		{[]string{"gpu\n"}, false},
		{[]string{"g\x1bpu"}, false},
		{[]string{"gpü"}, false},
		{[]string{"gpu\xff"}, false},
		{[]string{"@/etc/passwd"}, false},
		{[]string{strings.Repeat("x", lease.MaxName+1)}, false},
	} {
		if got := plain(c.left); got != c.want {
			t.Errorf("%q: plain %v", c.left, got)
		}
	}
	for _, v := range verbs { // check 6
		for _, left := range [][]string{{v}, {"gpu", v}, {v, "gpu"}} {
			if plain(left) {
				t.Errorf("%q goes past the grammar", left)
			}
		}
	}
}

// kongsRun fails where the fast path and kong would run different things.
func kongsRun(t *testing.T, resources []string) {
	t.Helper()
	words, _, ok := route(resources, true, io.Discard)
	if !ok {
		t.Errorf("%q is plain, and the router refuses it", resources)
		return
	}
	c, verb, err := understand(words)
	if err != nil || strings.Fields(verb)[0] != "run" {
		t.Errorf("%q is plain, and kong says %q, %v", resources, verb, err)
		return
	}
	want := defaultRun(resources)
	if !reflect.DeepEqual(c.Run, want) {
		t.Errorf("kong makes of %q\n     %+v\nwant %+v", resources, c.Run, want)
	}
	c.Run = runCmd{}
	c.Release.Grace = 0 // other verbs' defaults
	c.History.Since, c.Stats.Since, c.Timeline.Since = "", "", ""
	if !reflect.DeepEqual(c, cli{}) {
		t.Errorf("kong makes of %q besides %+v", resources, c)
	}
}

// The fast path and kong must never differ.
func TestDefaultRun(t *testing.T) {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	const more = first + "._@:+-"
	for _, r := range [][]string{{"gpu"}, {"a", "b", "c"}, {"a", "a"}, {"true"}, {"false"}, {"null"}, {"0"}, {"1e9"}, {"5s"}, {"0x10"}, {"a="}, {"a,b"},
		{"no-wait"}, {"help"}, {"runs"}, {"x--"}, {"x@/etc/passwd"}, {"1-2"}, {"N"}, {"h"}, {"kill"}, {"auto", "always"}} {
		if plain(r) {
			kongsRun(t, r)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var words []string
		for range 1 + r.IntN(4) {
			b := []byte{first[r.IntN(len(first))]}
			for range r.IntN(12) {
				b = append(b, more[r.IntN(len(more))])
			}
			words = append(words, string(b))
		}
		if !plain(words) {
			t.Fatalf("%q isn't plain", words)
		}
		if kongsRun(t, words); t.Failed() {
			return
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"gpu", "a b", "list", "run list", "-n gpu", "a@b:c", "true 5s", "gpu --wait=5s", "\xff", "a --"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		if slices.Contains(words, "--") || len(words) > 50 {
			t.Skip()
		}
		if plain(words) {
			kongsRun(t, words)
		}
	})
}

// A verb's own grammar understands what the whole one does, and as the same.
func FuzzVerb(f *testing.F) {
	for _, s := range []string{"run gpu", "run -n --wait 5s gpu net", "run -qvE9 gpu", "run --ttl=1m --on-lost warn gpu", "run --on-lost no gpu",
		"list", "--json list", "list --watch", "list gpu", "status gpu", "--dir /x status gpu", "queue", "history --since 7d --last 3 gpu", "stats gpu",
		"timeline --svg - gpu net", "claim --for 2h -p x gpu", "extend gpu 2h", "release --force --reason x gpu", "release --grace x gpu",
		"ask --message m gpu", "verify t gpu", "grant gpu,net s1 --budget-gib 3", "revoke gpu s1", "supervisor start --pid=-1", "supervisor", "supervisor stop x",
		"upgrade begin wc/a --to 2 --until 2h", "upgrade end wc", "guard --rules f", "completion zsh", "completion csh", "init fish", "doctor", "version", "version --wait 5s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		if _, known := firstWord(words); !known || len(words) > 50 || !utf8.ValidString(line) {
			t.Skip()
		}
		for _, w := range words { // is answered with its help
			if strings.HasPrefix(w, "-h") || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "h") || strings.HasPrefix(w, "--help") {
				t.Skip()
			}
		}
		all, verb, err := understand(words)
		var c cli
		got, ok := c.parseVerb(words)
		if ok != (err == nil) {
			t.Fatalf("%q alone: %v; among all: %v", words, ok, err)
		}
		if !ok {
			return
		}
		if got != verb {
			t.Errorf("%q is %s, among all %s", words, got, verb)
		}
		a, b := reflect.ValueOf(c), reflect.ValueOf(all)
		for f := range reflect.TypeFor[cli]().Fields() {
			// Among all, every verb's defaults are set.
			if _, isVerb := f.Tag.Lookup("cmd"); isVerb && !strings.EqualFold(f.Name, strings.Fields(verb)[0]) {
				continue
			}
			if x, y := a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface(); !reflect.DeepEqual(x, y) {
				t.Errorf("%q has %s %+v, among all %+v", words, f.Name, x, y)
			}
		}
	})
}

// commands are the commands of the model, with the flags that each has of its
// own.
func commands(n *kong.Node, each func(n *kong.Node)) {
	for _, sub := range n.Children {
		if sub.Type == kong.CommandNode {
			each(sub)
			commands(sub, each)
		}
	}
}

func theModel(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

// A verb that the router doesn't know would be taken for a resource.
func TestVerbsAreTheModels(t *testing.T) { // check 6
	known := map[string]bool{}
	commands(theModel(t), func(n *kong.Node) {
		if n.Parent.Type != kong.ApplicationNode || n.Hidden {
			return
		}
		for _, name := range append([]string{n.Name}, n.Aliases...) {
			known[name] = true
			if !slices.Contains(verbs, name) {
				t.Errorf("%q is a command, and no verb", name)
			}
		}
		if !regexp.MustCompile(`(?m)^Verbs:.* ` + n.Name + `( |$)`).MatchString(shortUsage) {
			t.Errorf("the short usage has no %q", n.Name)
		}
	})
	if len(known) < 11 {
		t.Errorf("the model has %d commands", len(known))
	}
	for i, v := range verbs {
		if slices.Contains(verbs[:i], v) {
			t.Errorf("%q is there twice", v)
		}
		if lease.CheckName(v) != nil {
			t.Errorf("%q could be no resource", v)
		}
	}
	listed := strings.Fields(strings.TrimPrefix(regexp.MustCompile(`(?m)^Verbs:.*$`).FindString(shortUsage), "Verbs:"))
	for _, v := range listed {
		if !known[v] {
			t.Errorf("the short usage has %q, which is no command", v)
		}
	}
}

// The router skips the values of the flags that may stand before the first
// word: the top's and run's.
func TestValueFlagsAreTheModels(t *testing.T) {
	top := theModel(t)
	i := slices.IndexFunc(top.Children, func(n *kong.Node) bool { return n.Name == "run" })
	values := map[string]bool{}
	for _, f := range append(slices.Clone(top.Flags), top.Children[i].Flags...) {
		long := "--" + f.Name
		if got := takesValue(long); got == f.IsBool() {
			t.Errorf("%s: its value is the next word: %v", long, got)
		}
		if takesValue(long + "=x") {
			t.Errorf("%s=x: its value is the next word", long)
		}
		if f.Short != 0 {
			short := "-" + string(f.Short)
			if got := takesValue(short); got == f.IsBool() {
				t.Errorf("%s: its value is the next word: %v", short, got)
			}
		}
		if !f.IsBool() {
			values[f.Name] = true
		}
		if f.Negated || f.Tag.Negatable != "" {
			t.Errorf("--no-%s: not known to the router", f.Name)
		}
	}
	for _, name := range valueFlags {
		if !values[name] {
			t.Errorf("--%s is no flag with a value, of the top or of run", name)
		}
	}
	if len(values) != len(valueFlags) {
		t.Errorf("%d flags with a value, %d known to the router", len(values), len(valueFlags))
	}
	for r := rune(0x21); r < 0x7f; r++ { // no letter beyond the model's
		known := slices.ContainsFunc(append(slices.Clone(top.Flags), top.Children[i].Flags...), func(f *kong.Flag) bool { return f.Short == r && !f.IsBool() })
		if r != '-' && takesValue("-"+string(r)) != known {
			t.Errorf("-%c: its value is the next word: %v", r, !known)
		}
	}
}

func TestFirstWord(t *testing.T) {
	for _, c := range []struct {
		left  string
		word  string
		known bool
	}{
		{"", "", false},
		{"gpu", "gpu", false},
		{"list", "list", true},
		{"--json list", "list", true},
		{"--dir list status", "status", true},
		{"--dir=list status", "status", true},
		{"--name run gpu", "gpu", false},
		{"-w list gpu", "gpu", false},
		{"-w5s list", "list", true},
		{"-nw 5s list", "list", true},
		{"-nqv list", "list", true},
		{"-n -q list", "list", true},
		{"-pnow list", "list", true},         // "now" is the purpose
		{"-p now list", "list", true},        // the same
		{"-E75 list", "list", true},          //
		{"-qpE list", "list", true},          // the purpose is "E"
		{"-ptrain-now gpu", "gpu", false},    //
		{"-vpsweep list", "list", true},      // "sweep"
		{"-vpswee list", "list", true},       //
		{"-pw list gpu", "list", true},       //
		{"- list", "-", false},               //
		{"--wait", "", false},                //
		{"-w", "", false},                    //
		{"--bogus list", "list", true},       //
		{"gpu list", "gpu", false},           //
		{"--purpose list --json", "", false}, //
	} {
		if word, known := firstWord(strings.Fields(c.left)); word != c.word || known != c.known {
			t.Errorf("%q: %q, %v; want %q, %v", c.left, word, known, c.word, c.known)
		}
	}
}

// What the router takes for the first word is what kong takes for it.
func TestFirstWordIsKongs(t *testing.T) {
	pool := []string{"-n", "-q", "-v", "-nq", "-w5s", "-w", "-nw", "5s", "-p", "-pnow", "-pw", "-qpE", "-pE9", "-E", "-E9", "9", "--json", "--dir", "--dir=d", "d", "--wait", "--wait=5s",
		"--no-wait", "--purpose", "--purpose=now", "--quiet", "--name=w", "--ttl", "--grace=1s", "--on-lost", "warn", "--keep-place=1m", "--ticket", "gpu", "list", "now", "w", "p"}
	r := rand.New(rand.NewPCG(3, 4))
	understood := 0
	for range 20_000 {
		var left []string
		for range 1 + r.IntN(5) {
			left = append(left, pool[r.IntN(len(pool))])
		}
		c, _, err := understand(insertRun(left))
		if err != nil {
			continue
		}
		understood++
		want := ""
		if len(c.Run.Resource) > 0 {
			want = c.Run.Resource[0]
		}
		if got, _ := firstWord(left); got != want {
			t.Fatalf("%q: the first word is %q, and kong's first resource %q", left, got, want)
		}
	}
	if understood < 1000 {
		t.Errorf("kong understood %d lines of 20,000", understood)
	}
}

func TestRoute(t *testing.T) {
	for _, c := range []struct {
		left  string
		split bool
		want  string // words; "!" and a status: refused
	}{
		{"gpu", true, "run gpu"},
		{"gpu cpu", true, "run gpu cpu"},
		{"--wait 5m gpu", true, "run --wait 5m gpu"},
		{"--wait 5m", true, "run --wait 5m"},
		{"run gpu", true, "run gpu"},
		{"run list", true, "run list"},
		{"--json run list", true, "--json run list"},
		{"run gpu", false, "!0"},
		{"run", false, "!0"},
		{"run --help", false, "run --help"},
		{"run gpu --help", false, "run gpu --help"},
		{"run -h", true, "run -h"},
		{"list", false, "list"},
		{"list", true, "!0"},
		{"--json list", true, "!0"},
		{"list --help", true, "list --help"},
		{"doctor", true, "!0"},
		{"", true, "!0"},
		{"", false, "!2"},
		{"gpu", false, "gpu"},
		{"gpu make test", false, "gpu make test"},
		{"gpu --help", false, "run gpu --help"},
		{"gpu -h", true, "run gpu -h"},
		{"--help", false, "--help"},
		{"--help", true, "run --help"},
		{"--version", false, "version"},
		{"-V", false, "version"},
		{"gpu --version", true, "version"},
		{"list --bogus -V", true, "version"},
		{"--help --version", false, "version"},
	} {
		var stderr bytes.Buffer
		words, code, ok := route(strings.Fields(c.left), c.split, &stderr)
		got := strings.Join(words, " ")
		if !ok {
			got = fmt.Sprintf("!%d", code)
		}
		if got != c.want {
			t.Errorf("%q, %v: %q, want %q", c.left, c.split, got, c.want)
		}
		if (stderr.Len() > 0) == ok {
			t.Errorf("%q, %v: ok %v, and says %q", c.left, c.split, ok, stderr.String())
		}
	}
}

// Flags mean the same before, between and after the resources.
func TestFlagsAnywhere(t *testing.T) { // check 3
	five, seven := 5*time.Minute, 7*time.Minute
	want := runCmd{Resource: []string{"gpu", "cpu"}, Wait: &five, Purpose: "x y", Quiet: true, TTL: run.DefaultTTL, Grace: run.DefaultGrace, OnLost: "warn", ConflictExit: 9}
	for _, left := range [][]string{
		{"--wait", "5m", "-qp", "x y", "-E9", "--on-lost=warn", "gpu", "cpu"},
		{"gpu", "--wait=5m", "--quiet", "--purpose", "x y", "--conflict-exit-code", "9", "--on-lost", "warn", "cpu"},
		{"gpu", "cpu", "-w5m", "-q", "-px y", "-E", "9", "--on-lost=warn"},
		{"-w", "5m", "gpu", "-q", "cpu", "-px y", "-E9", "--on-lost=warn"},
		{"--wait", "7m", "gpu", "-w", "5m", "cpu", "--on-lost=kill", "--on-lost=warn", "-E8", "-E9", "-qp", "z", "--purpose=x y"}, // the last one counts
		{"run", "gpu", "cpu", "-w5m", "-q", "-px y", "-E", "9", "--on-lost=warn"},
	} {
		words, _, ok := route(left, true, io.Discard)
		if !ok {
			t.Errorf("%q is refused", left)
			continue
		}
		c, _, err := understand(words)
		if err != nil || !reflect.DeepEqual(c.Run, want) {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", left, c.Run, err, want)
		}
	}
	c, _, err := understand([]string{"run", "gpu", "--wait", "5m", "-w7m"})
	if err != nil || *c.Run.Wait != seven {
		t.Errorf("%+v, %v", c.Run, err)
	}
	c, _, err = understand([]string{"run", "--wait", "0s", "gpu"})
	if err != nil || c.Run.Wait == nil || *c.Run.Wait != 0 {
		t.Errorf("--wait 0s: %+v, %v", c.Run, err)
	}
}

// Each is one line on standard error with one hint, and the status by the form:
// 125 with --, so that make's and grep's own 2 is another thing.
func TestUsageErrors(t *testing.T) { // checks 2, 4, 5, 6
	t.Setenv("WITHLEASE_DIR", filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"-- list", 125, `^no resource before --: withlease RESOURCE\.\.\. -- COMMAND`},
		{"-- make", 125, `^no resource before --`},
		{"--", 125, `^no resource before --`},
		{"gpu make test", 2, `^no command: withlease gpu -- COMMAND \[ARG\.\.\.\], or hold it without one: withlease claim gpu$`},
		{"gpu", 2, `^no command: withlease gpu -- COMMAND .* withlease claim gpu$`},
		{"--json gpu", 2, `^no command: withlease gpu -- COMMAND .* withlease claim gpu$`},
		{"--name list gpu", 2, `^no command: withlease gpu -- `},
		{"run gpu", 2, `^no command: withlease run RESOURCE\.\.\. -- COMMAND`},
		{"lsit", 2, `^unexpected argument lsit, did you mean "list"\?$`},
		{"supervisor strat", 2, `^unexpected argument strat, did you mean "start"\?$`},
		{"--wiat 5s gpu -- x", 125, `^unknown flag --wiat, did you mean "--wait"\?$`},
		{"list --jsno", 2, `^unknown flag --jsno, did you mean "--json"\?$`},
		{"gpu --pur x -- x", 125, `^unknown flag --pur, did you mean `},
		{"list --wait 5s", 2, `^unknown flag --wait`},
		{"list extra", 2, `^unexpected argument extra$`},
		{"list -- make", 125, `^"list" takes no command after --; for a resource of that name: withlease run list -- COMMAND$`},
		{"--json list -- make", 125, `^"list" takes no command .* withlease run list -- `},
		{"--wait -- gpu", 125, `^--wait needs a value before --$`},
		{"gpu --wait -- x", 125, `^--wait needs a value before --$`},
		{"gpu -w -- x", 125, `^--wait needs a value before --$`},
		{"gpu -nqw -- x", 125, `^--wait needs a value before --$`},
		{"gpu --dir -- x", 125, `^--dir needs a value before --$`},
		{"gpu -E -- x", 125, `^--conflict-exit-code needs a value before --$`},
		{"gpu --purpose -x -- x", 125, `--purpose.*perhaps try --purpose="-x"\?$`},
		{"gpu --on-lost=pink -- x", 125, `^--on-lost must be one of "kill","warn" but got "pink"$`},
		{"gpu --wait soon -- x", 125, `--wait.*"soon"`},
		{"gpu -E nine -- x", 125, `--conflict-exit-code.*"nine"`},
		{"supervisor", 2, `"start".*"stop".*"status"`},
		{"upgrade", 2, `"begin".*"end"`},
		{"--json", 2, `"run", "list"`},
		{"status", 2, `<resource>`},
		{"grant gpu", 2, `<party>`},
		{"\xff -- x", 125, `"\\xff" is not UTF-8`},
		{"gpu --dir \xff -- x", 125, `"\\xff" is not UTF-8`},
		{"status \xff", 2, `"\\xff" is not UTF-8`},
	} {
		code, stdout, stderr := says(strings.Fields(c.line)...)
		message, ok := strings.CutPrefix(stderr, "withlease: ")
		if !ok || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") || stdout != "" {
			t.Errorf("%q says %q and %q: not one line on stderr", c.line, stdout, stderr)
		}
		if code != c.code || !regexp.MustCompile(c.want).MatchString(strings.TrimSuffix(message, "\n")) {
			t.Errorf("%q ends with %d and %q; want %d and %q", c.line, code, message, c.code, c.want)
		}
		if strings.Count(message, "did you mean")+strings.Count(message, "perhaps try") > 1 {
			t.Errorf("%q: more than one suggestion: %q", c.line, message)
		}
	}
	for _, v := range verbs {
		if v == "run" {
			continue
		}
		want := run.ExitFailed
		if v == "guard" {
			want = run.ExitRefused // a hook's
		}
		code, _, stderr := says(v, "--", "x")
		if code != want || !strings.Contains(stderr, fmt.Sprintf("withlease run %s -- COMMAND", v)) {
			t.Errorf("%s -- x ends with %d and %q", v, code, stderr)
		}
		words, _, ok := route([]string{"run", v}, true, io.Discard)
		if c, _, err := understand(words); !ok || err != nil || !slices.Equal(c.Run.Resource, []string{v}) {
			t.Errorf("run %s -- x: %+v, %v, %v", v, c.Run, ok, err)
		}
	}
	if _, err := os.Stat(os.Getenv("WITHLEASE_DIR")); err == nil {
		t.Error("something was made")
	}
}

// Without arguments it is the short usage, on standard error.
func TestNoArguments(t *testing.T) {
	code, stdout, stderr := says()
	if code != run.ExitUsage || stdout != "" || stderr != shortUsage {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
}

// A word kept for a later verb says so, rather than that it is unexpected.
func TestReservedWords(t *testing.T) {
	known := map[string]bool{}
	commands(theModel(t), func(n *kong.Node) { known[n.Name] = true })
	for _, v := range verbs {
		if known[v] {
			continue
		}
		code, _, stderr := says(v)
		if code != run.ExitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, v) {
			t.Errorf("%s ends with %d and %q", v, code, stderr)
		}
	}
}

func TestHelp(t *testing.T) { // check 7
	top := theModel(t)
	lines := [][]string{{"--help"}, {"-h"}, {"gpu", "--help"}, {"run", "--help"}, {"gpu", "--help", "--", "x"}, {"--help", "--", "x"}, {"run", "-h", "--", "x"}, {"gpu", "cpu", "-h"}}
	forms := len(lines) // so many begin with the usage in its two forms
	commands(top, func(n *kong.Node) {
		path := []string{"--help"}
		for n := n; n.Type == kong.CommandNode; n = n.Parent {
			path = append([]string{n.Name}, path...)
		}
		lines = append(lines, path)
	})
	lines = append(lines, []string{"list", "--help", "--", "x"})
	for _, columns := range []string{"80", "0", "-5", "1", "20", "500", "wide", ""} {
		t.Setenv("COLUMNS", columns)
		for i, line := range lines {
			code, stdout, stderr := says(line...)
			if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "Usage: withlease ") || !strings.HasSuffix(stdout, "\n") {
				t.Errorf("COLUMNS=%s, %q: %d, %q, %q", columns, line, code, stdout, stderr)
			}
			if i < forms && !strings.HasPrefix(stdout, usageLines) {
				t.Errorf("%q doesn't begin with the usage: %.200q", line, stdout)
			}
			if columns != "80" {
				continue
			}
			for l := range strings.Lines(stdout) {
				if n := utf8.RuneCountInString(strings.TrimRight(l, "\n")); n > 80 {
					t.Errorf("%q: a line of %d columns: %q", line, n, l)
				}
				if strings.Contains(l, "${") || strings.Contains(l, "%!") {
					t.Errorf("%q: %q", line, l)
				}
			}
		}
	}
	t.Setenv("COLUMNS", "80")
	_, stdout, _ := says("--help")
	for _, n := range top.Children {
		if !regexp.MustCompile(`(?m)(^| )  ` + n.Name + `\b`).MatchString(stdout) {
			t.Errorf("the help has no %s", n.Name)
		}
	}
	_, stdout, _ = says("run", "--help")
	for _, n := range []*kong.Node{top, top.Children[slices.IndexFunc(top.Children, func(n *kong.Node) bool { return n.Name == "run" })]} {
		for _, f := range n.Flags {
			if !regexp.MustCompile(`--` + f.Name + `\b`).MatchString(stdout) {
				t.Errorf("the help of run has no --%s", f.Name)
			}
		}
	}
}

// Everything has a help text, that reads like the others.
func TestHelpTexts(t *testing.T) {
	check := func(what, help string) {
		if r := []rune(help); len(r) == 0 || !strings.HasSuffix(help, ".") || strings.ToUpper(string(r[:1])) != string(r[:1]) {
			t.Errorf("%s: the help is %q", what, help)
		}
	}
	top := theModel(t)
	flags := func(n *kong.Node) {
		for _, f := range n.Flags {
			check(n.Name+" --"+f.Name, f.Help)
			if !f.IsBool() && f.PlaceHolder == "" {
				t.Errorf("%s --%s: no placeholder", n.Name, f.Name)
			}
		}
		for _, p := range n.Positional {
			check(n.Name+" "+p.Name, p.Help)
		}
	}
	flags(top)
	commands(top, func(n *kong.Node) {
		check(n.Name, n.Help)
		flags(n)
	})
}

func TestVersionAnywhere(t *testing.T) { // check 8
	for _, line := range []string{"--version", "-V", "--version list", "gpu --version -- x", "--bogus -V -- x", "--help --version", "supervisor --version"} {
		left, _, split := cut(strings.Fields(line))
		if words, _, ok := route(left, split, io.Discard); !ok || !slices.Equal(words, []string{"version"}) {
			t.Errorf("%q: %q, %v", line, words, ok)
		}
	}
	for _, line := range []string{"gpu -- x --version", "gpu -- -V", "run gpu -- --version"} {
		left, _, split := cut(strings.Fields(line))
		if words, _, _ := route(left, split, io.Discard); slices.Contains(words, "version") {
			t.Errorf("%q: the command's own flag was taken", line)
		}
	}
	text := run.Version()
	if !strings.Contains(text, runtime.Version()) || strings.Contains(text, "  ") || strings.Contains(text, "()") || strings.Contains(text, ", ,") || strings.HasSuffix(text, " ") {
		t.Errorf("the version is %q", text)
	}
}

// Names that are none never reach the fast path; what they cost is the scripts'
// business.
func TestBadNames(t *testing.T) { // check 9
	for _, name := range []string{"", "-", "a\nb", "a\tb", "\x1b[2J", "a\x7f", "a b", "\xff", "a\u202e", "@/etc/passwd", "../x", "/x", ".", "..", ".x", "gpü", strings.Repeat("x", 129)} {
		if plain([]string{name}) || plain([]string{"gpu", name}) {
			t.Errorf("%q goes past the check", name)
		}
		if lease.CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// No variable is kong's: none can break a verb.
func TestNoVariableIsKongs(t *testing.T) { // check 10
	var names []string
	flags := func(n *kong.Node) {
		for _, f := range n.Flags {
			if len(f.Envs) > 0 {
				t.Errorf("--%s is read from %q by kong", f.Name, f.Envs)
			}
			names = append(names, "WITHLEASE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")))
		}
	}
	top := theModel(t)
	flags(top)
	commands(top, flags)
	names = append(names, "WITHLEASE_MODEL_SERVERS", "WITHLEASE_HELD", "WITHLEASE_TOKEN", "WITHLEASE_FENCE", "WITHLEASE_RESOURCE")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	defer func(f *os.File) { os.Stdout = f }(os.Stdout)
	os.Stdout = null
	defer func(f *os.File) { os.Stderr = f }(os.Stderr)
	os.Stderr = null
	for _, value := range []string{"", "maybe", "\x1b[2J", "-1s", "18446744073709551616"} {
		for _, n := range names {
			t.Setenv(n, value)
		}
		t.Setenv("WITHLEASE_DIR", t.TempDir())
		for line, want := range map[string]int{"list": 0, "status gpu": 0, "queue": 0, "release gpu": 1, "supervisor status": 1, "version": 0, "list --json": 0} {
			if got := parse(strings.Fields(line), nil, false, null, null); got != want {
				t.Errorf("with %q in every variable %q ends with %d, not %d", value, line, got, want)
			}
		}
	}
}
