package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// A ticket is a place in a resource's line: a FIFO named by its number, flocked
// by the waiter for as long as it lives, and its mailbox; beside it <n>.json
// says who waits, for what, since when.
//
// Who claims unlinks its ticket and keeps it open until the release is done,
// so that the next in line, which watches it, is not woken by the claim but by
// the release: one waiter is woken per hand-over.

// Waiter is what <n>.json says of a place in line.
type Waiter struct {
	ID        string    `json:"id"` // takes a kept place again
	Number    int64     `json:"number"`
	Party     party     `json:"party"`
	Holder    string    `json:"holder"` // user@host
	Purpose   string    `json:"purpose"`
	Since     time.Time `json:"since"`
	PID       int       `json:"pid"`
	Start     uint64    `json:"start,omitempty"`
	Resources []string  `json:"resources"`
	BudgetGiB int       `json:"budgetGiB,omitempty"`
	// Kept is how long the place is kept without a waiter.
	Kept time.Time `json:"kept,omitzero"`
}

// party is a state.Party as a ticket writes it.
type party struct {
	Session     string `json:"session,omitempty"`
	HostSession string `json:"hostSession,omitempty"`
	Name        string `json:"name,omitempty"`
	Person      string `json:"person,omitempty"`
	Team        string `json:"team,omitempty"`
	Host        string `json:"host,omitempty"`
}

func partyOf(p state.Party) party {
	return party{p.Session, p.HostSession, p.Name, p.Person, p.Team, p.Host}
}

func (p party) state() state.Party {
	return state.Party{Session: p.Session, HostSession: p.HostSession, Name: p.Name, Person: p.Person, Team: p.Team, Host: p.Host}
}

// Who is the waiting party.
func (w Waiter) Who() state.Party { return w.Party.state() }

// maxNumber bounds the numbers: a file with a larger one for a name is no
// ticket, and must not use the numbers up. No count reaches maxLast, so a number
// from there on was planted: the next one is not counted from it, or it would be
// beyond maxNumber, and its place in nobody's line.
const (
	maxNumber = 1 << 60
	maxLast   = 1 << 59
)

// ticket is a place that this process has.
type ticket struct {
	base *Base
	res  string
	n    int64
	fd   int // the FIFO, locked
	// earlier are the places before this one when it was taken, those that are
	// known to be gone left out: nobody comes in between.
	earlier []int64
}

func (b *Base) ticketPath(res string, n int64) string {
	return filepath.Join(b.queue(res), strconv.FormatInt(n, 10))
}

// numbers are the tickets of res, in order, alive or not. The error is an
// *fs.PathError.
func (b *Base) numbers(res string) ([]int64, error) {
	_, ns, err := b.entries(res)
	return ns, err
}

// entries are the names in the directory of a line, and the numbers among them,
// in order.
func (b *Base) entries(res string) (names []string, ns []int64, err error) {
	if err := b.noLink(filepath.Dir(b.queue(res))); err != nil {
		return nil, nil, err
	}
	names, err = readNames(b.queue(res))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && n > 0 && n <= maxNumber && name == strconv.FormatInt(n, 10) {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return names, ns, nil
}

// noLink refuses a link in the place of the directory of all lines: what is dead
// in a line is deleted, and must not be elsewhere.
func (b *Base) noLink(dir string) error {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &fs.PathError{Op: "open", Path: dir, Err: unix.ENOTDIR}
	}
	return nil
}

// line is numbers under the lock, where nobody is making a ticket: what a killed
// process left half-made goes.
func (c *change) line(res string) ([]int64, error) {
	names, ns, err := c.entries(res)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if halfMade(name, ns) {
			unix.Unlink(filepath.Join(c.queue(res), name))
		}
	}
	return ns, nil
}

