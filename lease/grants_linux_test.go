package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// supervise records the boss, with no process to watch.
func supervise(t testing.TB, b *lease.Base) {
	t.Helper()
	must(t, second(b.Supervise(t.Context(), boss, 0, false)))
}

func give(t testing.TB, b *lease.Base, to string, resources ...string) {
	t.Helper()
	must(t, b.Grant(t.Context(), lease.Grant{Resources: resources, To: session(to), By: boss}))
}

// document is what the state document says.
func document(t testing.TB, b *lease.Base) *state.State {
	t.Helper()
	b = again(b)
	l, err := b.Store.Look(t.Context())
	must(t, err)
	defer l.Unlock()
	st, err := l.State()
	must(t, err)
	return st
}

// edit changes the document as another tool would.
func edit(t testing.TB, b *lease.Base, f func(*state.State)) {
	t.Helper()
	l, err := b.Store.Lock(t.Context())
	must(t, err)
	defer l.Unlock()
	st, err := l.State()
	must(t, err)
	f(st)
	must(t, l.Save(st))
}

// age makes the grants older.
func age(t testing.TB, b *lease.Base, by time.Duration) {
	t.Helper()
	edit(t, b, func(st *state.State) {
		for i := range st.Grants {
			st.Grants[i].At = st.Grants[i].At.Add(-by)
		}
		for res, at := range st.Released {
			st.Released[res] = at.Add(-by)
		}
	})
}

// granted are the parties with grants of res, in order.
func granted(t testing.TB, b *lease.Base, res string) string {
	t.Helper()
	var to []string
	for _, g := range document(t, b).Grants {
		if g.Resource == res {
			to = append(to, g.To.Session)
		}
	}
	return strings.Join(to, " ")
}

// TestGrantOrder: B14. Ten waiters come in one order and are granted in
// another, which is the one they run in; who comes without waiting, again and
// again while it goes from hand to hand, gets it never.
func TestGrantOrder(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	holder := start(t, b, "holder")
	holder.do(order{Do: "acquire", Resources: []string{"gpu"}, Who: boss})
	holder.want("claimed")
	dir := t.TempDir()
	path, end := filepath.Join(dir, "order"), filepath.Join(dir, "end")
	waiters := map[string]*agent{}
	for i, n := range rand.Perm(10) {
		a := start(t, b, fmt.Sprintf("w%d", n))
		a.do(order{Do: "order", Resources: []string{"gpu"}, Path: path, Hold: 5 * time.Millisecond})
		if n := a.want("waiting"); n.Place != i+1 || !strings.Contains(n.Refused, "boss") {
			t.Errorf("%s, arrival %d: %+v", a.name, i+1, n)
		}
		waiters[a.name] = a
	}
	want := ""
	for _, n := range rand.Perm(10) {
		a := waiters[fmt.Sprintf("w%d", n)]
		give(t, b, a.name, "gpu")
		want += a.name + "\n"
	}
	barger := start(t, b, "barger")
	barger.do(order{Do: "barge", Resources: []string{"gpu"}, N: 50, Path: end})
	holder.release()
	for _, a := range waiters {
		a.want("claimed")
		a.ok("ran")
	}
	write(t, end, "")
	if n := barger.ok("barged"); n.N < 50 {
		t.Errorf("only %d attempts", n.N)
	}
	if got := read(t, path); got != want {
		t.Errorf("they were granted as\n%sand ran as\n%s", want, got)
	}
	if got := granted(t, b, "gpu"); got != "" {
		t.Errorf("left are grants to %s", got)
	}
	only(t, b)
	tidy(t, b, "gpu")
}

