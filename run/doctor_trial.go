package run

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/signals"
)

// trial says what the file systems are, and what of locks, FIFOs, watches and
// renames really works there.
func (d *doctor) trial() {
	var seen []uint64
	for _, dir := range []string{d.base.Store.Dir, string(d.base.Leases)} {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || writable(dir) != nil {
			continue // not made yet, or said already
		}
		if dev := uint64(st.Dev); !slices.Contains(seen, dev) {
			seen = append(seen, dev)
			d.tryIn(dir)
		}
	}
}

func (d *doctor) tryIn(dir string) {
	name, network := fileSystem(dir)
	if network {
		d.add(resultWarning, "files", fixes("export WITHLEASE_DIR=/var/lib/withlease"), "%s is on %s: other machines' leases are honoured only while they are renewed", show(dir), name)
	}
	var t lease.Trial
	var err error
	undisturbed(func() { t, err = d.base.Try(dir) })
	if err != nil {
		d.add(resultWrong, "files", nil, "%s: nothing could be tried: %s", name, Explain(err))
		return
	}
	elsewhere := fixes("export WITHLEASE_DIR=/var/lib/withlease")
	var works []string
	for _, one := range []struct {
		what   string
		err    error
		result string
		cost   string
	}{
		{"locks", t.Lock, resultWrong, "two could hold one lease"},
		{"FIFOs", t.FIFO, resultWarning, "nobody hears of a release, and waits up to 2 s longer"},
		{"rename", t.Rename, resultWarning, "a lease shows before its record"},
		{"inotify", t.Watch, resultWarning, "a shell lock's release is found within 2 s"},
	} {
		if one.err == nil {
			works = append(works, one.what)
			continue
		}
		d.add(one.result, "files", elsewhere, "%s: %s fails here (%s): %s", name, one.what, show(one.err.Error()), one.cost)
	}
	if len(works) == 4 && !network {
		d.ok("files", "%s: locks, FIFOs, inotify, RENAME_NOREPLACE work", name)
	}
	if t.Forward.Abs() > clockSlack {
		d.add(resultWarning, "clock", fixes("timedatectl"), "the clock of %s differs from this machine's by %s", name, ago(t.Forward.Abs()))
	}
}

// undisturbed puts the signals that would end this process off until f is
// done, which takes milliseconds: nothing is left behind.
func undisturbed(f func()) {
	came := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(came, s)
		}
	}
	f()
	signal.Stop(came)
	select {
	case s := <-came:
		signals.Die(s.(syscall.Signal))
	default:
	}
}
