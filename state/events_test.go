package state_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"withlease/state"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// events are a store's events since a time.
func events(t *testing.T, s *state.Store, since time.Time) []state.Event {
	t.Helper()
	var es []state.Event
	must(t, s.ReadEvents(since, func(e state.Event) { es = append(es, e) }))
	return es
}

// logFile is the log's n-th file.
func logFile(s *state.Store, n int) string {
	if n == 0 {
		return s.Events()
	}
	return fmt.Sprintf("%s.%d", s.Events(), n)
}

// logged is what is read back of an event: milliseconds, and no text that isn't
// UTF-8.
func logged(e state.Event) state.Event {
	e.At = e.At.UTC().Truncate(time.Millisecond)
	d := &e.Detail
	for _, f := range []*string{&e.By, &e.Verb, &d.Resource, &d.Session, &d.To, &d.Purpose, &d.Reason, &d.Token, &d.Outcome, &d.Renewed, &d.Target} {
		*f = toUTF8(*f)
	}
	d.Resources = slices.Clone(d.Resources)
	for i := range d.Resources {
		d.Resources[i] = toUTF8(d.Resources[i])
	}
	return e
}

func toUTF8(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

const hostile = "a\x00b\x1b[2J\x1b]0;t\x07\r\n\t\x7f\u0080\u009b31m\u2028\u2029\u202e\u2066\u200f\u061c\"\\</script>é😀\xff\xc3"

func TestLogAndRead(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	all := []state.Event{
		{At: t0, By: "ann", Verb: "claim"},
		{At: t0.Add(1234567), By: "", Verb: "v", Detail: state.Detail{Resource: "r"}},
		{At: t0.In(time.FixedZone("", 3600)), By: hostile, Verb: hostile, Detail: state.Detail{
			Resource: hostile, Session: hostile, To: hostile, Purpose: hostile, Reason: hostile, Token: hostile, Fence: 1<<53 - 1, Outcome: hostile,
			WaitSeconds: 0.001, HeldSeconds: 86400.5, Renewed: hostile, Target: hostile, Resources: []string{hostile, "", "b"}, Until: t0}},
		{At: t0.Add(time.Hour), By: "x", Verb: "y", Detail: state.Detail{Fence: -1, Resources: []string{"a"}}},
	}
	for _, e := range all {
		must(t, l.Log(e))
	}
	got := events(t, s, time.Time{})
	if len(got) != len(all) {
		t.Fatalf("%d events of %d: %+v", len(got), len(all), got)
	}
	for i := range all {
		if want := logged(all[i]); !reflect.DeepEqual(got[i], want) {
			t.Errorf("got  %#v\nwant %#v", got[i], want)
		}
	}
	text := read(t, s.Events())
	if strings.Count(text, "\n") != len(all) || !strings.HasSuffix(text, "\n") {
		t.Errorf("%d events are %d lines", len(all), strings.Count(text, "\n"))
	}
	if !utf8.ValidString(text) {
		t.Error("the log isn't UTF-8")
	}
	for i, r := range text { // the log may be shown by cat(1)
		if r < ' ' && r != '\n' || 0x7f <= r && r <= 0x9f || strings.ContainsRune("\u202e\u2066\u200f\u061c", r) {
			t.Errorf("U+%04X at %d", r, i)
		}
	}
}

// The lines are what encoding/json would write, and a detail has no more
// members than are logged.
func TestLogLine(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	var d state.Detail
	v := reflect.ValueOf(&d).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("<&> " + v.Type().Field(i).Name)
		case reflect.Int64:
			f.SetInt(7)
		case reflect.Float64:
			f.SetFloat(1.5)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"a", "b"}))
		case reflect.Struct:
			f.Set(reflect.ValueOf(t0))
		default:
			t.Fatalf("no value for %s", v.Type().Field(i).Name)
		}
	}
	must(t, l.Log(state.Event{At: t0, By: "b", Verb: "v", Detail: d}))
	var line struct {
		At, By, Verb string
		Detail       json.RawMessage
	}
	must(t, json.Unmarshal([]byte(read(t, s.Events())), &line))
	want, err := json.Marshal(d)
	must(t, err)
	var got, wanted any
	must(t, json.Unmarshal(line.Detail, &got))
	must(t, json.Unmarshal(want, &wanted))
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got %s\nwant %s", line.Detail, want)
	}
	if line.At != "2026-03-04T05:06:07.000Z" || line.By != "b" || line.Verb != "v" {
		t.Errorf("line %+v", line)
	}
}