// TestDeadWaitersSupervised: B13. A waiter that was interrupted and one that was
// killed are in no line; the one that is granted runs.
func TestDeadWaitersSupervised(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	give(t, b, "h", "gpu")
	h, a, k, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "k"), start(t, b, "c")
	h.claim("gpu")
	for _, w := range []*agent{a, k, c} {
		w.wait(order{Resources: []string{"gpu"}})
	}
	a.do(order{Do: "cancel"})
	a.want("failed")
	k.kill()
	if got := waits(t, b, "gpu"); got != "s-c" {
		t.Errorf("in line are %s", got)
	}
	h.release()
	c.quiet()
	// Grants to the dead wait, as all do; they can be taken back, and then the
	// next one's turn has come.
	give(t, b, "a", "gpu")
	give(t, b, "k", "gpu")
	give(t, b, "c", "gpu")
	c.quiet()
	for _, dead := range []string{"a", "k"} {
		if n, err := b.Revoke(t.Context(), []string{"gpu"}, session(dead), boss, false); n != 1 || err != nil {
			t.Errorf("revoked %d, %v", n, err)
		}
	}
	c.want("claimed")
	c.release()
	only(t, b)
	free2(t, b)
}

// free2 is free for the supervisor.
func free2(t testing.TB, b *lease.Base) {
	t.Helper()
	l, err := claimNow(b, boss, "gpu")
	must(t, err)
	must(t, l.Release(t.Context(), ""))
	tidy(t, b, "gpu")
}

// TestGrantsWakeWhoComes: each change that makes it somebody's turn is heard of,
// wherever that one is in line, and by nobody's clock: every waiter but the
// first in line has none, and the first one is stopped.
func TestGrantsWakeWhoComes(t *testing.T) {
	for _, c := range []struct {
		name   string
		given  func(t *testing.T, b *lease.Base)
		change func(t *testing.T, b *lease.Base)
	}{
		{"a grant", func(t *testing.T, b *lease.Base) {}, func(t *testing.T, b *lease.Base) { give(t, b, "c", "gpu") }},
		{"a revoke", func(t *testing.T, b *lease.Base) {
			for _, who := range []string{"x", "y", "z", "c"} {
				give(t, b, who, "gpu")
			}
		}, func(t *testing.T, b *lease.Base) {
			for _, who := range []string{"y", "z", "x"} {
				must(t, second(b.Revoke(t.Context(), []string{"gpu"}, session(who), boss, false)))
			}
		}},
		{"a claim of the one ahead", func(t *testing.T, b *lease.Base) {
			give(t, b, "x", "gpu")
			give(t, b, "c", "gpu")
		}, func(t *testing.T, b *lease.Base) {
			l, err := claimNow(again(b), session("x"), "gpu")
			must(t, err)
			must(t, l.Release(t.Context(), ""))
		}},
		{"the end of an upgrade", func(t *testing.T, b *lease.Base) {
			must(t, b.Upgrade(t.Context(), "gpu/main", "v2", time.Time{}, pat))
			give(t, b, "c", "gpu")
		}, func(t *testing.T, b *lease.Base) { must(t, b.EndUpgrade(t.Context(), "gpu/main", pat)) }},
		{"a way through an upgrade", func(t *testing.T, b *lease.Base) {
			must(t, b.Upgrade(t.Context(), "gpu/main", "v2", time.Time{}, pat))
			give(t, b, "x", "gpu")
		}, func(t *testing.T, b *lease.Base) {
			must(t, b.Grant(t.Context(), lease.Grant{Resources: []string{"gpu"}, To: session("c"), By: boss, Unblock: "why not"}))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			supervise(t, b)
			c.given(t, b)
			first, second, a := start(t, b, "first"), start(t, b, "second"), start(t, b, "c")
			for _, w := range []*agent{first, second, a} {
				w.wait(order{Resources: []string{"gpu"}})
			}
			first.stop()
			a.quiet()
			c.change(t, b)
			a.want("claimed")
			second.quiet()
			a.release()
		})
	}
}

// TestSupervisorStops: tickets decide from then on.
func TestSupervisorStops(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	a, c := start(t, b, "a"), start(t, b, "c")
	a.wait(order{Resources: []string{"gpu"}})
	c.wait(order{Resources: []string{"gpu"}})
	give(t, b, "x", "gpu")
	must(t, b.Unsupervise(t.Context(), boss, false))
	a.want("claimed")
	if got := granted(t, b, "gpu"); got != "" {
		t.Errorf("left are grants to %s", got)
	}
	c.quiet()
	a.release()
	c.want("claimed")
	c.release()
	only(t, b)
	tidy(t, b, "gpu")
}

