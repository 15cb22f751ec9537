package run

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// wellFormed parses a document as XML and calls each with the elements. Nothing
// in it comes from elsewhere or runs.
func wellFormed(t *testing.T, text []byte, each func(name string, attr map[string]string)) {
	t.Helper()
	if why := harmful(strings.ReplaceAll(string(text), "\n", "")); why != "" {
		t.Errorf("it has %s", why)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%.300s", err, text[max(d.InputOffset()-150, 0):])
		}
		if e, ok := tok.(xml.StartElement); ok {
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
				if a.Name.Local != "xmlns" && (strings.Contains(a.Value, "://") || strings.HasPrefix(a.Name.Local, "on")) {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
			if e.Name.Local == "script" || e.Name.Local == "foreignObject" || e.Name.Local == "img" || e.Name.Local == "image" {
				t.Errorf("it has a <%s>", e.Name.Local)
			}
			if each != nil {
				each(e.Name.Local, attr)
			}
		}
	}
}

// What others wrote can't end an element, and is shown (B51).
func TestB51_TimelineIsWellFormed(t *testing.T) {
	for _, text := range []string{
		"ann", nasty, `</title><script>alert(1)</script>`, `"' onload="x`, "<![CDATA[", "]]>", "<!--", "&amp;&#0;&lt", "\ufffe\uffff\ufffd", "\xff\xfe", "\U0010ffff",
		strings.Repeat("x", 5000), strings.Repeat("<", 5000),
	} {
		d := state.Detail{Resource: "gpu", Session: text, Purpose: text, Fence: 1}
		force := d
		force.To, force.Reason = text, text
		tl := drawTimeline(pair(
			event(0, text, "claim", d),
			event(900, text, "release", func() state.Detail { e := d; e.Outcome, e.HeldSeconds, e.WaitSeconds = text, 900, 90; return e }()),
			event(1000, text, "claim", d), event(2000, text, "force", force)), nil, day, day.Add(time.Hour))
		rects := 0
		wellFormed(t, tl.svg(), func(name string, attr map[string]string) {
			if name == "rect" {
				rects++
			}
		})
		if rects < 4 { // the lane, two uses, and the legend's
			t.Errorf("%q: %d rectangles", text, rects)
		}
		wellFormed(t, tl.page(), nil)
	}
}

func TestTimelineMarks(t *testing.T) {
	claim := func(at float64, fence int64) state.Event {
		return event(at, "ann", "claim", state.Detail{Resource: "gpu", Purpose: "nightly", Fence: fence, WaitSeconds: 60})
	}
	end := func(at float64, verb string, fence int64) state.Event {
		return event(at, "ann", verb, state.Detail{Resource: "gpu", Fence: fence})
	}
	uses := pair(claim(0, 1), end(600, "lease.crash", 1), claim(700, 2), end(1300, "force", 2), claim(1400, 3), claim(1500, 4), end(1800, "release", 4), claim(2000, 5))
	tl := drawTimeline(uses, []string{"gpu", "never", "gpu"}, day, day.Add(time.Hour))
	if len(tl.rows) != 2 || tl.rows[1].resource != "never" || len(tl.rows[0].bars) != 5 || tl.rows[0].lanes != 1 {
		t.Fatalf("rows %+v", tl.rows)
	}
	got := map[string]int{}
	labels := 0
	wellFormed(t, tl.svg(), func(name string, attr map[string]string) {
		switch {
		case name == "use":
			got[attr["href"]]++
		case name == "svg" && attr["role"] != "":
			if attr["role"] != "img" || attr["aria-labelledby"] != "wl-title wl-desc" {
				t.Errorf("the root has %v", attr)
			}
		case name == "text" && attr["class"] == "l":
			labels++
		}
	})
	// Each once in the legend, and once in the row.
	for _, mark := range []string{"#wl-crash", "#wl-force", "#wl-held", "#wl-lost"} {
		if got[mark] != 2 {
			t.Errorf("%s is used %d times: %v", mark, got[mark], got)
		}
	}
	if labels == 0 {
		t.Error("no bar has a label")
	}
	if text := string(tl.page()); !strings.Contains(text, "<td>gpu</td><td>ann</td><td>nightly</td>") || strings.Count(text, "<tr>") != 6 {
		t.Errorf("the table: %s", text)
	}
}

