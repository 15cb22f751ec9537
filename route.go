package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"withlease/run"
)

// route puts "run" in front where the two-form usage leaves it out, and refuses
// what kong would misunderstand. ok is false when it has said what is wrong.
func route(left []string, split bool, stderr io.Writer) (words []string, code int, ok bool) {
	refuse := func(format string, args ...any) ([]string, int, bool) {
		fmt.Fprintf(stderr, "withlease: "+format+"\n", args...)
		return nil, 0, false
	}
	for _, a := range left {
		if !utf8.ValidString(a) { // kong would take another text for it, and so another directory
			return refuse("%q is not UTF-8: no resource name, and no flag's value", a)
		}
	}
	if slices.Contains(left, "--version") || slices.Contains(left, "-V") {
		return []string{"version"}, 0, true
	}
	verb, known := firstWord(left)
	isHelp := slices.Contains(left, "-h") || slices.Contains(left, "--help")
	switch {
	case len(left) == 0 && split:
		return refuse("no resource before --: withlease RESOURCE... -- COMMAND [ARG...]")
	case len(left) == 0:
		fmt.Fprint(stderr, shortUsage)
		return nil, run.ExitUsage, false
	case known && verb == "run":
		if !split && !isHelp {
			return refuse("no command: withlease run RESOURCE... -- COMMAND [ARG...]")
		}
		return left, 0, true
	case known && split && !isHelp:
		return refuse("%q takes no command after --; for a resource of that name: withlease run %s -- COMMAND", verb, verb)
	case known:
		return left, 0, true
	case split:
		return insertRun(left), 0, true
	case isHelp && verb != "":
		return insertRun(left), 0, true
	}
	return left, 0, true
}

// insertRun puts the word run in front: kong takes the flags of every verb
// there too.
func insertRun(left []string) []string {
	// Flags first: kong forgets the resources before a flag.
	last := len(left) - 1
	if slices.Contains(left, "-h") || slices.Contains(left, "--help") || last >= 0 && takesValue(left[last]) && strings.HasPrefix(left[last], "-") {
		return append([]string{"run"}, left...)
	}
	flags, names := flagsAndNames(left)
	return append(append([]string{"run"}, flags...), names...)
}

// flagsAndNames are the flags, with their values, and the other words.
func flagsAndNames(left []string) (flags, names []string) {
	for i := 0; i < len(left); i++ {
		if a := left[i]; !strings.HasPrefix(a, "-") || a == "-" {
			names = append(names, a)
			continue
		}
		flags = append(flags, left[i])
		if takesValue(left[i]) && i+1 < len(left) {
			i++
			flags = append(flags, left[i])
		}
	}
	return flags, names
}

// claims are the resources of a run whose left half this is; none of another
// verb's.
func claims(left []string) []string {
	verb, known := firstWord(left)
	_, names := flagsAndNames(left)
	if known && verb == "run" {
		return names[1:]
	}
	if known {
		return nil
	}
	return names
}

// meansGuard says whether a usage error is one of the hook's, where its exit
// status 2 would refuse every call of the agent. Where a flag is wrong too, the
// first word may be its value.
func meansGuard(left []string, split bool) bool {
	word, known := firstWord(left)
	return word == "guard" || !known && !split && slices.Contains(left, "guard")
}

// firstWord is the first argument that is no flag and no flag's value, and
// whether it is a verb.
func firstWord(left []string) (word string, known bool) {
	for i := 0; i < len(left); i++ {
		a := left[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			return a, slices.Contains(verbs, a)
		}
		if takesValue(a) {
			i++
		}
	}
	return "", false
}

// takesValue says whether a flag's value is the next word.
func takesValue(flag string) bool {
	if strings.HasPrefix(flag, "--") {
		name, _, attached := strings.Cut(flag[2:], "=")
		return !attached && slices.Contains(valueFlags, name)
	}
	// -w 5s, and -nw 5s; -w5s has it attached, and so has -pnow.
	i := strings.IndexAny(flag, "wpE")
	return i > 0 && i == len(flag)-1
}

var valueFlags = []string{"dir", "session", "host-session", "name", "person", "team",
	"wait", "keep-place", "keep-on-fail", "ticket", "purpose", "pty", "notify", "ttl", "grace", "on-lost", "conflict-exit-code", "status-file", "budget-gib"}

const oneOf = ", did you mean one of "

// oneSuggestion leaves of kong's suggestions the one with the same letters, else
// the first: a person has mistyped one word.
func oneSuggestion(message string) string {
	wrong, list, _ := strings.Cut(message, oneOf)
	typed := wrong[strings.LastIndexByte(wrong, ' ')+1:]
	candidates := strings.Split(strings.TrimSuffix(list, "?"), ", ")
	letters := func(word string) string {
		b := []byte(strings.Trim(word, `"`))
		slices.Sort(b)
		return string(b)
	}
	best := max(0, slices.IndexFunc(candidates, func(c string) bool { return letters(c) == letters(typed) }))
	return wrong + ", did you mean " + candidates[best] + "?"
}

// rephrase turns kong's messages into ones that say what to do.
func rephrase(message string, left []string, split bool) string {
	switch {
	case strings.Contains(message, `but got "EOL"`):
		flag, _, _ := strings.Cut(message, ":")
		return flag + " needs a value before --"
	case strings.Contains(message, oneOf):
		return oneSuggestion(message)
	case !split && strings.HasPrefix(message, "unexpected argument ") && !strings.Contains(message, "did you mean"):
		word, known := firstWord(left)
		if !known && word != "" {
			return fmt.Sprintf("no command: withlease %s -- COMMAND [ARG...], or hold it without one: withlease claim %s", word, word)
		}
	}
	return message
}