// An event is read back however long its texts are: a purpose may be a whole
// command line.
func TestLongEvent(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	e := state.Event{At: t0, By: "b", Verb: "claim", Detail: state.Detail{Resource: "r", Purpose: strings.Repeat("p", 100_000)}}
	must(t, l.Log(e))
	must(t, l.Log(state.Event{At: t0, By: "b", Verb: "release"}))
	got := events(t, s, time.Time{})
	if len(got) != 2 || got[0].Verb != "claim" || got[0].Detail.Resource != "r" || !strings.HasPrefix(got[0].Detail.Purpose, "ppp") || got[1].Verb != "release" {
		t.Errorf("of a claim with a purpose of 100,000 bytes and its release %d events are read", len(got))
	}
}

// A line that a crash cut short damages only itself.
func TestTornLine(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	must(t, l.Log(state.Event{At: t0, By: "a", Verb: "first"}))
	whole := read(t, s.Events())
	for n := range len(whole) + 1 {
		write(t, s.Events(), whole+whole[:n])
		must(t, l.Log(state.Event{At: t0, By: "c", Verb: "last"}))
		var verbs []string
		for _, e := range events(t, s, time.Time{}) {
			verbs = append(verbs, e.Verb)
		}
		want := []string{"first", "last"}
		if n >= len(whole)-1 { // only its new line was missing, or nothing
			want = []string{"first", "first", "last"}
		}
		if !slices.Equal(verbs, want) {
			t.Errorf("after %d bytes of a line: %q, want %q", n, verbs, want)
		}
		if text := read(t, s.Events()); strings.Contains(text, "\n\n") || !strings.HasSuffix(text, "\n") {
			t.Errorf("after %d bytes of a line the log is %q", n, text)
		}
	}
}

// Eight processes append at once: every line is whole, and they are all there,
// each process's in order.
func TestLogAmongProcesses(t *testing.T) {
	s := newStore(t)
	together(t, 8, nil, "log", s.Dir, "250")
	inOrder(t, s, 8, 250)
	f, err := os.Open(s.Events())
	must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			t.Errorf("a line that isn't whole: %q", lines.Text())
		}
	}
}

// inOrder says that n events of each of several processes are in the log, in
// the order in which they were written.
func inOrder(t *testing.T, s *state.Store, processes, n int) {
	t.Helper()
	next := map[string]int64{}
	for _, e := range events(t, s, time.Time{}) {
		if e.Verb != "claim" {
			continue
		}
		if next[e.By]++; e.Detail.Fence != next[e.By] {
			t.Fatalf("process %s: event %d is where %d should be", e.By, e.Detail.Fence, next[e.By])
		}
	}
	if len(next) != processes {
		t.Errorf("events of %d processes, not %d", len(next), processes)
	}
	for by, got := range next {
		if got != int64(n) {
			t.Errorf("process %s: %d events of %d", by, got, n)
		}
	}
}

// fill makes a log of about size bytes whose verb is "fill", a second apart
// from begin on.
func fill(t *testing.T, path string, size int, begin time.Time) int {
	t.Helper()
	var b bytes.Buffer
	n := 0
	for ; b.Len() < size; n++ {
		fmt.Fprintf(&b, `{"at":"%s","by":"somebody","verb":"fill","detail":{"resource":"kind-1","purpose":"%s","fence":%d}}`+"\n",
			begin.Add(time.Duration(n)*time.Second).Format("2006-01-02T15:04:05.000Z07:00"), strings.Repeat("x", 100), n+1)
	}
	write(t, path, b.String())
	return n
}

// When the log is large it is put aside, and the lines of all writers are in
// the files together.
func TestRotationAmongProcesses(t *testing.T) {
	s := newStore(t)
	filled := fill(t, s.Events(), state.MaxEvents-100_000, t0)
	together(t, 8, nil, "log", s.Dir, "300") // some 700 kB
	inOrder(t, s, 8, 300)
	n := 0
	for _, e := range events(t, s, time.Time{}) {
		if e.Verb == "fill" {
			n++
		}
	}
	if n != filled {
		t.Errorf("%d of %d older events", n, filled)
	}
	if got := names(t, s.Dir); !slices.Equal(got, []string{"events.jsonl", "events.jsonl.1", "state.lock"}) {
		t.Errorf("the files are %q", got)
	}
}

