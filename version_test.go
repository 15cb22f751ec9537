package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Check 8: a build without version control says so, names the version that it
// was given, and has no empty fields.
func TestVersionOfABuild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ldflags, want string }{
		{"", `^withlease \(unknown\), commit not recorded \(built with -buildvcs=false\), go1\.\S+ \w+/\w+\n$`},
		{"-X withlease/run.version=v1.2.3", `^withlease v1\.2\.3, commit not recorded \(built with -buildvcs=false\), go1\.\S+ \w+/\w+\n$`},
	} {
		file := filepath.Join(t.TempDir(), "withlease")
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", c.ldflags, "-o", file, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		if out, err := exec.Command(file, "--version").CombinedOutput(); err != nil || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("with %q: %v, %q", c.ldflags, err, out)
		}
	}
}
