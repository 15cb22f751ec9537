package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The main job on something real: this repository's own `go vet` and `go test`
// of a package, in two jobs of make, through the jobserver. Two such builds
// want one resource, which a person's interactive shell has in a real terminal
// at first; the wrapper of one build is killed in the middle.
//
// That no two builds ever run at once is flock(1)'s word, not ours: it holds
// its lock as long as any process of a build lives.
//
// What happened is logged, and written to $WITHLEASE_TRANSCRIPT when that is set.
func TestRealBuilds(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"make", "tmux", "bash", "flock", "go"} {
		needTool(t, tool)
	}
	r := newReal(t)
	defer r.print()
	r.write("Makefile", realMakefile)

	r.note("A person works in a terminal, and holds the resource meanwhile.")
	person := r.terminal()
	person.types("tty", `(?m)^/dev/pts/[0-9]+$`)
	person.types(`withlease build -- env PS1='(build) person$ ' bash --norc --noprofile -i`, `(?m)^\(build\) person\$ *$`)
	person.types("tty; echo $WITHLEASE_RESOURCE, fence $WITHLEASE_FENCE", `(?m)^build, fence 1$`)
	person.types("withlease build -- echo under the own lease: at once", `(?m)^under the own lease: at once$`)

	r.note("Two builds want it.")
	a := r.build("A")
	a.waits(`waiting for build: build is held by ann .*; place 1 in line`)
	b := r.build("B")
	b.waits(`waiting for build: build is held by ann .*; place 2 in line, behind ann`)
	r.shell("withlease queue")
	person.shows()

	r.note("The person leaves, and the first build has it: two jobs at once, through make's jobserver.")
	person.types("exit", `(?m)^person\$ *$`)
	a.waits(`(?m)^A: go test \./state$`)
	r.shell("withlease status build")

	wrapper := r.holder()
	r.note("In the middle of that the wrapper of build A, pid %d, is killed.", wrapper)
	if err := unix.Kill(wrapper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := a.end(); got != "2" {
		t.Errorf("build A ended with %s, not 2", got)
	}
	if out := a.output(); !strings.Contains(out, "Killed") || strings.Contains(out, "ok  \twithlease/state") {
		t.Errorf("build A was not killed in the middle: %s", out)
	}
	a.show()

	r.note("Build B has it when the last process of A is gone.")
	if got := b.end(); got != "0" {
		t.Errorf("build B ended with %s, not 0", got)
	}
	if out := b.output(); !regexp.MustCompile(`(?m)^ok  \twithlease/state\t`).MatchString(out) {
		t.Errorf("build B did not test: %s", out)
	}
	b.show()
	for _, build := range []*realBuild{a, b} {
		for _, bad := range []string{"jobserver", "in vain"} {
			if strings.Contains(build.output(), bad) {
				t.Errorf("build %s says %q: %s", build.name, bad, build.output())
			}
		}
	}
	if out := r.shell("withlease list"); !strings.Contains(out, "nothing is held") {
		t.Errorf("list after it all: %s", out)
	}
	r.note("The log.")
	var verbs []string
	for _, e := range r.events() {
		verbs = append(verbs, e.Verb+" "+e.Detail.Outcome)
		r.line("%s  %-12s %-9s fence %d  %s", e.At, e.Verb, e.Detail.Outcome, e.Detail.Fence, e.Detail.Purpose)
	}
	if want := []string{"claim ", "release exit 0", "claim ", "lease.crash ", "claim ", "release exit 0"}; !slices.Equal(verbs, want) {
		t.Errorf("the log has %q, not %q", verbs, want)
	}
}

// Each job of a build waits for the other one to have begun: they end only if
// make runs both at once.
const realMakefile = `build:
	+@withlease build -- flock -F -n -E 99 oracle $(MAKE) --no-print-directory parts
parts: vet test
vet: meet = test
test: meet = vet
vet test:
	@touch $(NAME).$@; n=0; until test -e $(NAME).$(meet) || test $$n = 1000; do n=$$((n+1)); sleep 0.02; done; \
	test $$n != 1000 || { echo '$(NAME): waited for $(meet) in vain'; exit 1; }; \
	echo '$(NAME): go $@ ./state'; cd '$(REPO)' && exec go $@ $(flags) ./state
test: flags = -count=1
`

// realTime is how long a step of a real build may take on a busy machine.
const realTime = 3 * time.Minute

// real is the place of the scene, and its transcript.
type real struct {
	*testing.T
	dir   string
	env   []string
	began time.Time
	text  bytes.Buffer
}

func newReal(t *testing.T) *real {
	r := &real{T: t, dir: t.TempDir(), began: time.Now()}
	repo, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(r.dir, "bin")
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "PATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "TMUX", "TMUX_PANE", "TERM", "PS1", "LOGNAME", "GOCOVERDIR":
		default:
			r.env = append(r.env, kv)
		}
	}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"), "WITHLEASE_DIR="+filepath.Join(r.dir, "base"), "REPO="+repo, "LOGNAME=ann",
		"TMUX_TMPDIR="+r.dir, "TERM=xterm")
	// The program as it is shipped.
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "withlease"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return r
}

