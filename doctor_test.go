package main

import (
	"os"
	"path/filepath"
	"testing"
)

// doctor works for who may not write, or not even read, and changes nothing.
func TestDoctorOfAnotherUser(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("claim", "-p", "other", "net").ends("0")
	withlease := unprivileged(l)
	chmodAll(t, l.base, 0o555, 0o444)
	before := tree(t, l.base)
	withlease("doctor").ends("1").
		shows(`(?m)^wrong +modes +you can look and not claim: .*/base: permission denied \(.* belongs to uid [0-9]+, `).
		shows(`(?m)^ok +leases +1 held$`)
	same(t, "the directory", before, tree(t, l.base))
	if err := os.Chmod(l.base, 0); err != nil {
		t.Fatal(err)
	}
	withlease("doctor").ends("1").shows(`(?m)^wrong +modes +you can neither look nor claim: .*/base: permission denied`)
	if err := os.Chmod(l.base, 0o700); err != nil {
		t.Fatal(err)
	}
}

// A file system that is mounted read-only, and a lock that a stopped process
// has, are named.
func TestDoctorOfAReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("claim", "net").ends("0")
	inNamespace(l, `
		mount --bind "$BASE" "$BASE"
		mount -o remount,ro,bind "$BASE"
		s=0; withlease doctor || s=$?; echo "doctor $s"
	`).shows(`(?m)^wrong +modes +.*/base is mounted read-only: nothing can be claimed$`).shows(`(?m)^doctor 1$`)
}

// Another withlease that PATH starts first, and none at all.
func TestDoctorOfTheProgram(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := filepath.Join(t.TempDir(), "withlease")
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho withlease v0.0.1 \"$(printf '\\033[2J')\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.run("sh", "-c", `self=$(command -v withlease); PATH="`+filepath.Dir(other)+`:$PATH" exec "$self" doctor`).
		shows(`(?m)^warning +program +PATH starts another: .*/withlease \(withlease v0\.0\.1 \\x1b\[2J\)$`)
	l.run("sh", "-c", `self=$(command -v withlease); PATH=/nowhere exec "$self" doctor`).
		shows(`(?m)^warning +program +.*/withlease is not on PATH\n +fix: +export PATH=`)
}

// A completion is found where the shells look, and told from another version's.
func TestDoctorOfTheShells(t *testing.T) {
	t.Parallel()
	needTool(t, "fish")
	l := newLab(t)
	l.run("sh", "-c", `SHELL=/usr/bin/fish exec withlease doctor`).
		shows(`(?m)^warning +fish +finds no completion of withlease\n +fix: +mkdir -p ~/\.config/fish/completions && withlease completion fish >~/\.config/fish/completions/withlease\.fish$`)
	l.run("sh", "-c", `mkdir -p ~/.config/fish/completions && withlease completion fish >~/.config/fish/completions/withlease.fish && exec withlease doctor`).
		shows(`(?m)^ok +fish +completion in .*/fish/completions$`)
	l.run("sh", "-c", `echo '# old' >>~/.config/fish/completions/withlease.fish && exec withlease doctor`).
		shows(`(?m)^warning +fish +the completion is another version's: .*/withlease\.fish$`)
}
