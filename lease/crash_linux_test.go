package lease_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
)

// A scenario is something that a process does, step by step; what it needs is
// made by given. It may be killed or stopped at any step.
type scenario struct {
	name      string
	resources []string // that somebody can claim when all is over
	granted   bool     // there is a supervisor, and one grant to a
	given     func(t testing.TB, w *world)
	play      func(w *world) error
}

// world is what a scenario plays in.
type world struct {
	b      *lease.Base
	a      *agent // who plays
	h      *agent // who holds at first, if anybody
	ticket string
	oracle string
}

// hand over: the holder gives back when the player waits.
func (w *world) handOver() error {
	if n, ok := w.a.next(patience); !ok || n.Ev != "waiting" {
		return fmt.Errorf("%+v, %v, want waiting", n, ok)
	}
	w.h.do(order{Do: "release"})
	return nil
}

func (w *world) holds(t testing.TB, resources ...string) {
	w.h = start(t, w.b, "h")
	w.h.claim(resources...)
}

func (w *world) section(resources ...string) {
	w.a.do(order{Do: "section", Resources: resources, Path: w.oracle, Hold: time.Millisecond})
}

func (w *world) ran() error {
	for {
		n, err := w.a.expect("ran")
		if n.Ev == "claimed" {
			continue
		}
		if err == nil && (n.Err != "" || !n.Alone) {
			err = fmt.Errorf("%+v", n)
		}
		return err
	}
}

func (w *world) asks(o order, ev string) error {
	w.a.do(o)
	n, err := w.a.expect(ev)
	if err == nil && n.Err != "" {
		err = fmt.Errorf("%+v", n)
	}
	return err
}