func (r *real) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// line puts a line into the transcript, note a heading.
func (r *real) line(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), r.dir, "…")
	fmt.Fprintf(&r.text, "%s\n", text)
}

func (r *real) note(format string, args ...any) {
	r.line("\n# %5.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

func (r *real) print() {
	r.Logf("%s", r.text.String())
	if file := os.Getenv("WITHLEASE_TRANSCRIPT"); file != "" {
		if err := os.WriteFile(file, r.text.Bytes(), 0o644); err != nil {
			r.Error(err)
		}
	}
}

// until waits for ok; what says for what.
func (r *real) until(what string, ok func() bool) {
	r.Helper()
	for begin := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > realTime {
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

// shell runs a command and shows it.
func (r *real) shell(command string) string {
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, _ := cmd.CombinedOutput() // status exits 1 for held
	r.line("$ %s\n%s", command, strings.TrimRight(string(out), "\n"))
	return string(out)
}

// holder is the wrapper that holds the resource.
func (r *real) holder() int {
	cmd := exec.Command(filepath.Join(r.dir, "bin", "withlease"), "list", "--json")
	cmd.Env = r.env
	out, err := cmd.Output()
	var doc struct{ Leases []struct{ PID int } }
	if err != nil || json.Unmarshal(out, &doc) != nil || len(doc.Leases) != 1 || doc.Leases[0].PID < 2 {
		r.Fatalf("list --json: %v %s", err, out)
	}
	return doc.Leases[0].PID
}

type realEvent struct {
	At, Verb string
	Detail   struct {
		Purpose, Outcome string
		Fence            int
	}
}

func (r *real) events() (all []realEvent) {
	text, err := os.ReadFile(filepath.Join(r.dir, "base", "events.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e realEvent
		if err := json.Unmarshal(line, &e); err != nil {
			r.Fatalf("%s: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// realBuild is a `make -j2 build` in the background.
type realBuild struct {
	*real
	name  string
	file  string
	ended chan error
}

func (r *real) build(name string) *realBuild {
	b := &realBuild{r, name, filepath.Join(r.dir, name+".log"), make(chan error, 1)}
	log, err := os.Create(b.file)
	if err != nil {
		r.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("make", "-j2", "NAME="+name, "build")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.dir, r.env, log, log
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	go func() { b.ended <- cmd.Wait() }()
	r.line("%s$ make -j2 NAME=%s build &", name, name)
	return b
}

func (b *realBuild) output() string {
	text, err := os.ReadFile(b.file)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// waits waits for a line of its output.
func (b *realBuild) waits(pattern string) {
	b.Helper()
	want := regexp.MustCompile(pattern)
	b.until(fmt.Sprintf("%q of build %s", pattern, b.name), func() bool { return want.MatchString(b.output()) })
}

func (b *realBuild) end() string {
	b.Helper()
	select {
	case err := <-b.ended:
		return endOf(err)
	case <-time.After(realTime):
		b.Fatalf("build %s has not ended: %s", b.name, b.output())
		return ""
	}
}

func (b *realBuild) show() {
	for line := range strings.Lines(b.output()) {
		b.line("%s| %s", b.name, strings.TrimRight(line, "\n"))
	}
}

// realTerminal is a person at a shell in a terminal of tmux's.
type realTerminal struct{ *real }

func (r *real) terminal() *realTerminal {
	p := &realTerminal{r}
	p.tmux("-f", os.DevNull, "new-session", "-d", "-x", "110", "-y", "40", "-s", "person", "env", "PS1=person$ ", "bash", "--norc", "--noprofile", "-i")
	r.Cleanup(func() { p.tmux("kill-server") })
	p.until("the person's prompt", func() bool { return strings.Contains(p.screen(), "person$") })
	return p
}

func (p *realTerminal) tmux(args ...string) string {
	p.Helper()
	cmd := exec.Command("tmux", append([]string{"-L", "withlease"}, args...)...)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Errorf("tmux %q: %v %s", args, err, out)
	}
	return string(out)
}

func (p *realTerminal) screen() string {
	p.Helper()
	return strings.TrimRight(p.tmux("capture-pane", "-p", "-J"), "\n ")
}

// types types a command, and waits for what it shows below it.
func (p *realTerminal) types(command, pattern string) {
	p.Helper()
	before := strings.Count(p.screen(), "\n")
	p.tmux("send-keys", "-l", command)
	p.tmux("send-keys", "Enter")
	want := regexp.MustCompile(pattern)
	defer func() {
		if p.Failed() {
			p.shows()
		}
	}()
	p.until(fmt.Sprintf("%q on the person's screen", pattern), func() bool {
		lines := strings.SplitN(p.screen(), "\n", before+2)
		return len(lines) > before+1 && want.MatchString(lines[before+1])
	})
}

// shows puts the screen into the transcript.
func (p *realTerminal) shows() {
	p.line("The person's screen:")
	for line := range strings.Lines(p.screen()) {
		p.line("    │ %s", strings.TrimRight(line, "\n"))
	}
}
