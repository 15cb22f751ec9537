package run

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

func heldFor(purpose string, fence int64, since time.Time) lease.Sight {
	return lease.Sight{Resource: "gpu", Kind: lease.Running, Held: true, Process: &lease.Process{Fence: fence},
		Holder: lease.Holder{Env: "gpu", Name: "ann", Purpose: purpose, Since: since.UTC().Format(time.RFC3339)}}
}

func TestExpected(t *testing.T) {
	minutes := func(purpose string, ms ...int) (ps []pastHold) {
		for _, m := range ms {
			ps = append(ps, pastHold{purpose, time.Duration(m) * time.Minute})
		}
		return ps
	}
	join := func(all ...[]pastHold) (ps []pastHold) {
		for _, p := range all {
			ps = append(ps, p...)
		}
		return ps
	}
	for _, c := range []struct {
		what  string
		holds []pastHold
		so    time.Duration // held so far
		want  string
	}{
		{"none", nil, 0, ""},
		{"too few", minutes("nightly", 1, 2, 3, 4), 0, ""},
		{"five", minutes("nightly", 5, 1, 4, 2, 3), 0, "usually given back in 2m-4m (of 5 past runs of the same purpose)"},
		{"all as long", minutes("nightly", 7, 7, 7, 7, 7), time.Minute, "usually given back in 6m (of 5 past runs of the same purpose)"},
		{"the same purpose before others", join(minutes("other", 100, 100, 100), minutes("nightly", 1, 2, 3, 4, 5)), 0, "usually given back in 2m-4m (of 5 past runs of the same purpose)"},
		{"others where there are too few", join(minutes("other", 10, 20, 30), minutes("nightly", 1, 2, 3, 4)), 0, "usually given back in 2m-20m (of 7 past runs)"},
		{"only those that took longer", minutes("nightly", 1, 2, 11, 12, 13, 14, 15), 10 * time.Minute, "usually given back in 2m-4m (of 5 past runs of the same purpose)"},
		{"as long as now is not longer", minutes("nightly", 10, 11, 12, 13, 14), 10 * time.Minute, ""},
		{"too few took longer", minutes("nightly", 1, 2, 3, 14, 15, 16, 17), 10 * time.Minute, ""},
		{"longer than any of its kind, so others say nothing", join(minutes("nightly", 1, 1, 1, 1, 1), minutes("other", 50, 50, 50, 50, 50)), 10 * time.Minute, ""},
		{"the holder's clock is ahead", minutes("nightly", 5, 5, 5, 5, 5), -time.Minute, "usually given back in 5m (of 5 past runs of the same purpose)"},
	} {
		got := past{"gpu": c.holds}.expected(heldFor("nightly", 1, day), day.Add(c.so)).String()
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	free := heldFor("nightly", 1, day)
	free.Held = false
	unknown := heldFor("nightly", 1, day)
	unknown.Holder.Since = "\x1b"
	for _, s := range []lease.Sight{free, unknown, {}} {
		if v := (past{"gpu": minutes("nightly", 5, 5, 5, 5, 5)}).expected(s, day); v != nil {
			t.Errorf("%+v: %v", s, v)
		}
	}
}

// Only what its holder gave back counts, and of the log only its end is read.
func TestPast(t *testing.T) {
	b := lease.Open(t.TempDir(), t.TempDir(), t.TempDir())
	l, err := b.Store.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	log := func(verb string, d state.Detail) {
		d.Resource, d.Purpose, d.HeldSeconds = "gpu", "nightly", 600
		if err := l.Log(state.Event{At: day, By: "ann", Verb: verb, Detail: d}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * mostOfLog / 100 { // more than is read
		log("release", state.Detail{Outcome: "exit 0"})
	}
	if n, all := len(readPast(b, "gpu")["gpu"]), len(readPast(b, "")["gpu"]); n != mostRuns || all != mostRuns {
		t.Errorf("%d past holds, and %d", n, all)
	}
	if p := readPast(b, "gp"); len(p) != 0 {
		t.Errorf("past holds of another: %v", p)
	}
	if err := os.Truncate(b.Store.Events(), 0); err != nil {
		t.Fatal(err)
	}
	log("release", state.Detail{Outcome: "not started"})
	log("force", state.Detail{})
	log("lease.crash", state.Detail{Reason: `"verb":"release"`})
	log("claim", state.Detail{})
	if p := readPast(b, "gpu"); len(p) > 0 {
		t.Errorf("past holds %v", p)
	}
	log("release", state.Detail{Outcome: "signal 9"})
	log("release", state.Detail{})
	if p := readPast(b, "gpu"); len(p["gpu"]) != 2 {
		t.Errorf("past holds %v", p)
	}
}

// The log is read once for each holder, however often the line is drawn.
func TestExpectedIsReadOnceAHolder(t *testing.T) {
	dir := t.TempDir()
	b := lease.Open(dir, dir+"/leases", dir)
	write := func(seconds int) {
		line := fmt.Sprintf(`{"at":"2026-03-04T00:00:00.000Z","by":"ann","verb":"release","detail":{"resource":"gpu","purpose":"nightly","heldSeconds":%d}}`+"\n", seconds)
		if err := os.WriteFile(b.Store.Events(), []byte(strings.Repeat(line, 6)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var x expecter
	ask := func(fence int64, so time.Duration) string {
		return x.expected(b, &lease.Blocked{Resource: "gpu", Sight: heldFor("nightly", fence, day)}, day.Add(so)).String()
	}
	write(600)
	if got := ask(1, 0); !strings.Contains(got, "in 10m ") {
		t.Error(got)
	}
	write(1200)
	if got := ask(1, time.Minute); !strings.Contains(got, "in 9m ") { // the time goes on all the same
		t.Error(got)
	}
	if got := ask(2, time.Minute); !strings.Contains(got, "in 19m ") {
		t.Error(got)
	}
	if v := x.expected(b, &lease.Blocked{Resource: "gpu"}, day); v != nil {
		t.Errorf("nobody's: %v", v)
	}
}
