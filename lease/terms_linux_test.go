package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// inTime is how much later than its moment something may happen on a busy
// machine: less than lease.Recheck, so that it wasn't found by chance.
const inTime = lease.Recheck - 300*time.Millisecond

// timed claims res for d from another party.
func timed(t testing.TB, b *lease.Base, who state.Party, d time.Duration, res string) lease.Terms {
	t.Helper()
	h, terms, err := b.Hold(t.Context(), res, lease.Holder{Holder: "u@h", Session: who.Session, Name: who.Name, Purpose: "a talk"}, d)
	if h != nil || err != nil {
		t.Fatalf("%+v, %v", h, err)
	}
	return terms
}

// ended leaves a claim of the supervisor whose time is over, and that nobody has
// looked at.
func ended(t testing.TB, b *lease.Base, res string) {
	t.Helper()
	l, err := claimNow(b, boss, res) // so that there is a spare
	must(t, err)
	must(t, l.Release(t.Context(), "exit 0"))
	timed(t, b, boss, time.Hour, res)
	over(t, b, res)
}

// over lets the time of a claim be over.
func over(t testing.TB, b *lease.Base, res string) {
	t.Helper()
	s, err := b.Look(res)
	must(t, err)
	s.Terms.Until = time.Now().Add(-time.Second)
	text, err := json.Marshal(s.Terms)
	must(t, err)
	write(t, at(b, res, "claim.json"), string(text))
	if s, err := b.Look(res); err != nil || s.Kind != lease.Ended || s.Held {
		t.Fatalf("%+v, %v", s, err)
	}
}

// TestClaimOfATime: a claim for a time ends then, by itself; it has a token and
// a fence; one without a time never ends.
func TestClaimOfATime(t *testing.T) {
	b := newBase(t)
	before := time.Now().Truncate(time.Millisecond)
	terms := timed(t, b, ann, time.Hour, "gpu")
	if u := terms.Until; u.Before(before.Add(time.Hour)) || u.After(time.Now().Add(time.Hour)) || len(terms.Token) != 32 || terms.Fence != 1 {
		t.Errorf("%+v", terms)
	}
	s, err := b.Look("gpu")
	if err != nil || !s.Held || s.Kind != lease.Recorded || !s.Until().Equal(terms.Until) || s.Mark() != (lease.Mark{Token: terms.Token, Fence: 1}) {
		t.Errorf("%+v, %v", s, err)
	}
	if bl := busy(t, b, "gpu"); !bl.Sight.Until().Equal(terms.Until) {
		t.Errorf("%+v", bl.Sight)
	}
	if h, again, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: ann.Session, Name: ann.Name}, time.Minute); h == nil || again != terms || err != nil {
		t.Errorf("claimed again: %+v, %+v, %v", h, again, err)
	}
	if nested, err := b.Nested(t.Context(), []string{"gpu"}, "", ann); len(nested) != 1 || err != nil {
		t.Errorf("nested: %q, %v", nested, err)
	}
	ended(t, b, "usb")
	if nested, err := b.Nested(t.Context(), []string{"usb"}, "", boss); len(nested) != 0 || err != nil {
		t.Errorf("nested under one that has ended: %q, %v", nested, err)
	}
	// Its release comes too late, and so does a force: nobody holds it.
	if err := b.Free(t.Context(), "usb", boss); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("released: %v", err)
	}
	ended(t, b, "usb")
	if _, err := b.Force(t.Context(), "usb", pat, "why"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("forced: %v", err)
	}
	ended(t, b, "usb")
	if h, err := b.Leases.Claim("usb", lease.Holder{Session: "s"}); h != nil || err != nil {
		t.Errorf("claimed: %+v, %v", h, err)
	}
	if n := len(slices.DeleteFunc(verbs(t, b), func(v string) bool { return v != "claim.end" })); n != 3 {
		t.Errorf("%d ends in the log", n)
	}
	if log := read(t, b.Store.Events()); !strings.Contains(log, `"outcome":"time"`) {
		t.Errorf("log %s", log)
	}
}

