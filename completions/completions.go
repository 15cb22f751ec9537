// Package completions holds the completion scripts of the shells, and what
// shows in their prompts.
package completions

import _ "embed"

// The scripts, as they are installed and as `withlease completion` prints them.
var (
	//go:embed withlease.bash
	bash string
	//go:embed _withlease
	zsh string
	//go:embed withlease.fish
	fish string

	//go:embed init.bash
	initBash string
	//go:embed init.zsh
	initZsh string
	//go:embed init.fish
	initFish string
)

// Script is the script of a shell; empty for one that has none.
func Script(shell string) string {
	switch shell {
	case "bash":
		return bash
	case "zsh":
		return zsh
	case "fish":
		return fish
	}
	return ""
}

// Init is what the start-up file of a shell evaluates: its completion script,
// and the prompt that says what is held.
func Init(shell string) string {
	prompt := map[string]string{"bash": initBash, "zsh": initZsh, "fish": initFish}[shell]
	return Script(shell) + prompt
}
