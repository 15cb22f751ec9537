package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
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
	Renewed     string   `json:"renewed,omitempty"` // of a crash, which may be found late: the last sign of life, RFC 3339
	Target      string   `json:"target,omitempty"`  // of an upgrade hold
	Resources   []string `json:"resources,omitempty"`
	// Until is when a claim ends on its own.
	Until time.Time `json:"until,omitzero"`
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
	b.b = append(e.At.UTC().AppendFormat(append(b.b, '"'), logTime), '"')
	b.string("by", e.By)
	b.string("verb", e.Verb)
	b.name("detail")
	b.b = append(b.b, '{')
	b.detail(e.Detail)
	b.b = append(b.b, "}}\n"...)

	f, size, err := l.openEvents()
	if err != nil {
		return err
	}
	defer f.Close()
	text := b.b[1:]
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = b.b
		}
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if size > MaxEvents {
		return l.rotate()
	}
	return nil
}

// openEvents opens the log to append to it, and says its size. A log that has a
// name elsewhere is put aside first: what is written would land there.
func (l *Locked) openEvents() (*os.File, int64, error) {
	for range 3 {
		f, err := l.openOrCreate(l.Events(), unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK)
		if err != nil {
			return nil, 0, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			f.Close()
			return nil, 0, &fs.PathError{Op: "fstat", Path: l.Events(), Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			f.Close()
			return nil, 0, &fs.PathError{Op: "append", Path: l.Events(), Err: errors.New("not a regular file")}
		}
		if st.Nlink == 1 {
			return f, st.Size, nil
		}
		f.Close()
		if st.Nlink == 0 { // somebody deleted it just now
			continue
		}
		if err := l.rotate(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, &fs.PathError{Op: "append", Path: l.Events(), Err: errors.New("it is linked or deleted each time it is opened")}
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
	e.string("renewed", d.Renewed)
	e.string("target", d.Target)
	e.strings("resources", d.Resources)
	e.time("until", d.Until)
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
// no lock: lines are only ever appended, and the files are opened before the
// first is read, the newest first, so that one that is put aside meanwhile is
// neither missed nor seen twice.
func (s *Store) ReadEvents(since time.Time, each func(Event)) error {
	var files []*os.File
	var seen []fs.FileInfo
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for n := range OldEvents + 1 {
		f, st, err := openEvents(s.eventFile(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files = append(files, f)
		if slices.ContainsFunc(seen, func(o fs.FileInfo) bool { return os.SameFile(o, st) }) {
			files = files[:len(files)-1]
			f.Close()
			continue
		}
		seen = append(seen, st)
	}
	for _, f := range slices.Backward(files) {
		if err := readEvents(f, since, each); err != nil {
			return err
		}
	}
	return nil
}

func openEvents(path string) (*os.File, fs.FileInfo, error) {
	f, err := open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// readEvents looks at every line: clocks are set back, so none can be skipped
// for its place. One of ours that is too old is told by its text.
func readEvents(f *os.File, since time.Time, each func(Event)) error {
	const head = `{"at":"`
	old := since.UTC().Format(logTime)
	// A log is put aside at MaxEvents: what is much larger somebody made, and
	// the end of it will do.
	if st, err := f.Stat(); err == nil && st.Size() > 4*MaxEvents {
		if _, err := f.Seek(-4*MaxEvents, io.SeekEnd); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var long []byte
	for {
		text, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if len(long) < 1<<20 { // what is longer is nobody's event
				long = append(long, text...)
			}
			continue
		}
		if len(long) > 0 {
			text = append(long, text...)
			long = long[:0]
		}
		tooOld := !since.IsZero() && len(text) > len(head)+len(old) && string(text[:len(head)]) == head &&
			text[len(head)+len(old)-1] == 'Z' && text[len(head)+len(old)] == '"' && string(text[len(head):len(head)+len(old)]) < old
		if !tooOld {
			e, ok := quickEvent(string(text))
			if !ok {
				e, ok = parseEvent(text)
			}
			if ok && !e.At.Before(since) {
				each(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// logTime is how the log writes a time: always as long, and in the order of
// time as text.
const logTime = "2006-01-02T15:04:05.000Z07:00"

func parseEvent(text []byte) (Event, bool) {
	var l line
	if len(text) == 0 || json.Unmarshal(text, &l) != nil {
		return Event{}, false
	}
	at, err := time.Parse(time.RFC3339, l.At)
	if err != nil || l.Verb == "" {
		return Event{}, false
	}
	l.Detail.Until = Writable(l.Detail.Until)
	return Event{Writable(at), l.By, l.Verb, l.Detail}, true
}
