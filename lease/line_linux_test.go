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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// tidy says that a line is empty, and nothing half-made is in it.
func tidy(t testing.TB, b *lease.Base, resources ...string) {
	t.Helper()
	for _, res := range resources {
		got := slices.DeleteFunc(names(t, at(b, ".queue", res)), func(n string) bool { return n == "last" || n == "spare" || n == "index" })
		if len(got) > 0 {
			t.Errorf("left in the line of %s: %q", res, got)
		}
	}
}

// waits is who is in line, by session, in order.
func waits(t testing.TB, b *lease.Base, res string) string {
	t.Helper()
	line, err := b.Line(res)
	must(t, err)
	var who []string
	for _, w := range line {
		who = append(who, w.Party.Session)
	}
	return strings.Join(who, " ")
}

// TestFirstInFirstOut: ten waiters get it in the order in which they came, and
// each hand-over wakes one of them: who is woken claims. Who is first in line
// also looks every two seconds; all others sleep once.
func TestFirstInFirstOut(t *testing.T) {
	b := newBase(t)
	holder := start(t, b, "holder")
	holder.claim("gpu")
	path := filepath.Join(t.TempDir(), "order")
	var waiters []*agent
	want := ""
	for i, n := range rand.Perm(10) {
		a := start(t, b, fmt.Sprintf("w%d", n))
		a.do(order{Do: "order", Resources: []string{"gpu"}, Path: path, Hold: 2 * time.Millisecond})
		if n := a.want("waiting"); n.Place != i+1 || n.Holder != "s-holder" {
			t.Errorf("%s, arrival %d: %+v", a.name, i+1, n)
		}
		waiters = append(waiters, a)
		want += a.name + "\n"
	}
	holder.release()
	var fence int64
	for i, a := range waiters {
		n := a.want("claimed")
		if n.Tells != 1 && i > 0 {
			t.Errorf("waiter %d slept %d times", i+1, n.Tells)
		}
		if n.Fences[0] <= fence {
			t.Errorf("fence %d after %d", n.Fences[0], fence)
		}
		fence = n.Fences[0]
		a.ok("ran")
	}
	if got := read(t, path); got != want {
		t.Errorf("they came as\n%sand ran as\n%s", want, got)
	}
	only(t, b)
	tidy(t, b, "gpu")
}

// TestReleaseWakesTheNext: who is next is told of a release, though a daemon of the command keeps the witness open, whose
// hang-up never comes then. Not the clock: that would come after two seconds, each time.
func TestReleaseWakesTheNext(t *testing.T) {
	b := newBase(t)
	h, w := start(t, b, "h"), start(t, b, "w")
	best := time.Hour
	for range 3 {
		h.claim("gpu")
		h.child(order{Inherit: true})
		w.wait(order{Resources: []string{"gpu"}})
		began := time.Now()
		h.release()
		w.want("claimed")
		best = min(best, time.Since(began))
		w.release()
	}
	if best > inTime {
		t.Errorf("the next one has it after %v", best)
	}
	only(t, b)
	tidy(t, b, "gpu")
}

