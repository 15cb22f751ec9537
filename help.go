package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

const usageLines = `Usage: withlease [FLAGS] RESOURCE... -- COMMAND [ARG...]
       withlease VERB ...
`

const shortUsage = usageLines + `
Verbs: run list status queue history stats timeline claim extend release ask verify grant revoke supervisor upgrade guard completion init doctor version
More:  withlease --help
`

const topExamples = `
  withlease kind-1 -- make e2e      wait for kind-1, run, give it back
  withlease -w 90s gpu -- ./train   give up after 90 s, with exit status 75

`

// topic is a group of verbs in the help. Each verb of the grammar is in one; a
// test compares. What the grammar doesn't have isn't shown.
type topic struct {
	title string
	verbs []brief
}

// brief is a verb in the few words that half a line has room for; without
// words of its own it has the beginning of the grammar's.
type brief struct{ verb, words string }

// topics are shown in two columns: the first half on the left.
func topics() []topic {
	return []topic{
		{"Run and look", []brief{{"run", "the word may be left out"}, {"list", "what is held, by whom"}, {"status", "one resource"}, {"queue", "who waits, what is granted"},
			{"history", "what happened"}, {"stats", "how much it was used"}, {"timeline", "draw who held what"}}},
		{"Hold and give back", []brief{{"claim", "hold without a command"}, {"release", "give back, or take away"}, {"extend", "move the end of a claim"}, {"ask", "ask the holder for it"}, {"verify", "is a token or fence live?"}}},
		{"Decide", []brief{{"supervisor", "start, stop, status"}, {"grant", "let a party claim"}, {"revoke", "take a grant back"}, {"upgrade", "begin, end"}}},
		{"The machine", []brief{{"doctor", "is all well here?"}, {"init", "a shell's start-up line"}, {"completion", "for bash, zsh, fish"}, {"guard", "a coding agent's hook"}, {"version", ""}}},
	}
}

// column is the width of one of the two.
const column = 40

// help answers --help: for all in one screen, for a verb with its examples.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	sel := ctx.Selected()
	if sel == nil {
		return topHelp(ctx.Stdout, ctx.Model)
	}
	if sel.Name == "run" {
		fmt.Fprint(ctx.Stdout, usageLines)
		options.NoAppSummary = true
	}
	for _, f := range ctx.Model.Flags {
		f.Hidden = f.Name != "help" // they come in two lines
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := io.WriteString(ctx.Stdout, flagsOfAll(ctx.Model)+examplesOf(sel.Path()))
	return err
}

func topHelp(w io.Writer, app *kong.Application) error {
	var left, right []string
	for i, t := range topics() {
		lines := []string{t.title}
		for _, b := range t.verbs {
			if n := verbNode(app, b.verb); n != nil {
				lines = append(lines, b.line(n))
			}
		}
		if i < len(topics())/2 {
			left = append(left, lines...)
		} else {
			right = append(right, lines...)
		}
	}
	var out strings.Builder
	out.WriteString(usageLines + topExamples)
	if width() < 2*column {
		left, right = append(left, right...), nil
	}
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		out.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s", column, l, r), " ") + "\n")
	}
	out.WriteString(flagsOfAll(app) + "More: withlease VERB --help, withlease run --help, man withlease\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// flagsOfAll names the flags that every verb takes.
func flagsOfAll(app *kong.Application) string {
	var out strings.Builder
	line := "\nFlags of all:"
	for _, f := range app.Flags {
		word := "--" + f.Name
		if f.PlaceHolder != "" {
			word += "=" + f.PlaceHolder
		}
		if len(line)+1+len(word) > 2*column-1 {
			out.WriteString(line + "\n")
			line = "            "
		}
		line += " " + word
	}
	out.WriteString(line + "\n")
	return out.String()
}

func verbNode(app *kong.Application, verb string) *kong.Node {
	for _, n := range app.Children {
		if n.Name == verb && !n.Hidden {
			return n
		}
	}
	return nil
}

// line is a verb in half a line.
func (b brief) line(n *kong.Node) string {
	const room = column - 2 - 11 - 1
	words := b.words
	if words == "" {
		for word := range strings.FieldsSeq(strings.TrimSuffix(n.Help, ".")) {
			if utf8.RuneCountInString(words)+1+utf8.RuneCountInString(word) > room {
				break
			}
			words = strings.TrimSpace(words + " " + word)
		}
		if words != "" {
			words = strings.TrimRight(strings.ToLower(words[:1])+words[1:], ",;:")
		}
	}
	return fmt.Sprintf("  %-10s %s", b.verb, words)
}

// width is the screen's, as far as $COLUMNS says one.
func width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 2 * column
}