// OldEvents files are kept, the oldest goes, and none is much larger than
// MaxEvents.
func TestRotation(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	for round := range state.OldEvents + 2 {
		write(t, s.Events(), fmt.Sprintf(`{"at":"2026-03-04T05:06:07Z","by":"b","verb":"round-%d","detail":{}}`+"\n", round))
		must(t, os.Truncate(s.Events(), state.MaxEvents)) // NULs: a junk line
		must(t, l.Log(state.Event{At: t0, By: "b", Verb: "at-the-limit"}))
		if _, err := os.Stat(s.Events()); err != nil {
			t.Errorf("round %d: put aside before it was too large: %v", round, err)
		}
		must(t, l.Log(state.Event{At: t0, By: "b", Verb: "beyond-it"}))
		if _, err := os.Stat(s.Events()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("round %d: not put aside: %v", round, err)
		}
	}
	want := []string{"events.jsonl.1", "events.jsonl.2", "state.lock"}
	if got := names(t, s.Dir); !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	var verbs []string
	for _, e := range events(t, s, time.Time{}) {
		verbs = append(verbs, e.Verb)
	}
	if want := []string{"round-2", "at-the-limit", "beyond-it", "round-3", "at-the-limit", "beyond-it"}; !slices.Equal(verbs, want) {
		t.Errorf("got %q, want %q: the oldest file first", verbs, want)
	}
	for _, n := range want[:2] {
		if st, err := os.Stat(filepath.Join(s.Dir, n)); err != nil || st.Size() > state.MaxEvents+1000 {
			t.Errorf("%s has %d bytes, %v", n, st.Size(), err)
		}
	}
	must(t, l.Log(state.Event{At: t0, By: "b", Verb: "next"}))
	if es := events(t, s, time.Time{}); len(es) == 0 || es[len(es)-1].Verb != "next" {
		t.Error("the next event is lost")
	}
}

// A reader takes no lock, so the log may be put aside while it reads: it misses
// nothing, and sees nothing twice.
func TestReadDuringRotation(t *testing.T) {
	for _, when := range []string{"old-2", "old-1", "new-1"} {
		t.Run(when, func(t *testing.T) {
			s := newStore(t)
			l := lock(t, s)
			line := `{"at":"2026-03-04T05:06:07Z","by":"b","verb":"%s","detail":{}}` + "\n"
			write(t, logFile(s, 2), fmt.Sprintf(line, "old-2"))
			write(t, logFile(s, 1), fmt.Sprintf(line, "old-1"))
			write(t, s.Events(), fmt.Sprintf(line, "new-1")+strings.Repeat(" ", state.MaxEvents)+"\n"+fmt.Sprintf(line, "new-2"))
			var verbs []string
			must(t, s.ReadEvents(time.Time{}, func(e state.Event) {
				verbs = append(verbs, e.Verb)
				if e.Verb == when {
					must(t, l.Log(state.Event{At: t0, By: "b", Verb: "during"}))
					if _, err := os.Stat(s.Events()); err == nil {
						t.Error("it wasn't put aside")
					}
				}
			}))
			verbs = slices.DeleteFunc(verbs, func(v string) bool { return v == "during" })
			if want := []string{"old-2", "old-1", "new-1", "new-2"}; !slices.Equal(verbs, want) {
				t.Errorf("got %q, want %q", verbs, want)
			}
		})
	}
}

// The same at any moment, also between the opening of two files: once a reading
// the log is put aside, as rotate does it. Each file has one event, numbered.
func TestReadAtAnyMomentOfARotation(t *testing.T) {
	s := newStore(t)
	put := func(n int64) {
		write(t, filepath.Join(s.Dir, "next"), fmt.Sprintf(`{"at":"2026-03-04T05:06:07Z","by":"b","verb":"v","detail":{"fence":%d}}`+"\n", n))
		must(t, os.Rename(filepath.Join(s.Dir, "next"), s.Events()))
	}
	var last int64
	put(last)
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		begin, done := make(chan struct{}), make(chan struct{})
		spin := r.IntN(20_000)
		go func() {
			defer close(done)
			<-begin
			for range spin {
			}
			for n := state.OldEvents; n > 0; n-- {
				os.Rename(logFile(s, n-1), logFile(s, n))
			}
		}()
		close(begin)
		next := last - min(last, state.OldEvents)
		for _, e := range events(t, s, time.Time{}) {
			if e.Detail.Fence != next && !(next == last-state.OldEvents && e.Detail.Fence == next+1) { // the oldest may be gone
				t.Fatalf("event %d is read where %d should be", e.Detail.Fence, next)
			}
			next = e.Detail.Fence + 1
		}
		if next != last+1 {
			t.Fatalf("the last event that is read is %d, not %d", next-1, last)
		}
		<-done
		last++
		put(last)
	}
}

