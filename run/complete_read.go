package run

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// What completion reads, and how its answers are made fit to be shown.

// path is where the lease of a resource lies, queue where its line does.
func (c *completer) path(res string) string  { return string(c.base.Leases) + "/" + res }
func (c *completer) queue(res string) string { return c.path(".queue/" + res) }

// document reads the state document without its lock: it is replaced by a
// rename, so what is read is whole. One that can't be read says nothing.
func (c *completer) document() {
	text := readSmall(c.base.Store.Path(), mostDocument)
	if text == nil {
		return
	}
	st, err := state.Parse(text)
	if err != nil {
		return
	}
	c.st, c.grants = st, map[string][]state.Grant{}
	for _, g := range st.Grants {
		c.grants[g.Resource] = append(c.grants[g.Resource], g)
	}
}

// names are the resources that a directory has entries for; of too many the
// first by their names.
func (c *completer) names(dir, prefix string) []string {
	names := slices.DeleteFunc(entries(dir), func(n string) bool {
		return !strings.HasPrefix(n, prefix) || lease.CheckName(n) != nil
	})
	if len(names) > 2*mostNames {
		slices.Sort(names)
		names = names[:2*mostNames]
	}
	return names
}

// places are the numbers of the tickets in a resource's line.
func (c *completer) places(res string) []int {
	if c.lines--; c.lines < 0 || lease.CheckName(res) != nil {
		return nil
	}
	var ns []int
	for _, name := range entries(c.queue(res)) {
		if n, err := strconv.Atoi(name); err == nil && n > 0 {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns
}

// line are the tickets in a resource's line.
func (c *completer) line(res string) []lease.Waiter {
	var line []lease.Waiter
	for _, n := range c.places(res) {
		var w lease.Waiter
		if c.read(c.queue(res)+"/"+strconv.Itoa(n)+".json", &w) {
			line = append(line, w)
		}
	}
	return line
}

// read decodes a record or a ticket.
func (c *completer) read(path string, v any) bool {
	if c.records--; c.records < 0 {
		return false
	}
	text := readSmall(path, mostRecord)
	return text != nil && json.Unmarshal(text, v) == nil
}

// entries are the names in a directory. By plain system calls: there may be
// hundreds of directories, and os.File costs each of them a third more.
func entries(dir string) (names []string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return names
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// readSmall reads a regular file of at most that many bytes; nil when it can't.
// It follows no link and waits for no FIFO.
func readSmall(path string, most int) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > int64(most) {
		return nil
	}
	text := make([]byte, st.Size+1)
	n := 0
	for n < len(text) {
		m, err := unix.Read(fd, text[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil
		}
		if m == 0 {
			break
		}
		n += m
	}
	return text[:n]
}

// plain is a text without anything but text: control characters, invalid UTF-8
// and what turns the direction of text round become spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || bidi(r) {
			return ' '
		}
		return r
	}, s)
}

// cut is a description of at most that many characters, without the colon of a
// purpose that isn't there.
func cut(s string, most int) string {
	s = strings.TrimRight(s, " :")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:most-1]), " ") + "…"
}
