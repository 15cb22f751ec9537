package state

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// MaxEvents is the size in bytes at which the event log is put aside; OldEvents
// is how many are kept then.
const (
	MaxEvents = 8 << 20
	OldEvents = 2
)

// Event is one line of the event log.
type Event struct {
	At     time.Time
	By     string // who did it, as people are shown
	Verb   string
	Detail Detail
}

// Detail is what an event is about. Zero fields are left out.
type Detail struct {
	Resource    string   `json:"resource,omitempty"`
	Session     string   `json:"session,omitempty"`
	To          string   `json:"to,omitempty"` // whom a grant or a message is for; whose lease was forced
	Purpose     string   `json:"purpose,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Token       string   `json:"token,omitempty"`
	Fence       int64    `json:"fence,omitempty"`
	Outcome     string   `json:"outcome,omitempty"` // how a run ended: "exit 0", "signal 15"
	WaitSeconds float64  `json:"waitSeconds,omitempty"`
	HeldSeconds float64  `json:"heldSeconds,omitempty"`
	Target      string   `json:"target,omitempty"` // of an upgrade hold
	Resources   []string `json:"resources,omitempty"`
}

// line is an event as the log has it.
type line struct {
	At     string `json:"at"`
	By     string `json:"by"`
	Verb   string `json:"verb"`
	Detail Detail `json:"detail"`
}

// Log appends an event. It must be called under the exclusive lock, so lines
// never mix; a line that a crash or a full disk cut short is ended first, so
// that it damages only itself.
func (l *Locked) Log(e Event) error {
	b := &encoder{b: append(make([]byte, 0, 512), '\n', '{')}
	b.name("at")
	b.b = append(e.At.UTC().AppendFormat(append(b.b, '"'), "2006-01-02T15:04:05.000Z07:00"), '"')
	b.string("by", e.By)
	b.string("verb", e.Verb)
	b.name("detail")
	b.b = append(b.b, '{')
	b.detail(e.Detail)
	b.b = append(b.b, "}}\n"...)

	f, err := open(l.Events(), unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = l.create(l.Events(), unix.O_RDWR|unix.O_APPEND)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: l.Events(), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fs.PathError{Op: "append", Path: l.Events(), Err: errors.New("not a regular file")}
	}
	text := b.b[1:]
	if st.Size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], st.Size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = b.b
		}
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if st.Size > MaxEvents {
		return l.rotate()
	}
	return nil
}

// detail writes what encoding/json would: every run logs twice, and reflection
// costs a short run more than the write.
func (e *encoder) detail(d Detail) {
	e.string("resource", d.Resource)
	e.string("session", d.Session)
	e.string("to", d.To)
	e.string("purpose", d.Purpose)
	e.string("reason", d.Reason)
	e.string("token", d.Token)
	e.int("fence", int(d.Fence))
	e.string("outcome", d.Outcome)
	e.seconds("waitSeconds", d.WaitSeconds)
	e.seconds("heldSeconds", d.HeldSeconds)
	e.string("target", d.Target)
	e.strings("resources", d.Resources)
}

func (e *encoder) seconds(key string, v float64) {
	if v != 0 {
		e.name(key)
		e.b = strconv.AppendFloat(e.b, v, 'f', 3, 64)
	}
}

func (l *Locked) rotate() error {
	for n := OldEvents; n > 0; n-- {
		if err := os.Rename(l.eventFile(n-1), l.eventFile(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// eventFile is the log's n-th file, 0 the one that is written.
func (s *Store) eventFile(n int) string {
	if n == 0 {
		return s.Events()
	}
	return s.Events() + "." + string(rune('0'+n))
}

// ReadEvents calls each with every event since a time, oldest first. A line
// that isn't an event (torn by a crash, or somebody's) is passed over. It takes
// no lock: lines are only ever appended.
func (s *Store) ReadEvents(since time.Time, each func(Event)) error {
	for n := OldEvents; n >= 0; n-- {
		if err := s.readEvents(s.eventFile(n), since, each); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *Store) readEvents(path string, since time.Time, each func(Event)) error {
	f, err := open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return err
	} else if !st.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	} else if !since.IsZero() {
		if err := seekSince(f, st.Size(), since); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		text, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull { // no event is that long
			for err == bufio.ErrBufferFull {
				_, err = r.ReadSlice('\n')
			}
			continue
		}
		if e, ok := parseEvent(text); ok && !e.At.Before(since) {
			each(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func parseEvent(text []byte) (Event, bool) {
	var l line
	if len(text) == 0 || json.Unmarshal(text, &l) != nil {
		return Event{}, false
	}
	at, err := time.Parse(time.RFC3339, l.At)
	if err != nil || l.Verb == "" {
		return Event{}, false
	}
	return Event{at, l.By, l.Verb, l.Detail}, true
}

// seekSince moves f to a line at or before the first event since a time, by
// halving: the log is in the order of time, give or take a clock that was set.
func seekSince(f *os.File, size int64, since time.Time) error {
	const step = 64 << 10
	lo, hi := int64(0), size // the line that begins at or before lo is too old
	buf := make([]byte, 2*step)
	for hi-lo > step {
		mid := lo + (hi-lo)/2
		n, err := f.ReadAt(buf, mid)
		if err != nil && err != io.EOF {
			return err
		}
		if old, known := firstEvent(buf[:n]); known && old.Before(since) {
			lo = mid
		} else {
			hi = mid
		}
	}
	// A clock set back by less than this is seen through.
	lo = max(0, lo-step)
	_, err := f.Seek(lo, io.SeekStart)
	return err
}

// firstEvent is the time of the first whole line in b.
func firstEvent(b []byte) (time.Time, bool) {
	for {
		_, rest, ok := bytes.Cut(b, []byte("\n"))
		if !ok {
			return time.Time{}, false
		}
		text, _, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			return time.Time{}, false
		}
		if e, ok := parseEvent(text); ok {
			return e.At, true
		}
		b = rest
	}
}