// TestToldBeforeTheChange: whom a change concerns is told before it is made: who is killed in between leaves no waiter
// that has to find it by itself.
func TestToldBeforeTheChange(t *testing.T) {
	holds := func(who state.Party) func(t *testing.T, b *lease.Base, a *agent) {
		return func(t *testing.T, b *lease.Base, a *agent) {
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Who: who})
			a.want("claimed")
		}
	}
	for _, c := range []struct {
		name   string
		given  func(t *testing.T, b *lease.Base, a *agent)
		change order
		step   string // before it the waiter has been told, and after it the change is made
		waiter state.Party
	}{
		{"release", holds(session("a")), order{Do: "release"}, "release.5", session("w")},
		{"force", holds(session("a")), order{Do: "force", Who: pat}, "release.5", session("w")},
		{"release to a person, who needs no grant", func(t *testing.T, b *lease.Base, a *agent) {
			supervise(t, b)
			holds(boss)(t, b, a)
		}, order{Do: "release"}, "release.5", pat},
		{"release of what is granted on", func(t *testing.T, b *lease.Base, a *agent) {
			supervise(t, b)
			give(t, b, "w", "gpu")
			holds(boss)(t, b, a)
		}, order{Do: "release"}, "release.5", session("w")},
		{"claim by a grant", func(t *testing.T, b *lease.Base, _ *agent) {
			supervise(t, b)
			give(t, b, "a", "gpu")
			give(t, b, "w", "gpu")
		}, order{Do: "acquire"}, "claim.5", session("w")},
		{"grant", func(t *testing.T, b *lease.Base, _ *agent) { supervise(t, b) }, order{Do: "grant", Who: session("w")}, "grant.2", session("w")},
		{"revoke", func(t *testing.T, b *lease.Base, a *agent) {
			supervise(t, b)
			give(t, b, "w", "gpu")
			holds(boss)(t, b, a)
		}, order{Do: "revoke", Who: session("w")}, "grant.2", session("w")},
		{"supervisor stop", func(t *testing.T, b *lease.Base, _ *agent) { supervise(t, b) }, order{Do: "unsupervise", Who: boss}, "grant.2", session("w")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			a, w := start(t, b, "a"), start(t, b, "w")
			c.given(t, b, a)
			w.wait(order{Resources: []string{"gpu"}, Who: c.waiter})
			w.stop()
			line, err := b.Line("gpu")
			must(t, err)
			mailbox := at(b, ".queue", "gpu", fmt.Sprint(line[0].Number))
			if n := unread(t, mailbox); n != 0 {
				t.Fatalf("%d bytes are in its mailbox before", n)
			}
			a.do(order{Do: "steps", Step: c.step, N: 1, Path: "stop"})
			a.want("counting")
			c.change.Resources = []string{"gpu"}
			a.do(c.change)
			if !a.stopped() {
				t.Fatal("it doesn't stop")
			}
			if unread(t, mailbox) == 0 {
				t.Errorf("at %s nobody has told it", c.step)
			}
		})
	}
}

// unread is how many bytes are in a FIFO.
func unread(t testing.TB, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	must(t, err)
	return n
}

// TestHandOverByDeath: each of ten is killed as soon as it holds, and the next
// hears of it from the kernel alone: only the first in line has a clock. R1: at
// the hang-up the dead one's lock is free.
func TestHandOverByDeath(t *testing.T) {
	b := newBase(t)
	holder := start(t, b, "holder")
	holder.claim("gpu")
	var waiters []*agent
	for i := range 10 {
		a := start(t, b, fmt.Sprintf("w%d", i))
		a.wait(order{Resources: []string{"gpu"}})
		waiters = append(waiters, a)
	}
	for _, a := range waiters {
		holder.kill()
		// At most once more than needed: its end shows at the ticket, which
		// the next one watches, a little before it shows at the witness.
		if n := a.want("claimed"); n.Tells > 2 && a != waiters[0] {
			t.Errorf("%s slept %d times", a.name, n.Tells)
		}
		holder = a
	}
	holder.release()
	only(t, b)
	tidy(t, b, "gpu")
	if n := len(slices.DeleteFunc(verbs(t, b), func(v string) bool { return v != "lease.crash" })); n != 10 {
		t.Errorf("%d crashes in the log", n)
	}
}

// TestDeathWhileWaiting: waiters die all over the line, by the kill and by the
// signal that cancels, and those behind them move up.
func TestDeathWhileWaiting(t *testing.T) {
	b := newBase(t)
	holder := start(t, b, "holder")
	holder.claim("gpu")
	waiters := map[string]*agent{}
	for i := range 9 {
		name := fmt.Sprintf("w%d", i)
		waiters[name] = start(t, b, name)
		waiters[name].wait(order{Resources: []string{"gpu"}})
	}
	gone := rand.Perm(9)[:6]
	for i, n := range gone {
		a := waiters[fmt.Sprintf("w%d", n)]
		if i%2 == 0 {
			a.kill()
		} else {
			a.do(order{Do: "cancel"})
			if n := a.want("failed"); n.Err != "interrupted" {
				t.Errorf("cancelled: %+v", n)
			}
		}
	}
	var want []string
	for i := range 9 {
		if !slices.Contains(gone, i) {
			want = append(want, fmt.Sprintf("s-w%d", i))
		}
	}
	if got := waits(t, b, "gpu"); got != strings.Join(want, " ") {
		t.Errorf("in line are %s, want %s", got, want)
	}
	holder.release()
	for _, w := range want {
		a := waiters[strings.TrimPrefix(w, "s-")]
		a.want("claimed")
		a.release()
	}
	free(t, b, "gpu") // finds those that died at the end of the line
	only(t, b)
	tidy(t, b, "gpu")
}

