package run

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

var day = time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)

// event is an event of the log: seconds after day, who, the verb, the detail.
func event(at float64, by, verb string, d state.Detail) state.Event {
	return state.Event{At: day.Add(time.Duration(at * float64(time.Second))), By: by, Verb: verb, Detail: d}
}

func pair(events ...state.Event) []*Use {
	var p pairing
	for _, e := range events {
		p.add(e)
	}
	return p.uses
}

// shape is a use as the tests name it: who, from when to when, held, waited, how
// it ended.
func shape(u *Use) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "?"
		}
		return fmt.Sprint(t.Sub(day).Seconds())
	}
	end := [...]string{"held", "ended", "crashed", "forced", "lost"}[u.Ending]
	line := fmt.Sprintf("%s %s %s-%s held %g waited %g %s", u.Resource, u.By, at(u.Claimed), at(u.Ended), u.Held.Seconds(), u.Waited.Seconds(), end)
	return strings.TrimSpace(line + " " + u.Outcome + u.Forcer)
}

func shapes(us []*Use) (all []string) {
	for _, u := range us {
		all = append(all, shape(u))
	}
	return all
}

func TestPairing(t *testing.T) {
	gpu := func(fence int64, token string) state.Detail {
		return state.Detail{Resource: "gpu", Fence: fence, Token: token}
	}
	with := func(d state.Detail, f func(*state.Detail)) state.Detail { f(&d); return d }
	held := func(d state.Detail, seconds float64) state.Detail { d.HeldSeconds = seconds; return d }
	for _, c := range []struct {
		what   string
		events []state.Event
		want   []string
	}{
		{"nothing", nil, nil},
		{"a run", []state.Event{
			event(10, "ann", "claim", with(gpu(1, "t"), func(d *state.Detail) { d.WaitSeconds = 3 })),
			event(70, "ann", "release", with(held(gpu(1, "t"), 59.5), func(d *state.Detail) { d.WaitSeconds, d.Outcome = 3, "exit 0" })),
		}, []string{"gpu ann 10-70 held 59.5 waited 3 ended exit 0"}},
		{"still held", []state.Event{event(10, "ann", "claim", gpu(1, "t"))}, []string{"gpu ann 10-? held 0 waited 0 held"}},
		{"a claim without a run", []state.Event{
			event(1, "ann", "claim", gpu(1, "")),
			event(9, "ann", "release", held(gpu(0, ""), 8)),
		}, []string{"gpu ann 1-9 held 8 waited 0 ended"}},
		{"a claim that ended at its time, found late", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(9000, "ann", "claim.end", with(held(gpu(1, "t"), 1800), func(d *state.Detail) { d.Outcome = "time" })),
			event(9000, "bob", "claim", gpu(2, "u")),
		}, []string{"gpu ann 1-1801 held 1800 waited 0 ended time", "gpu bob 9000-? held 0 waited 0 held"}},
		{"several resources of one run", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(1, "ann", "claim", state.Detail{Resource: "net", Fence: 7, Token: "t"}),
			event(5, "ann", "release", held(gpu(1, "t"), 4)),
			event(6, "ann", "release", state.Detail{Resource: "net", Fence: 7, Token: "t", HeldSeconds: 5}),
		}, []string{"gpu ann 1-5 held 4 waited 0 ended", "net ann 1-6 held 5 waited 0 ended"}},
		{"a crash, found late", []state.Event{
			event(0, "ann", "claim", gpu(1, "t")),
			event(9000, "ann", "lease.crash", with(held(gpu(1, "t"), 9000), func(d *state.Detail) { d.Renewed = "2026-03-04T00:01:00Z" })),
		}, []string{"gpu ann 0-60 held 60 waited 0 crashed"}},
		{"a crash of an older version, which says no more", []state.Event{
			event(0, "ann", "claim", gpu(1, "t")),
			event(9000, "ann", "lease.crash", held(gpu(1, "t"), 9000)),
		}, []string{"gpu ann 0-9000 held 9000 waited 0 crashed"}},
		{"a crash whose renewal is none", []state.Event{
			event(30, "ann", "claim", gpu(1, "t")),
			event(40, "ann", "lease.crash", with(gpu(1, "t"), func(d *state.Detail) { d.Renewed = "1999-01-01T00:00:00Z" })),
			event(50, "ann", "claim", gpu(2, "t2")),
			event(60, "ann", "lease.crash", with(gpu(2, "t2"), func(d *state.Detail) { d.Renewed = "\x1b[2J" })),
		}, []string{"gpu ann 30-30 held 0 waited 0 crashed", "gpu ann 50-60 held 10 waited 0 crashed"}},
		{"forced, then another's", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(4, "bob", "force", with(gpu(1, "t"), func(d *state.Detail) { d.To = "ann" })),
			event(5, "bob", "claim", gpu(2, "")),
		}, []string{"gpu ann 1-4 held 3 waited 0 forced bob", "gpu bob 5-? held 0 waited 0 held"}},
		{"the claim is lost", []state.Event{
			event(70, "ann", "release", held(gpu(1, "t"), 60)),
			event(80, "bob", "release", gpu(2, "t2")),
			event(90, "eve", "force", with(held(gpu(0, ""), 5), func(d *state.Detail) { d.To = "pat" })),
		}, []string{"gpu ann 10-70 held 60 waited 0 ended", "gpu bob ?-80 held 0 waited 0 ended", "gpu pat 85-90 held 5 waited 0 forced eve"}},
		{"the end is lost", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(50, "bob", "claim", gpu(2, "t2")),
			event(60, "bob", "release", held(gpu(2, "t2"), 10)),
		}, []string{"gpu ann 1-1 held 0 waited 0 lost", "gpu bob 50-60 held 10 waited 0 ended"}},
		{"an end and the next claim are lost", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(60, "bob", "release", held(gpu(2, "t2"), 10)),
		}, []string{"gpu ann 1-1 held 0 waited 0 lost", "gpu bob 50-60 held 10 waited 0 ended"}},
		{"an end of an earlier one changes nothing", []state.Event{
			event(1, "ann", "claim", gpu(5, "t")),
			event(2, "bob", "release", held(gpu(4, "t2"), 1)),
			event(3, "ann", "release", held(gpu(5, "t"), 2)),
		}, []string{"gpu ann 1-3 held 2 waited 0 ended", "gpu bob 1-2 held 1 waited 0 ended"}},
		{"the same fence again, after the line's files were removed", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(2, "ann", "release", held(gpu(1, "t"), 1)),
			event(3, "bob", "claim", gpu(1, "t2")),
			event(4, "bob", "release", held(gpu(1, "t2"), 1)),
		}, []string{"gpu ann 1-2 held 1 waited 0 ended", "gpu bob 3-4 held 1 waited 0 ended"}},
		{"the same fence again, and between them an end and a claim are lost", []state.Event{
			event(1, "ann", "claim", gpu(1, "t")),
			event(9, "bob", "release", held(gpu(1, "t2"), 2)),
		}, []string{"gpu ann 1-1 held 0 waited 0 lost", "gpu bob 7-9 held 2 waited 0 ended"}},
		{"another's end by fence alone", []state.Event{
			event(1, "ann", "claim", gpu(5, "")),
			event(2, "bob", "release", held(gpu(4, ""), 1)),
		}, []string{"gpu ann 1-? held 0 waited 0 held", "gpu bob 1-2 held 1 waited 0 ended"}},
		{"another's end by session alone", []state.Event{
			event(1, "ann", "claim", state.Detail{Resource: "gpu", Session: "a", Fence: 1}),
			event(2, "bob", "release", state.Detail{Resource: "gpu", Session: "b", HeldSeconds: 1}),
		}, []string{"gpu ann 1-1 held 0 waited 0 lost", "gpu bob 1-2 held 1 waited 0 ended"}},
		{"the clock was set back", []state.Event{
			event(1000, "ann", "claim", gpu(1, "t")),
			event(400, "ann", "release", held(gpu(1, "t"), 30)),
			event(410, "bob", "claim", gpu(2, "t2")),
			event(300, "bob", "force", with(gpu(2, "t2"), func(d *state.Detail) { d.To = "bob" })),
		}, []string{"gpu ann 370-400 held 30 waited 0 ended", "gpu bob 300-300 held 0 waited 0 forced bob"}},
		{"what is no use", []state.Event{
			event(1, "boss", "grant", gpu(0, "")),
			event(2, "ann", "lease.melt", gpu(1, "")),
			event(3, "ann", "claim", state.Detail{Resource: "../x"}),
			event(4, "ann", "claim", state.Detail{}),
			event(5, "somebody", "lease.abandoned", gpu(0, "")),
		}, nil},
		{"figures that are none", []state.Event{
			event(9, "ann", "release", with(held(gpu(1, ""), -5), func(d *state.Detail) { d.WaitSeconds = math.NaN() })),
		}, []string{"gpu ann ?-9 held 0 waited 0 ended"}},
	} {
		if got := shapes(pair(c.events...)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.what, got, c.want)
		}
	}
}