// next is the next number of res: tickets and fences count with it, so that it
// grows with every claim. It is max(the last number, the highest ticket) + 1
// (R10); a claim, which gives nobody a place, needs the directory only when
// the last number is lost. It is written in place, in one write of one block,
// which a kill can't tear; where it is damaged all the same it goes on from the
// clock, far above any count, and what is too much is cut off after that.
func (c *change) next(res string, place bool) (n int64, ns []int64, err error) {
	if err := c.makeQueue(res); err != nil {
		return 0, nil, err
	}
	path := filepath.Join(c.queue(res), "last")
	fd, err := openFile(path, unix.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		fd, err = c.writeNew(path, nil)
	}
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(fd)
	var buf [64]byte
	length, err := retry(func() (int, error) { return unix.Pread(fd, buf[:], 0) })
	if err != nil && err != unix.ESPIPE { // a FIFO
		return 0, nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	last := int64(0)
	if length > 0 || err != nil {
		last, err = strconv.ParseInt(strings.TrimSpace(string(buf[:max(length, 0)])), 10, 64)
		if err != nil || last < 0 || last >= maxLast {
			last = c.now.UnixMilli()
			place = true
		}
	}
	if place || length == 0 {
		if ns, err = c.line(res); err != nil {
			return 0, nil, err
		}
		for len(ns) > 0 && ns[len(ns)-1] >= maxLast {
			ns = ns[:len(ns)-1]
		}
		if len(ns) > 0 {
			last = max(last, ns[len(ns)-1])
		}
	}
	last++
	if !alone(fd) {
		unix.Unlink(path)
		own, err := c.writeNew(path, fmt.Appendf(nil, "%020d\n", last))
		if err != nil {
			return 0, nil, err
		}
		unix.Close(own)
		return last, ns, nil
	}
	text := fmt.Appendf(nil, "%020d\n", last)
	_, err = retry(func() (int, error) { return unix.Pwrite(fd, text, 0) })
	if err == nil && length > len(text) {
		err = unix.Ftruncate(fd, int64(len(text)))
	}
	if err != nil {
		return 0, nil, &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return last, ns, nil
}

func (c *change) makeQueue(res string) error {
	for _, dir := range [...]string{filepath.Dir(c.queue(res)), c.queue(res)} {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == unix.ENOENT {
			if err := c.mkdir(dir); err != nil {
				return err
			}
		} else if st.Mode&unix.S_IFMT != unix.S_IFDIR { // a link would lead elsewhere
			return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		}
	}
	return nil
}

// join takes a new place at the end of the line of res [join].
func (c *change) join(res string, w Waiter) (*ticket, error) {
	n, ns, err := c.next(res, true)
	if err != nil {
		return nil, err
	}
	w.Number = n
	step("join.2")
	if err := c.writeWaiter(res, w); err != nil {
		return nil, err
	}
	c.addParty(res, w, ns)
	step("join.2 written")
	t, err := c.occupy(res, n)
	if err != nil {
		unix.Unlink(c.ticketPath(res, n) + ".json")
		return nil, err
	}
	t.earlier = ns
	return t, nil
}

// occupy makes the FIFO of a place under a dot name, locks it, and only then
// gives it its name: a look without the lock can't take it for dead.
func (c *change) occupy(res string, n int64) (*ticket, error) {
	path := c.ticketPath(res, n)
	hidden := filepath.Join(c.queue(res), "."+strconv.FormatInt(n, 10))
	unix.Unlink(hidden)
	fd, err := c.lockFIFO(hidden)
	if err == nil {
		step("join.2 locked")
		if err = unix.Rename(hidden, path); err != nil {
			unix.Close(fd)
			err = &fs.PathError{Op: "rename", Path: path, Err: err}
		}
	}
	if err != nil {
		unix.Unlink(hidden)
		return nil, err
	}
	return &ticket{base: c.Base, res: res, n: n, fd: fd}, nil
}

func (c *change) writeWaiter(res string, w Waiter) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	path := c.ticketPath(res, w.Number) + ".json"
	tmp := filepath.Join(c.queue(res), ".new.json")
	unix.Unlink(tmp) // a killed process's: there is one writer at a time
	fd, err := c.writeNew(tmp, append(b, '\n'))
	if err != nil {
		unix.Unlink(tmp)
		return err
	}
	unix.Close(fd)
	if err := unix.Rename(tmp, path); err != nil {
		return &fs.PathError{Op: "rename", Path: path, Err: err}
	}
	return nil
}

// waiter reads what is known of a place; the zero value with the number when
// that is unreadable.
func (b *Base) waiter(res string, n int64) Waiter {
	w := Waiter{}
	text, err := readFile(b.ticketPath(res, n)+".json", unix.O_RDONLY, maxRecord)
	if err != nil || json.Unmarshal(text, &w) != nil {
		w = Waiter{}
	}
	w.Number, w.Since, w.Kept = n, state.Writable(w.Since), state.Writable(w.Kept)
	return w
}

// remove takes a dead place out of the line.
func (b *Base) remove(res string, n int64) {
	path := b.ticketPath(res, n)
	unix.Unlink(path)
	unix.Unlink(path + ".json")
}

// place is one place of a line as a look sees it.
type place struct {
	n     int64
	watch int // the FIFO of a live one, -1 otherwise
	live  bool
	gone  bool      // there is no such ticket any more
	kept  time.Time // the deadline of a kept place
}

// seePlace says what a ticket is; ok is false when it is dead or lapsed.
func (b *Base) seePlace(res string, n int64, now time.Time) (p place, ok bool) {
	p = place{n: n, watch: -1}
	fd, alive, fifo, err := probe(b.ticketPath(res, n))
	if err != nil {
		// Not there any more, no ticket, or not readable for us: when in doubt
		// it lives.
		p.gone = errors.Is(err, fs.ErrNotExist)
		return p, !p.gone && !errors.Is(err, errNotOurs) && !errors.Is(err, unix.ELOOP)
	}
	if alive {
		p.live = true
		if fifo {
			p.watch = fd
		} else {
			unix.Close(fd)
		}
		return p, true
	}
	unix.Close(fd)
	if w := b.waiter(res, n); w.Kept.After(now) {
		p.kept = w.Kept
		return p, true
	}
	return p, false
}

// ahead is the nearest place before ours that still counts, and how many
// places are before ours. Dead ones that it meets are taken out of the line
// [line]. What it returns is open for its hang-up; no place of our own means the
// whole line.
func (c *change) ahead(res string, mine *ticket) (p place, found bool, count int, err error) {
	var ns []int64
	if mine != nil {
		ns = mine.earlier
	} else if ns, err = c.line(res); err != nil {
		return p, false, 0, err
	}
	for len(ns) > 0 {
		last := len(ns) - 1
		if p, found = c.seePlace(res, ns[last], c.now); found {
			break
		}
		if !p.gone {
			c.remove(res, ns[last])
		}
		ns = ns[:last]
		if p.gone && last >= nearby { // as a rule all have gone: one look at the directory says so
			if ns, err = c.left(res, ns); err != nil {
				return p, false, 0, err
			}
		}
	}
	if mine != nil {
		mine.earlier = ns
	}
	if !found {
		p = place{watch: -1}
	}
	return p, found, len(ns), nil
}

// left are those of some tickets of res that are there.
func (c *change) left(res string, some []int64) ([]int64, error) {
	there, err := c.numbers(res)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(some, func(n int64) bool {
		_, found := slices.BinarySearch(there, n)
		return !found
	}), nil
}

// unlink takes the ticket's name away. The FIFO stays open.
func (t *ticket) unlink() { t.base.remove(t.res, t.n) }

// close ends the ticket: who watches it learns it now.
func (t *ticket) close() {
	if t.fd >= 0 {
		unix.Close(t.fd)
		t.fd = -1
	}
}

// drain empties the mailbox.
func (t *ticket) drain() {
	var buf [64]byte
	for {
		n, err := unix.Read(t.fd, buf[:])
		if n <= 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// wakeAll pokes every place of a line.
func (b *Base) wakeAll(res string) {
	ns, _ := b.numbers(res)
	for _, n := range ns {
		poke(b.ticketPath(res, n), 'w')
	}
}

// wakeFirst pokes the first live place of a line. after is a number that no
// place is before, 0 when none is known: the first is near it as a rule, and
// found without reading a long line.
func (b *Base) wakeFirst(res string, after int64, now time.Time) {
	if after > 0 {
		for n := after + 1; n <= after+nearby; n++ {
			if b.wakePlace(res, n, now) {
				return
			}
		}
	}
	ns, _ := b.numbers(res)
	for _, n := range ns {
		if b.wakePlace(res, n, now) {
			return
		}
	}
}

// nearby is how many numbers are tried before the line is read: as a rule there
// is the next in line, or no line at all. ahead looks at as many of its own.
const nearby = 2

func (b *Base) wakePlace(res string, n int64, now time.Time) bool {
	p, ok := b.seePlace(res, n, now)
	if p.watch >= 0 {
		unix.Close(p.watch)
	}
	if ok && p.live {
		poke(b.ticketPath(res, n), 'w')
	}
	return ok && p.live
}

// wake tells whom it concerns that res is about to be free, or that whose turn
// it is has changed [wake]. Without a supervisor that is the first in line;
// with one it is the first two grantees that wait, and the parties that need no
// grant [wake.places]. It comes before the change: who is woken waits on the
// lock for microseconds, and a crash in between loses nothing.
//
// st is the document as it will be, nil when it can't be read: then all are
// woken.
func (c *change) wake(st *state.State, res string, held bool) { c.wakeAfter(st, res, held, 0) }

func (c *change) wakeAfter(st *state.State, res string, held bool, after int64) {
	if st == nil {
		c.wakeAll(res)
		return
	}
	hold := st.Upgrade(res, c.now) != nil
	if st.Supervisor == nil && !hold {
		c.wakeFirst(res, after, c.now)
		return
	}
	l := c.lineOf(res)
	for _, n := range l.numbers {
		if exempt(st, l.who(n), hold) {
			poke(c.ticketPath(res, n), 'w')
		}
	}
	live := 0
	for _, g := range c.pending(st, res, held, hold) {
		if live == 2 {
			return
		}
		if l.wakeParty(g.To) {
			live++
		}
	}
}

// pending are the grants of res that decide.
func (c *change) pending(st *state.State, res string, held, hold bool) []*state.Grant {
	var pending []*state.Grant
	for _, g := range deciding(st, res, held, hold, c.now, GrantTTL) {
		pending = append(pending, g)
	}
	return pending
}

// Line is the line of res as a reader sees it: the live and the kept places in
// order, and the waiters' numbers. The error is a *NameError or an
// *fs.PathError.
func (b *Base) Line(res string) ([]Waiter, error) {
	if err := CheckName(res); err != nil {
		return nil, err
	}
	ns, err := b.numbers(res)
	if err != nil {
		return nil, err
	}
	var line []Waiter
	now := time.Now()
	for _, n := range ns {
		p, ok := b.seePlace(res, n, now)
		if p.watch >= 0 {
			unix.Close(p.watch)
		}
		if !ok {
			continue
		}
		w := b.waiter(res, n)
		if p.live {
			w.Kept = time.Time{}
		}
		line = append(line, w)
	}
	return line, nil
}

// Lines are the resources that have a line. The error is an *fs.PathError.
func (b *Base) Lines() ([]string, error) {
	queue := filepath.Join(string(b.Leases), ".queue")
	names, err := readNames(queue)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		var st unix.Stat_t
		return CheckName(n) != nil || unix.Lstat(filepath.Join(queue, n), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR
	})
	slices.Sort(names)
	return names, err
}
