package run

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// timeline is a picture of who held what, and who waited, in a span of time.
type timeline struct {
	from, to time.Time
	rows     []timelineRow
	parties  []string // those that held most, with a colour of their own
	uses     []*Use   // all that are shown, the newest first
}

// timelineRow is one resource.
type timelineRow struct {
	resource string
	figures  ResourceStats
	bars     []bar
	marks    []bar // the ends that are marked
	waits    []bar
	lanes    int // how many waits lie above each other
}

// bar is a use, or several that are too short to be told apart, or a wait.
type bar struct {
	*Use
	begin, end float64 // of the span, from 0 to 1
	n          int     // of uses
	lane       int
}

const (
	mostLanes  = 4    // waits at the same time that are told apart
	mostColour = 6    // parties with a colour of their own
	narrow     = 2e-3 // of the span: what can't be told apart
)

// Timeline draws who held resources, and who waited, into files; "-" is standard
// output. Without names it draws all that were used. The error is a *UsageError,
// a *NameError or an *fs.PathError.
func (s *Session) Timeline(names []string, svg, html, since string) Exit {
	switch {
	case svg == "" && html == "":
		return s.failed(usage("timeline draws into a file: --svg=FILE, --html=FILE, or - for standard output"))
	case svg == "-" && html == "-":
		return s.failed(usage("--svg and --html can't both be standard output"))
	}
	p, err := s.lookBack(names, since)
	if err != nil {
		return s.failed(err)
	}
	from := p.from
	if latest := p.now.Add(-time.Minute); from.After(latest) {
		from = latest
	}
	t := drawTimeline(p.uses, names, from, p.now)
	if svg != "" {
		err = s.put(svg, t.svg())
	}
	if html != "" && err == nil {
		err = s.put(html, t.page())
	}
	return s.wrote(err, nil)
}

// put writes a file as a whole, or to standard output.
func (s *Session) put(path string, text []byte) error {
	if path == "-" {
		_, err := s.Stdout.Write(text)
		return err
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return os.WriteFile(path, text, 0o666) // a device or a FIFO is not to be replaced
	}
	return replaceFile(path, text, 0o666)
}

// replaceFile writes a file beside path and renames it: a reader sees all of the
// new text or the old. The mode is subject to the umask.
func replaceFile(path string, text []byte, perm os.FileMode) error {
	made := filepath.Join(filepath.Dir(path), fmt.Sprintf(".withlease-%08x", rand.Uint32()))
	f, err := os.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer os.Remove(made)
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(made, path)
}

// drawTimeline lays out the uses in a span of time: a row for each name, or for
// each resource that was used.
func drawTimeline(uses []*Use, names []string, from, to time.Time) *timeline {
	t := &timeline{from: from, to: to}
	byRes, byParty := map[string][]*Use{}, map[string]time.Duration{}
	for _, u := range uses {
		if u.until(to).Before(from) || u.from().Add(-u.Waited).After(to) {
			continue
		}
		byRes[u.Resource] = append(byRes[u.Resource], u)
		byParty[u.By] += u.within(from, to) + 1 // so that none has nothing
		t.uses = append(t.uses, u)
	}
	slices.SortStableFunc(t.uses, func(a, b *Use) int { return b.from().Compare(a.from()) })
	for p := range byParty {
		t.parties = append(t.parties, p)
	}
	slices.SortFunc(t.parties, func(a, b string) int { return cmp.Or(cmp.Compare(byParty[b], byParty[a]), cmp.Compare(a, b)) })
	if len(names) == 0 {
		for res := range byRes {
			names = append(names, res)
		}
		slices.Sort(names)
	}
	figures := figures(uses, from, to)
	for i, res := range names {
		if slices.Contains(names[:i], res) {
			continue
		}
		r := timelineRow{resource: res}
		for _, f := range figures {
			if f.Resource == res {
				r.figures = f
			}
		}
		us := byRes[res]
		slices.SortStableFunc(us, func(a, b *Use) int { return a.from().Compare(b.from()) })
		r.bars, r.marks = t.bars(us)
		r.waits, r.lanes = t.waits(us)
		t.rows = append(t.rows, r)
	}
	return t
}

