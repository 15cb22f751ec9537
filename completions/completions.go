// Package completions holds the completion scripts of the shells.
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
