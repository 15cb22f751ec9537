package completions_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The shells find the program on PATH.
func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "withlease-test.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "withlease"), "withlease")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "WITHLEASE_") && !strings.HasPrefix(name, "WITHLEASE_TEST_") || strings.HasPrefix(name, "CLAUDE_CODE_") || strings.HasPrefix(name, "XDG_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	defer func() {
		if labDir != "" {
			os.RemoveAll(labDir)
		}
	}()
	return m.Run()
}

var (
	labOnce sync.Once
	labDir  string
	labErr  error
)

// lab is a base directory in which something of everything is going on, made by
// the program itself; only looked at, so all tests share it. The caller is
// session s-me.
func lab(t *testing.T) []string {
	t.Helper()
	labOnce.Do(func() {
		labDir, labErr = os.MkdirTemp("", "withlease-lab.")
		do := func(name, session string, args ...string) {
			cmd := exec.Command("withlease", args...)
			cmd.Env = append(os.Environ(), "WITHLEASE_DIR="+labDir, "WITHLEASE_NAME="+name, "WITHLEASE_SESSION="+session)
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); err != nil && code != 75 && code != 1 && labErr == nil {
				labErr = fmt.Errorf("withlease %q: %v\n%s", args, err, out)
			}
		}
		do("ann", "s-ann", "claim", "gpu", "-p", "nightly train")
		do("me", "s-me", "claim", "kind-1", "-p", "debugging")
		do("bob", "s-bob", "port:8080", "--", "true")
		do("bob", "s-bob", "db@prod", "--", "true")
		do("bob", "s-bob", "tpyo", "--", "false")
		do("Bob O'Neil", "s-oneil", "gpu", "--wait=1ms", "--keep-place=1h", "-p", "my turn", "--", "true")
		do("sup", "s-sup", "supervisor", "start", "--pid=-1")
		do("sup", "s-sup", "grant", "kind-1", "s-eve")
		do("sup", "s-sup", "upgrade", "begin", "inst/c1", "--reason", "to 2.0")
	})
	if labErr != nil {
		t.Fatal(labErr)
	}
	return []string{"WITHLEASE_DIR=" + labDir, "WITHLEASE_NAME=me", "WITHLEASE_SESSION=s-me"}
}

// ticket is the kept place of the lab.
func ticket(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("withlease", "__complete", "tickets")
	cmd.Env = append(os.Environ(), lab(t)...)
	out, err := cmd.Output()
	id, _, ok := strings.Cut(string(out), "\t")
	if err != nil || !ok {
		t.Fatalf("tickets: %v, %q", err, out)
	}
	return id
}