// at is where a time lies in the span, from 0 to 1.
func (t *timeline) at(when time.Time) float64 {
	return min(max(when.Sub(t.from).Seconds()/t.to.Sub(t.from).Seconds(), 0), 1)
}

// bars are the uses of a resource, in order. Those that are too short and too
// near to be told apart are one, and so are the marks of their ends: a long log
// must not make a picture of any size.
func (t *timeline) bars(uses []*Use) (bars, marks []bar) {
	last := map[Ending]float64{}
	for _, u := range uses {
		b := bar{Use: u, begin: t.at(u.from()), end: t.at(u.until(t.to)), n: 1}
		if at, marked := last[u.Ending]; u.Ending != GivenBack && (!marked || b.end-at >= narrow) {
			marks, last[u.Ending] = append(marks, b), b.end
		}
		if n := len(bars); n > 0 && b.end-b.begin < narrow {
			last := &bars[n-1]
			if last.end-last.begin < 2*narrow && b.begin-last.end < narrow {
				last.end, last.n = max(last.end, b.end), last.n+1
				continue
			}
		}
		bars = append(bars, b)
	}
	return bars, marks
}

// waits are the waits before the uses, those at the same time above each other.
func (t *timeline) waits(uses []*Use) (bars []bar, lanes int) {
	var ends [mostLanes]float64
	waited := slices.DeleteFunc(slices.Clone(uses), func(u *Use) bool { return u.Waited <= 0 || u.Claimed.IsZero() })
	slices.SortStableFunc(waited, func(a, b *Use) int { return a.Claimed.Add(-a.Waited).Compare(b.Claimed.Add(-b.Waited)) })
	for _, u := range waited {
		b := bar{Use: u, begin: t.at(u.Claimed.Add(-u.Waited)), end: t.at(u.Claimed), n: 1}
		if b.end-b.begin < narrow/4 {
			continue
		}
		b.lane = mostLanes - 1
		for i, end := range ends {
			if end <= b.begin {
				b.lane = i
				break
			}
		}
		ends[b.lane] = max(ends[b.lane], b.end)
		lanes = max(lanes, b.lane+1)
		bars = append(bars, b)
	}
	return bars, lanes
}

// told is a use in words.
func (b *bar) told(now time.Time) string {
	u := b.Use
	if b.n > 1 {
		return fmt.Sprintf("%s: %d short uses", u.Resource, b.n)
	}
	text := fmt.Sprintf("%s: %s", u.Resource, showAt(u.By, 60))
	if u.Session != "" && u.Session != u.By {
		text += " (session " + showAt(u.Session, 40) + ")"
	}
	if u.Purpose != "" {
		text += ", " + showAt(u.Purpose, 100)
	}
	text += "; " + u.when() + ", " + u.outcome()
	if u.Ending == StillHeld {
		text += " for " + span(now.Sub(u.Claimed))
	} else if u.Held > 0 {
		text += ", held for " + span(u.Held)
	}
	if u.Waited >= 100*time.Millisecond {
		text += ", waited for " + span(u.Waited)
	}
	return text
}

// when is from when to when: "17:04:05 to 17:08:00".
func (u *Use) when() string {
	const layout = "2006-01-02 15:04:05"
	from, to := "before", "now"
	if !u.Claimed.IsZero() {
		from = u.Claimed.Local().Format(layout) + " to"
	}
	switch {
	case u.Ending == EndUnknown:
		to = "an unknown time"
	case u.Ending != StillHeld:
		to = u.Ended.Local().Format(layout)
		if u.Claimed.Local().Format("2006-01-02") == to[:10] {
			to = to[11:]
		}
	}
	return from + " " + to
}

// outcome is how it ended, in words.
func (u *Use) outcome() string {
	switch u.Ending {
	case StillHeld:
		return "still held"
	case HasCrashed:
		return "crashed"
	case EndUnknown:
		return "its end is not in the log"
	case WasForced:
		text := "taken away by " + showAt(u.Forcer, 60)
		if u.Reason != "" {
			text += ": " + showAt(u.Reason, 80)
		}
		return text
	}
	return showAt(first(u.Outcome, "given back"), 40)
}
