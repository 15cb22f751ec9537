package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"withlease/lease"
	"withlease/state"
)

// Finding is what doctor found out about one thing.
type Finding struct {
	Check  string   `json:"check"`
	Result string   `json:"result"` // ok, warning, wrong
	Text   string   `json:"text"`
	Fix    []string `json:"fix,omitempty"` // commands
}

// The results of a check, the worst last.
const (
	resultOK      = "ok"
	resultWarning = "warning"
	resultWrong   = "wrong"
)

// doctor looks and changes nothing, but for the file system's trial.
type doctor struct {
	*Session
	script   func(shell string) string
	base     *lease.Base
	findings []Finding
}

func (d *doctor) add(result, check string, fix []string, format string, args ...any) {
	d.findings = append(d.findings, Finding{check, result, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) ok(check, format string, args ...any) { d.add(resultOK, check, nil, format, args...) }

// fixes are the commands that mend a thing.
func fixes(commands ...string) []string { return commands }

// command is one of them: its words, quoted for a shell where that is needed.
func command(words ...string) string {
	for i, w := range words {
		words[i] = lease.ShellWord(w)
	}
	return show(strings.Join(words, " "))
}

// Doctor says how everything is that withlease rests on. script gives the
// completion of a shell. The status is 1 when something is wrong.
func (s *Session) Doctor(script func(shell string) string) Exit {
	d := &doctor{Session: s, script: script}
	d.place()
	d.caller()
	if d.base != nil && d.modes() {
		d.trial()
		v, unlock := d.look()
		d.supervisor(v)
		d.document(v)
		d.grants(v)
		leftovers := d.leases(v)
		unlock()
		d.events()
		d.leftovers(leftovers)
	}
	d.system()
	d.program()
	d.shells()
	if err := d.print(); err != nil {
		return s.failed(err)
	}
	if d.count(resultWrong) > 0 {
		return Exit{Code: ExitRefused}
	}
	return Exit{}
}

func (d *doctor) count(result string) int {
	n := 0
	for _, f := range d.findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

// look is the snapshot that list has, but makes no lock file, and gives up
// nothing when the lock or the document is broken.
func (d *doctor) look() (*snapshot, func()) {
	l, unlock := d.base.Store.Unlocked(), func() {}
	if _, err := os.Lstat(d.base.Store.LockPath()); !errors.Is(err, fs.ErrNotExist) {
		locked, err := d.base.Store.Look(soon())
		if err != nil {
			d.add(resultWrong, "lock", fixes(command("fuser", "-v", d.base.Store.LockPath())), "%s", Explain(err))
		} else {
			l, unlock = locked, locked.Unlock
		}
	}
	v := &snapshot{base: d.base, now: d.Now()}
	if v.st, v.bad = l.State(); v.bad != nil {
		v.st = &state.State{}
	}
	lease.NoteAway(v.st, v.now)
	return v, unlock
}

// print writes the findings, in the order of the checks.
func (d *doctor) print() error {
	result := resultOK
	wrong, warnings := d.count(resultWrong), d.count(resultWarning)
	switch {
	case wrong > 0:
		result = resultWrong
	case warnings > 0:
		result = resultWarning
	}
	if d.JSON {
		return writeJSON(d.Stdout, struct {
			Schema  int       `json:"schema"`
			Result  string    `json:"result"`
			Version string    `json:"version"`
			Checks  []Finding `json:"checks"`
		}{Schema, result, Version(), d.findings})
	}
	var b strings.Builder
	for _, f := range d.findings {
		fmt.Fprintf(&b, "%-8s %-10s %s\n", f.Result, f.Check, f.Text)
		for _, c := range f.Fix {
			fmt.Fprintf(&b, "    fix:   %s\n", c)
		}
	}
	if result == resultOK {
		b.WriteString("all is well\n")
	} else {
		fmt.Fprintf(&b, "%d wrong, %s\n", wrong, plural(warnings, "warning", "warnings"))
	}
	_, err := d.Stdout.Write([]byte(b.String()))
	return err
}