// examplesOf are the end of a verb's help: its examples, which a test
// understands, and the exit statuses that are not everybody's.
func examplesOf(path string) string {
	switch path {
	case "run":
		return `
Examples:
  withlease kind-1 -- make e2e
  withlease -w 90s --keep-place 10m gpu -- ./train
  withlease browser gpu -- ./screenshots

Exit status: the command's; 75 it could not be had, 123 the lease was lost,
125 withlease failed, 126 not executable, 127 not found.
`
	case "list":
		return "\nExamples:\n  withlease list\n  withlease list --watch\n  withlease --json list\n"
	case "status":
		return "\nExample:\n  withlease status gpu\n\nExit status: 0 free, 1 held.\n"
	case "queue":
		return "\nExamples:\n  withlease queue\n  withlease queue gpu\n"
	case "claim":
		return "\nExample:\n  withlease claim browser -p \"looking at a bug\"\n\nExit status: 0 claimed, 1 held or refused.\n"
	case "release":
		return "\nExamples:\n  withlease release browser\n  withlease release --kill gpu\n  withlease release --force --reason=\"on holiday\" gpu\n\nExit status: 0 released, 1 not held, or not yours.\n"
	case "history":
		return "\nExamples:\n  withlease history gpu\n  withlease history --since 7d --last 20\n"
	case "stats":
		return "\nExample:\n  withlease stats gpu --since 30d\n"
	case "timeline":
		return "\nExample:\n  withlease timeline --svg day.svg gpu\n"
	case "extend":
		return "\nExample:\n  withlease extend browser 30m\n\nExit status: 0 extended, 1 not yours, or without an end.\n"
	case "ask":
		return "\nExample:\n  withlease ask gpu --message \"may I have it at 5?\"\n\nExit status: 0 asked, 1 nobody holds it.\n"
	case "verify":
		return "\nExample:\n  withlease verify 42 gpu\n\nExit status: 0 the live lease, 1 not.\n"
	case "init":
		return "\nExample:\n  withlease init bash\n\nIn ~/.bashrc: eval \"$(withlease init bash)\"\n"
	case "grant":
		return "\nExamples:\n  withlease grant gpu,model-server 7f31c2\n  withlease grant --unblock=\"checks the upgrade\" staging 7f31c2\n"
	case "revoke":
		return "\nExample:\n  withlease revoke gpu 7f31c2\n"
	case "supervisor", "supervisor start":
		return "\nExample:\n  withlease supervisor start\n"
	case "supervisor stop":
		return "\nExample:\n  withlease supervisor stop\n"
	case "supervisor status":
		return "\nExample:\n  withlease supervisor status\n\nExit status: 0 somebody decides, 1 nobody does.\n"
	case "upgrade", "upgrade begin":
		return "\nExample:\n  withlease upgrade begin staging/eu-1 --to 2.4 --until 2h\n"
	case "upgrade end":
		return "\nExample:\n  withlease upgrade end staging/eu-1\n"
	case "guard":
		return "\nExamples:\n  withlease guard\n  withlease guard --rules team.json\n\nExit status: 0 let it run, 2 refused, 1 something failed.\n"
	case "completion":
		return "\nExample:\n  withlease completion fish > ~/.config/fish/completions/withlease.fish\n"
	case "doctor":
		return "\nExamples:\n  withlease doctor\n  withlease --json doctor\n\nExit status: 0 well, or warnings only; 1 something is wrong.\n"
	case "version":
		return "\nExample:\n  withlease version\n"
	}
	return ""
}
