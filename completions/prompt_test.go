package completions_test

import (
	"os/exec"
	"strings"
	"testing"

	"withlease/completions"
)

// What `withlease init` prints shows in the prompt what a shell is held for,
// once, however often and strictly it is evaluated; and it completes.
func TestPrompt(t *testing.T) {
	load := map[string][]string{
		"bash": {"set -eu -o noclobber -o pipefail", `eval "$(withlease init bash)"`, `eval "$(withlease init bash)"`},
		"zsh":  {"unsetopt prompt_subst; setopt errexit nounset noclobber warncreateglobal ksharrays", `eval "$(withlease init zsh)"`, `eval "$(withlease init zsh)"`},
		"fish": {"function fish_prompt; echo \"$status> \"; end", "withlease init fish | source", "withlease init fish | source"},
	}
	plain := map[string]string{"bash": "$ ", "zsh": "% ", "fish": "3> "}
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := "WITHLEASE_HELD=kind-1=0123456789abcdef,$(exit)=1,net=0123456789abcdef"
			c := startShell(t, name, t.TempDir(), append(lab(t), held))
			for _, line := range load[name] {
				c.say(line)
			}
			if name == "fish" {
				c.say("sh -c 'exit 3'") // the prompt sees the status of the last command
			} else {
				c.say("echo al''l-done")
				c.until("all-done")
			}
			c.until("[kind-1 net] " + plain[name])
			if text := c.raw(); strings.Contains(text, "] [") {
				t.Errorf("twice in the prompt:\n%s", text)
			}
			c.tab("withlease gp", "withlease gpu ")

			// Without a lease nothing changes.
			c = startShell(t, name, t.TempDir(), lab(t))
			for _, line := range load[name] {
				c.say(line)
			}
			c.say("sh -c 'echo al''l-done; exit 0'")
			c.until("all-done")
			if text := c.raw(); strings.Contains(text, "[]") || strings.Contains(text, "[ ]") {
				t.Errorf("an empty place in the prompt:\n%s", text)
			}
		})
	}
}

// Completion in it is the same text as `withlease completion` prints.
func TestInitVerb(t *testing.T) {
	for _, name := range shells {
		out, err := exec.Command("withlease", "init", name).CombinedOutput()
		if err != nil || string(out) != completions.Init(name) || !strings.HasPrefix(string(out), completions.Script(name)) || len(out) == len(completions.Script(name)) {
			t.Errorf("withlease init %s: %v, %d bytes", name, err, len(out))
		}
	}
}
