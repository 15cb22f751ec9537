package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin is the program as it is shipped, built once for the tests of this
// package: terminals, signals and deaths are tested from outside. Where the
// tests run with the race detector, so does it; GOCOVERDIR makes it count its
// coverage.
var bin string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "withlease-test.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = filepath.Join(dir, "withlease")
	args := []string{"build", "-o", bin}
	if raceEnabled {
		args = append(args, "-race")
	}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=withlease/...")
	}
	build := exec.Command("go", append(args, "withlease")...)
	if !raceEnabled {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	// Nothing of the caller's own lease reaches a test.
	for _, kv := range os.Environ() {
		for i := range kv {
			if kv[i] == '=' {
				if name := kv[:i]; len(name) > 10 && name[:10] == "WITHLEASE_" || len(name) > 12 && name[:12] == "CLAUDE_CODE_" {
					os.Unsetenv(name)
				}
				break
			}
		}
	}
	return m.Run()
}
