package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var updateHelp = flag.Bool("update-help", false, "write testdata/help")

// Every verb is in one group of the help, and every word of the groups is a
// verb, or kept for one.
func TestHelpGroups(t *testing.T) { // check 7
	seen := map[string]bool{}
	for _, g := range topics() {
		for _, b := range g.verbs {
			if seen[b.verb] || !slices.Contains(verbs, b.verb) {
				t.Errorf("%s is in the groups of the help twice, or is no verb", b.verb)
			}
			seen[b.verb] = true
		}
	}
	for _, n := range theModel(t).Children {
		if !seen[n.Name] {
			t.Errorf("the verb %s is in no group of the help (help.go)", n.Name)
		}
	}
	for _, v := range verbs {
		if !seen[v] && v != "help" {
			t.Errorf("the word %s, kept for a verb, is in no group of the help (help.go)", v)
		}
	}
}

// All of the help is on one screen, with room for the verbs that may come.
func TestHelpIsOneScreen(t *testing.T) { // check 7
	t.Setenv("COLUMNS", "80")
	_, stdout, _ := says("--help")
	later := 0
	for _, g := range topics()[:2] {
		for _, b := range g.verbs {
			if verbNode(grammar(t), b.verb) == nil {
				later++
			}
		}
	}
	if n := strings.Count(stdout, "\n"); n+later > 24 {
		t.Errorf("the help has %d lines, and %d more may come:\n%s", n, later, stdout)
	}
}

// The shown examples are understood, and each verb has one.
func TestHelpExamplesParse(t *testing.T) {
	paths := []string{""}
	commands(theModel(t), func(n *kong.Node) { paths = append(paths, pathOf(n)) })
	for _, path := range paths {
		text := examplesOf(path)
		if path == "" {
			text = topExamples
		}
		lines := regexp.MustCompile(`(?m)^  withlease (.*?)(   .*)?$`).FindAllStringSubmatch(text, -1)
		if len(lines) == 0 {
			t.Errorf("the help of %q has no example", path)
		}
		for _, m := range lines {
			if err := understood(shellWords(t, m[1])); err != nil {
				t.Errorf("%s: %v", m[0], err)
			}
		}
	}
}

func pathOf(n *kong.Node) string {
	var words []string
	for ; n.Type == kong.CommandNode; n = n.Parent {
		words = append([]string{n.Name}, words...)
	}
	return strings.Join(words, " ")
}

// The texts as they are at 80 columns: go test -run HelpGolden -update-help
// writes them.
func TestHelpGolden(t *testing.T) { // check 7
	t.Setenv("COLUMNS", "80")
	paths := []string{""}
	commands(theModel(t), func(n *kong.Node) { paths = append(paths, pathOf(n)) })
	for _, path := range paths {
		file := filepath.Join("testdata", "help", strings.ReplaceAll("withlease "+path, " ", "-")+".txt")
		file = strings.Replace(file, "-.txt", ".txt", 1)
		_, got, _ := says(append(strings.Fields(path), "--help")...)
		if *updateHelp {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("the help of %q is not %s (%v); is it meant? go test -run HelpGolden -update-help .\n%s", path, file, err, got)
		}
	}
}
