package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"withlease/lease"
)

// An event has at most maxEvent bytes, and its command maxScript: Linux runs no
// sh -c with an argument of more than 128 KiB.
const (
	maxEvent  = 16 << 20
	maxScript = 1 << 20
)

// Guard is the hook: it reads a tool call as JSON and refuses a shell command
// that touches a guarded resource without its lease, with ExitGuarded. All that
// goes wrong ends with ExitRefused: the agent's program takes ExitGuarded alone
// for a refusal, and would block every call.
//
// rules is the file of rules, empty for $WITHLEASE_GUARD or that of the base
// directory. resources tells what the left half of withlease's own command line
// claims.
func (s *Session) Guard(event io.Reader, rules string, resources func(left []string) []string) (exit Exit) {
	defer func() {
		if p := recover(); p != nil { // an uncaught one exits with 2
			exit = s.guardFailed(fmt.Errorf("guard: %v; the call is not looked at", p))
		}
	}()
	refused, err := s.guard(event, rules, resources)
	if err != nil {
		return s.guardFailed(err)
	}
	if refused != "" {
		say(s.Stderr, "%s", refused)
		return Exit{Code: ExitGuarded}
	}
	return Exit{}
}

func (s *Session) guardFailed(err error) Exit {
	say(s.Stderr, "%s", Explain(err))
	return Exit{Code: ExitRefused}
}

// guard says why the call is refused, if it is.
func (s *Session) guard(event io.Reader, file string, resources func([]string) []string) (string, error) {
	script, session, err := readEvent(event)
	if err != nil || script == "" {
		return "", err
	}
	if said, _ := s.session(); said == "" {
		s.Flags.Session = session
	}
	rules, err := s.guardRules(file)
	if err != nil || len(rules) == 0 {
		return "", err
	}
	for _, c := range guarded(script, resources) {
		needs := c.needs(rules)
		if len(needs) == 0 {
			continue
		}
		missing, seen, err := s.notHeld(needs)
		if err != nil {
			return "", err
		}
		if len(missing) > 0 {
			return s.refuse(c, missing, seen), nil
		}
	}
	return "", nil
}

// readEvent reads a tool call: the shell command, empty for another tool's.
func readEvent(r io.Reader) (script, session string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxEvent+1))
	if err != nil {
		return "", "", fmt.Errorf("the event on standard input can't be read: %w", err)
	}
	if len(text) > maxEvent {
		return "", "", fmt.Errorf("the event on standard input has more than %d bytes", maxEvent)
	}
	var event struct {
		SessionID string          `json:"session_id"`
		ToolName  string          `json:"tool_name"`
		ToolInput json.RawMessage `json:"tool_input"`
	}
	var input struct {
		Command string `json:"command"`
	}
	err = json.Unmarshal(text, &event)
	if err == nil && event.ToolName == "Bash" && len(event.ToolInput) > 0 {
		err = json.Unmarshal(event.ToolInput, &input)
	}
	if err != nil {
		return "", "", fmt.Errorf("no tool call on standard input: %w", err)
	}
	if len(input.Command) > maxScript {
		return "", "", fmt.Errorf("the command of the tool call has more than %d bytes", maxScript)
	}
	return input.Command, event.SessionID, nil
}

