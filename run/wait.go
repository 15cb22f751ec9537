package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// teller tells a person about a wait: on a terminal one line that is redrawn in
// place, elsewhere a line at once, then after 10 s, 30 s, and each minute, and
// one at each change. Nothing of it stays when the command begins.
//
// A job in the background of its terminal doesn't redraw: the cursor is
// somebody else's. It says a line at once and at each change, and nothing where
// that would stop it (stty tostop): stopped it would keep its place in line from
// those behind.
type teller struct {
	*run
	fd      int // the terminal to redraw on; -1: there is none
	drawn   time.Time
	working bool   // the terminal shows progress
	told    string // what the last line said, without the times
	since   time.Time
	nextAt  time.Duration // after since: the next line without a change
	expect  expecter
}

func newTeller(r *run) *teller {
	t := &teller{run: r, fd: -1, since: r.Now()}
	if f, ok := r.Stderr.(*os.File); ok && r.capable(f) {
		t.fd = int(f.Fd())
	}
	return t
}

// capable says whether f is a terminal that can be redrawn, with a person
// before it.
func (s *Session) capable(f *os.File) bool {
	term := s.Getenv("TERM")
	return term != "" && term != "dumb" && s.Getenv("CI") == "" && isTerminal(int(f.Fd()))
}

// redrawn is how long a line stays at least.
const redrawn = 500 * time.Millisecond

// blocked shows why it is still blocked, and says when to be asked again.
func (t *teller) blocked(b *lease.Blocked) time.Duration {
	if t.Quiet {
		return 0
	}
	now := t.Now()
	waited := now.Sub(t.since)
	if t.fd >= 0 && !inBackground(t.fd) {
		return t.redraw(b, waited, now)
	}
	t.drawn = time.Time{} // what was drawn has scrolled away
	t.idle()
	if key := changeKey(b); key != t.told || t.fd < 0 && waited >= t.nextAt {
		t.told = key
		if t.fd < 0 || !stopsWriters(t.fd) {
			say(t.Stderr, "waiting for %s: %s; %s", b.Resource, t.line(b, now), t.nextStep(b))
		}
	}
	if t.fd >= 0 {
		return time.Second // it may come to the foreground
	}
	t.nextAt = nextLine(waited)
	return t.nextAt - waited
}

func (t *teller) line(b *lease.Blocked, now time.Time) string {
	return waitLine(b, t.leasePath(b), now, t.expect.expected(t.base, b, now).String())
}

// nextLine is when the next line is due that no change calls for.
func nextLine(waited time.Duration) time.Duration {
	switch {
	case waited < 10*time.Second:
		return 10 * time.Second
	case waited < 30*time.Second:
		return 30 * time.Second
	}
	return (waited/time.Minute + 1) * time.Minute
}

// changeKey is what makes a line worth saying again. A place that moves up is
// said with the next line that is due, unless the one ahead is another: in a
// long queue it moves all the time.
func changeKey(b *lease.Blocked) string {
	key := fmt.Sprint(b.Sight.Held, kindName(b.Sight), b.Sight.Holder, b.Gone, b.RestartUntil, b.Sight.Problem, b.Behind.Number, b.Sight.Until())
	if b.Refused != nil {
		key += b.Refused.Ahead + fmt.Sprint(b.Refused.Position)
	}
	return key
}

func (t *teller) leasePath(b *lease.Blocked) string {
	return string(t.base.Leases) + "/" + b.Resource
}

// redraw draws the line in place, and says when to be asked again.
func (t *teller) redraw(b *lease.Blocked, waited time.Duration, now time.Time) time.Duration {
	if shown := now.Sub(t.drawn); !t.drawn.IsZero() && shown >= 0 && shown < redrawn {
		return redrawn - shown
	}
	t.drawn = now
	// The last column stays free: in it some terminals wrap.
	line := liveLine(b, t.leasePath(b), t.nextStep(b), t.expect.expected(t.base, b, now).String(), waited, now, t.width(t.fd)-1)
	fmt.Fprintf(t.Stderr, "%s\r%s\x1b[K", t.progress(), line)
	return time.Second
}

// width is how many columns a terminal has.
func (s *Session) width(fd int) int {
	if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	if n, err := strconv.Atoi(s.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// wipe takes the line away, before the command's first byte, on every way out of
// the wait.
func (t *teller) wipe() {
	t.idle()
	if !t.drawn.IsZero() && !inBackground(t.fd) {
		fmt.Fprint(t.Stderr, "\r\x1b[K")
	}
	t.drawn = time.Time{}
}

// nextStep is what a blocked person can do.
func (t *teller) nextStep(b *lease.Blocked) string {
	switch {
	case b.Refused != nil && b.Supervisor != nil && len(t.Resources) > 1:
		return fmt.Sprintf("all of them at once: withlease grant %s %s; see: withlease queue %s",
			strings.Join(t.Resources, ","), show(lease.GrantWord(t.Party())), b.Resource)
	case b.Refused != nil:
		return "Ctrl-C gives up; see: withlease queue " + b.Resource
	}
	return "Ctrl-C gives up; see: withlease status " + b.Resource
}

// refused says why a run that doesn't wait, or not any longer, didn't run.
func (t *teller) refused(b *lease.Blocked) {
	t.wipe()
	now := t.Now()
	t.status.blocked(b)
	line := t.line(b, now)
	t.status.Expected = t.expect.expected(t.base, b, now)
	switch {
	case !b.Kept.IsZero():
		line += fmt.Sprintf("; your place is kept until %s", b.Kept.Local().Format("15:04:05"))
	case b.NotKept != nil:
		line += "; your place could not be kept: " + Explain(b.NotKept)
	case t.Wait > 0:
		line += fmt.Sprintf("; waited %s", ago(now.Sub(t.since)))
	}
	again := t.again(b)
	verb := "to wait for it"
	if !b.Kept.IsZero() {
		verb = "to come back"
	}
	if t.JSON {
		t.status.Next = again
		return
	}
	say(t.Stderr, "not run: %s; %s: %s", line, verb, showAt(again, 4000))
}
