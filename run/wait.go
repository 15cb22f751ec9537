package run

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// teller tells a person about a wait: on a terminal one line that is redrawn in
// place, elsewhere a line at once, then after 10 s, 30 s, and each minute, and
// one at each change. Nothing of it stays when the command begins.
type teller struct {
	*run
	live   bool // redraw in place
	drawn  bool
	told   string // what the last line said, without the times
	lines  int
	since  time.Time
	nextAt time.Duration // after since: the next line without a change
	expect expecter
}

func newTeller(r *run) *teller {
	f, ok := r.Stderr.(*os.File)
	return &teller{
		run:   r,
		live:  ok && isTerminal(int(f.Fd())) && r.Getenv("TERM") != "dumb" && r.Getenv("CI") == "",
		since: r.Now(),
	}
}

// blocked shows why it is still blocked, and says when to be asked again.
func (t *teller) blocked(b *lease.Blocked) time.Duration {
	if t.Quiet {
		return 0
	}
	now := t.Now()
	waited := now.Sub(t.since)
	if t.live {
		t.redraw(fmt.Sprintf("withlease: waiting %s for %s: %s", ago(waited), b.Resource, t.line(b, now)))
		return time.Second
	}
	if key := changeKey(b); key != t.told || waited >= t.nextAt {
		t.told = key
		say(t.Stderr, "waiting for %s: %s; %s", b.Resource, t.line(b, now), t.nextStep(b))
		t.lines++
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
// said with the next line that is due: in a long queue it moves all the time.
func changeKey(b *lease.Blocked) string {
	key := fmt.Sprint(b.Sight.Held, b.Sight.Kind, b.Sight.Holder, b.Gone, b.RestartUntil, b.Sight.Problem)
	if b.Refused != nil {
		key += b.Refused.Ahead + fmt.Sprint(b.Refused.Position)
	}
	return key
}

func (t *teller) leasePath(b *lease.Blocked) string {
	return string(t.base.Leases) + "/" + b.Resource
}

// redraw draws the line at most as wide as the terminal: a wrapped line can't
// be redrawn.
func (t *teller) redraw(line string) {
	width := 80
	if ws, err := unix.IoctlGetWinsize(int(t.Stderr.(*os.File).Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		width = int(ws.Col)
	}
	if runes := []rune(line); len(runes) >= width {
		line = string(runes[:max(width-2, 0)]) + "…"
	}
	t.drawn = true
	fmt.Fprintf(t.Stderr, "\r%s\x1b[K", line)
}

// wipe takes the line away, before the command's first byte. Elsewhere it says
// that the wait is over.
func (t *teller) wipe() {
	if t.drawn {
		fmt.Fprint(t.Stderr, "\r\x1b[K")
		t.drawn = false
	}
}

// nextStep is what a blocked person can do.
func (t *teller) nextStep(b *lease.Blocked) string {
	if b.Refused != nil {
		return fmt.Sprintf("Ctrl-C gives up; see: withlease queue %s", b.Resource)
	}
	return fmt.Sprintf("Ctrl-C gives up; see: withlease status %s", b.Resource)
}

// refused says why a run that doesn't wait, or not any longer, didn't run.
func (t *teller) refused(b *lease.Blocked) {
	t.wipe()
	now := t.Now()
	t.status.blocked(b)
	line := t.line(b, now)
	t.status.Expected = t.expect.expected(t.base, b, now)
	again := "withlease "
	switch {
	case !b.Kept.IsZero():
		again += fmt.Sprintf("--ticket %s --wait %s ", b.ID, waitText(t.Wait))
		line += fmt.Sprintf("; your place is kept until %s", b.Kept.Local().Format("15:04:05"))
	case t.Wait > 0:
		line += fmt.Sprintf("; waited %s", ago(now.Sub(t.since)))
	}
	again += strings.Join(t.Resources, " ") + " -- " + exactly(t.Argv)
	verb := "to wait for it"
	if !b.Kept.IsZero() {
		verb = "to come back"
	}
	if t.JSON {
		t.status.Next = again
		return
	}
	say(t.Stderr, "not run: %s; %s: %s", line, verb, again)
}

func waitText(d time.Duration) string {
	if d == 0 {
		d = 90 * time.Second
	}
	return d.String()
}
