package lease

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lookAgain is how often is looked for what nothing tells of.
const lookAgain = 2 * time.Second

// Watch is told when what a look at all leases and lines shows may have changed:
// by the directories, by the end of holders and waiters (a killed one changes no
// file), and by the clock. Arm it, look, and then wait: what happens after Arm
// ends the wait.
type Watch struct {
	base *Base
	fd   int            // inotify; -1: there is none to be had
	dirs map[int]string // the directories that it watches
	ends []unix.PollFd  // they hang up, or become readable, when somebody ends
	due  time.Time      // when the clock changes something; zero: it doesn't
}

// Watch is a new one, which must be closed.
func (b *Base) Watch() *Watch { return &Watch{base: b, fd: newWatch(), dirs: map[int]string{}} }

// Blind says that directories can't be watched, so that it is looked every 2 s.
func (w *Watch) Blind() bool { return w.fd < 0 }

// Close gives back its descriptors.
func (w *Watch) Close() {
	w.forget()
	if w.fd >= 0 {
		unix.Close(w.fd)
		w.fd = -1
	}
}

func (w *Watch) forget() {
	for _, p := range w.ends {
		unix.Close(int(p.Fd))
	}
	w.ends, w.due = w.ends[:0], time.Time{}
}

// Arm watches what there is now. What can't be watched is looked at again in
// 2 s.
func (w *Watch) Arm() {
	w.forget()
	now := time.Now()
	b := w.base
	for _, dir := range []string{b.Store.Dir, string(b.Leases)} {
		if !w.dir(dir) {
			w.by(now.Add(lookAgain))
		}
	}
	w.dir(filepath.Join(string(b.Leases), ".queue")) // its making is told by its parent
	names, _ := readNames(string(b.Leases) + "/.")
	for _, res := range names {
		if CheckName(res) == nil {
			w.dir(b.path(res))
			w.lease(res, now)
		}
	}
	lines, _ := b.Lines()
	for _, res := range lines {
		w.dir(b.queue(res))
		w.line(res, now)
	}
	w.document(now)
}

func (w *Watch) dir(dir string) bool {
	if w.fd < 0 {
		return false
	}
	wd := watchDir(w.fd, dir)
	if wd >= 0 {
		w.dirs[wd] = dir
	}
	return wd >= 0
}

// by is a moment at which something changes.
func (w *Watch) by(t time.Time) {
	if w.due.IsZero() || t.Before(w.due) {
		w.due = t
	}
}

// byEnd is by, of a moment that is to come.
func (w *Watch) byEnd(t, now time.Time) {
	if t.After(now) {
		w.by(t)
	}
}

func (w *Watch) lease(res string, now time.Time) {
	s, err := w.base.look(res, now)
	if err != nil || !s.exists {
		return
	}
	switch {
	case s.watch >= 0:
		w.ends = append(w.ends, unix.PollFd{Fd: int32(s.watch)}) // hang-up is always told
		if p := s.process(); p != nil && p.here() && p.Start > 0 {
			w.process(PID{p.PID, p.Start}) // its wrapper may go before its command
		}
	case s.kind == Running, s.kind == Foreign:
		w.by(now.Add(lookAgain))
	case s.kind == Claiming:
		w.by(s.mtime.Add(ClaimGrace))
	case s.terms != nil:
		w.byEnd(s.terms.Until, now)
	}
	for _, m := range s.orphans {
		w.process(m.PID)
	}
}

// process is watched until it ends.
func (w *Watch) process(p PID) {
	if fd := openPID(p); fd >= 0 {
		w.ends = append(w.ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	} else if p.Alive() {
		w.by(time.Now().Add(lookAgain))
	}
}

func (w *Watch) line(res string, now time.Time) {
	ns, _ := w.base.numbers(res)
	for _, n := range ns {
		p, ok := w.base.seePlace(res, n, now)
		switch {
		case p.watch >= 0:
			w.ends = append(w.ends, unix.PollFd{Fd: int32(p.watch)})
		case !ok:
		case p.kept.IsZero():
			w.by(now.Add(lookAgain)) // there is no descriptor to be had, or no FIFO
		default:
			w.by(p.kept)
		}
	}
}

// document watches what the state document says: what ends by the clock, and
// the supervisor's process.
func (w *Watch) document(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), lookAgain)
	defer cancel()
	l, err := w.base.Store.Look(ctx)
	if err != nil {
		w.by(now.Add(lookAgain))
		return
	}
	defer l.Unlock()
	st, err := l.State()
	if err != nil {
		return // its mending is told by its directory
	}
	for _, g := range st.Grants {
		w.byEnd(g.At.Add(GrantTTL), now)
		if free := st.Released[g.Resource]; !free.IsZero() {
			w.byEnd(free.Add(GrantTTL), now)
		}
	}
	for _, h := range st.Holds {
		w.byEnd(h.Until, now)
	}
	if until, gone := w.base.Away(st, now); !gone {
		w.byEnd(until, now)
		if p, ok := SupervisorPID(st); ok {
			w.process(p)
		}
	}
}

// News is what ended a wait.
type News int

const (
	Changed News = iota // something may have
	Time                // until has come
	Called              // calls can be read
	Gone                // nobody reads out any longer
)

// Wait waits until something may have changed, until a time (zero: none), until
// calls can be read, or until the reader of out is gone, whichever is first;
// deaf, it does not hear of changes. The error is an *os.SyscallError.
func (w *Watch) Wait(calls, out int, until time.Time, deaf bool) (News, error) {
	fds := []unix.PollFd{{Fd: int32(calls), Events: unix.POLLIN}, {Fd: int32(out)}}
	if !deaf {
		if w.fd >= 0 {
			fds = append(fds, unix.PollFd{Fd: int32(w.fd), Events: unix.POLLIN})
		}
		fds = append(fds, w.ends...)
	}
	for {
		end, news := until, Time
		if !deaf && !w.due.IsZero() && (end.IsZero() || w.due.Before(end)) {
			end, news = w.due, Changed
		}
		timeout := -1
		if !end.IsZero() {
			timeout = milliseconds(time.Until(end))
		}
		n, err := unix.Poll(fds, timeout)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return Changed, os.NewSyscallError("poll", err)
		case n == 0:
			return news, nil
		case fds[0].Revents != 0:
			return Called, nil
		case fds[1].Revents != 0:
			return Gone, nil
		case n == 1 && w.fd >= 0 && fds[2].Revents != 0 && !readWatch(w.fd, w.matters):
		default:
			return Changed, nil
		}
	}
}

// matters says whether what happened to a name in a directory can be seen in a
// list or a queue. What is being made, deleted or only measured has a name with
// a dot first; a look must not wake itself.
func (w *Watch) matters(wd int, name string) bool {
	dir := w.dirs[wd]
	switch {
	case name == "": // the directory itself
		return true
	case dir == w.base.Store.Dir && name == "state.json", dir == string(w.base.Leases) && name == ".queue":
		return true
	case dir == w.base.Store.Dir && dir != string(w.base.Leases):
		return filepath.Join(dir, name) == string(w.base.Leases)
	}
	return name != "last" && !strings.HasPrefix(name, ".")
}
