package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

const (
	manual      = "man/withlease.1"
	filesManual = "man/withlease-files.5"
)

// Check 25 of the shell notes: what mandoc and man say of the pages. Style
// remarks count too, but for a page that isn't installed here.
func TestManualsAreClean(t *testing.T) {
	needTool(t, "mandoc")
	uninstalled := regexp.MustCompile(`referenced manual not found: Xr withlease|outdated mandoc.db`)
	for _, page := range []string{manual, filesManual} {
		if out, err := exec.Command("mandoc", "-Tlint", "-Wwarning", page).CombinedOutput(); err != nil {
			t.Errorf("mandoc -Tlint -Wwarning %s: %v\n%s", page, err, out)
		}
		out, _ := exec.Command("mandoc", "-Tlint", page).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if !uninstalled.MatchString(line) {
				t.Errorf("%s", line)
			}
		}
	}
	t.Run("man", func(t *testing.T) {
		needTool(t, "man")
		for _, page := range []string{manual, filesManual} {
			cmd := exec.Command("man", "--warnings", "-l", page)
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80", "MANPAGER=cat")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if out, err := cmd.Output(); err != nil || stderr.Len() > 0 || len(out) < 1000 {
				t.Errorf("man %s: %v, %d bytes\n%s", page, err, len(out), stderr.String())
			}
		}
	})
}

// node is a node of a page as mandoc sees it.
type node struct {
	macro string // Fl, Cm, ... or empty for text
	kind  string // text, elem, block, head, body
	text  string
	sub   []*node
}

var treeLine = regexp.MustCompile(`^( *)(.*) \((text|elem|block|head|body|tail|eqn|tbl|comment)\)(?: .*)?$`)

