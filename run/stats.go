package run

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// StatsView is the answer of `stats --json`.
type StatsView struct {
	Schema    int             `json:"schema"`
	Since     time.Time       `json:"since"`
	Until     time.Time       `json:"until"`
	Resources []ResourceStats `json:"resources"`
}

// ResourceStats are the figures of one resource.
type ResourceStats struct {
	Resource    string  `json:"resource"`
	Utilisation float64 `json:"utilisation"` // held, of the time from since until now: 0 to 1
	Share
	Purposes []Share `json:"purposes,omitempty"` // those that held it longest, at most mostShares
	Parties  []Share `json:"parties,omitempty"`
}

// Share is what a resource was used for, or by whom.
type Share struct {
	Purpose     string  `json:"purpose,omitempty"`
	By          string  `json:"by,omitempty"`
	Claims      int     `json:"claims"`
	Crashes     int     `json:"crashes,omitempty"`
	Forced      int     `json:"forced,omitempty"`
	HeldSeconds float64 `json:"heldSeconds"`
	Hold        *Spread `json:"hold,omitempty"`
	Wait        *Spread `json:"wait,omitempty"`

	holds, waits []time.Duration
}

// Spread is how long something takes.
type Spread struct {
	Runs          int     `json:"runs"`
	MedianSeconds float64 `json:"medianSeconds"`
	P90Seconds    float64 `json:"p90Seconds"`
}

const mostShares = 10

// Stats shows how resources were used since a time, or since the log begins.
func (s *Session) Stats(res, since string) Exit {
	var names []string
	if res != "" {
		names = []string{res}
	}
	p, err := s.lookBack(names, since)
	if err != nil {
		return s.failed(err)
	}
	doc := StatsView{Schema: Schema, Since: p.from, Until: p.now, Resources: figures(p.uses, p.from, p.now)}
	if s.JSON {
		return s.wrote(writeJSON(s.Stdout, doc), nil)
	}
	if len(doc.Resources) == 0 {
		say(s.Stderr, "nothing was held since %s, as far as %s goes", p.from.Local().Format("2006-01-02 15:04"), show(p.log))
		return Exit{}
	}
	out := bufio.NewWriter(s.Stdout)
	for _, r := range doc.Resources {
		r.print(out, p.from)
	}
	return s.wrote(out.Flush(), nil)
}

// figures are those of each resource that was used in a span of time, by name.
func figures(uses []*Use, from, now time.Time) []ResourceStats {
	type shares struct{ purposes, parties map[string]*Share }
	all, by := map[string]*ResourceStats{}, map[string]shares{}
	for _, u := range uses {
		if u.until(now).Before(from) || u.from().After(now) {
			continue
		}
		r := all[u.Resource]
		if r == nil {
			r = &ResourceStats{Resource: u.Resource}
			all[u.Resource], by[u.Resource] = r, shares{map[string]*Share{}, map[string]*Share{}}
		}
		r.add(u, from, now)
		of(by[u.Resource].purposes, u.Purpose, Share{Purpose: u.Purpose}).add(u, from, now)
		of(by[u.Resource].parties, u.By, Share{By: u.By}).add(u, from, now)
	}
	list := []ResourceStats{}
	for res, r := range all {
		r.spread()
		if whole := now.Sub(from).Seconds(); whole > 0 {
			r.Utilisation = min(math.Round(r.HeldSeconds/whole*1e4)/1e4, 1)
		}
		r.Purposes, r.Parties = top(by[res].purposes), top(by[res].parties)
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b ResourceStats) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}

func of(shares map[string]*Share, key string, empty Share) *Share {
	if shares[key] == nil {
		shares[key] = &empty
	}
	return shares[key]
}

// add counts a use. How long it was held counts where its holder ended it: a
// crash and a force say nothing of how long it would have been.
func (s *Share) add(u *Use, from, now time.Time) {
	if !u.from().Before(from) {
		s.Claims++
		s.waits = append(s.waits, u.Waited)
	}
	s.HeldSeconds += u.within(from, now).Seconds()
	if u.Ending == StillHeld || u.Ended.Before(from) {
		return
	}
	switch u.Ending {
	case HasCrashed:
		s.Crashes++
	case WasForced:
		s.Forced++
	case GivenBack:
		if !u.Claimed.IsZero() && u.Outcome != "not started" {
			s.holds = append(s.holds, u.Held)
		}
	}
}

func (s *Share) spread() {
	s.Hold, s.Wait = spreadOf(s.holds), spreadOf(s.waits)
	s.HeldSeconds = math.Round(s.HeldSeconds*1e3) / 1e3
}

func spreadOf(ds []time.Duration) *Spread {
	if len(ds) == 0 {
		return nil
	}
	slices.Sort(ds)
	return &Spread{len(ds), percentile(ds, 50).Seconds(), percentile(ds, 90).Seconds()}
}

// percentile is the p-th by the nearest rank: the smallest value that p in 100 of
// them don't exceed, so that it is always one that was measured. They are sorted
// and not none; 0 < p <= 100.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}

// top are the shares that held longest, and among those that held as long the
// ones with more claims.
func top(shares map[string]*Share) []Share {
	var list []Share
	for _, s := range shares {
		s.spread()
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.HeldSeconds, a.HeldSeconds), cmp.Compare(b.Claims, a.Claims), cmp.Compare(a.Purpose+a.By, b.Purpose+b.By))
	})
	return list[:min(len(list), mostShares)]
}

func (r *ResourceStats) print(w io.Writer, from time.Time) {
	fmt.Fprintf(w, "%s  held %.1f%% of the time since %s, %s\n", r.Resource, r.Utilisation*100, from.Local().Format("2006-01-02 15:04"), r.counts())
	fmt.Fprintf(w, "  %s\n", r.lengths())
	for _, p := range r.Purposes {
		if p.Purpose != "" {
			fmt.Fprintf(w, "  for %s: %s; %s\n", showAt(p.Purpose, 80), p.counts(), p.lengths())
		}
	}
	for _, p := range r.Parties {
		fmt.Fprintf(w, "  by %s: %s; %s\n", showAt(p.By, 60), p.counts(), p.lengths())
	}
}

// counts are how often: "14 claims, 1 crashed, 2 taken away".
func (s *Share) counts() string {
	line := plural(s.Claims, "claim", "claims")
	if s.Crashes > 0 {
		line += fmt.Sprintf(", %d crashed", s.Crashes)
	}
	if s.Forced > 0 {
		line += fmt.Sprintf(", %d taken away", s.Forced)
	}
	return line
}

// lengths are how long: in all, half of the times, and 9 of 10 times.
func (s *Share) lengths() string {
	line := "held " + span(logged(s.HeldSeconds)) + " in all"
	if s.Hold != nil {
		line += ", " + s.Hold.String()
	}
	if s.Wait != nil && s.Wait.P90Seconds >= 0.1 {
		line += "; waited " + s.Wait.String()
	}
	return line
}

func (s *Spread) String() string {
	return fmt.Sprintf("median %s, p90 %s", span(logged(s.MedianSeconds)), span(logged(s.P90Seconds)))
}