// TestDeadWaiters: B13, without a supervisor: one that was interrupted and one
// that was killed hold nobody back, and are in no line.
func TestDeadWaiters(t *testing.T) {
	b := newBase(t)
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
	// Once it has heard of both, c is the first.
	if !eventually(func() bool {
		n, ok := c.next(patience)
		return ok && n.Ev == "waiting" && n.Behind == 0
	}) {
		t.Error("c doesn't move up")
	}
	h.release()
	c.want("claimed")
	c.release()
	only(t, b)
	tidy(t, b, "gpu")
}

// TestStoppedWaiterKeepsItsPlace: it lives.
func TestStoppedWaiterKeepsItsPlace(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu")
	a.wait(order{Resources: []string{"gpu"}})
	c.wait(order{Resources: []string{"gpu"}})
	a.stop()
	h.release()
	if bl := busy(t, b, "gpu"); bl.Place != 3 {
		t.Errorf("a newcomer's place is %d", bl.Place)
	}
	c.quiet()
	a.signal(syscall.SIGCONT)
	a.want("claimed")
	c.quiet()
	a.release()
	c.want("claimed")
}

// TestNoWaitWaitsItsTurn: somebody in line comes before who doesn't wait.
func TestNoWaitWaitsItsTurn(t *testing.T) {
	b := newBase(t)
	h, a := start(t, b, "h"), start(t, b, "a")
	h.claim("gpu")
	a.wait(order{Resources: []string{"gpu"}})
	a.stop()
	h.release()
	bl := busy(t, b, "gpu")
	if bl.Sight.Held || bl.Behind.Party.Session != "s-a" || bl.ID != "" {
		t.Errorf("blocked by %+v", bl)
	}
	if h, _, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: "x"}, 0); h != nil || !errors.As(err, &bl) {
		t.Errorf("a record: %+v, %v", h, err)
	}
	if got := waits(t, b, "gpu"); got != "s-a" {
		t.Errorf("in line are %s", got)
	}
	a.kill()
	free(t, b, "gpu")
	tidy(t, b, "gpu")
}

// keep has an agent wait for a moment and keep its place.
func (a *agent) keep(b *lease.Base, most time.Duration, resources ...string) news {
	a.t.Helper()
	a.do(order{Do: "acquire", Resources: resources, Wait: 20 * time.Millisecond, Keep: most})
	n := a.want("failed")
	if n.Kind != "blocked" || n.ID == "" || n.Kept.IsZero() {
		a.t.Fatalf("%s keeps no place: %+v", a.name, n)
	}
	return n
}

// TestKeptPlace: it is kept in its order, without anybody behind it; taken again
// it is the same.
func TestKeptPlace(t *testing.T) {
	for _, when := range []string{"while it is held", "when it is free"} {
		t.Run(when, func(t *testing.T) {
			b := newBase(t)
			h, a, c, d := start(t, b, "h"), start(t, b, "a"), start(t, b, "c"), start(t, b, "d")
			h.claim("gpu")
			place := a.keep(b, time.Hour, "gpu")
			if until := time.Until(place.Kept); until < 59*time.Minute || until > time.Hour {
				t.Errorf("kept for %v", until)
			}
			c.wait(order{Resources: []string{"gpu"}})
			if n := d.wait(order{Resources: []string{"gpu"}}); n.Place != 3 {
				t.Errorf("d's place is %d", n.Place)
			}
			line, err := b.Line("gpu")
			if err != nil || len(line) != 3 || line[0].ID != place.ID || !line[0].Kept.Equal(place.Kept) || !line[1].Kept.IsZero() {
				t.Fatalf("line %+v, %v", line, err)
			}
			since := line[0].Since
			if when == "when it is free" {
				h.release()
				if bl := busy(t, b, "gpu"); bl.Sight.Held {
					t.Errorf("it is held by %+v", bl.Sight)
				}
			}
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID})
			if when == "while it is held" {
				if n := a.want("waiting"); n.Place != 1 || n.ID != place.ID {
					t.Errorf("taken again: %+v", n)
				}
				if line, _ := b.Line("gpu"); len(line) != 3 || line[0].ID != place.ID || !line[0].Kept.IsZero() || !line[0].Since.Equal(since) {
					t.Errorf("taken again: %+v", line)
				}
				// Twice at once it can't be.
				x := start(t, b, "x")
				x.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID, Wait: time.Minute})
				if n := x.want("failed"); !strings.Contains(n.Err, place.ID) || !strings.Contains(n.Err, fmt.Sprint(a.pid())) {
					t.Errorf("taken twice: %+v", n)
				}
				h.release()
			}
			a.want("claimed")
			c.quiet()
			a.release()
			c.want("claimed")
			d.quiet()
			c.release()
			d.want("claimed")
			d.release()
			// It was one claim's.
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID, NoWait: true})
			a.want("lapsed")
			a.want("claimed")
			a.release()
			only(t, b)
			tidy(t, b, "gpu")
		})
	}
}

