package run

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"withlease/state"
)

func TestPercentile(t *testing.T) {
	seconds := func(ns ...int) (ds []time.Duration) {
		for _, n := range ns {
			ds = append(ds, time.Duration(n)*time.Second)
		}
		return ds
	}
	for _, c := range []struct {
		of   []time.Duration
		p    int
		want int
	}{
		{seconds(7), 50, 7},
		{seconds(7), 90, 7},
		{seconds(1, 2), 50, 1},
		{seconds(1, 2), 51, 2},
		{seconds(1, 2, 3, 4, 5), 50, 3},
		{seconds(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 90, 9},
		{seconds(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 91, 10},
		{seconds(1, 2, 3, 4), 25, 1},
		{seconds(1, 2, 3, 4), 75, 3},
		{seconds(1, 2, 3, 4), 100, 4},
		{seconds(1, 2, 3, 4), 1, 1},
	} {
		if got := percentile(c.of, c.p); got != time.Duration(c.want)*time.Second {
			t.Errorf("%d of %v is %v, want %d s", c.p, c.of, got, c.want)
		}
	}
}

// run is the claim and the end of a run of gpu.
func runOf(fence int64, begin, end float64, by, purpose, verb string, waited float64) []state.Event {
	d := state.Detail{Resource: "gpu", Purpose: purpose, Fence: fence, Token: fmt.Sprint("t", fence)}
	claim := d
	claim.WaitSeconds = waited
	d.HeldSeconds = end - begin
	if verb == "release" {
		d.Outcome = "exit 0"
	}
	return []state.Event{event(begin, by, "claim", claim), event(end, by, verb, d)}
}

func TestFigures(t *testing.T) {
	var events []state.Event
	for _, es := range [][]state.Event{
		runOf(1, 0, 1200, "ann", "early", "release", 0), // it began before the span
		runOf(2, 1300, 1400, "ann", "nightly", "release", 10),
		runOf(3, 1500, 1700, "bob", "nightly", "release", 20),
		runOf(4, 1800, 1900, "bob", "\x1b[2J", "force", 0),
		runOf(5, 2000, 2050, "ann", "nightly", "lease.crash", 0),
		{event(2500, "ann", "claim", state.Detail{Resource: "gpu", Purpose: "now", Fence: 6})},
		{event(10, "ann", "claim", state.Detail{Resource: "net", Fence: 1}), event(20, "ann", "release", state.Detail{Resource: "net", Fence: 1, HeldSeconds: 10})},
	} {
		events = append(events, es...)
	}
	got := figures(pair(events...), day.Add(1000*time.Second), day.Add(3000*time.Second))
	if len(got) != 1 { // net was not used then
		t.Fatalf("figures of %d resources: %+v", len(got), got)
	}
	r := got[0]
	if r.Resource != "gpu" || r.Claims != 5 || r.Crashes != 1 || r.Forced != 1 || r.HeldSeconds != 200+100+200+100+50+500 || r.Utilisation != 0.575 {
		t.Errorf("%+v", r)
	}
	if want := (&Spread{3, 200, 1200}); !reflect.DeepEqual(r.Hold, want) { // neither what crashed nor what was forced
		t.Errorf("held %+v, want %+v", r.Hold, want)
	}
	if want := (&Spread{5, 0, 20}); !reflect.DeepEqual(r.Wait, want) {
		t.Errorf("waited %+v, want %+v", r.Wait, want)
	}
	var shares []string
	for _, s := range append(r.Purposes, r.Parties...) {
		shares = append(shares, fmt.Sprintf("%q %q %d %g", s.Purpose, s.By, s.Claims, s.HeldSeconds))
	}
	want := []string{`"now" "" 1 500`, `"nightly" "" 3 350`, `"early" "" 0 200`, `"\x1b[2J" "" 1 100`, `"" "ann" 3 850`, `"" "bob" 2 300`}
	if !reflect.DeepEqual(shares, want) {
		t.Errorf("got  %q\nwant %q", shares, want)
	}
	var b strings.Builder
	r.print(&b, day)
	for line := range strings.Lines(b.String()) { // B51
		harmless(t, "stats", strings.TrimSuffix(line, "\n"))
	}
	if text := b.String(); !strings.Contains(text, "gpu  held 57.5% of the time since ") || !strings.Contains(text, ", 5 claims, 1 crashed, 1 taken away\n") ||
		!strings.Contains(text, "  for nightly: 3 claims, 1 crashed; held 5m50s in all, median 1m40s, p90 3m20s; waited median 10s, p90 20s\n") {
		t.Error(text)
	}
}

// No more shares than fit.
func TestFiguresAreCut(t *testing.T) {
	var events []state.Event
	for i := range 25 {
		events = append(events, runOf(int64(i+1), float64(i*10), float64(i*10+5), fmt.Sprint("party", i), fmt.Sprint("purpose", i), "release", 0)...)
	}
	r := figures(pair(events...), day, day.Add(time.Hour))[0]
	if len(r.Purposes) != mostShares || len(r.Parties) != mostShares || r.Claims != 25 {
		t.Errorf("%d purposes, %d parties of %d claims", len(r.Purposes), len(r.Parties), r.Claims)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", time.Millisecond: "0.01s", 250 * time.Millisecond: "0.25s", 4200 * time.Millisecond: "4.2s", 42 * time.Second: "42s",
		100 * time.Second: "1m40s", 2 * time.Minute: "2m0s", 12 * time.Minute: "12m", 185 * time.Minute: "3h05m",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	s := &Session{Now: func() time.Time { return day }}
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "0d5s": 5 * time.Second,
	} {
		if got, err := s.since(text); err != nil || day.Sub(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]time.Time{
		"2026-01-31T18:00:00Z": time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC),
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"2026-01-31 18:00":     time.Date(2026, 1, 31, 18, 0, 0, 0, time.Local),
	} {
		if got, err := s.since(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0d", "-5m", "-1d", "d", "1d-5m", "99999999d", "9999999h", "1dd", "1w", "yesterday", "\x1b[2J", "1.5d", "9223372036s1d"} {
		if got, err := s.since(text); err == nil {
			t.Errorf("%q is %v", text, got)
		} else {
			harmless(t, text, err.Error())
		}
	}
}