// TestSupervisorStarts: who waits in line waits for a grant from then on.
func TestSupervisorStarts(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu")
	a.wait(order{Resources: []string{"gpu"}})
	c.wait(order{Resources: []string{"gpu"}})
	supervise(t, b)
	h.release()
	a.quiet()
	give(t, b, "c", "gpu")
	c.want("claimed")
	c.release()
	a.quiet()
	give(t, b, "a", "gpu")
	a.want("claimed")
}

// TestPersonInLine: a party that needs no grant is not behind those that do.
func TestPersonInLine(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	path := filepath.Join(t.TempDir(), "order")
	h, a, p, q := start(t, b, "h"), start(t, b, "a"), start(t, b, "p"), start(t, b, "q")
	h.do(order{Do: "acquire", Resources: []string{"gpu"}, Who: boss})
	h.want("claimed")
	a.do(order{Do: "order", Resources: []string{"gpu"}, Path: path})
	a.want("waiting")
	p.wait(order{Resources: []string{"gpu"}, Who: pat})
	q.do(order{Do: "order", Resources: []string{"gpu"}, Path: path, Who: state.Party{Name: "pia"}})
	q.want("waiting")
	h.release()
	p.want("claimed")
	q.quiet()
	give(t, b, "a", "gpu")
	a.quiet()
	// Now two may: the granted one, and the next person. One after the other
	// they both run.
	p.release()
	for _, w := range []*agent{a, q} {
		w.want("claimed")
		w.ok("ran")
	}
	only(t, b)
	free2(t, b)
}

// TestGateAfterLook: R4. A dead lease is retired by whoever looks, whether or
// not it may claim; the grant of a dead process keeps nobody from it.
func TestGateAfterLook(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	give(t, b, "crash", "gpu", "gpu")
	give(t, b, "a", "gpu")
	dead := start(t, b, "crash")
	dead.claim("gpu") // uses the first up, the second is the dead one's too
	age(t, b, 24*time.Hour)
	dead.kill()
	if l, err := claimNow(b, session("x"), "gpu"); err == nil {
		t.Fatalf("claimed without a grant: %v", l)
	}
	only(t, b)
	released := document(t, b).Released["gpu"]
	if d := time.Since(released); d < 0 || d > patience {
		t.Errorf("released %v", released)
	}
	if got := granted(t, b, "gpu"); got != "s-crash s-a" {
		t.Errorf("granted to %s", got)
	}
}

// TestGrantAheadRunsOut: R5. Who comes after a grant that nobody uses goes on
// when that one's time is over, not before; nothing announces that. Wherever it
// is in line.
func TestGrantAheadRunsOut(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead int // grants of others ahead of it
		line  int // others in line ahead of it, without a grant
	}{
		{"alone", 1, 0},
		{"second in line", 1, 1},
		{"third grant, second in line", 2, 1},
		{"fifth grant, fourth in line", 4, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			supervise(t, b)
			for i := range c.ahead {
				give(t, b, fmt.Sprintf("absent%d", i), "gpu")
			}
			age(t, b, lease.GrantTTL-1500*time.Millisecond)
			give(t, b, "a", "gpu")
			for i := range c.line {
				start(t, b, fmt.Sprintf("x%d", i)).wait(order{Resources: []string{"gpu"}})
			}
			last := time.Time{}
			for _, g := range document(t, b).Grants[:c.ahead] {
				last = g.At.Add(lease.GrantTTL)
			}
			a := start(t, b, "a")
			a.do(order{Do: "acquire", Resources: []string{"gpu"}})
			a.want("claimed")
			if early := time.Until(last); early > 0 {
				t.Errorf("claimed %v before the other grant ran out", early)
			}
			if late := time.Since(last); late > 20*time.Second {
				t.Errorf("claimed %v after the other grant ran out", late)
			}
			a.release()
		})
	}
}