// TestOlderClaims: a record without claim.json, or with one that says nothing,
// is held until it is released.
func TestOlderClaims(t *testing.T) {
	for _, text := range []string{"", "{", "{}", "null", `{"until":"2020-01-01T00:00:00Z"}`, `{"token":5}`, strings.Repeat(" ", 2<<20)} {
		b := newBase(t)
		terms := timed(t, b, ann, 0, "gpu")
		if !terms.Until.IsZero() {
			t.Errorf("%+v", terms)
		}
		must(t, os.Remove(at(b, "gpu", "claim.json")))
		if text != "" {
			write(t, at(b, "gpu", "claim.json"), text)
		}
		if bl := busy(t, b, "gpu"); bl.Sight.Kind != lease.Recorded || bl.Sight.Mark() != (lease.Mark{}) {
			t.Errorf("%.40q: %+v", text, bl.Sight)
		}
		if _, err := b.Extend(t.Context(), "gpu", ann, time.Now()); err == nil {
			t.Errorf("%.40q: extended", text)
		}
		must(t, b.Free(t.Context(), "gpu", ann))
		only(t, b)
	}
}

// TestLateClaim: one whose time is over, and that a run under it keeps, is still
// its holder's, to give back and to extend; no other run joins it.
func TestLateClaim(t *testing.T) {
	b := newBase(t)
	timed(t, b, ann, time.Hour, "gpu")
	must(t, second(b.Nested(t.Context(), []string{"gpu"}, "", ann)))
	defer comeOut(t, "gpu")
	late := func() {
		t.Helper()
		must(t, second(b.Extend(t.Context(), "gpu", ann, time.Now().Add(-time.Second))))
		s, err := b.Look("gpu")
		if err != nil || !s.Held || !s.Party().Same(ann) || s.Holder.Purpose != "a talk" || s.Problem == "" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	late()
	if bl := busy(t, b, "gpu"); !bl.Sight.Party().Same(ann) {
		t.Errorf("blocked by %+v", bl.Sight)
	}
	if nested, err := b.Nested(t.Context(), []string{"gpu"}, "", ann); len(nested) != 0 || err != nil {
		t.Errorf("nested: %q, %v", nested, err)
	}
	if h, terms, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: ann.Session, Name: ann.Name}, time.Hour); h != nil || !lease.IsRefusal(err) {
		t.Errorf("claimed again: %+v, %+v, %v", h, terms, err)
	}
	if err := b.Free(t.Context(), "gpu", bob); !errors.Is(err, lease.ErrNotYours) {
		t.Errorf("given back by bob: %v", err)
	}
	must(t, second(b.Extend(t.Context(), "gpu", ann, time.Now().Add(time.Hour))))
	if s, err := b.Look("gpu"); err != nil || s.Problem != "" {
		t.Errorf("extended: %+v, %v", s, err)
	}
	late()
	must(t, b.Free(t.Context(), "gpu", ann))
	only(t, b)
}

