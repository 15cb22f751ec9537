package state

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// RecentEvents calls each with the events since a time, newest first, until it
// returns false. Of the log it reads the last bytes, and of those only the lines
// that hold a text: it is for a reader that may not cost more than a few
// milliseconds, however long the log is. Like ReadEvents it takes no lock and
// passes over what is no event.
func (s *Store) RecentEvents(since time.Time, most int64, text string, each func(Event) bool) error {
	want := []byte(text)
	for n := 0; n <= OldEvents && most > 0; n++ {
		read, more, err := recentEvents(s.eventFile(n), most, func(line []byte) bool {
			if !bytes.Contains(line, want) {
				return true
			}
			e, ok := quickEvent(string(line))
			if !ok {
				e, ok = parseEvent(line)
			}
			return !ok || e.At.Before(since) || each(e)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !more {
			return err
		}
		most -= read
	}
	return nil
}

// recentEvents calls each with the lines at the end of a regular file, the last
// one first, until it returns false, and says how many bytes it read.
func recentEvents(path string, most int64, each func(line []byte) bool) (read int64, more bool, err error) {
	f, st, err := openEvents(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	const piece = 64 << 10 // a longer line is passed over
	buf := make([]byte, 2*piece)
	begun := 0 // bytes at the front of buf of a line whose beginning lies before them
	for at := st.Size(); at > 0 && read < most; {
		n := min(piece, at, most-read)
		at, read = at-n, read+n
		text := buf[:int(n)+begun]
		copy(text[n:], text[:begun])
		if _, err := f.ReadAt(text[:n], at); err != nil {
			return read, false, err // it was cut off meanwhile
		}
		for {
			i := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
			if i == 0 && at > 0 {
				break
			}
			if len(text) > 0 && !each(text[i:]) {
				return read, false, nil
			}
			if i == 0 {
				break
			}
			text = text[:i]
		}
		if begun = len(text); begun > piece {
			begun = 0
		}
	}
	return read, true, nil
}

// quickEvent reads a line as Log writes it, in ASCII and with nothing escaped:
// nearly every line, at a tenth of encoding/json's price. It knows the order of
// the members; a line that it doesn't know it leaves to encoding/json.
func quickEvent(text string) (e Event, ok bool) {
	text = strings.TrimSuffix(text, "\n")
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '\\' {
			return e, false
		}
	}
	r := eventReader{text: text}
	r.skip("{")
	at := r.string("at")
	e.By, e.Verb = r.string("by"), r.string("verb")
	r.skip(`"detail":{`)
	d := &e.Detail
	d.Resource, d.Session, d.To = r.string("resource"), r.string("session"), r.string("to")
	d.Purpose, d.Reason, d.Token = r.string("purpose"), r.string("reason"), r.string("token")
	if r.member("fence") {
		d.Fence = number(&r, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	}
	d.Outcome = r.string("outcome")
	d.WaitSeconds, d.HeldSeconds = r.seconds("waitSeconds"), r.seconds("heldSeconds")
	d.Renewed, d.Target = r.string("renewed"), r.string("target")
	r.skip("}}")
	if r.failed || r.text != "" || e.Verb == "" {
		return Event{}, false
	}
	when, err := time.Parse(time.RFC3339, at)
	e.At = Writable(when)
	return e, err == nil
}

// eventReader cuts members off the front of a text.
type eventReader struct {
	text   string
	failed bool
}

func (r *eventReader) skip(prefix string) {
	text, ok := strings.CutPrefix(r.text, prefix)
	r.text, r.failed = text, r.failed || !ok
}

// member cuts the name of a member off, where it comes next.
func (r *eventReader) member(key string) bool {
	n := len(key)
	if len(r.text) < n+3 || r.text[0] != '"' || r.text[1:n+1] != key || r.text[n+1:n+3] != `":` {
		return false
	}
	r.text = r.text[n+3:]
	return true
}

// end cuts off the comma behind a value.
func (r *eventReader) end() {
	if rest, ok := strings.CutPrefix(r.text, ","); ok && strings.HasPrefix(rest, `"`) {
		r.text = rest
	} else if !strings.HasPrefix(r.text, "}") {
		r.failed = true
	}
}

func (r *eventReader) string(key string) string {
	if !r.member(key) {
		return ""
	}
	r.skip(`"`)
	v, rest, ok := strings.Cut(r.text, `"`)
	r.text, r.failed = rest, r.failed || !ok
	r.end()
	return v
}

func (r *eventReader) seconds(key string) float64 {
	if !r.member(key) {
		return 0
	}
	return number(r, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func number[T any](r *eventReader, parse func(string) (T, error)) T {
	n := 0
	for n < len(r.text) && (r.text[n] >= '0' && r.text[n] <= '9' || r.text[n] == '.' || r.text[n] == '-') {
		n++
	}
	v, err := parse(r.text[:n])
	r.text, r.failed = r.text[n:], r.failed || err != nil
	r.end()
	return v
}
