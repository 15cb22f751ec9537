package lease

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// The index of a line says who has which number, a line each, so that whoever
// hands a resource on to a grant's party need not open every ticket. It only
// saves time: a number that it doesn't know is looked up in its ticket.

const indexMost = 64 << 10 // bytes; then the numbers that are gone are dropped

func (b *Base) indexPath(res string) string { return filepath.Join(b.queue(res), "index") }

// addParty notes who has a new place. ns are the places that are there.
func (c *change) addParty(res string, w Waiter, ns []int64) {
	fd, err := openFile(c.indexPath(res), unix.O_RDWR|unix.O_APPEND, 0)
	if err == nil && !alone(fd) { // what is written and cut off must not be elsewhere
		unix.Close(fd)
		unix.Unlink(c.indexPath(res))
		err = errNoFile
	}
	if err != nil {
		if fd, err = c.writeNew(c.indexPath(res), nil); err != nil {
			return
		}
	}
	defer unix.Close(fd)
	text := indexLine(w.Number, w.Who())
	var st unix.Stat_t
	if len(ns) == 0 || unix.Fstat(fd, &st) == nil && st.Size > indexMost {
		old := c.indexLines(res)
		if unix.Ftruncate(fd, 0) != nil {
			return
		}
		for _, n := range ns {
			text = old[n] + text
		}
	}
	unix.Write(fd, []byte(text))
}

func indexLine(n int64, p state.Party) string {
	return fmt.Sprintf("%d %q %q %q %q %q\n", n, p.Session, p.HostSession, p.Name, p.Person, p.Host)
}

// indexLines reads the index: the line of each number that it knows.
func (b *Base) indexLines(res string) map[int64]string {
	text, err := readFile(b.indexPath(res), unix.O_RDONLY, maxRecord)
	if err != nil {
		return nil
	}
	index := make(map[int64]string, bytes.Count(text, []byte("\n")))
	for line := range strings.Lines(string(text)) {
		number, _, _ := strings.Cut(line, " ")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && strings.HasSuffix(line, "\n") {
			index[n] = line
		}
	}
	return index
}

func parseIndexLine(line string) (n int64, p state.Party, ok bool) {
	number, rest, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !strings.HasSuffix(line, "\n") {
		return 0, p, false
	}
	for _, f := range []*string{&p.Session, &p.HostSession, &p.Name, &p.Person, &p.Host} {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return 0, p, false
		}
		if *f, err = strconv.Unquote(quoted); err != nil {
			return 0, p, false
		}
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return n, p, rest == "\n"
}

// lineup is a line with whose its places are, under one look.
type lineup struct {
	*change
	res     string
	numbers []int64
	index   map[int64]string      // most lines are never asked for: each is read when it is
	known   map[int64]state.Party // those that were: a grantee who doesn't wait is looked for in all of them
}

// lineOf reads a line and whose its places are.
func (c *change) lineOf(res string) *lineup {
	l := &lineup{change: c, res: res, known: map[int64]state.Party{}}
	if l.numbers, _ = c.Base.numbers(res); len(l.numbers) > 0 {
		l.index = c.indexLines(res)
	}
	return l
}

func (l *lineup) who(n int64) state.Party {
	who, ok := l.known[n]
	if ok {
		return who
	}
	if _, who, ok = parseIndexLine(l.index[n]); !ok {
		who = l.waiter(l.res, n).Who()
	}
	l.known[n] = who
	return who
}

// place is a live place of a party, open for its hang-up; ok is false when
// nobody of it waits.
func (l *lineup) place(p state.Party) (found place, ok bool) {
	for _, n := range l.numbers {
		if !l.who(n).Same(p) {
			continue
		}
		seen, there := l.seePlace(l.res, n, l.now)
		if there && seen.live {
			return seen, true
		}
	}
	return place{watch: -1}, false
}

// wakeParty pokes the places of a party, and says whether any was live.
func (l *lineup) wakeParty(p state.Party) (live bool) {
	for _, n := range l.numbers {
		if l.who(n).Same(p) && l.wakePlace(l.res, n, l.now) {
			live = true
		}
	}
	return live
}

// exempt says whether a party needs no grant where grants decide. While an
// upgrade holds the resource everybody does.
func exempt(st *state.State, who state.Party, hold bool) bool {
	return !hold && (who.IsPerson() || st.Supervisor.Same(who))
}

// granteeAhead says what somebody watches where grants decide: the holder, when
// it needs no grant or only one grantee that waits comes before it; else the
// place of the grantee just before it that waits. granted is false when it has
// no grant.
func (c *change) granteeAhead(st *state.State, who state.Party, s *sight, hold bool) (p place, granted, holder bool) {
	p.watch = -1
	if exempt(st, who, hold) {
		return p, false, true
	}
	pending := c.pending(st, s.res, s.held(), hold)
	mine := slices.IndexFunc(pending, func(g *state.Grant) bool { return g.To.Same(who) })
	if mine < 0 {
		return p, false, false
	}
	l := c.lineOf(s.res)
	live := 0
	for i := 0; i < mine && live < 2; i++ {
		if first, ok := l.place(pending[i].To); ok {
			live++
			if first.watch >= 0 {
				unix.Close(first.watch)
			}
		}
	}
	if live < 2 {
		return p, true, true
	}
	for i := mine - 1; i >= 0; i-- {
		if before, ok := l.place(pending[i].To); ok {
			return before, true, false
		}
	}
	return p, true, true
}