// TestReleaseStartsTheClock: R6. A grant that waited longer than its time while
// the resource was held can be claimed after every kind of end.
func TestReleaseStartsTheClock(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		hold func(t *testing.T, b *lease.Base) (end func(t *testing.T))
	}{
		{"release", func(t *testing.T, b *lease.Base) func(*testing.T) {
			l, err := claimNow(b, boss, "gpu")
			must(t, err)
			return func(t *testing.T) { must(t, l.Release(ctx, "exit 0")) }
		}},
		{"crash", func(t *testing.T, b *lease.Base) func(*testing.T) {
			a := start(t, b, "h")
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Who: boss})
			a.want("claimed")
			return func(t *testing.T) { a.kill() }
		}},
		{"force", func(t *testing.T, b *lease.Base) func(*testing.T) {
			l, err := claimNow(b, boss, "gpu")
			must(t, err)
			return func(t *testing.T) {
				must(t, second(again(b).Force(ctx, "gpu", pat, "")))
				if err := l.Release(ctx, ""); !errors.Is(err, lease.ErrLost) {
					t.Errorf("release after a force: %v", err)
				}
			}
		}},
		{"free", func(t *testing.T, b *lease.Base) func(*testing.T) {
			must(t, third(b.Hold(ctx, "gpu", lease.Holder{Session: boss.Session}, 0)))
			return func(t *testing.T) { must(t, b.Free(ctx, "gpu", boss)) }
		}},
		{"Dir.Release", func(t *testing.T, b *lease.Base) func(*testing.T) {
			must(t, second(b.Leases.Claim("gpu", lease.Holder{})))
			return func(t *testing.T) { must(t, b.Leases.Release("gpu")) }
		}},
		{"abandoned", func(t *testing.T, b *lease.Base) func(*testing.T) {
			must(t, os.Mkdir(at(b, "gpu"), 0o700))
			return func(t *testing.T) { must(t, os.Chtimes(at(b, "gpu"), noon, noon)) }
		}},
		{"the shell lock's rm, once it was seen held", func(t *testing.T, b *lease.Base) func(*testing.T) {
			write(t, at(b, "gpu", "holder.json"), good)
			// The grants are older than this look: only a mark says that they
			// wait for the shell lock.
			if _, err := claimNow(b, session("x"), "gpu"); err == nil {
				t.Fatal("claimed a shell lock")
			}
			return func(t *testing.T) { must(t, os.RemoveAll(at(b, "gpu"))) }
		}},
	} {
		for _, next := range []string{"claimed", "another look first", "another grant first", "waited for"} {
			t.Run(c.name+", "+next, func(t *testing.T) {
				b := newBase(t)
				supervise(t, b)
				give(t, b, "a", "gpu")
				end := c.hold(t, b)
				age(t, b, 24*time.Hour)
				if c.name == "the shell lock's rm, once it was seen held" {
					if _, err := claimNow(b, session("x"), "gpu"); err == nil {
						t.Fatal("claimed a shell lock")
					}
				}
				var w *agent
				if next == "waited for" {
					w = start(t, b, "a")
					w.wait(order{Resources: []string{"gpu"}})
				}
				end(t)
				switch next {
				case "waited for":
					w.want("claimed")
					w.release()
					return
				case "another look first":
					if _, err := claimNow(again(b), session("x"), "gpu"); err == nil {
						t.Fatal("claimed without a grant")
					}
				case "another grant first":
					must(t, again(b).Grant(ctx, lease.Grant{Resources: []string{"gpu"}, To: session("y"), By: boss}))
				}
				l, err := claimNow(b, session("a"), "gpu")
				if err != nil {
					t.Fatalf("the grant is gone: %v", err)
				}
				must(t, l.Release(ctx, ""))
			})
		}
	}
}