// page parses a page by mandoc -Ttree.
func page(t *testing.T, path string) *node {
	t.Helper()
	needTool(t, "mandoc")
	out, err := exec.Command("mandoc", "-Ttree", path).Output()
	if err != nil {
		t.Fatalf("mandoc -Ttree %s: %v", path, err)
	}
	root := &node{}
	type level struct {
		indent int
		n      *node
	}
	stack := []level{{-1, root}}
	for line := range strings.Lines(string(out)) {
		m := treeLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		n := &node{kind: m[3]}
		if n.kind == "text" {
			n.text = strings.NewReplacer("\x1e", "-", `\&`, "", `\-`, "-", `\e`, `\`).Replace(m[2]) // 0x1e: where a line may be broken
		} else {
			n.macro, _, _ = strings.Cut(m[2], " ")
		}
		for stack[len(stack)-1].indent >= len(m[1]) {
			stack = stack[:len(stack)-1]
		}
		up := stack[len(stack)-1].n
		up.sub = append(up.sub, n)
		stack = append(stack, level{len(m[1]), n})
	}
	return root
}

// all are the nodes of a macro below n, in order.
func (n *node) all(kind, macro string) []*node {
	var found []*node
	for _, s := range n.sub {
		if s.kind == kind && s.macro == macro {
			found = append(found, s)
		}
		found = append(found, s.all(kind, macro)...)
	}
	return found
}

// words are the arguments of a macro everywhere below n, be it one of a line or
// of a block.
func (n *node) words(macro string) []string {
	var words []string
	for _, kind := range []string{"elem", "body"} {
		for _, e := range n.all(kind, macro) {
			for _, s := range e.sub {
				if s.kind == "text" {
					words = append(words, s.text)
				}
			}
		}
	}
	return words
}

// plain is all the text below n.
func (n *node) plain() string {
	var parts []string
	for _, s := range n.sub {
		if s.kind == "text" {
			parts = append(parts, s.text)
		} else {
			parts = append(parts, s.plain())
		}
	}
	return strings.Join(parts, " ")
}

// section is the body of a section or subsection.
func (n *node) section(t *testing.T, title string) *node {
	t.Helper()
	for _, macro := range []string{"Sh", "Ss"} {
		for _, b := range n.all("block", macro) {
			heads, bodies := b.all("head", macro), b.all("body", macro)
			if len(heads) > 0 && len(bodies) > 0 && heads[0].plain() == title {
				return bodies[0]
			}
		}
	}
	t.Fatalf("the page has no section %s", title)
	return nil
}

// items are the entries of the lists below n: what they are of, and the text.
func (n *node) items() (heads, bodies []*node) {
	for _, it := range n.all("block", "It") {
		for _, s := range it.sub {
			switch s.kind {
			case "head":
				heads = append(heads, s)
			case "body":
				bodies = append(bodies, s)
			}
		}
	}
	return heads, bodies
}

// The page and the grammar say the same: every visible verb with its flags, in
// the synopsis and in the text, and nothing else.
func TestManualFollowsTheGrammar(t *testing.T) {
	root := page(t, manual)
	app := grammar(t)

	// The synopsis, a block for each form.
	synopsis := map[string][]string{}
	for _, form := range root.section(t, "SYNOPSIS").all("body", "Nm") {
		var verb, flags []string
		for _, e := range form.sub {
			if e.kind == "elem" && e.macro == "Cm" {
				verb = append(verb, e.sub[0].text)
			}
		}
		for _, f := range form.words("Fl") {
			switch {
			case f == "-": // what the command follows
			case strings.HasPrefix(f, "-"):
				flags = append(flags, "-"+f)
			default:
				for _, short := range f {
					flags = append(flags, "-"+string(short))
				}
			}
		}
		name := strings.Join(verb, " ")
		if name == "" {
			name = "run"
		}
		if first, _, _ := strings.Cut(name, " "); first == "completion" || first == "init" {
			name = first // the rest are its arguments
		}
		synopsis[name] = flags
	}
	global := map[string]bool{}
	for _, f := range app.Flags {
		global[f.Name] = true
	}
	nodes(app, func(verb string, n *kong.Node) {
		if verb == "" || len(n.Children) > 0 {
			return
		}
		flags, ok := synopsis[verb]
		if !ok {
			t.Errorf("SYNOPSIS of %s has no %s", manual, verb)
		}
		for _, f := range n.Flags {
			if f.Hidden || global[f.Name] {
				continue
			}
			i := slices.IndexFunc(flags, func(w string) bool { return w == "--"+f.Name || f.Short != 0 && w == "-"+string(f.Short) })
			if i < 0 {
				t.Errorf("SYNOPSIS of %s: %s has no --%s", manual, verb, f.Name)
				continue
			}
			flags = slices.Delete(flags, i, i+1)
		}
		if len(flags) > 0 {
			t.Errorf("SYNOPSIS of %s: %s has %q, and the grammar doesn't", manual, verb, flags)
		}
		delete(synopsis, verb)
	})
	for verb := range synopsis {
		t.Errorf("SYNOPSIS of %s has %q, and the grammar doesn't", manual, verb)
	}

	// The text.
	documented := map[string]bool{}
	heads, bodies := root.section(t, "DESCRIPTION").items()
	about := map[string]string{}
	for i, h := range heads {
		for _, f := range h.words("Fl") {
			documented[f] = true
			about[f] += bodies[i].plain() + " "
		}
	}
	known := map[string]bool{"-": true}
	nodes(app, func(verb string, n *kong.Node) {
		for _, f := range n.Flags {
			if f.Hidden {
				continue
			}
			known["-"+f.Name] = true
			if f.Short != 0 {
				known[string(f.Short)] = true
			}
			if !documented["-"+f.Name] || f.Short != 0 && !documented[string(f.Short)] {
				t.Errorf("%s explains no --%s", manual, f.Name)
			}
			if f.Default != "" && !strings.Contains(about["-"+f.Name], f.Default) {
				t.Errorf("%s doesn't say that --%s is %s by default: %q", manual, f.Name, f.Default, about["-"+f.Name])
			}
			for _, v := range f.EnumSlice() {
				if v != "" && !strings.Contains(about["-"+f.Name], v) {
					t.Errorf("%s doesn't say that --%s may be %s", manual, f.Name, v)
				}
			}
		}
		if n.Parent != nil && verb != "" && !slices.Contains(root.words("Cm"), n.Name) {
			t.Errorf("%s explains no %s", manual, verb)
		}
	})
	for _, f := range root.section(t, "DESCRIPTION").words("Fl") {
		if !known[f] {
			t.Errorf("%s explains -%s, and the grammar has no such flag", manual, f)
		}
	}
	words := slices.Concat(root.words("Cm"), root.words("Ql"))
	for _, v := range verbs {
		if !slices.Contains(words, v) {
			t.Errorf("%s doesn't say that %s is no bare resource", manual, v)
		}
	}
	var reserved []string
	for _, n := range app.Children {
		reserved = append(reserved, n.Name)
	}
	for _, v := range reserved {
		if !slices.Contains(verbs, v) {
			t.Errorf("the verb %s is not in verbs", v)
		}
	}
}

// sources are the program's own Go files.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, dir := range []string{".", "run", "lease", "state", "signals", "completions"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = f
		}
	}
	return files
}

// literals calls each with every string in the source.
func literals(files map[string]*ast.File, each func(file, text string)) {
	for name, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					each(name, text)
				}
			}
			return true
		})
	}
}

// Every variable that the program reads or sets is in the page, and no other.
func TestManualNamesTheEnvironment(t *testing.T) {
	root := page(t, manual)
	documented := map[string]bool{}
	for _, v := range root.section(t, "ENVIRONMENT").words("Ev") {
		documented[v] = true
	}
	used := map[string]bool{}
	files := sources(t)
	ours := regexp.MustCompile(`\b(?:WITHLEASE|CLAUDE_CODE)_[A-Z]+(?:_[A-Z]+)*\b`)
	literals(files, func(_, text string) {
		for _, v := range ours.FindAllString(text, -1) {
			used[v] = true
		}
	})
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Getenv" {
					if lit, ok := call.Args[0].(*ast.BasicLit); ok {
						name, _ := strconv.Unquote(lit.Value)
						used[name] = true
					}
				}
			}
			return true
		})
	}
	if len(used) < 10 {
		t.Fatalf("only %d variables found in the source", len(used))
	}
	for v := range used {
		if !documented[v] {
			t.Errorf("%s: ENVIRONMENT doesn't name %s", manual, v)
		}
	}
	used["GPG_TTY"] = true // by its value, in run/inpty.go
	for v := range documented {
		if !used[v] {
			t.Errorf("%s: ENVIRONMENT names %s, which isn't used", manual, v)
		}
	}
}

// The exit statuses of the page are those of run/exit.go.
func TestManualHasTheExitStatuses(t *testing.T) {
	root := page(t, manual)
	codes := map[string]string{}
	f, err := parser.ParseFile(token.NewFileSet(), "run/exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Exit") && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				codes[spec.Names[0].Name] = constant.MakeFromLiteral(lit.Value, lit.Kind, 0).String()
			}
		}
		return true
	})
	if len(codes) < 7 {
		t.Fatalf("run/exit.go has only %v", codes)
	}
	want := map[string]bool{"0": true}
	for _, c := range codes {
		want[c] = true
	}
	got := map[string]bool{}
	lists := root.section(t, "EXIT STATUS").all("block", "Bl")
	if len(lists) != 2 {
		t.Fatalf("EXIT STATUS has %d lists, want that of a run and that of the other verbs", len(lists))
	}
	var byList [2][]string
	for i, l := range lists {
		heads, _ := l.items()
		for _, h := range heads {
			got[h.plain()] = true
			byList[i] = append(byList[i], h.plain())
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("EXIT STATUS has %v, run/exit.go %v", got, codes)
	}
	if want := []string{codes["ExitBusy"], codes["ExitLost"], codes["ExitFailed"], codes["ExitNotExec"], codes["ExitNotFound"]}; !slices.Equal(byList[0], want) {
		t.Errorf("a run's statuses are %q, want %q", byList[0], want)
	}
	if want := []string{"0", codes["ExitRefused"], codes["ExitUsage"], codes["ExitFailed"]}; !slices.Equal(byList[1], want) {
		t.Errorf("the other verbs' statuses are %q, want %q", byList[1], want)
	}
}

// members are the names of the JSON members in the struct tags of files.
func members(files map[string]*ast.File, in func(file string) bool) map[string]bool {
	names := map[string]bool{}
	for file, f := range files {
		if !in(file) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				return true
			}
			if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" && name != "-" {
				names[name] = true
			}
			return true
		})
	}
	return names
}

// Every JSON member that the program writes is in a page, and no other.
func TestManualsNameTheMembers(t *testing.T) {
	files := sources(t)
	answers := members(files, func(f string) bool { return strings.HasPrefix(f, "run/") })
	stored := members(files, func(f string) bool { return strings.HasPrefix(f, "lease/") || strings.HasPrefix(f, "state/") })
	// The document is read by hand: its members are the cases.
	document := files["state/document.go"]
	if document == nil {
		t.Fatal("state/document.go is not there")
	}
	ast.Inspect(document, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, e := range c.List {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					name, _ := strconv.Unquote(lit.Value)
					stored[name] = true
				}
			}
		}
		return true
	})
	for path, want := range map[string]map[string]bool{manual: answers, filesManual: stored} {
		got := map[string]bool{}
		for _, v := range page(t, path).words("Va") {
			got[v] = true
		}
		if len(want) < 20 {
			t.Fatalf("only %d members found for %s", len(want), path)
		}
		for m := range want {
			if !got[m] {
				t.Errorf("%s doesn't name the member %s", path, m)
			}
		}
		for m := range got {
			if !want[m] {
				t.Errorf("%s names the member %s, which nothing writes", path, m)
			}
		}
	}
}

// The verbs of the event log are all in the page.
func TestManualNamesTheEvents(t *testing.T) {
	documented := page(t, filesManual).section(t, "The event log").words("Ql")
	found := 0
	literals(sources(t), func(file, text string) {
		if strings.HasPrefix(file, "lease/") && regexp.MustCompile(`^(lease|grant|supervisor|upgrade)\.[a-z]+$`).MatchString(text) {
			found++
			if !slices.Contains(documented, text) {
				t.Errorf("%s doesn't name the event %s", filesManual, text)
			}
		}
	})
	for name, f := range sources(t) {
		if !strings.HasPrefix(name, "lease/") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			fun := fmt.Sprint(call.Fun)
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				fun = sel.Sel.Name
			}
			if lit, ok := call.Args[1].(*ast.BasicLit); ok && fun == "log" {
				verb, _ := strconv.Unquote(lit.Value)
				found++
				if !slices.Contains(documented, verb) {
					t.Errorf("%s doesn't name the event %s", filesManual, verb)
				}
			}
			return true
		})
	}
	if found < 8 {
		t.Errorf("only %d events found in the source", found)
	}
}

// Every command of the examples is understood by the grammar.
func TestManualExamplesParse(t *testing.T) {
	root := page(t, manual)
	n := 0
	for _, b := range root.section(t, "EXAMPLES").all("body", "Bd") {
		for _, line := range b.sub {
			text := line.text
			words, ok := strings.CutPrefix(text, "$ withlease ")
			if !ok {
				words, ok = strings.CutPrefix(strings.TrimLeft(text, "\t +"), "withlease ")
			}
			if !ok {
				continue
			}
			n++
			if err := understood(shellWords(t, words)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d examples found", n)
	}
	// The test can fail.
	for _, wrong := range []string{"gpu", "--wiat 5s gpu -- x", "list gpu", "run gpu", "-- x", "list -- x"} {
		if understood(shellWords(t, wrong)) == nil {
			t.Errorf("withlease %s is understood", wrong)
		}
	}
}

// understood says what is wrong with a command line. Nothing of it is done.
func understood(args []string) error {
	left, command, split := cut(args)
	var said strings.Builder
	words, _, ok := route(left, split, &said)
	if !ok {
		return fmt.Errorf("%s", said.String())
	}
	parser, err := kong.New(&cli{}, kong.Name("withlease"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		return err
	}
	ctx, err := parser.Parse(words)
	if err != nil {
		return err
	}
	if verb, _, _ := strings.Cut(ctx.Command(), " "); verb == "run" && (!split || len(command) == 0) {
		return fmt.Errorf("no command")
	}
	return nil
}

// shellWords are the words of a simple command, without what comes behind it.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	for _, m := range regexp.MustCompile(`(?:[^\s"'|>;]|"[^"]*"|'[^']*')+|[|>;]+`).FindAllString(line, -1) {
		if strings.ContainsAny(m[:1], "|>;") {
			break
		}
		words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(m))
	}
	return words
}
