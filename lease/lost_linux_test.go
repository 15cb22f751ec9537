package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// TestStoppedHolder: B20. However long a holder is stopped, it holds, its record
// stays as it is, and it goes on afterwards.
func TestStoppedHolder(t *testing.T) {
	b := newBase(t)
	a, w := start(t, b, "a"), start(t, b, "w")
	a.claim("gpu")
	a.do(order{Do: "spawn", Inherit: true, Token: true, Note: true})
	child := a.want("spawned").PID
	endAtCleanup(t, child)
	a.stop()
	must(t, syscall.Kill(child, syscall.SIGSTOP))
	// As if all of its renewals had failed for a day.
	record := at(b, "gpu", "holder.json")
	day := time.Now().Add(-24 * time.Hour)
	for _, path := range []string{record, at(b, "gpu")} {
		must(t, os.Chtimes(path, day, day))
	}
	before := tree(t, at(b, "gpu"))
	for range 3 {
		if bl := busy(t, b, "gpu"); bl.Sight.Kind != lease.Running || bl.Sight.WrapperGone() {
			t.Errorf("blocked by %+v", bl.Sight)
		}
	}
	w.wait(order{Resources: []string{"gpu"}})
	if s, err := b.Look("gpu"); err != nil || !s.Renewed.Before(time.Now().Add(-23*time.Hour)) {
		t.Errorf("%+v, %v", s, err)
	}
	if after := tree(t, at(b, "gpu")); after != before {
		t.Errorf("the record was\n%s\nand is\n%s", before, after)
	}
	w.quiet()
	a.signal(syscall.SIGCONT)
	a.do(order{Do: "renew"})
	a.ok("renewed")
	if st, err := os.Stat(record); err != nil || time.Since(st.ModTime()) > patience {
		t.Errorf("not renewed: %v, %v", st.ModTime(), err)
	}
	if st, err := os.Stat(at(b, "gpu")); err != nil || time.Since(st.ModTime()) > patience {
		t.Errorf("its directory is not renewed: %v, %v", st.ModTime(), err)
	}
	a.release()
	w.want("claimed")
}

// TestForcedAwayHolder: B21, R8. A lease that its owner has lost, by force or by
// somebody's rm, is its successor's: neither a renewal nor the release touches
// it, whatever the successor is, and none brings it back.
func TestForcedAwayHolder(t *testing.T) {
	ctx := context.Background()
	takes := map[string]func(t *testing.T, b *lease.Base){
		"force": func(t *testing.T, b *lease.Base) { must(t, second(b.Force(ctx, "gpu", pat, "test"))) },
		"rm -r": func(t *testing.T, b *lease.Base) { must(t, os.RemoveAll(at(b, "gpu"))) },
		"mv":    func(t *testing.T, b *lease.Base) { must(t, os.Rename(at(b, "gpu"), t.TempDir()+"/gpu")) },
		"Dir.Release": func(t *testing.T, b *lease.Base) {
			must(t, b.Leases.Release("gpu"))
		},
	}
	successors := map[string]func(t *testing.T, b *lease.Base){
		"a run": func(t *testing.T, b *lease.Base) { start(t, b, "successor").claim("gpu") },
		"a record": func(t *testing.T, b *lease.Base) {
			must(t, second(b.Leases.Claim("gpu", lease.Holder{Session: "s-successor"})))
		},
		"a shell lock":      func(t *testing.T, b *lease.Base) { write(t, at(b, "gpu", "holder.json"), good) },
		"no record yet":     func(t *testing.T, b *lease.Base) { must(t, os.Mkdir(at(b, "gpu"), 0o700)) },
		"a file":            func(t *testing.T, b *lease.Base) { write(t, at(b, "gpu"), "x") },
		"a link to the old": func(t *testing.T, b *lease.Base) { must(t, os.Symlink("elsewhere", at(b, "gpu"))) },
		"nobody":            func(t *testing.T, b *lease.Base) {},
		"another's regular witness": func(t *testing.T, b *lease.Base) {
			write(t, at(b, "gpu", "holder.json"), good)
			write(t, at(b, "gpu", "witness"), "")
		},
	}
	for how, take := range takes {
		for who, succeed := range successors {
			t.Run(how+", then "+who, func(t *testing.T) {
				b := newBase(t)
				a := start(t, b, "a")
				a.claim("gpu")
				take(t, b)
				succeed(t, b)
				before := tree(t, string(b.Leases))
				for _, verb := range [][2]string{{"check", "checked"}, {"renew", "renewed"}, {"renew", "renewed"}, {"release", "released"}} {
					a.do(order{Do: verb[0]})
					n := a.want(verb[1])
					if n.Kind != "lost" && !strings.Contains(n.Err, "taken away") {
						t.Errorf("%s: %+v, want a loss", verb[0], n)
					}
					if who == "a run" && n.Holder != "s-successor" {
						t.Errorf("%s: lost to %q", verb[0], n.Holder)
					}
					if after := tree(t, string(b.Leases)); after != before {
						t.Fatalf("%s made\n%s\nof\n%s", verb[0], after, before)
					}
				}
			})
		}
	}
}