// TestEndOfATimedClaim: eight wait for a claim that ends between two of their
// re-checks. The first runs at that moment, and then all of them in their
// order, one at a time.
func TestEndOfATimedClaim(t *testing.T) {
	for _, supervised := range []bool{false, true} {
		t.Run(fmt.Sprintf("supervised %v", supervised), func(t *testing.T) {
			b := newBase(t)
			must(t, b.Make())
			if supervised {
				supervise(t, b)
			}
			length := 2*lease.Recheck + 100*time.Millisecond
			terms := timed(t, b, boss, length, "gpu")
			dir := t.TempDir()
			oracle := filepath.Join(dir, "in")
			var waiters []*agent
			want := ""
			for i := range 8 {
				name := fmt.Sprintf("w%d", i)
				if supervised {
					give(t, b, name, "gpu")
				}
				a := start(t, b, name)
				a.do(order{Do: "section", Resources: []string{"gpu"}, Path: oracle, Hold: 2 * time.Millisecond})
				a.want("waiting")
				waiters = append(waiters, a)
				want += name + " "
			}
			late := time.Since(terms.Until)
			if late > 0 {
				t.Skipf("this machine took %v to start 8 processes", length+late)
			}
			got := ""
			for i, a := range waiters {
				a.want("claimed")
				if i == 0 {
					late = time.Since(terms.Until)
				}
				if n := a.want("ran"); !n.Alone || n.Err != "" {
					t.Errorf("%s: %+v", a.name, n)
				}
			}
			if late < 0 || late > inTime {
				t.Errorf("the first claimed %v after the end", late)
			}
			must(t, b.Store.ReadEvents(time.Time{}, func(e state.Event) {
				if e.Verb == "claim" && e.By != "boss" {
					got += e.By + " "
				}
			}))
			if got != want {
				t.Errorf("they came as %s and ran as %s", want, got)
			}
			only(t, b)
			tidy(t, b, "gpu")
		})
	}
}

// TestEndStartsTheGrantsTime: the end of a claim is a release, for the grants
// that waited for it (R6).
func TestEndStartsTheGrantsTime(t *testing.T) {
	b := newBase(t)
	must(t, b.Make())
	supervise(t, b)
	timed(t, b, boss, time.Hour, "gpu")
	give(t, b, "a", "gpu")
	age(t, b, 24*time.Hour)
	over(t, b, "gpu")
	if l, err := claimNow(b, session("a"), "gpu"); err != nil {
		t.Errorf("the grant is lost: %v", err)
	} else {
		must(t, l.Release(t.Context(), ""))
	}
}

// TestExtend: only its holder moves the end of a claim, and only where there is
// one; who waits hears of a sooner one at once.
func TestExtend(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	if _, err := b.Extend(ctx, "gpu", ann, time.Now().Add(time.Hour)); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("a free one: %v", err)
	}
	first := timed(t, b, ann, time.Hour, "gpu")
	if _, err := b.Extend(ctx, "gpu", bob, time.Now().Add(time.Hour)); !errors.Is(err, lease.ErrNotYours) {
		t.Errorf("another's: %v", err)
	}
	a := start(t, b, "a")
	a.wait(order{Resources: []string{"gpu"}})
	terms, err := b.Extend(ctx, "gpu", ann, first.Until.Add(time.Hour))
	if err != nil || terms.Token != first.Token || terms.Fence != first.Fence || !terms.Until.Equal(first.Until.Add(time.Hour)) {
		t.Errorf("%+v, %v", terms, err)
	}
	a.quiet()
	terms, err = b.Extend(ctx, "gpu", ann, time.Now().Add(50*time.Millisecond))
	must(t, err)
	a.want("claimed")
	if late := time.Since(terms.Until); late < 0 || late > inTime {
		t.Errorf("claimed %v after the end", late)
	}
	var fixed *lease.TermError
	if _, err := b.Extend(ctx, "gpu", session("a"), time.Now().Add(time.Hour)); !errors.As(err, &fixed) {
		t.Errorf("a run: %v", err)
	}
	a.release()
	timed(t, b, ann, 0, "gpu")
	if _, err := b.Extend(ctx, "gpu", ann, time.Now().Add(time.Hour)); !errors.As(err, &fixed) {
		t.Errorf("a claim without an end: %v", err)
	}
	must(t, b.Free(ctx, "gpu", ann))
	ended(t, b, "gpu")
	if _, err := b.Extend(ctx, "gpu", boss, time.Now().Add(time.Hour)); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("after the end: %v", err)
	}
	only(t, b)
	if vs := verbs(t, b); !slices.Contains(vs, "extend") {
		t.Errorf("log %q", vs)
	}
}