// TestExpiredGrantStaysSo: the next holder's release doesn't bring it back.
func TestExpiredGrantStaysSo(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	give(t, b, "late", "gpu")
	age(t, b, lease.GrantTTL+time.Second)
	l, err := claimNow(b, boss, "gpu")
	must(t, err)
	must(t, l.Release(t.Context(), ""))
	if _, err := claimNow(b, session("late"), "gpu"); err == nil {
		t.Error("an expired grant was used")
	}
}

// TestUpgradeRunsOut: at its time everybody hears of it, though nobody says it.
func TestUpgradeRunsOut(t *testing.T) {
	b := newBase(t)
	until := time.Now().Add(1200 * time.Millisecond)
	must(t, b.Upgrade(t.Context(), "gpu", "v2", until, pat))
	a, c := start(t, b, "a"), start(t, b, "c")
	path := filepath.Join(t.TempDir(), "order")
	a.do(order{Do: "order", Resources: []string{"gpu"}, Path: path})
	a.want("waiting")
	c.do(order{Do: "order", Resources: []string{"gpu"}, Path: path, Who: pat})
	for _, w := range []*agent{a, c} {
		w.want("claimed")
		if early := time.Until(until); early > 0 {
			t.Errorf("%s claimed %v early", w.name, early)
		}
		w.ok("ran")
	}
	if got := read(t, path); got != "a\npat\n" {
		t.Errorf("they ran as %q", got)
	}
}

// TestUnblockedRecord: why a claim was admitted is in its record, and only then.
func TestUnblockedRecord(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	must(t, b.Upgrade(t.Context(), "gpu/main", "v2", time.Time{}, pat))
	must(t, b.Grant(t.Context(), lease.Grant{Resources: []string{"gpu", "usb"}, To: session("a"), By: boss, Unblock: "the fix"}))
	for res, want := range map[string]string{"gpu": "the fix", "usb": ""} {
		l, err := claimNow(b, session("a"), res)
		must(t, err)
		if h, err := b.Leases.Get(res); err != nil || h.UpgradeUnblock != want {
			t.Errorf("%s: %+v, %v", res, h, err)
		}
		must(t, l.Release(t.Context(), ""))
	}
	if got := document(t, b).Grants; len(got) != 0 {
		t.Errorf("left are %+v", got)
	}
}

// TestGrantIsUsedOnce: one grant, many that may claim by it, at once.
func TestGrantIsUsedOnce(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	var agents []*agent
	for i := range 6 {
		agents = append(agents, start(t, b, fmt.Sprint(i)))
	}
	who := session("a")
	for range 10 {
		give(t, b, "a", "gpu")
		for _, a := range agents {
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Who: who, NoWait: true})
		}
		won := 0
		for _, a := range agents {
			n, ok := a.next(patience)
			if ok && n.Ev == "claimed" {
				won++
				a.release()
			} else if n.Kind != "blocked" {
				t.Errorf("%+v", n)
			}
		}
		if got := granted(t, b, "gpu"); won != 1 || got != "" {
			t.Fatalf("%d claims by one grant, left are %q", won, got)
		}
	}
}

// TestDocumentCantBeWritten: a claim by a grant that can't be used up is none.
func TestDocumentCantBeWritten(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	give(t, b, "a", "gpu", "usb")
	// The name of the temporary file is taken by something that can't go.
	must(t, os.MkdirAll(filepath.Join(b.Store.Dir, ".state.json.new", "x"), 0o700))
	if l, err := claimNow(b, session("a"), "gpu", "usb"); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Fatalf("%v, %v", l, err)
	}
	if h, _, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: session("a").Session}, 0); h != nil || err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("a claim without a command: %+v, %v", h, err)
	}
	if l, err := b.Leases.List(); len(l) != 0 || err != nil {
		t.Errorf("left are %+v, %v", l, err)
	}
	must(t, os.RemoveAll(filepath.Join(b.Store.Dir, ".state.json.new")))
	if got := granted(t, b, "gpu") + granted(t, b, "usb"); got != "s-as-a" {
		t.Errorf("granted to %q", got)
	}
	l, err := claimNow(b, session("a"), "gpu", "usb")
	must(t, err)
	must(t, l.Release(t.Context(), ""))
	only(t, b)
}

