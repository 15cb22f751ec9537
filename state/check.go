package state

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"time"
)

// LogReport is how the event log is.
type LogReport struct {
	Files   int
	Size    int64 // bytes, of all its files
	Events  int
	Damaged int // lines that are no event
	Last    time.Time
}

// CheckEvents reads the whole log. Like ReadEvents it takes no lock. The error
// is an *fs.PathError.
func (s *Store) CheckEvents() (r LogReport, err error) {
	for n := range OldEvents + 1 {
		f, st, err := openEvents(s.eventFile(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return r, err
		}
		r.Files, r.Size = r.Files+1, r.Size+st.Size()
		err = r.check(f)
		f.Close()
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *LogReport) check(f io.Reader) error {
	in := bufio.NewReaderSize(f, 1<<20) // what is longer is nobody's event
	for {
		text, err := in.ReadSlice('\n')
		for err == bufio.ErrBufferFull {
			text = nil
			_, err = in.ReadSlice('\n')
		}
		switch e, ok := quickEvent(string(text)); {
		case len(bytes.TrimSpace(text)) == 0 && err == io.EOF:
		case ok:
			r.seen(e)
		default:
			if e, ok = parseEvent(text); ok {
				r.seen(e)
			} else {
				r.Damaged++
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

func (r *LogReport) seen(e Event) {
	r.Events++
	if e.At.After(r.Last) {
		r.Last = e.At
	}
}