// TestStay: a run whose command failed becomes a claim of its party, with its
// token and fence, although a daemon of it keeps the witness; who waits for it
// has it when the time is over, or when it is given back.
func TestStay(t *testing.T) {
	for _, how := range []string{"ends", "given back", "forced"} {
		t.Run(how, func(t *testing.T) {
			b := newBase(t)
			h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
			run := h.claim("gpu")
			h.child(order{Inherit: true, Token: true})
			a.wait(order{Resources: []string{"gpu"}})
			c.wait(order{Resources: []string{"gpu"}})
			d := time.Hour
			if how == "ends" {
				d = lease.Recheck + 100*time.Millisecond
			}
			h.do(order{Do: "stay", Hold: d})
			until := h.ok("stays").Until
			s, err := b.Look("gpu")
			if err != nil || s.Kind != lease.Recorded || !s.Held || !s.Until().Equal(until) || s.Process != nil || s.Holder.Purpose != "a test" ||
				s.Mark() != (lease.Mark{Token: run.Token, Fence: run.Fences[0]}) {
				t.Errorf("%+v, %v", s, err)
			}
			if got := names(t, at(b, "gpu")); !slices.Equal(got, []string{"claim.json", "holder.json"}) {
				t.Errorf("in it are %q", got)
			}
			if nested, _ := b.Nested(t.Context(), []string{"gpu"}, "", session("h")); len(nested) != 1 {
				t.Error("its party doesn't run at once")
			}
			comeOut(t, "gpu")
			if err := b.Free(t.Context(), "gpu", bob); !errors.Is(err, lease.ErrNotYours) {
				t.Errorf("another's release: %v", err)
			}
			switch how {
			case "given back":
				must(t, b.Free(t.Context(), "gpu", session("h")))
				until = time.Now()
			case "forced":
				must(t, second(b.Force(t.Context(), "gpu", pat, "why")))
				until = time.Now()
			}
			a.want("claimed")
			if late := time.Since(until); how == "ends" && (late < 0 || late > inTime) {
				t.Errorf("claimed %v after the end", late)
			}
			a.release()
			c.want("claimed")
			c.release()
			only(t, b)
			tidy(t, b, "gpu")
			if vs := verbs(t, b); !slices.Contains(vs, "keep") || slices.Contains(vs, "claim.end") != (how == "ends") || slices.Contains(vs, "lease.crash") {
				t.Errorf("log %q", vs)
			}
		})
	}
}

// TestStayOfALostLease: what is another's by now stays so.
func TestStayOfALostLease(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu", "usb")
	must(t, err)
	must(t, second(b.Force(t.Context(), "gpu", pat, "why")))
	a := start(t, b, "a")
	a.claim("gpu")
	before := tree(t, at(b, "gpu"))
	kept, _, err := l.Stay(t.Context(), time.Hour, "exit 1")
	var lost *lease.LostError
	if !errors.As(err, &lost) || lost.Resource != "gpu" || !slices.Equal(kept, []string{"usb"}) {
		t.Errorf("%q, %v", kept, err)
	}
	if after := tree(t, at(b, "gpu")); after != before {
		t.Errorf("it made\n%s\nof\n%s", after, before)
	}
	must(t, b.Free(t.Context(), "usb", ann))
	a.release()
	only(t, b)
}

// TestKilledWhileItStays: of a run that is killed between the steps that make it
// a claim nothing stays that time doesn't free; from the rename on it is that
// claim, with the run's files or without.
func TestKilledWhileItStays(t *testing.T) {
	for _, step := range []string{"stay.1", "stay.2", "replace", "stay.3", "stay.4", "release.7", "release.8"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := newBase(t)
			a := start(t, b, "a")
			run := a.claim("gpu")
			a.do(order{Do: "steps", Step: step, N: 1})
			a.want("counting")
			a.do(order{Do: "stay", Hold: moment})
			must(t, a.died())
			s, err := b.Look("gpu")
			must(t, err)
			stays := slices.Contains([]string{"stay.3", "stay.4", "release.7", "release.8"}, step)
			if !stays && s.Kind != lease.Crashed {
				t.Errorf("%+v", s)
			}
			if stays && (s.Until().IsZero() || s.Mark().Token != run.Token || s.Process != nil || s.Kind != lease.Recorded && s.Kind != lease.Ended) {
				t.Errorf("%+v", s)
			}
			c := start(t, b, "c")
			c.claim("gpu")
			if stays && time.Now().Before(s.Until()) {
				t.Error("claimed before the end")
			}
			c.release()
			only(t, b)
		})
	}
}