// guardRules are the rules; none where the base directory has no file of them.
// One that was named must be there: else a mistyped name would guard nothing.
func (s *Session) guardRules(file string) ([]lease.GuardRule, error) {
	if file = first(file, s.Getenv("WITHLEASE_GUARD")); file != "" {
		return lease.ReadGuard(file)
	}
	b, err := s.base()
	if err != nil {
		return nil, err
	}
	rules, err := lease.ReadGuard(filepath.Join(b.Store.Dir, "guard.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return rules, err
}

// notHeld are the rules of needs whose resource the caller doesn't hold, and who
// has the first of these.
func (s *Session) notHeld(needs []lease.GuardRule) (missing []lease.GuardRule, seen lease.Sight, err error) {
	b, err := s.base()
	if err != nil {
		return nil, seen, err
	}
	for _, r := range needs {
		covered, err := b.Covers(r.Resource, s.Getenv("WITHLEASE_HELD"), s.Party())
		if err != nil {
			return nil, seen, err
		}
		if !covered {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		seen, err = b.Look(missing[0].Resource)
	}
	return missing, seen, err
}

// refuse is the one line for the agent: who has it, why it matters, what to type.
func (s *Session) refuse(c guardedCommand, missing []lease.GuardRule, seen lease.Sight) string {
	now := " is free"
	if seen.Held {
		now = " is " + heldBy(seen, s.Now())
	}
	parts := []string{missing[0].Resource + now}
	if missing[0].Reason != "" {
		parts = append(parts, show(missing[0].Reason))
	}
	var names []string
	for _, r := range missing {
		if !slices.Contains(names, r.Resource) {
			names = append(names, r.Resource)
		}
	}
	command := strings.Join(slices.Concat(c.assigned, []string{"withlease"}, names, []string{"--"}, c.typed), " ")
	return strings.Join(append(parts, "run it under the lease: "+showAt(command, 4000)), "; ")
}

// guardedCommand is a simple command as the rules look at it.
type guardedCommand struct {
	words    []string // all of them, for the rules' args
	program  string   // the base name of what is run in the end
	held     []string // what a withlease in front claims
	assigned []string // the assignments in front, as they are written
	typed    []string // and the rest
}

// needs are the rules that match and that no withlease in front has satisfied.
func (c *guardedCommand) needs(rules []lease.GuardRule) (needs []lease.GuardRule) {
	named := func(arg string) bool {
		return slices.ContainsFunc(c.words, func(w string) bool { return strings.Contains(w, arg) })
	}
	for _, r := range rules {
		if slices.Contains(r.Programs, c.program) && (len(r.Args) == 0 || slices.ContainsFunc(r.Args, named)) && !slices.Contains(c.held, r.Resource) {
			needs = append(needs, r)
		}
	}
	return needs
}

// guarded are the commands of a script, those that a shell in it is given too.
func guarded(script string, resources func([]string) []string) (found []guardedCommand) {
	for _, c := range splitShell(script) {
		g, rest := unwrap(c, resources)
		found = append(found, g)
		for _, inner := range splitShell(shellScript(g.program, rest)) {
			i, _ := unwrap(inner, resources)
			i.held = append(i.held, g.held...)
			found = append(found, i)
		}
	}
	return found
}

// unwrap finds the program that a command runs in the end, and its arguments.
func unwrap(c simple, resources func([]string) []string) (g guardedCommand, args []string) {
	g.words = c.words
	w, at := c.words, 0 // what is left, and where what is typed begins
	for len(w) > 0 {
		name := filepath.Base(w[0])
		switch {
		case assignment(w[0]):
			if at == len(c.words)-len(w) {
				g.assigned = append(g.assigned, c.raw[at])
				at++
			}
			w = w[1:]
			continue
		case name == "withlease":
			i := slices.Index(w, "--")
			if i < 0 {
				break
			}
			g.held = append(g.held, resources(w[1:i])...)
			w = w[i+1:]
			continue
		case reserved(w[0]), name == "exec", name == "command":
			// Not to be written behind withlease: no programs.
			if name == "command" && len(w) > 1 && strings.Trim(w[1], "vV") == "-" {
				return g, nil // it asks only
			}
			inFront := at == len(c.words)-len(w)
			w = prefixed(w)
			if inFront {
				at = len(c.words) - len(w)
			}
			continue
		case prefixFlags(name) != "":
			w = prefixed(w)
			continue
		}
		g.program, g.typed = name, c.raw[at:]
		return g, w[1:]
	}
	return g, nil
}

// assignment says whether a word in front of a command sets a variable.
func assignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	name = strings.TrimSuffix(name, "+")
	for i := range len(name) {
		c := name[i]
		if c != '_' && !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') && !('0' <= c && c <= '9' && i > 0) {
			return false
		}
	}
	return ok && name != ""
}

// reserved are the shell's words that a command may follow.
func reserved(word string) bool {
	switch word {
	case "{", "}", "!", "if", "then", "else", "elif", "while", "until", "do", "time":
		return true
	}
	return false
}

// prefixFlags are the flags of a program that runs another which take the next
// word for their value, each between spaces; empty when it is no such program.
func prefixFlags(name string) string {
	switch name {
	case "sudo":
		return " -u -g -h -p -C -D -R -T -U -r -t --user --group --host --prompt --chdir "
	case "env":
		return " -u -C -S --unset --chdir "
	case "time":
		return " -f -o --format --output "
	case "timeout":
		return " -s -k --signal --kill-after "
	case "nice":
		return " -n --adjustment "
	case "xargs":
		return " -a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs --max-chars "
	case "exec":
		return " -a "
	case "nohup", "command":
		return " "
	}
	return ""
}

// prefixed are the words behind a program that runs another, and its flags.
func prefixed(w []string) []string {
	name := filepath.Base(w[0])
	flags := prefixFlags(name)
	for w = w[1:]; len(w) > 0 && strings.HasPrefix(w[0], "-") && flags != ""; {
		flag := w[0]
		w = w[1:]
		if flag == "--" {
			break
		}
		if len(w) > 0 && strings.Contains(flags, " "+flag+" ") {
			w = w[1:]
		}
	}
	if name == "timeout" && len(w) > 0 {
		w = w[1:] // how long
	}
	return w
}

// shellScript is what a shell is given to run, by -c.
func shellScript(program string, args []string) string {
	switch program {
	case "sh", "bash", "dash", "ksh", "zsh":
	default:
		return ""
	}
	found := false
	for len(args) > 0 && (strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "+")) {
		flag := args[0]
		args = args[1:]
		if flag == "--" {
			break
		}
		if !strings.HasPrefix(flag, "--") {
			found = found || strings.HasPrefix(flag, "-") && strings.Contains(flag, "c")
			if strings.ContainsAny(flag[len(flag)-1:], "oO") && len(args) > 0 {
				args = args[1:] // -o pipefail
			}
		}
	}
	if !found || len(args) == 0 {
		return ""
	}
	return args[0]
}
