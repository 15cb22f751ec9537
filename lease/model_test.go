package lease_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModelLabels: the steps that the code names are the model's, and each part
// of the model is named in the code.
func TestModelLabels(t *testing.T) {
	_, table, ok := strings.Cut(read(t, "testdata/model/README.md"), "## Steps")
	if !ok {
		t.Fatal("the model's README has no steps")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	steps, parts := map[string]bool{}, map[string]bool{}
	for row := range strings.Lines(table) {
		label, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range regexp.MustCompile(`([a-z]+)\.([0-9a-z]+)(?:-([0-9]))?`).FindAllStringSubmatch(label, -1) {
			parts[m[1]] = true
			steps[m[1]+"."+m[2]] = true
			if m[3] != "" {
				for n := m[2][0]; n <= m[3][0]; n++ {
					steps[m[1]+"."+string(n)] = true
				}
			}
		}
	}
	if len(steps) < 50 || len(parts) < 15 {
		t.Fatalf("%d steps in %d parts: what became of the table?", len(steps), len(parts))
	}
	var code strings.Builder
	files, err := filepath.Glob("*.go")
	must(t, err)
	more, err := filepath.Glob("../run/*.go")
	must(t, err)
	for _, f := range append(files, more...) {
		if !strings.HasSuffix(f, "_test.go") {
			text, err := os.ReadFile(f)
			must(t, err)
			code.Write(text)
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`\[([a-z.0-9]+(?:, [a-z.0-9]+)*)\](?:[^\w(\[]|$)|step\("([^" ]+)`).FindAllStringSubmatch(code.String(), -1) {
		for _, label := range strings.Split(m[1]+m[2], ", ") {
			part, n, _ := strings.Cut(label, ".")
			if !parts[part] {
				continue // an index, not a label
			}
			named[part] = true
			if n != "" && !steps[label] {
				t.Errorf("the code names the step %s, and the model has none", label)
			}
		}
	}
	for part := range parts {
		if !named[part] {
			t.Errorf("the model's %s.* is named nowhere in the code", part)
		}
	}
}