// TestWhoDecides: the recorded supervisor grants and revokes, or a person that
// insists.
func TestWhoDecides(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	try := func(by state.Party, force bool) (grant, revoke error) {
		return b.Grant(ctx, lease.Grant{Resources: []string{"gpu"}, To: ann, By: by, Force: force}), second(b.Revoke(ctx, []string{"gpu"}, ann, by, force))
	}
	isNo := func(what string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			var no *lease.SupervisorError
			if !errors.As(err, &no) || !lease.IsRefusal(err) {
				t.Errorf("%s: %v, want a refusal", what, err)
			}
		}
	}
	g, r := try(boss, false)
	isNo("no supervisor", g, r)
	g, _ = try(pat, true)
	isNo("no supervisor, no upgrade, by force", g)
	supervise(t, b)
	g, r = try(boss, false)
	must(t, errors.Join(g, r))
	g, r = try(with(boss, func(p *state.Party) { p.Session = "s-boss-2" }), false)
	must(t, errors.Join(g, r))
	g, r = try(ann, false)
	isNo("a session", g, r)
	g, r = try(ann, true)
	isNo("a session by force", g, r)
	g, r = try(pat, false)
	isNo("a person", g, r)
	g, r = try(pat, true)
	must(t, errors.Join(g, r))

	// Another supervisor.
	isNo("a second supervisor", second(b.Supervise(ctx, ann, 0, false)), second(b.Supervise(ctx, ann, 0, true)), second(b.Supervise(ctx, pat, 0, false)))
	isNo("another stops it", b.Unsupervise(ctx, ann, false), b.Unsupervise(ctx, ann, true), b.Unsupervise(ctx, pat, false))
	since := document(t, b).Supervisor.Since
	if took, err := b.Supervise(ctx, boss, 0, false); took != nil || err != nil {
		t.Errorf("once more: %v, %v", took, err)
	}
	if now := document(t, b).Supervisor.Since; !now.Equal(since) {
		t.Errorf("it supervises since %v, then %v", since, now)
	}
	if took, err := b.Supervise(ctx, pat, 0, true); took == nil || took.Session != boss.Session || err != nil {
		t.Errorf("by force: %v, %v", took, err)
	}
	must(t, b.Unsupervise(ctx, pat, false))
	isNo("nobody stops", b.Unsupervise(ctx, pat, true))
}

// TestSupervisorsProcess: B55. While its process may come back it is the
// supervisor; then its grants still count, and another one takes over with the
// queue as it is.
func TestSupervisorsProcess(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	process := start(t, b, "process")
	must(t, second(b.Supervise(ctx, boss, process.pid(), false)))
	give(t, b, "a", "gpu")
	give(t, b, "c", "gpu")
	l, err := claimNow(b, boss, "usb") // lives on through all of this
	must(t, err)
	w := start(t, b, "w")
	if n := w.wait(order{Resources: []string{"gpu"}}); strings.Contains(n.Refused, "restart") {
		t.Errorf("refused: %s", n.Refused)
	}
	process.kill()
	// Who waits is told.
	if !eventually(func() bool {
		n, _ := w.next(patience)
		return strings.Contains(n.Refused, "may restart until")
	}) {
		t.Error("the waiter isn't told that it is away")
	}
	if err := second(b.Supervise(ctx, ann, 0, false)); err == nil || !strings.Contains(err.Error(), "may restart") {
		t.Errorf("taken over at once: %v", err)
	}
	gone := document(t, b).SupervisorCLI.Gone
	if d := time.Since(gone); d < 0 || d > patience {
		t.Errorf("gone since %v", gone)
	}
	// Its restart.
	process = start(t, b, "process again")
	must(t, second(b.Supervise(ctx, boss, process.pid(), false)))
	if !document(t, b).SupervisorCLI.Gone.IsZero() {
		t.Error("it is back, and isn't")
	}
	process.kill()
	second(claimNow(b, session("x"), "gpu")) // notes it
	edit(t, b, func(st *state.State) { st.SupervisorCLI.Gone = time.Now().Add(-lease.RestartGrace - time.Second) })
	var bl *lease.Blocked
	if err := second(claimNow(b, session("x"), "gpu")); !errors.As(err, &bl) || !bl.Gone || !strings.Contains(bl.Error(), "gone") {
		t.Errorf("%v", err)
	}
	al, err := claimNow(b, session("a"), "gpu")
	if err != nil {
		t.Fatalf("the grant of one that is gone: %v", err)
	}
	must(t, al.Release(ctx, ""))
	took, err := b.Supervise(ctx, ann, 0, false)
	if err != nil || took == nil || took.Session != boss.Session {
		t.Errorf("taken over: %v, %v", took, err)
	}
	if got := granted(t, b, "gpu"); got != "s-c" {
		t.Errorf("granted to %q", got)
	}
	if s, err := b.Look("usb"); err != nil || s.Kind != lease.Running {
		t.Errorf("the boss's lease: %+v, %v", s, err)
	}
	must(t, l.Release(ctx, ""))
}