// TestKeptPlaceLapses: at its deadline the next one runs, not before.
func TestKeptPlaceLapses(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu")
	place := a.keep(b, 1500*time.Millisecond, "gpu")
	c.wait(order{Resources: []string{"gpu"}})
	h.release()
	c.want("claimed")
	if early := time.Until(place.Kept); early > 0 {
		t.Errorf("c runs %v before the place lapses", early)
	}
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID})
	if n := a.want("lapsed"); n.Err != "gpu" {
		t.Errorf("lapsed: %+v", n)
	}
	c.release()
	a.want("claimed")
	a.release()
	only(t, b)
	tidy(t, b, "gpu")
}

// TestKeptPlaceOutlivesAFailure: who fails to take it again has it still.
func TestKeptPlaceOutlivesAFailure(t *testing.T) {
	b := newBase(t)
	h, a := start(t, b, "h"), start(t, b, "a")
	h.claim("gpu")
	place := a.keep(b, time.Hour, "gpu")
	line, err := b.Line("gpu")
	must(t, err)
	inTheWay := filepath.Join(string(b.Leases), ".queue", "gpu", fmt.Sprintf(".%d", line[0].Number))
	must(t, os.Mkdir(inTheWay, 0o700))
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID})
	a.want("failed")
	must(t, os.Remove(inTheWay))
	if line, err := b.Line("gpu"); err != nil || len(line) != 1 || line[0].ID != place.ID || !line[0].Kept.Equal(place.Kept) {
		t.Fatalf("line %+v, %v", line, err)
	}
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID})
	a.want("waiting")
	h.release()
	a.want("claimed")
	a.release()
}

// TestKeptPlaceOfNoWait: who doesn't wait can keep a place, too.
func TestKeptPlaceOfNoWait(t *testing.T) {
	b := newBase(t)
	h, a := start(t, b, "h"), start(t, b, "a")
	h.claim("gpu")
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, NoWait: true, Keep: time.Hour})
	place := a.want("failed")
	if place.Kept.IsZero() {
		t.Fatalf("%+v", place)
	}
	h.release()
	busy(t, b, "gpu")
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID, NoWait: true})
	a.want("claimed")
}

// TestKeptPlaceIsLeft: who comes back to a kept place and dies, or goes, leaves
// it to those behind, whose clocks stood at the place's deadline.
func TestKeptPlaceIsLeft(t *testing.T) {
	for _, how := range []string{"killed", "interrupted"} {
		t.Run(how, func(t *testing.T) {
			b := newBase(t)
			h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
			h.claim("gpu")
			place := a.keep(b, time.Hour, "gpu")
			c.wait(order{Resources: []string{"gpu"}})
			a.do(order{Do: "acquire", Resources: []string{"gpu"}, Ticket: place.ID})
			a.want("waiting")
			if how == "killed" {
				a.kill()
			} else {
				a.do(order{Do: "cancel"})
				a.want("failed")
			}
			h.kill() // and so tells nobody
			c.want("claimed")
			c.release()
			only(t, b)
			tidy(t, b, "gpu")
		})
	}
}