// TestOneOfTwoLost: the other one is given back.
func TestOneOfTwoLost(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu", "usb")
	must(t, err)
	must(t, second(again(b).Force(t.Context(), "usb", pat, "")))
	var lost *lease.LostError
	if err := l.Renew(); !errors.As(err, &lost) || lost.Resource != "usb" || lost.By.Held {
		t.Errorf("%v", err)
	}
	if err := l.Release(t.Context(), ""); !errors.As(err, &lost) || lost.Resource != "usb" || !errors.Is(err, lease.ErrLost) {
		t.Errorf("%v", err)
	}
	only(t, b)
}

// TestForceIsHeard: R7. Whenever a force comes, its victim hears of it at once:
// before it watches, and while it does.
func TestForceIsHeard(t *testing.T) {
	force := func(t *testing.T, b *lease.Base) { must(t, second(again(b).Force(t.Context(), "gpu", pat, "test"))) }
	t.Run("before the watch", func(t *testing.T) {
		b := newBase(t)
		a := start(t, b, "a")
		a.claim("gpu")
		a.do(order{Do: "forced?"})
		if n := a.want("forced?"); n.N != 0 {
			t.Error("forced before it was")
		}
		force(t, b)
		a.do(order{Do: "forced?"})
		if n := a.want("forced?"); n.N != 1 {
			t.Error("not forced after it was")
		}
		a.do(order{Do: "watch"})
		heard(t, a)
	})
	t.Run("while it watches", func(t *testing.T) {
		b := newBase(t)
		a := start(t, b, "a")
		a.claim("gpu")
		a.do(order{Do: "watch"})
		a.want("watching")
		force(t, b)
		if n := a.want("lost"); n.Kind != "lost" {
			t.Errorf("%+v", n)
		}
	})
	t.Run("one of two", func(t *testing.T) {
		b := newBase(t)
		a := start(t, b, "a")
		a.claim("usb", "gpu")
		a.do(order{Do: "watch"})
		a.want("watching")
		force(t, b)
		if n := a.want("lost"); n.Kind != "lost" || !strings.HasPrefix(n.Err, "gpu ") {
			t.Errorf("%+v", n)
		}
	})
	// Who forces is stopped between its byte and the rename: the victim may
	// not take the byte for somebody's joke.
	t.Run("between the byte and the rename", func(t *testing.T) {
		b := newBase(t)
		a, f := start(t, b, "a"), start(t, b, "f")
		a.claim("gpu")
		a.do(order{Do: "watch"})
		a.want("watching")
		f.do(order{Do: "steps", Step: "release.5", N: 1, Path: "stop"})
		f.want("counting")
		f.do(order{Do: "force", Resources: []string{"gpu"}, Who: pat})
		if !f.stopped() {
			t.Fatal("it doesn't stop")
		}
		fd, err := unix.Open(at(b, "gpu", "witness"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
		must(t, err)
		defer unix.Close(fd)
		if !eventually(func() bool { n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); return err == nil && n == 0 }) {
			t.Fatal("the byte isn't read")
		}
		f.signal(syscall.SIGCONT)
		f.ok("forced")
		if n := a.want("lost"); n.Kind != "lost" {
			t.Errorf("%+v", n)
		}
	})
	// Somebody else's byte is no force.
	t.Run("a false alarm", func(t *testing.T) {
		b := newBase(t)
		a := start(t, b, "a")
		a.claim("gpu")
		a.do(order{Do: "watch"})
		a.want("watching")
		f, err := os.OpenFile(at(b, "gpu", "witness"), os.O_WRONLY, 0)
		must(t, err)
		for range 40 {
			f.Write([]byte("ffff"))
		}
		f.Close()
		a.do(order{Do: "check"})
		a.ok("checked")
		force(t, b)
		a.want("lost")
	})
}

// heard passes over what comes before it.
func heard(t *testing.T, a *agent) {
	t.Helper()
	for {
		n, ok := a.next(patience)
		if !ok || n.Ev != "watching" && n.Ev != "lost" {
			t.Fatalf("%+v", n)
		}
		if n.Ev == "lost" {
			return
		}
	}
}

// TestRenewal: it touches the record, by the file system's clock, and writes one
// again that somebody removed (B63).
func TestRenewal(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu", "usb")
	must(t, err)
	record := at(b, "gpu", "holder.json")
	text := read(t, record)
	old := time.Now().Add(-40 * 24 * time.Hour)
	for _, path := range []string{record, at(b, "gpu"), at(b, "usb", "holder.json")} {
		must(t, os.Chtimes(path, old, old))
	}
	must(t, l.Renew())
	for _, path := range []string{record, at(b, "gpu"), at(b, "usb", "holder.json")} {
		if st, err := os.Stat(path); err != nil || time.Since(st.ModTime()) > patience {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := read(t, record); got != text {
		t.Errorf("the record is %s, was %s", got, text)
	}
	must(t, os.Remove(record))
	if s, err := b.Look("gpu"); err != nil || !s.Held || s.Problem == "" {
		t.Errorf("without its record: %+v, %v", s, err)
	}
	must(t, l.Renew())
	if got := read(t, record); got != text {
		t.Errorf("written again it is %s, was %s", got, text)
	}
	must(t, l.Check())
	must(t, l.Release(t.Context(), ""))
	only(t, b)
}

// TestRenewalDoesntWriteOver: B21. The record was removed, and while its owner
// waits for the lock to write it again, the lease becomes another's.
func TestRenewalDoesntWriteOver(t *testing.T) {
	for _, who := range []string{"a shell lock", "no record yet"} {
		t.Run(who, func(t *testing.T) {
			b := newBase(t)
			a := start(t, b, "a")
			a.claim("gpu")
			must(t, os.Remove(at(b, "gpu", "holder.json")))
			lock, err := b.Store.Lock(t.Context())
			must(t, err)
			a.do(order{Do: "renew"})
			if !eventually(func() bool { return waitsForLock(t, a.pid()) }) {
				t.Fatal("it doesn't wait for the lock")
			}
			must(t, os.Rename(at(b, "gpu"), filepath.Join(t.TempDir(), "gpu")))
			must(t, os.Mkdir(at(b, "gpu"), 0o700))
			if who == "a shell lock" {
				write(t, at(b, "gpu", "holder.json"), good)
			}
			before := tree(t, at(b, "gpu"))
			lock.Unlock()
			if n := a.want("renewed"); n.Kind != "lost" {
				t.Errorf("renewed: %+v", n)
			}
			if after := tree(t, at(b, "gpu")); after != before {
				t.Errorf("the renewal made\n%s\nof\n%s", after, before)
			}
		})
	}
}

// TestRecordCantBeWritten: a failed renewal is no loss.
func TestRecordCantBeWritten(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu")
	must(t, err)
	must(t, os.Remove(at(b, "gpu", "holder.json")))
	must(t, os.Mkdir(at(b, "gpu", ".holder.json"), 0o700))
	err = l.Renew()
	if err == nil || errors.Is(err, lease.ErrLost) || !strings.Contains(err.Error(), "gpu") {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(at(b, "gpu", ".holder.json")))
	must(t, l.Renew())
	must(t, l.Release(t.Context(), ""))
}

// TestForceSaysWhom: the log has who forced, whom and why.
func TestForceSaysWhom(t *testing.T) {
	b := newBase(t)
	a := start(t, b, "a")
	n := a.claim("gpu")
	s, err := b.Force(t.Context(), "gpu", pat, "because")
	if err != nil || s.Holder.Session != "s-a" || s.Kind != lease.Running || s.Process.Token != n.Token {
		t.Errorf("%+v, %v", s, err)
	}
	if err := second(b.Force(t.Context(), "gpu", pat, "again")); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("nobody's: %v", err)
	}
	log := read(t, b.Store.Events())
	var line string
	for l := range strings.Lines(log) {
		if strings.Contains(l, `"force"`) {
			line = l
		}
	}
	for _, want := range []string{`"by":"pat"`, `"to":"a"`, `"reason":"because"`, `"resource":"gpu"`, n.Token, fmt.Sprint(n.Fences[0])} {
		if !strings.Contains(line, want) {
			t.Errorf("%s has no %s", line, want)
		}
	}
}

// TestForceWakesTheNext: one in line, and in grant order.
func TestForceWakesTheNext(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("gpu")
	h.do(order{Do: "watch"})
	h.want("watching")
	a.wait(order{Resources: []string{"gpu"}})
	c.wait(order{Resources: []string{"gpu"}})
	must(t, second(b.Force(t.Context(), "gpu", pat, "")))
	a.want("claimed")
	h.want("lost")
	h.do(order{Do: "release"})
	if n := h.want("released"); n.Kind != "lost" && !strings.Contains(n.Err, "taken away") {
		t.Errorf("%+v", n)
	}
	c.quiet()
	a.release()
	c.want("claimed")
}

// TestReleaserMeetsTheNextClaim: a process that is stopped after its release
// doesn't touch what the next one has made meanwhile, at whatever step either
// of them is.
func TestReleaserMeetsTheNextClaim(t *testing.T) {
	for _, from := range []string{"release.6", "release.6 delete", "release.7", "release.8"} {
		for _, to := range []string{"claim.1", "claim.1 directory", "claim.1 record", "claim.1 process", "claim.2", "claim.6"} {
			t.Run(from+" at "+to, func(t *testing.T) {
				b := newBase(t)
				free(t, b, "gpu") // leaves a spare, or what else a first release leaves
				a, c := start(t, b, "a"), start(t, b, "c")
				a.claim("gpu")
				a.do(order{Do: "steps", Step: from, N: 1, Path: "stop"})
				a.want("counting")
				a.do(order{Do: "release"})
				if !a.stopped() {
					t.Fatal("the releaser doesn't stop")
				}
				c.do(order{Do: "steps", Step: to, N: 1, Path: "stop"})
				c.want("counting")
				c.do(order{Do: "acquire", Resources: []string{"gpu"}})
				at := func(a *agent, ev string) bool { // stopped, through, or waiting for the lock
					return processState(a.pid()) == 'T' || waitsForLock(t, a.pid()) || len(a.news) > 0
				}
				if !eventually(func() bool { return at(c, "claimed") }) {
					t.Fatal("the claimer does nothing")
				}
				a.signal(syscall.SIGCONT)
				a.ok("released")
				c.signal(syscall.SIGCONT)
				eventually(func() bool {
					if processState(c.pid()) == 'T' {
						c.signal(syscall.SIGCONT)
					}
					return len(c.news) > 0
				})
				c.want("claimed")
				if s, err := b.Look("gpu"); err != nil || s.Kind != lease.Running || s.Holder.Session != "s-c" || s.Problem != "" {
					t.Errorf("the lease is %+v, %v", s, err)
				}
				c.do(order{Do: "steps", N: -1})
				c.want("counting")
				c.do(order{Do: "check"})
				c.ok("checked")
				c.release()
				only(t, b)
				free(t, b, "gpu")
			})
		}
	}
}