// A picture of very many uses has no more elements than can be told apart.
func TestTimelineIsBounded(t *testing.T) {
	var p pairing
	for i := range 50_000 {
		d := state.Detail{Resource: "gpu", Purpose: "p", Fence: int64(i + 1), WaitSeconds: 0.2}
		p.add(event(float64(i), "ann", "claim", d))
		d.HeldSeconds = 0.5
		p.add(event(float64(i)+0.5, "ann", []string{"release", "lease.crash", "force"}[i%3], d))
	}
	tl := drawTimeline(p.uses, nil, day, day.Add(24*time.Hour))
	if n := len(tl.svg()); n > 2<<20 {
		t.Errorf("a picture of %d bytes", n)
	}
	if n := strings.Count(string(tl.page()), "<tr>"); n != mostListed+1 {
		t.Errorf("a table of %d rows", n)
	}
}

func TestTimelineTicks(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	old := time.Local
	time.Local = zone
	defer func() { time.Local = old }()
	for _, c := range []struct {
		from, to string
		want     string
	}{
		{"2026-01-31T10:17:00Z", "2026-01-31T10:20:00Z", "11:17 11:18 11:19 11:20"},
		{"2026-01-31T10:17:00Z", "2026-02-01T10:17:00Z", "12:00 15:00 18:00 21:00 00:00 03:00 06:00 09:00"},
		{"2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z", "23:00 00:00 01:00 03:00 04:00 05:00 06:00 07:00"}, // summer time begins
		{"2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", "5 9 13 17 21 25 29"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		to, _ := time.Parse(time.RFC3339, c.to)
		var got []string
		for _, tick := range ticks(from, to) {
			if strings.Contains(c.want, ":") {
				got = append(got, tick.Local().Format("15:04"))
			} else {
				got = append(got, tick.Local().Format("2"))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s to %s: %s, want %s", c.from, c.to, s, c.want)
		}
	}
	for days := range 2000 { // never many, never none
		if n := len(ticks(day.AddDate(0, 0, -days-1), day)); n < 1 || n > 10 {
			t.Errorf("%d ticks in %d days", n, days+1)
		}
	}
	for minutes := 1; minutes < 3000; minutes++ {
		if n := len(ticks(day.Add(time.Duration(-minutes)*time.Minute), day)); n < 1 || n > 10 {
			t.Errorf("%d ticks in %d minutes", n, minutes)
		}
	}
}

// A file is replaced as a whole, with the caller's umask; what is no file is
// written into.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	for _, text := range []string{"one", "two"} {
		if err := replaceFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if st, e := os.Stat(path); e != nil || err != nil || string(got) != text || st.Mode() != 0o640 {
			t.Errorf("%q, %v, %v, %v", got, err, st.Mode(), e)
		}
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "d"), 0o700))
	if err := replaceFile(filepath.Join(dir, "d"), nil, 0o666); err == nil {
		t.Error("a directory was replaced")
	}
	if err := replaceFile(filepath.Join(dir, "none", "f"), nil, 0o666); err == nil {
		t.Error("a file was made in no directory")
	}
	fifo := filepath.Join(dir, "fifo")
	must(unix.Mkfifo(fifo, 0o600))
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(fifo)
		read <- string(text)
	}()
	must((&Session{}).put(fifo, []byte("through")))
	if got := <-read; got != "through" {
		t.Errorf("the FIFO had %q", got)
	}
	if st, err := os.Lstat(fifo); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the FIFO is %v, %v", st.Mode(), err)
	}
	ents, err := os.ReadDir(dir)
	must(err)
	var names []string
	for _, e := range ents {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"d", "f", "fifo"}) {
		t.Errorf("left in the directory: %q", fmt.Sprint(names))
	}
}
