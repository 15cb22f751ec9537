package run

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// shells says of each shell that is there whether it finds the completion.
func (d *doctor) shells() {
	for _, sh := range []struct {
		name  string
		names []string // the completion's file
		dirs  func() []string
		rc    []string // where a person may have put it instead
		ours  string
	}{
		{"bash", []string{"withlease", "withlease.bash", "_withlease"}, d.bashDirs, []string{".bashrc", ".bash_completion", ".bash_profile", ".profile"},
			"~/.local/share/bash-completion/completions/withlease.bash"},
		{"zsh", []string{"_withlease"}, d.zshDirs, []string{".zshrc"}, "/usr/local/share/zsh/site-functions/_withlease"},
		{"fish", []string{"withlease.fish"}, d.fishDirs, []string{".config/fish/config.fish"}, "~/.config/fish/completions/withlease.fish"},
	} {
		if _, err := lookUp(sh.name, d.Getenv("PATH")); err != nil {
			continue
		}
		fix := fixes("withlease completion " + sh.name + " >" + sh.ours)
		if dir := filepath.Dir(sh.ours); strings.HasPrefix(dir, "~") {
			fix[0] = "mkdir -p " + dir + " && " + fix[0]
		} else {
			fix[0] = "withlease completion " + sh.name + " | sudo tee " + sh.ours + " >/dev/null"
		}
		file := findFile(sh.dirs(), sh.names)
		switch {
		case file == "" && d.mentioned(sh.rc):
			d.ok(sh.name, "completion from %s", sh.rc[0])
		case file == "" && filepath.Base(d.Getenv("SHELL")) == sh.name:
			d.add(resultWarning, sh.name, fix, "finds no completion of withlease")
		case file == "":
			d.ok(sh.name, "finds no completion (withlease completion %s prints it)", sh.name)
		case !sameText(file, d.script(sh.name)):
			d.add(resultWarning, sh.name, fix, "the completion is another version's: %s", show(file))
		case sh.name == "bash" && !bashCompletion():
			d.add(resultWarning, sh.name, fixes("sudo apt-get install bash-completion"), "nothing loads %s: the package bash-completion is not there", show(file))
		default:
			d.ok(sh.name, "completion in %s", show(filepath.Dir(file)))
		}
	}
}

// findFile is the first of the names in the first of the directories.
func findFile(dirs, names []string) string {
	for _, dir := range dirs {
		for _, n := range names {
			if st, err := os.Stat(filepath.Join(dir, n)); err == nil && st.Mode().IsRegular() {
				return filepath.Join(dir, n)
			}
		}
	}
	return ""
}

// mentioned says whether a person's start-up file loads the completion.
func (d *doctor) mentioned(files []string) bool {
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(d.Getenv("HOME"), f))
		if err == nil && bytes.Contains(text, []byte("withlease completion")) {
			return true
		}
	}
	return false
}

func sameText(file, text string) bool {
	b, err := os.ReadFile(file)
	return err == nil && string(b) == text
}

// dataDirs are the user's and the system's shared files (the XDG base
// directory specification).
func (d *doctor) dataDirs() (user string, system []string) {
	user = first(d.Getenv("XDG_DATA_HOME"), filepath.Join(d.Getenv("HOME"), ".local", "share"))
	return user, filepath.SplitList(first(d.Getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share"))
}

const bashPackage = "/usr/share/bash-completion"

func bashCompletion() bool {
	_, err := os.Stat(bashPackage + "/bash_completion")
	return err == nil
}

// bashDirs are where the package bash-completion looks (__load_completion).
func (d *doctor) bashDirs() []string {
	user, system := d.dataDirs()
	dirs := []string{filepath.Join(first(d.Getenv("BASH_COMPLETION_USER_DIR"), filepath.Join(user, "bash-completion")), "completions")}
	for _, s := range system {
		dirs = append(dirs, filepath.Join(s, "bash-completion", "completions"))
	}
	return append(dirs, bashPackage+"/completions", "/etc/bash_completion.d")
}

// zshDirs asks zsh, whose places are built in. Without start-up files: a
// person's may do anything.
func (d *doctor) zshDirs() []string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "zsh", "-fc", "print -rl -- $fpath")
	cmd.WaitDelay = time.Second
	out, _ := cmd.Output()
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// fishDirs are fish's $fish_complete_path.
func (d *doctor) fishDirs() []string {
	user, system := d.dataDirs()
	dirs := []string{
		filepath.Join(first(d.Getenv("XDG_CONFIG_HOME"), filepath.Join(d.Getenv("HOME"), ".config")), "fish", "completions"),
		"/etc/fish/completions", filepath.Join(user, "fish", "vendor_completions.d"),
	}
	for _, s := range system {
		dirs = append(dirs, filepath.Join(s, "fish", "vendor_completions.d"))
	}
	return append(dirs, "/usr/share/fish/vendor_completions.d", "/usr/share/fish/completions")
}