// scan is what ReadEvents must give, read the long way: every line of every
// file, by encoding/json.
func scan(t *testing.T, s *state.Store) (es []state.Event) {
	t.Helper()
	for n := state.OldEvents; n >= 0; n-- {
		b, err := os.ReadFile(logFile(s, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			var l struct {
				At, By, Verb string
				Detail       state.Detail
			}
			if json.Unmarshal(line, &l) != nil || l.Verb == "" {
				continue
			}
			if at, err := time.Parse(time.RFC3339, l.At); err == nil {
				l.Detail.Until = state.Writable(l.Detail.Until)
				es = append(es, state.Event{At: state.Writable(at), By: l.By, Verb: l.Verb, Detail: l.Detail})
			}
		}
	}
	return es
}

// sameEvents compares what is read since a time with all events, filtered.
func sameEvents(t *testing.T, s *state.Store, all []state.Event, since time.Time) {
	t.Helper()
	var want []state.Event
	for _, e := range all {
		if !e.At.Before(since) {
			want = append(want, e)
		}
	}
	got := events(t, s, since)
	if len(got) != len(want) {
		t.Errorf("since %v: %d events of %d", since, len(got), len(want))
		return
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) || got[i].By != want[i].By || got[i].Verb != want[i].Verb || !reflect.DeepEqual(got[i].Detail, want[i].Detail) {
			t.Errorf("since %v: event %d is %+v, want %+v", since, i, got[i], want[i])
			return
		}
	}
}

// A logWriter makes logs as they come to be: the clock runs, stands, jumps, is
// set back; between the lines lies what others left.
type logWriter struct {
	bytes.Buffer
	r   *rand.Rand
	now time.Time
}

func (w *logWriter) event() {
	w.now = w.now.Add(time.Duration(w.r.IntN(5000)) * time.Millisecond)
	if w.r.IntN(4) == 0 {
		w.now = w.now.Truncate(time.Second) // the same again, or a little back
	}
	fmt.Fprintf(w, `{"at":"%s","by":"b","verb":"v","detail":{"fence":%d,"purpose":"%s"}}`+"\n",
		w.now.UTC().Format("2006-01-02T15:04:05.000Z07:00"), w.Len(), strings.Repeat("p", w.r.IntN(300)))
}

func (w *logWriter) junk() {
	switch w.r.IntN(9) {
	case 0:
		w.WriteString("\n")
	case 1:
		w.WriteString("{\"at\":\"2026-03\n")
	case 2:
		w.Write(bytes.Repeat([]byte{0}, w.r.IntN(5000)))
		w.WriteString("\n")
	case 3: // longer than any buffer, and no event
		w.Write(bytes.Repeat([]byte("z"), w.r.IntN(400_000)))
		w.WriteString("\n")
	case 4: // valid, and no event
		w.WriteString("null\n[]\n{}\n\"at\"\n{\"at\":\"1999-01-01T00:00:00Z\"}\n{\"at\":5,\"verb\":\"v\"}\n{\"at\":\"\",\"verb\":\"v\"}\n")
	case 5: // another tool's spelling of a line
		fmt.Fprintf(w, "  { \"verb\" : \"other\", \"at\" : \"%s\" }\t\r\n", w.now.In(time.FixedZone("", -7200)).Format(time.RFC3339))
	case 6:
		w.WriteString("\xff\xfe\n{\"at\":\"2026-03-04T05:06:07Z\",\"verb\":\"v\"\n}\n")
	case 7:
		fmt.Fprintf(w, "{\"verb\":\"short\",\"at\":\"%s\"}\n", w.now.UTC().Format(time.RFC3339))
	case 8: // the event's members, and an object of that name inside
		fmt.Fprintf(w, "{\"detail\":{\"at\":\"1999-01-01T00:00:00Z\"},\"at\":\"%s\",\"verb\":\"v\"}\n", w.now.UTC().Format(time.RFC3339Nano))
	}
}