// TestReleaseIf: only the lease that is meant is given back.
func TestReleaseIf(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	old := timed(t, b, ann, 0, "gpu")
	must(t, b.Free(ctx, "gpu", ann, lease.Mark{Token: old.Token}))
	now := timed(t, b, ann, 0, "gpu")
	var other *lease.OtherError
	for _, m := range []lease.Mark{{Token: old.Token}, {Fence: old.Fence}, {Token: "x"}, {}} {
		if err := b.Free(ctx, "gpu", ann, m); !errors.As(err, &other) || other.Now.Mark().Fence != now.Fence {
			t.Errorf("%+v: %v", m, err)
		}
		if _, err := b.Force(ctx, "gpu", pat, "why", m); !errors.As(err, &other) {
			t.Errorf("forced, %+v: %v", m, err)
		}
	}
	must(t, b.Free(ctx, "gpu", ann, lease.Mark{Fence: now.Fence}))
	a := start(t, b, "a")
	run := a.claim("gpu")
	if _, err := b.Force(ctx, "gpu", pat, "why", lease.Mark{Fence: run.Fences[0] + 1}); !errors.As(err, &other) {
		t.Errorf("%v", err)
	}
	a.do(order{Do: "check"})
	a.ok("checked")
	must(t, second(b.Force(ctx, "gpu", pat, "why", lease.Mark{Token: run.Token})))
	// Of a crashed one nothing is left to give back.
	crash(t, b, "gpu")
	s, err := b.Look("gpu")
	must(t, err)
	if _, err := b.Force(ctx, "gpu", pat, "why", s.Mark()); !errors.As(err, &other) {
		t.Errorf("crashed: %v", err)
	}
}