var scenarios = []scenario{
	{"a first run", []string{"gpu"}, false, nil, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a second run", []string{"gpu"}, false, func(t testing.TB, w *world) { free(t, w.b, "gpu") }, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a run by a grant", []string{"gpu"}, true, func(t testing.TB, w *world) {
		give(t, w.b, "a", "gpu")
		give(t, w.b, "x", "gpu")
	}, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a run that waits", []string{"gpu"}, false, func(t testing.TB, w *world) { w.holds(t, "gpu") }, func(w *world) error {
		w.section("gpu")
		if err := w.handOver(); err != nil {
			return err
		}
		return w.ran()
	}},
	{"a run of two", []string{"gpu", "usb"}, false, func(t testing.TB, w *world) { w.holds(t, "usb") }, func(w *world) error {
		w.section("gpu", "usb")
		if err := w.handOver(); err != nil {
			return err
		}
		return w.ran()
	}},
	{"a run after a crash", []string{"gpu"}, false, func(t testing.TB, w *world) { crash(t, w.b, "gpu") }, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a run by a grant after a crash", []string{"gpu"}, true, func(t testing.TB, w *world) {
		give(t, w.b, "crash", "gpu")
		crash(t, w.b, "gpu")
		give(t, w.b, "a", "gpu")
		age(t, w.b, 24*time.Hour)
	}, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	// A kill before the place is taken leaves it kept: not for longer than the next claim is given.
	{"a run from a kept place", []string{"gpu"}, false, func(t testing.TB, w *world) {
		w.holds(t, "gpu")
		k := start(t, w.b, "a")
		k.do(order{Do: "acquire", Resources: []string{"gpu"}, NoWait: true, Keep: 5 * time.Second})
		w.ticket = k.want("failed").ID
		k.kill()
	}, func(w *world) error {
		w.a.do(order{Do: "section", Resources: []string{"gpu"}, Path: w.oracle, Ticket: w.ticket})
		if err := w.handOver(); err != nil {
			return err
		}
		return w.ran()
	}},
	{"a supervisor at work", []string{"gpu"}, true, func(t testing.TB, w *world) { give(t, w.b, "a", "gpu") }, func(w *world) error {
		for _, o := range []struct {
			o  order
			ev string
		}{
			{order{Do: "grant", Resources: []string{"gpu", "usb"}, Who: session("x")}, "granted"},
			{order{Do: "revoke", Resources: []string{"gpu"}, Who: session("x")}, "revoked"},
			{order{Do: "supervise", Who: boss}, "supervises"},
		} {
			if err := w.asks(o.o, o.ev); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a force", []string{"gpu"}, false, func(t testing.TB, w *world) { w.holds(t, "gpu") }, func(w *world) error {
		return w.asks(order{Do: "force", Resources: []string{"gpu"}, Who: pat}, "forced")
	}},
	{"a record", []string{"gpu"}, false, nil, func(w *world) error {
		if err := w.asks(order{Do: "hold", Resources: []string{"gpu"}}, "held"); err != nil {
			return err
		}
		return w.asks(order{Do: "free", Resources: []string{"gpu"}}, "freed")
	}},
	{"a claim that is extended", []string{"gpu"}, false, nil, func(w *world) error {
		for _, o := range []order{{Do: "hold", Hold: time.Hour}, {Do: "extend", Hold: 2 * time.Hour}, {Do: "extend", Hold: moment}} {
			o.Resources = []string{"gpu"}
			if err := w.asks(o, map[string]string{"hold": "held", "extend": "extended"}[o.Do]); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a run after a claim's time", []string{"gpu"}, false, func(t testing.TB, w *world) { ended(t, w.b, "gpu") }, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a run by a grant after a claim's time", []string{"gpu"}, true, func(t testing.TB, w *world) {
		timed(t, w.b, boss, time.Hour, "gpu")
		give(t, w.b, "a", "gpu")
		age(t, w.b, 24*time.Hour)
		over(t, w.b, "gpu")
	}, func(w *world) error {
		w.section("gpu")
		return w.ran()
	}},
	{"a run of two that fails", []string{"gpu", "usb"}, false, nil, func(w *world) error {
		if err := w.asks(order{Do: "acquire", Resources: []string{"gpu", "usb"}}, "claimed"); err != nil {
			return err
		}
		return w.asks(order{Do: "stay", Hold: moment}, "stays")
	}},
	{"an ask", []string{"gpu"}, false, func(t testing.TB, w *world) { w.holds(t, "gpu") }, func(w *world) error {
		err := w.asks(order{Do: "ask", Resources: []string{"gpu"}}, "asks")
		if err == nil {
			w.h.do(order{Do: "release"})
		}
		return err
	}},
}

// moment is how long the timed claims of the scenarios last at their end: the
// next claim waits for that, and for nothing else.
const moment = time.Second

// stage makes a world with its scenario's beginnings.
func (s *scenario) stage(t testing.TB) *world {
	t.Helper()
	w := &world{b: newBase(t), oracle: filepath.Join(t.TempDir(), "in")}
	if s.granted {
		supervise(t, w.b)
	}
	if s.given != nil {
		s.given(t, w)
	}
	w.a = start(t, w.b, "a")
	return w
}

var counted = sync.OnceValue(func() map[string][]string { return map[string][]string{} })

// steps plays a scenario undisturbed and says which steps it took.
func (s *scenario) steps(t *testing.T) []string {
	t.Helper()
	if got := counted()[s.name]; got != nil {
		return got
	}
	w := s.stage(t)
	w.a.do(order{Do: "steps", N: -1})
	w.a.want("counting")
	if err := s.play(w); err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	w.a.do(order{Do: "counted"})
	got := w.a.want("counted").Steps
	if len(got) == 0 {
		t.Fatal("it takes no steps")
	}
	counted()[s.name] = got
	return got
}

// TestEveryStepIsPlayed: no step of the code is left out by the scenarios.
func TestEveryStepIsPlayed(t *testing.T) {
	played := map[string]bool{}
	for _, s := range scenarios {
		for _, step := range s.steps(t) {
			played[step] = true
		}
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	inCode := map[string]bool{}
	for _, f := range files {
		if m, _ := filepath.Match("*_test.go", f); m {
			continue
		}
		for _, m := range regexp.MustCompile(`\bstep\("([^"]+)"\)`).FindAllStringSubmatch(read(t, f), -1) {
			inCode[m[1]] = true
		}
	}
	if len(inCode) < 15 || !maps.Equal(inCode, played) {
		t.Errorf("the code has the steps\n%q\nplayed are\n%q", slices.Sorted(maps.Keys(inCode)), slices.Sorted(maps.Keys(played)))
	}
}

// TestKilledAtEveryStep: a process that is killed at any step leaves the next
// one nothing to stumble over, and nothing half-made for longer than that one's
// claim; a grant is there still, or was used by one claim.
func TestKilledAtEveryStep(t *testing.T) {
	for _, s := range scenarios {
		for i, step := range s.steps(t) {
			t.Run(fmt.Sprintf("%s, step %d, %s", s.name, i+1, step), func(t *testing.T) {
				t.Parallel()
				w := s.stage(t)
				before := granted(t, w.b, "gpu")
				w.a.do(order{Do: "steps", N: i + 1})
				w.a.want("counting")
				if err := s.play(w); err == nil {
					t.Fatal("it came through")
				}
				if err := w.a.died(); err != nil {
					t.Fatal(err)
				}
				if w.h != nil { // whatever became of it, it is over
					w.h.kill()
				}
				checkAfter(t, &s, w, before, i)
			})
		}
	}
}

func checkAfter(t *testing.T, s *scenario, w *world, before string, i int) {
	t.Helper()
	steps := counted()[s.name]
	after := granted(t, w.b, "gpu")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	who := session("next")
	if s.granted {
		who = boss
	}
	if sight, err := w.b.Look(s.resources[0]); err == nil && sight.Kind == lease.Recorded && (sight.Until().IsZero() || time.Until(sight.Until()) > time.Minute) {
		// A record without a witness is held until it is released, or for the
		// hours that it was claimed for: a death before that changes nothing.
		if _, err := w.b.Force(ctx, s.resources[0], pat, "its claimer was killed"); err != nil {
			t.Fatal(err)
		}
	}
	l, err := w.b.Acquire(ctx, order{Resources: s.resources, Who: who}.request(), lease.Options{})
	if err != nil {
		t.Fatalf("the next claim: %v", err)
	}
	only(t, w.b, s.resources...)
	must(t, l.Release(ctx, "exit 0"))
	only(t, w.b)
	tidy(t, w.b, s.resources...)

	if !s.granted || s.name == "a supervisor at work" {
		return
	}
	// The grant was used when the document was written, after claim.5.
	used := slices.Index(steps, "claim.5")
	if used < 0 {
		t.Fatal("no grant is used")
	}
	want := before
	if i > used {
		want = before[len("s-a"):]
		want = trimSpace(want)
	}
	if after != want {
		t.Errorf("after a kill at step %d the grants are of %q, want %q", i+1, after, want)
	}
	l, err = claimNow(w.b, session("a"), "gpu")
	if (err == nil) != (i <= used) {
		t.Errorf("a claim by the grant: %v", err)
	}
	if err == nil {
		must(t, l.Release(ctx, "exit 0"))
		if _, err = claimNow(w.b, session("a"), "gpu"); err == nil {
			t.Error("the grant was used twice")
		}
	}
}

func trimSpace(s string) string {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	return s
}

// TestStoppedAtEveryStep: a process that is stopped at any step for a while
// makes others wait at most; it isn't taken for dead, and goes on afterwards.
func TestStoppedAtEveryStep(t *testing.T) {
	for _, s := range scenarios {
		for i, step := range s.steps(t) {
			t.Run(fmt.Sprintf("%s, step %d, %s", s.name, i+1, step), func(t *testing.T) {
				t.Parallel()
				w := s.stage(t)
				c := start(t, w.b, "c")
				w.a.do(order{Do: "steps", N: i + 1, Path: "stop"})
				w.a.want("counting")
				played := make(chan error, 1)
				go func() { played <- s.play(w) }()
				if !w.a.stopped() {
					t.Fatal("it doesn't stop")
				}
				who := session("c")
				if s.granted {
					who = boss
				}
				c.do(order{Do: "section", Resources: s.resources, Path: w.oracle, Who: who})
				// Until it waits, is through, or stands before the lock.
				eventually(func() bool { return len(c.news) > 0 || waitsForLock(t, c.pid()) })
				time.Sleep(30 * time.Millisecond)
				if exists(w.oracle) {
					if who, _ := os.Readlink(w.oracle); who == fmt.Sprint(w.a.pid()) && len(c.news) > 1 {
						t.Error("two are in there")
					}
				}
				w.a.signal(syscall.SIGCONT)
				if err := <-played; err != nil {
					t.Errorf("it doesn't go on: %v", err)
				}
				for {
					n, err := c.expect("ran")
					if n.Ev == "claimed" {
						continue
					}
					if err != nil || !n.Alone || n.Err != "" {
						t.Errorf("the other one: %+v, %v", n, err)
					}
					break
				}
				only(t, w.b)
				tidy(t, w.b, s.resources...)
			})
		}
	}
}