func TestReadSince(t *testing.T) {
	for _, kind := range []struct {
		name string
		step func(w *logWriter, i int)
	}{
		{"in order", func(w *logWriter, i int) {}},
		{"junk", func(w *logWriter, i int) {
			if w.r.IntN(20) == 0 {
				w.junk()
			}
		}},
		{"set back a little", func(w *logWriter, i int) {
			if w.r.IntN(50) == 0 {
				w.now = w.now.Add(-time.Duration(w.r.IntN(100)) * time.Second)
			}
		}},
		{"set back an hour", func(w *logWriter, i int) {
			if i == 3000 {
				w.now = w.now.Add(-time.Hour)
			}
		}},
		{"ahead for a while", func(w *logWriter, i int) {
			switch i {
			case 1000:
				w.now = w.now.Add(1000 * time.Hour)
			case 3000:
				w.now = w.now.Add(-1000 * time.Hour)
			}
		}},
		{"behind for a while", func(w *logWriter, i int) {
			switch i {
			case 1000:
				w.now = w.now.Add(-1000 * time.Hour)
			case 3000:
				w.now = w.now.Add(1000 * time.Hour)
			}
		}},
		{"jumping", func(w *logWriter, i int) {
			if w.r.IntN(500) == 0 {
				w.now = w.now.Add(time.Duration(w.r.IntN(200_000)-100_000) * time.Second)
			}
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			seed := rand.Uint64()
			w := &logWriter{r: rand.New(rand.NewPCG(seed, 0)), now: t0}
			s := newStore(t)
			n, i := w.r.IntN(3), 0
			var times []time.Time
			for ; n >= 0; n-- {
				w.Reset()
				for range 2000 + w.r.IntN(3000) {
					kind.step(w, i)
					i++
					w.event()
					if w.r.IntN(1500) == 0 {
						times = append(times, w.now, w.now.Add(1), w.now.Add(-1), w.now.Truncate(time.Millisecond), w.now.Add(-time.Duration(w.r.IntN(3600))*time.Second))
					}
				}
				text := w.String()
				if n == 0 && w.r.IntN(2) == 0 {
					text = text[:len(text)-1-w.r.IntN(50)] // torn
				}
				write(t, logFile(s, n), text)
			}
			all := scan(t, s)
			for _, since := range append(times, time.Time{}, t0.Add(-time.Hour), w.now.Add(time.Hour)) {
				if sameEvents(t, s, all, since); t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// Around the sizes of the buffers nothing is passed over.
func TestReadSinceAtTheEdges(t *testing.T) {
	const step = 64 << 10
	line := func(at time.Time, size int) string {
		head := fmt.Sprintf(`{"at":"%s","by":"b","verb":"v","detail":{"purpose":"`, at.Format("2006-01-02T15:04:05.000Z07:00"))
		return head + strings.Repeat("p", max(0, size-len(head)-len("\"}}\n"))) + "\"}}\n"
	}
	for _, size := range []int{100, step - 2, step - 1, step, step + 1, step + 2, 2*step - 1, 2 * step, 2*step + 1, 5 * step} {
		for _, n := range []int{1, 2, 3, 7} {
			s := newStore(t)
			var b strings.Builder
			for i := range n {
				b.WriteString(line(t0.Add(time.Duration(i)*time.Second), size))
				b.WriteString(line(t0.Add(time.Duration(i)*time.Second), 90))
			}
			write(t, s.Events(), b.String())
			all := scan(t, s)
			if len(all) != 2*n {
				t.Fatalf("%d events of %d", len(all), 2*n)
			}
			for i := range n + 1 {
				if sameEvents(t, s, all, t0.Add(time.Duration(i)*time.Second)); t.Failed() {
					t.Fatalf("lines of %d bytes", size)
				}
			}
		}
	}
}

func TestLogIsNoFile(t *testing.T) { // B58
	victim := filepath.Join(t.TempDir(), "victim")
	write(t, victim, "precious\n")
	for name, plant := range map[string]func(t *testing.T, path string){
		"a symbolic link":    func(t *testing.T, path string) { must(t, os.Symlink(victim, path)) },
		"a dangling link":    func(t *testing.T, path string) { must(t, os.Symlink(victim+".none", path)) },
		"a FIFO":             func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) },
		"a directory":        func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
		"a socket":           plantSocket,
		"a link to a device": func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			plant(t, s.Events())
			l := lock(t, s)
			promptly(t, func() {
				var path *fs.PathError
				if err := l.Log(state.Event{At: t0, Verb: "v"}); !errors.As(err, &path) || path.Path != s.Events() {
					t.Errorf("log: %T %v", err, err)
				}
				if err := s.ReadEvents(t0, func(e state.Event) { t.Errorf("event %v", e) }); !errors.As(err, &path) || path.Path != s.Events() {
					t.Errorf("read: %T %v", err, err)
				}
			})
			if _, err := os.Stat(victim + ".none"); err == nil || read(t, victim) != "precious\n" {
				t.Error("the link was followed")
			}
		})
	}
}

// A huge line, of zeros that a crash left or of junk, costs no memory of its
// size.
func TestReadHugeLine(t *testing.T) {
	s := newStore(t)
	write(t, s.Events(), "{")
	must(t, os.Truncate(s.Events(), 200<<20))
	l := lock(t, s)
	must(t, l.Log(state.Event{At: t0, By: "b", Verb: "after"}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	promptly(t, func() {
		if es := events(t, s, t0); len(es) != 1 || es[0].Verb != "after" {
			t.Errorf("got %v", es)
		}
	})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// Reading the last day of 100,000 events takes milliseconds; the time is
// printed (-v), and only a hang fails the test.
func TestReadSpeed(t *testing.T) {
	s := newStore(t)
	l := lock(t, s)
	const n, per = 100_000, 1000 // 1,000 a day
	begin := t0
	writeDays := func(path string, from, to int) {
		var b bytes.Buffer
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, `{"at":"%s","by":"agent %d","verb":"claim","detail":{"resource":"kind-%d","session":"0b6ff2f6-5d3c-4e5e-8f43-3f6a4ed1f7c2","purpose":"go test ./...","token":"0123456789abcdef","fence":%d,"waitSeconds":1.250}}`+"\n",
				begin.Add(time.Duration(i)*24*time.Hour/per).Format("2006-01-02T15:04:05.000Z07:00"), i%20, i%5, i)
		}
		write(t, path, b.String())
	}
	writeDays(logFile(s, 2), 0, n/3)
	writeDays(logFile(s, 1), n/3, 2*n/3)
	writeDays(s.Events(), 2*n/3, n)
	end := begin.Add(n * 24 * time.Hour / per)
	for _, c := range []struct {
		what  string
		since time.Time
		want  int
	}{{"the last day", end.Add(-24 * time.Hour), per}, {"everything", time.Time{}, n}} {
		best := time.Hour
		for range 5 {
			begun, got := time.Now(), 0
			must(t, s.ReadEvents(c.since, func(state.Event) { got++ }))
			best = min(best, time.Since(begun))
			if got != c.want {
				t.Errorf("%s is %d events, not %d", c.what, got, c.want)
			}
		}
		t.Logf("%s of 100,000 events: %v", c.what, best)
		if best > 10*time.Second {
			t.Errorf("%s took %v", c.what, best)
		}
	}
	begun := time.Now()
	for i := range 1000 {
		must(t, l.Log(state.Event{At: end, By: "b", Verb: "claim", Detail: state.Detail{Resource: "kind-1", Fence: int64(i)}}))
	}
	t.Logf("one event is logged in %v", time.Since(begun)/1000)
}

func BenchmarkLog(b *testing.B) {
	s := &state.Store{Dir: b.TempDir(), Modes: state.Private}
	l := &state.Locked{Store: s}
	e := state.Event{At: t0, By: "b", Verb: "claim", Detail: state.Detail{Resource: "kind-1", Session: "0b6ff2f6-5d3c-4e5e-8f43-3f6a4ed1f7c2", Purpose: "go test ./...", Fence: 7}}
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Log(e); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOddTimes: what is read of a time can be written as JSON, which package
// time's RFC 3339 can't always.
func TestOddTimes(t *testing.T) {
	for _, text := range []string{"2026-03-04T05:06:07+24:60", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00-23:59", "2026-03-04T05:06:07Z"} {
		s := newStore(t)
		write(t, s.Events(), `{"at":"`+text+`","by":"b","verb":"v","detail":{}}`+"\n"+`{"at":"`+text+`","by":"b","verb":"v","detail":{"until":"`+text+`"}}`+"\n")
		es := events(t, s, time.Time{})
		if _, err := json.Marshal(es); len(es) != 2 || err != nil {
			t.Errorf("%s: %d events, %v", text, len(es), err)
		}
		if st, err := state.Parse([]byte(`{"released":{"gpu":"` + text + `"}}`)); err == nil {
			if _, err := json.Marshal(st.Released); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