// TestSupervisorsPIDReused: B18. A process that has come to its pid is not it.
func TestSupervisorsPIDReused(t *testing.T) {
	b := newBase(t)
	must(t, second(b.Supervise(t.Context(), boss, os.Getpid(), false)))
	edit(t, b, func(st *state.State) {
		if st.SupervisorCLI.Start == "" {
			t.Error("its start is not noted")
		}
		st.SupervisorCLI.Start += "1"
	})
	var bl *lease.Blocked
	if err := second(claimNow(b, session("x"), "gpu")); !errors.As(err, &bl) || bl.RestartUntil.IsZero() {
		t.Errorf("%v: %+v", err, bl)
	}
}

// TestUpgradeVerbs: begin and end, and what they leave.
func TestUpgradeVerbs(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	for _, bad := range []string{"", "/", "gpu/", "/main", "gpu/a/b", "../x", "gpu/..", "gpu /x"} {
		if err := b.Upgrade(ctx, bad, "", time.Time{}, pat); err == nil {
			t.Errorf("upgrade of %q", bad)
		}
		if err := b.EndUpgrade(ctx, bad, pat); err == nil {
			t.Errorf("end of the upgrade of %q", bad)
		}
	}
	must(t, b.Upgrade(ctx, "gpu/main", "v2", time.Time{}, pat))
	if err := b.Upgrade(ctx, "gpu/main", "v3", time.Time{}, ann); err == nil || !strings.Contains(err.Error(), "pat") {
		t.Errorf("twice: %v", err)
	}
	must(t, b.Upgrade(ctx, "gpu", "v3", time.Time{}, ann))
	if err := second(claimNow(b, pat, "gpu")); err == nil {
		t.Error("claimed during an upgrade")
	}
	free(t, b, "main")
	must(t, b.EndUpgrade(ctx, "gpu/main", pat))
	if err := b.EndUpgrade(ctx, "gpu/main", pat); err == nil {
		t.Error("ended twice")
	}
	if err := second(claimNow(b, pat, "gpu")); err == nil {
		t.Error("claimed during the other upgrade")
	}
	must(t, b.EndUpgrade(ctx, "gpu", pat))
	free(t, b, "gpu")
	holds := document(t, b).Holds
	if len(holds) != 2 || slices.ContainsFunc(holds, func(h state.Hold) bool { return h.LiftedAt.IsZero() || h.LiftedBy.Name != "pat" }) {
		t.Errorf("holds %+v", holds)
	}
	// A lease that is held when an upgrade begins stays its holder's.
	l, err := claimNow(b, ann, "gpu")
	must(t, err)
	must(t, b.Upgrade(ctx, "gpu", "v4", time.Time{}, pat))
	must(t, l.Renew())
	must(t, l.Release(ctx, ""))
}