func TestParseMark(t *testing.T) {
	token := strings.Repeat("01", 16)
	for text, want := range map[string]lease.Mark{"17": {Fence: 17}, token: {Token: token}, "1152921504606846976": {Fence: 1 << 60}} {
		if m, err := lease.ParseMark(text); m != want || err != nil {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "1.5", "gpu"} {
		if m, err := lease.ParseMark(text); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

// TestAsk: who asks is noted beside the record, the newest last; a run hears of
// each once; the next lease knows nothing of it.
func TestAsk(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	if _, err := b.Ask(ctx, "gpu", bob, "please"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("a free one: %v", err)
	}
	a := start(t, b, "a")
	a.claim("gpu")
	if _, err := b.Ask(ctx, "gpu", session("a"), ""); !errors.Is(err, lease.ErrYours) {
		t.Errorf("its own: %v", err)
	}
	// However early: before the owner listens, it is no force.
	must(t, second(b.Ask(ctx, "gpu", session("0"), "may I?")))
	a.do(order{Do: "forced?"})
	a.want("forced?")
	a.do(order{Do: "check"})
	a.ok("checked")
	a.do(order{Do: "watch"})
	heard := ""
	hear := func() {
		for {
			n, ok := a.next(patience)
			if !ok {
				t.Fatalf("heard %q", heard)
			}
			if n.Ev == "asked" {
				heard += n.Holder + " "
				return
			}
		}
	}
	hear()
	want := "s-0 "
	for i := 1; i <= 11; i++ {
		who := session(fmt.Sprint(i))
		must(t, second(b.Ask(ctx, "gpu", who, fmt.Sprintf("number %d", i))))
		want += who.Session + " "
		hear()
	}
	must(t, second(b.Ask(ctx, "gpu", session("5"), "again")))
	want += "s-5 "
	hear()
	if heard != want {
		t.Errorf("heard %q, want %q", heard, want)
	}
	s, err := b.Look("gpu")
	must(t, err)
	got := ""
	for _, k := range s.Asks {
		got += k.By.Session + " "
	}
	if got != "s-2 s-3 s-4 s-6 s-7 s-8 s-9 s-10 s-11 s-5 " || s.Asks[9].Message != "again" || time.Since(s.Asks[9].At) > patience {
		t.Errorf("%q, %+v", got, s.Asks)
	}
	a.quiet()
	a.release()
	if !exists(at(b, ".queue", "gpu", "spare", "asked.json")) {
		t.Error("the spare directory has none: this test proves nothing")
	}
	write(t, at(b, ".queue", "gpu", "spare", "claim.json"), `{"token":"0123456789abcdef","fence":1}`)
	c := start(t, b, "c")
	c.claim("gpu")
	if s, err := b.Look("gpu"); err != nil || len(s.Asks) != 0 || s.Kind != lease.Running {
		t.Errorf("the next lease: %+v, %v", s, err)
	}
	if got := names(t, at(b, "gpu")); !slices.Equal(got, []string{"holder.json", "process.json", "witness"}) {
		t.Errorf("in it are %q", got)
	}
	c.release()
	if n := len(slices.DeleteFunc(verbs(t, b), func(v string) bool { return v != "ask" })); n != 13 {
		t.Errorf("%d asks in the log", n)
	}
}

// TestAskOfOthers: a claim and a shell lock can be asked for, and their release
// is as ever; what is being made can't.
func TestAskOfOthers(t *testing.T) {
	b := newBase(t)
	ctx := t.Context()
	timed(t, b, ann, time.Hour, "gpu")
	if status, out := locks(t, b, "claim", "usb"); status != 0 {
		t.Fatal(out)
	}
	for _, res := range []string{"gpu", "usb"} {
		if s, err := b.Ask(ctx, res, bob, "please"); err != nil || len(s.Asks) != 1 {
			t.Errorf("%s: %+v, %v", res, s, err)
		}
	}
	must(t, b.Free(ctx, "gpu", ann))
	if status, out := locks(t, b, "release", "usb"); status != 0 {
		t.Error(out)
	}
	must(t, os.Mkdir(at(b, "net"), 0o700))
	if _, err := b.Ask(ctx, "net", bob, "please"); !errors.Is(err, lease.ErrBusy) {
		t.Errorf("being made: %v", err)
	}
	must(t, os.Remove(at(b, "net")))
	// Unreadable asks are none, and the next one replaces them.
	timed(t, b, ann, time.Hour, "gpu")
	write(t, at(b, "gpu", "asked.json"), `{"asks":[{"by":`)
	if s, err := b.Ask(ctx, "gpu", bob, "please"); err != nil || len(s.Asks) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	must(t, b.Free(ctx, "gpu", ann))
	only(t, b)
}

// TestShellLockAndTimedClaims: the shell lock gives back its own session's
// claim, whatever lies in it, and no other; to it, one whose time is over is held
// until somebody has looked.
func TestShellLockAndTimedClaims(t *testing.T) {
	b := newBase(t)
	must(t, b.Make())
	host, _ := os.Hostname()
	me := strings.TrimSpace(os.Getenv("LOGNAME"))
	if me == "" {
		me = os.Getenv("USER")
	}
	if me == "" {
		me = "root"
	}
	own := lease.Holder{Holder: me + "@" + host, Session: "s-shell"}
	t.Setenv("LOGNAME", me)
	must(t, third(b.Hold(t.Context(), "gpu", own, time.Hour)))
	timed(t, b, ann, time.Hour, "usb")
	for res, want := range map[string]int{"gpu": 0, "usb": 1} {
		if status, out := locks(t, b, "release", res); status != want {
			t.Errorf("release %s: %d, %s", res, status, out)
		}
	}
	only(t, b, "usb")
	must(t, b.Free(t.Context(), "usb", ann))
	ended(t, b, "gpu")
	if status, _ := locks(t, b, "claim", "gpu"); status != 1 {
		t.Errorf("claimed over what is there: %d", status)
	}
	must(t, b.Settle(context.Background(), "gpu"))
	if status, out := locks(t, b, "claim", "gpu"); status != 0 {
		t.Errorf("claim: %d, %s", status, out)
	}
	// A record of the shell lock has no token and no end.
	if s, err := b.Look("gpu"); err != nil || s.Kind != lease.Recorded || s.Terms != nil {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestB56_ForceLeavesNoReservation: whose lease is forced away has no grant left
// of it, and the next in line has the resource; a grant that is revoked before
// it was used leaves its party waiting.
func TestB56_ForceLeavesNoReservation(t *testing.T) {
	b := newBase(t)
	must(t, b.Make())
	supervise(t, b)
	a, c := start(t, b, "a"), start(t, b, "c")
	give(t, b, "a", "gpu")
	a.claim("gpu")
	give(t, b, "c", "gpu")
	c.wait(order{Resources: []string{"gpu"}})
	must(t, second(b.Force(t.Context(), "gpu", pat, "B56")))
	c.want("claimed")
	if got := granted(t, b, "gpu"); got != "" {
		t.Errorf("grants are left of %q", got)
	}
	if _, err := claimNow(b, session("a"), "gpu"); err == nil {
		t.Error("it came back without a grant")
	}
	give(t, b, "a", "gpu")
	a.wait(order{Resources: []string{"gpu"}})
	n, err := b.Revoke(t.Context(), []string{"gpu"}, session("a"), boss, false)
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := waits(t, b, "gpu"); got != "s-a" {
		t.Errorf("in line are %q", got)
	}
	c.release()
	if s, err := b.Look("gpu"); err != nil || s.Held {
		t.Errorf("%+v, %v", s, err)
	}
	give(t, b, "a", "gpu")
	a.want("claimed")
	a.release()
}

// TestB63_CleanerOfOldFiles: a renewal keeps both times fresh, of each lease;
// one that a cleaner took away as a whole is lost, and not made again over
// another holder's.
func TestB63_CleanerOfOldFiles(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu", "usb")
	must(t, err)
	old := time.Now().Add(-40 * 24 * time.Hour)
	var paths []string
	for _, res := range []string{"gpu", "usb"} {
		paths = append(paths, at(b, res), at(b, res, "holder.json"))
	}
	for _, p := range paths {
		must(t, os.Chtimes(p, old, old))
	}
	must(t, l.Renew())
	for _, p := range paths {
		if st, err := os.Stat(p); err != nil || time.Since(st.ModTime()) > patience {
			t.Errorf("%s: %v", p, err)
		}
	}
	must(t, os.RemoveAll(at(b, "usb")))
	var lost *lease.LostError
	if err := l.Renew(); !errors.As(err, &lost) || lost.Resource != "usb" {
		t.Errorf("renewed: %v", err)
	}
	if exists(at(b, "usb")) {
		t.Error("it was made again")
	}
	a := start(t, b, "a")
	a.claim("usb")
	before := tree(t, at(b, "usb"))
	if err := l.Renew(); !errors.As(err, &lost) {
		t.Errorf("renewed: %v", err)
	}
	if err := l.Release(t.Context(), "exit 0"); !errors.As(err, &lost) {
		t.Errorf("released: %v", err)
	}
	if after := tree(t, at(b, "usb")); after != before {
		t.Errorf("it made\n%s\nof\n%s", after, before)
	}
	only(t, b, "usb")
}

// comeOut ends what Nested does for the rest of a process.
func comeOut(t *testing.T, res string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasSuffix(to, "/"+res+"/under") {
			n, _ := strconv.Atoi(fd.Name())
			unix.Close(n)
		}
	}
}