// What is held now is compared with what the log leaves open.
func TestSettle(t *testing.T) {
	now := day.Add(time.Hour)
	sight := func(res string, kind lease.Kind, fence int64, since string) lease.Sight {
		s := lease.Sight{Resource: res, Kind: kind, Held: kind != lease.Crashed, Holder: lease.Holder{Env: res, Name: "seen", Since: since}}
		if fence > 0 {
			s.Process = &lease.Process{Fence: fence, Token: fmt.Sprint("t", fence)}
		}
		return s
	}
	claim := func(at float64, fence int64) state.Event {
		return event(at, "ann", "claim", state.Detail{Resource: "gpu", Fence: fence, Token: fmt.Sprint("t", fence)})
	}
	const since = "2026-03-04T00:10:00Z"
	for _, c := range []struct {
		what   string
		events []state.Event
		held   []lease.Sight
		want   []string
	}{
		{"as the log says", []state.Event{claim(600, 1)}, []lease.Sight{sight("gpu", lease.Running, 1, since)}, []string{"gpu ann 600-? held 0 waited 0 held"}},
		{"removed by hand", []state.Event{claim(600, 1)}, nil, []string{"gpu ann 600-600 held 0 waited 0 lost"}},
		{"claimed since we looked", []state.Event{claim(3601, 1)}, nil, []string{"gpu ann 3601-? held 0 waited 0 held"}},
		{"given back since we looked", []state.Event{claim(600, 1), event(3601, "ann", "release", state.Detail{Resource: "gpu", Fence: 1, HeldSeconds: 3001})},
			[]lease.Sight{sight("gpu", lease.Running, 1, since)}, []string{"gpu ann 600-3601 held 3001 waited 0 ended"}},
		{"of no claim in the log", nil, []lease.Sight{sight("gpu", lease.Recorded, 0, since)}, []string{"gpu seen 600-? held 0 waited 0 held"}},
		{"another's than the log's", []state.Event{claim(60, 1)}, []lease.Sight{sight("gpu", lease.Running, 2, since)},
			[]string{"gpu ann 60-60 held 0 waited 0 lost", "gpu seen 600-? held 0 waited 0 held"}},
		{"an unreadable record", nil, []lease.Sight{sight("gpu", lease.Odd, 0, "")}, nil},
		{"a claim in the making", nil, []lease.Sight{sight("gpu", lease.Claiming, 0, since)}, nil},
		{"crashed, and nobody has noted it", []state.Event{claim(600, 1)}, []lease.Sight{func() lease.Sight {
			s := sight("gpu", lease.Crashed, 1, since)
			s.Renewed = day.Add(700 * time.Second)
			return s
		}()}, []string{"gpu ann 600-700 held 100 waited 0 crashed"}},
	} {
		var p pairing
		for _, e := range c.events {
			p.add(e)
		}
		if got := shapes(p.settle(c.held, now)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.what, got, c.want)
		}
	}
}