// TestPlaceIsKeptWhileTheLockIsBusy: the wait runs out while somebody else has
// the lock.
func TestPlaceIsKeptWhileTheLockIsBusy(t *testing.T) {
	b := newBase(t)
	h, a := start(t, b, "h"), start(t, b, "a")
	h.claim("gpu")
	began := time.Now()
	a.wait(order{Resources: []string{"gpu"}, Wait: time.Second, Keep: time.Hour})
	lock, err := b.Store.Lock(t.Context())
	must(t, err)
	// Woken now, it waits for the lock when its time runs out.
	f, err := os.OpenFile(filepath.Join(at(b, ".queue", "gpu"), ticketNames(t, b, "gpu")[0]), os.O_WRONLY, 0)
	must(t, err)
	f.Write([]byte{'w'})
	f.Close()
	if !eventually(func() bool { return waitsForLock(t, a.pid()) }) {
		t.Fatal("it doesn't wait for the lock")
	}
	time.Sleep(time.Until(began.Add(1200 * time.Millisecond)))
	lock.Unlock()
	if n := a.want("failed"); n.Kind != "blocked" || n.Kept.IsZero() {
		t.Errorf("no place is kept: %+v", n)
	}
	if got := waits(t, b, "gpu"); got != "s-a" {
		t.Errorf("in line are %q", got)
	}
}

// ticketNames are the names of the tickets in a line, as they lie there.
func ticketNames(t testing.TB, b *lease.Base, res string) []string {
	t.Helper()
	return slices.DeleteFunc(names(t, at(b, ".queue", res)), func(n string) bool { return strings.Trim(n, "0123456789") != "" })
}

// waitsForLock says whether a process is blocked in flock(2): /proc/locks has it
// with an arrow.
func waitsForLock(t testing.TB, pid int) bool {
	t.Helper()
	for l := range strings.Lines(read(t, "/proc/locks")) {
		f := strings.Fields(l)
		if len(f) > 5 && f[1] == "->" && f[2] == "FLOCK" && f[5] == fmt.Sprint(pid) {
			return true
		}
	}
	return false
}

// TestPlaceInAllLinesOrNone: of two kept places one has lapsed, so both are new.
func TestPlaceInAllLinesOrNone(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu", "usb")
	place := a.keep(b, time.Hour, "gpu", "usb")
	c.wait(order{Resources: []string{"gpu", "usb"}})
	json := at(b, ".queue", "usb", ticketNames(t, b, "usb")[0]) + ".json"
	text := read(t, json)
	kept := place.Kept.UTC().Format(time.RFC3339Nano)
	if !strings.Contains(text, kept) {
		t.Fatalf("%s has no %s", text, kept)
	}
	write(t, json, strings.Replace(text, kept, "2020-01-01T00:00:00Z", 1))
	a.do(order{Do: "acquire", Resources: []string{"gpu", "usb"}, Ticket: place.ID})
	a.want("lapsed")
	a.want("waiting")
	for _, res := range []string{"gpu", "usb"} {
		if got := waits(t, b, res); got != "s-c s-a" {
			t.Errorf("in the line of %s are %s", res, got)
		}
	}
	h.release()
	c.want("claimed")
	c.release()
	a.want("claimed")
	a.release()
	only(t, b)
	tidy(t, b, "gpu", "usb")
}

// TestStrayTicket: what can't be a ticket is none.
func TestStrayTicket(t *testing.T) {
	for what, plant := range map[string]func(path string) error{
		"a directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"a link":          func(p string) error { return os.Symlink("/dev/null", p) },
		"a dangling link": func(p string) error { return os.Symlink("/nothing", p) },
		"a file":          func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"nobody's FIFO":   func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			b := newBase(t)
			must(t, os.MkdirAll(at(b, ".queue", "gpu"), 0o700))
			must(t, plant(at(b, ".queue", "gpu", "1")))
			free(t, b, "gpu")
			h, a := start(t, b, "h"), start(t, b, "a")
			h.claim("gpu")
			a.wait(order{Resources: []string{"gpu"}})
			if got := waits(t, b, "gpu"); got != "s-a" {
				t.Errorf("in line are %q", got)
			}
			h.release()
			a.want("claimed")
			a.release()
			only(t, b)
			if what != "a directory" {
				tidy(t, b, "gpu")
			}
		})
	}
}

