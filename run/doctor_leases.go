package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"withlease/lease"
)

// clockSlack is what clocks may differ by before it is worth a word.
const clockSlack = 2 * time.Second

// mostFindings is how much of one kind is named one by one: it must all fit on
// a screen.
const mostFindings = 8

// leases says what is held, and which leases are not as they should be. It
// returns what killed processes left, for a second look later.
func (d *doctor) leases(v *snapshot) []lease.Leftover {
	sights, err := v.base.List()
	if err != nil {
		d.add(resultWrong, "leases", nil, "%s", Explain(err))
		return nil
	}
	held := 0
	for _, s := range sights {
		if s.Held {
			held++
		}
	}
	d.ok("leases", "%d held", held)
	odd := 0
	for _, s := range sights {
		f, bad := d.oddLease(s, v.now)
		if !bad {
			continue
		}
		if odd++; odd <= mostFindings {
			d.findings = append(d.findings, f)
		}
	}
	if odd > mostFindings {
		d.add(resultWarning, "leases", fixes("withlease list"), "%d more like these", odd-mostFindings)
	}
	left, err := v.base.Leftovers(v.now)
	if err != nil {
		d.add(resultWrong, "leftovers", nil, "%s", Explain(err))
	}
	return left
}

// oddLease is what a person should know of a lease, if anything.
func (d *doctor) oddLease(s lease.Sight, now time.Time) (Finding, bool) {
	path := filepath.Join(string(d.base.Leases), s.Resource)
	warn := func(fix []string, format string, args ...any) (Finding, bool) {
		return Finding{"leases", resultWarning, fmt.Sprintf(format, args...), fix}, true
	}
	run := fixes(command("withlease", "-n", s.Resource, "--", "true"))
	switch kind := kindName(s); {
	case kind == "crashed":
		return warn(run, "%s crashed, and is free for the next claim; was %s", s.Resource, heldBy(s, now))
	case kind == "abandoned":
		return warn(run, "%s is an abandoned claim of a shell lock, and free", s.Resource)
	case kind == "orphaned":
		return warn(fixes(command("withlease", "release", "--kill", s.Resource)), "%s is orphaned: its wrapper is gone, still running: %s", s.Resource, cmp.Or(members(s), "a process that can't be seen from here"))
	case kind == "odd":
		return Finding{"leases", resultWrong, fmt.Sprintf("%s is no lease, and can't be claimed: %s", show(path), show(s.Problem)),
			fixes(command("mv", path, filepath.Join(d.base.Store.Dir, s.Resource+".odd")))}, true
	case s.Problem != "" && kind != "claiming":
		return warn(fixes(command("withlease", "status", s.Resource), command("withlease", "release", "--force", s.Resource)), "%s is held, and %s", s.Resource, show(s.Problem))
	case s.Renewed.Sub(now) > clockSlack:
		return warn(fixes(command("touch", filepath.Join(path, "holder.json"))), "%s was renewed %s from now: was the clock set back?", s.Resource, ago(s.Renewed.Sub(now)))
	}
	return Finding{}, false
}

// leftovers names what killed processes left and nobody has swept meanwhile.
func (d *doctor) leftovers(left []lease.Leftover) {
	n := 0
	for _, l := range left {
		if l.Gone() {
			continue
		}
		if n++; n > mostFindings {
			continue
		}
		if l.Sweeper != "" {
			d.add(resultWarning, "leftovers", nil, "%s: %s, swept by %s", show(d.short(l.Path)), l.What, show(l.Sweeper))
		} else {
			d.add(resultWarning, "leftovers", fixes(command("rm", "-r", l.Path)), "%s: %s", show(d.short(l.Path)), l.What)
		}
	}
	switch {
	case n == 0:
		d.ok("leftovers", "none of killed processes")
	case n > mostFindings:
		d.add(resultWarning, "leftovers", nil, "%d more like these", n-mostFindings)
	}
}

// events says how the event log is.
func (d *doctor) events() {
	log, err := d.base.Store.CheckEvents()
	path := d.base.Store.Events()
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add(resultWrong, "events", fixes(command("sudo", "ls", "-l", path)), "%s", Explain(err))
		return
	case err != nil:
		d.add(resultWrong, "events", fixes(command("mv", path, path+".old")), "%s", Explain(err))
		return
	case log.Files == 0:
		d.ok("events", "no log yet")
		return
	case log.Damaged > 0:
		d.add(resultWarning, "events", nil, "%s of %s: readers pass over them", plural(log.Damaged, "damaged line", "damaged lines"), plural(log.Damaged+log.Events, "line", "lines"))
	default:
		d.ok("events", "%s in %s, %s", plural(log.Events, "line", "lines"), plural(log.Files, "file", "files"), size(log.Size))
	}
	if ahead := log.Last.Sub(d.Now()); ahead > clockSlack {
		d.add(resultWarning, "clock", fixes("timedatectl"), "the log's last event is %s from now: was the clock set back?", ago(ahead))
	} else if st, err := os.Stat(path); err == nil {
		d.future(path, st, "the event log")
	}
}