// FuzzPairing: whatever the log has, in whatever order, each claim and each end
// is told once, and no time is negative.
func FuzzPairing(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x10\x01\x00\x01\x10"))
	f.Add([]byte("\x00\x00\x01\x10\x02\x01\x01\x10\x00\x00\x02\xf0\x03\x00\x02\x80"))
	f.Add([]byte("\x01\x00\x01\x10\x00\x01\x01\x10\x00\x01\x02\xf0\x04\x00\x03\x80"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		verbs := []string{"claim", "release", "force", "lease.crash", "lease.abandoned", "grant"}
		var p pairing
		at, claims, ends := day, 0, 0
		for ; len(ops) >= 4; ops = ops[4:] {
			at = at.Add(time.Duration(int8(ops[3])) * time.Second) // back as well
			e := state.Event{At: at, By: "ann", Verb: verbs[int(ops[0])%len(verbs)]}
			e.Detail = state.Detail{Resource: []string{"gpu", "net"}[ops[1]&1], Fence: int64(ops[2] & 7)}
			if ops[1]&2 != 0 {
				e.Detail.Token = fmt.Sprint(ops[2])
			}
			if ops[1]&4 != 0 {
				e.Detail.HeldSeconds = float64(int8(ops[2])) * 1e3
			}
			if ops[1]&8 != 0 {
				e.Detail.Renewed = at.Add(time.Duration(ops[2]) * -time.Second).Format(time.RFC3339)
			}
			switch e.Verb {
			case "claim":
				claims++
			case "release", "force", "lease.crash":
				ends++
			}
			p.add(e)
		}
		uses := p.settle(nil, day)
		if len(uses) < claims || len(uses) > claims+ends {
			t.Errorf("%d claims and %d ends are %d uses", claims, ends, len(uses))
		}
		ended, open := 0, map[string]int{}
		for _, u := range uses {
			switch u.Ending {
			case GivenBack, HasCrashed, WasForced:
				ended++
			case StillHeld:
				open[u.Resource]++
			}
			if u.Held < 0 || u.Waited < 0 || u.Ending != StillHeld && u.Ended.Before(u.Claimed) || u.within(day, day.Add(time.Hour)) < 0 {
				t.Errorf("%s", shape(u))
			}
			if (u.Ending == StillHeld) != u.Ended.IsZero() {
				t.Errorf("%s, ended at %v", shape(u), u.Ended)
			}
		}
		if ended != ends || open["gpu"] > 1 || open["net"] > 1 {
			t.Errorf("%d ends told of %d, held: %v", ended, ends, open)
		}
	})
}