// TestUnreadableTicket: another user's, that can't be looked at, counts as a
// place. Nothing tells when it goes, so who is behind looks.
func TestUnreadableTicket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "lease-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	b := openBase(filepath.Join(dir, "base"))
	must(t, b.Make())
	for _, d := range []string{b.Store.Dir, string(b.Leases), at(b, ".queue"), at(b, ".queue", "gpu")} {
		must(t, os.MkdirAll(d, 0o700))
		must(t, os.Chown(d, nobody, nobody))
	}
	must(t, unix.Mkfifo(at(b, ".queue", "gpu", "1"), 0o600)) // root's
	a := start(t, b, "a")
	a.do(order{Do: "setuid", N: nobody})
	a.ok("setuid")
	if n := a.wait(order{Resources: []string{"gpu"}}); n.Behind != 1 || n.Place != 2 {
		t.Errorf("%+v", n)
	}
	must(t, os.Remove(at(b, ".queue", "gpu", "1")))
	a.want("claimed")
	a.release()
	tidy(t, b, "gpu")
}

// TestLastNumber: R10. Whatever became of the last number, the next one is
// above every ticket, and a fence above every fence.
func TestLastNumber(t *testing.T) {
	for _, last := range []string{
		"", "\n", "7", "00000000000000000007\n", "0", "-5", "x", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "00000000000000000041\njunk after it\n",
		"\x00\x00\x00\x00", "1e9", "12 13", strings.Repeat("9", 5000),
	} {
		b := newBase(t)
		h := start(t, b, "h")
		h.claim("gpu")
		must(t, os.WriteFile(at(b, ".queue", "gpu", "last"), []byte(last), 0o600))
		var fence int64
		_, err := b.Acquire(t.Context(), order{Resources: []string{"gpu"}, Who: session("k")}.request(), lease.Options{NoWait: true, Keep: time.Minute})
		var bl *lease.Blocked
		if !errors.As(err, &bl) || bl.Kept.IsZero() {
			t.Fatalf("%q: %v", last, err)
		}
		a := start(t, b, "a")
		if n := a.wait(order{Resources: []string{"gpu"}}); n.Place != 2 {
			t.Errorf("%q: place %d", last, n.Place)
		}
		line, err := b.Line("gpu")
		if err != nil || len(line) != 2 || line[0].Number >= line[1].Number || line[0].Number < 1 {
			t.Errorf("%q: line %+v, %v", last, line, err)
		}
		h.kill()
		l, err := b.Acquire(t.Context(), order{Resources: []string{"gpu"}, Who: session("k")}.request(), lease.Options{Ticket: bl.ID, NoWait: true})
		must(t, err)
		if fence = l.Fences()[0]; fence <= line[1].Number {
			t.Errorf("%q: fence %d after number %d", last, fence, line[1].Number)
		}
		must(t, l.Release(t.Context(), ""))
		if n := a.want("claimed"); n.Fences[0] <= fence {
			t.Errorf("%q: fence %d after %d", last, n.Fences[0], fence)
		}
		a.release()
		tidy(t, b, "gpu")
	}
}

// TestHighestTicketCounts: R10. A lost last number, with a high ticket in line.
func TestHighestTicketCounts(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu")
	write(t, at(b, ".queue", "gpu", "last"), "00000000000000001000\n")
	a.wait(order{Resources: []string{"gpu"}})
	write(t, at(b, ".queue", "gpu", "last"), "00000000000000000005\n") // set back
	if n := c.wait(order{Resources: []string{"gpu"}}); n.Behind != 1001 || n.Place != 2 {
		t.Errorf("%+v", n)
	}
	must(t, os.Remove(at(b, ".queue", "gpu", "last")))
	d := start(t, b, "d")
	if n := d.wait(order{Resources: []string{"gpu"}}); n.Behind != 1002 || n.Place != 3 {
		t.Errorf("%+v", n)
	}
	h.release()
	for _, w := range []*agent{a, c, d} {
		w.want("claimed")
		w.release()
	}
}

// TestWaitRunsOut: the error says by whom, and nothing stays.
func TestWaitRunsOut(t *testing.T) {
	b := newBase(t)
	h := start(t, b, "h")
	h.claim("gpu")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, lease.ErrWaitOver)
	defer cancel()
	_, err := b.Acquire(ctx, order{Resources: []string{"gpu"}, Who: session("a")}.request(), lease.Options{})
	var bl *lease.Blocked
	if !errors.As(err, &bl) || bl.Sight.Holder.Session != "s-h" || !bl.Kept.IsZero() || bl.Resource != "gpu" {
		t.Errorf("%+v, %v", bl, err)
	}
	tidy(t, b, "gpu")
}
