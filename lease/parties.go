package lease

import (
	"fmt"
	"path/filepath"
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
	if err != nil {
		if fd, err = c.writeNew(c.indexPath(res), nil); err != nil {
			return
		}
	}
	defer unix.Close(fd)
	text := indexLine(w.Number, w.Who())
	var st unix.Stat_t
	if len(ns) == 0 || unix.Fstat(fd, &st) == nil && st.Size > indexMost {
		old := c.parties(res)
		if unix.Ftruncate(fd, 0) != nil {
			return
		}
		for _, n := range ns {
			if who, ok := old[n]; ok {
				text = indexLine(n, who) + text
			}
		}
	}
	unix.Write(fd, []byte(text))
}

func indexLine(n int64, p state.Party) string {
	return fmt.Sprintf("%d %q %q %q %q %q\n", n, p.Session, p.HostSession, p.Name, p.Person, p.Host)
}

// parties reads the index. A line that isn't one is passed over.
func (b *Base) parties(res string) map[int64]state.Party {
	text, err := readFile(b.indexPath(res), unix.O_RDONLY, maxRecord)
	if err != nil {
		return nil
	}
	index := map[int64]state.Party{}
	for line := range strings.Lines(string(text)) {
		if n, who, ok := parseIndexLine(line); ok {
			index[n] = who
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
