package lease_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// TestAllOrNothing: who needs two resources holds none while it waits for one,
// and takes both at once.
func TestAllOrNothing(t *testing.T) {
	b := newBase(t)
	h, a, c := start(t, b, "h"), start(t, b, "a"), start(t, b, "c")
	h.claim("usb")
	a.wait(order{Resources: []string{"gpu", "usb"}})
	only(t, b, "usb")
	for _, res := range []string{"gpu", "usb"} {
		if got := waits(t, b, res); got != "s-a" {
			t.Errorf("in the line of %s are %s", res, got)
		}
	}
	// It is the first in both lines: nobody overtakes it.
	if bl := busy(t, b, "gpu"); bl.Sight.Held || bl.Behind.Party.Session != "s-a" {
		t.Errorf("%+v", bl)
	}
	c.wait(order{Resources: []string{"gpu"}})
	h.release()
	n := a.want("claimed")
	only(t, b, "gpu", "usb")
	if len(n.Fences) != 2 {
		t.Errorf("%+v", n)
	}
	for _, res := range []string{"gpu", "usb"} {
		if s, err := b.Look(res); err != nil || s.Holder.Env != res || s.Holder.Session != "s-a" || s.Process.Token != n.Token || s.Process.Fence != n.Fences[map[string]int{"gpu": 0, "usb": 1}[res]] {
			t.Errorf("%+v, %v", s, err)
		}
	}
	a.release()
	c.want("claimed")
	c.release()
	only(t, b)
	tidy(t, b, "gpu", "usb")
}

// TestDeathInTwoLines: those behind it in either line move up.
func TestDeathInTwoLines(t *testing.T) {
	for _, how := range []string{"killed", "interrupted"} {
		b := newBase(t)
		h, a, c, d := start(t, b, "h"), start(t, b, "a"), start(t, b, "c"), start(t, b, "d")
		h.claim("usb")
		a.wait(order{Resources: []string{"gpu", "usb"}})
		c.wait(order{Resources: []string{"gpu"}})
		d.wait(order{Resources: []string{"usb"}})
		if how == "killed" {
			a.kill()
		} else {
			a.do(order{Do: "cancel"})
			a.want("failed")
		}
		c.want("claimed") // gpu was free all the time
		h.release()
		d.want("claimed")
		c.release()
		d.release()
		tidy(t, b, "gpu", "usb")
	}
}

// TestCrossedOrders: A B and B A, again and again, and one alone: no deadlock,
// never two in there.
func TestCrossedOrders(t *testing.T) {
	b := newBase(t)
	dir := t.TempDir()
	needs := [][]string{{"gpu", "usb"}, {"usb", "gpu"}, {"usb", "web", "gpu"}, {"gpu"}, {"usb"}}
	var agents []*agent
	for i := range needs {
		agents = append(agents, start(t, b, fmt.Sprintf("a%d", i)))
	}
	for range 15 {
		for i, a := range agents {
			oracle := filepath.Join(dir, needs[i][0])
			if i < 3 {
				oracle = filepath.Join(dir, "gpu") // all of them need gpu
			}
			a.do(order{Do: "section", Resources: needs[i], Path: oracle})
		}
		for _, a := range agents {
			a.want("claimed")
			if n := a.want("ran"); !n.Alone || n.Err != "" {
				t.Errorf("%s: %+v", a.name, n)
			}
		}
	}
	only(t, b)
	tidy(t, b, "gpu", "usb", "web")
}

// TestTakenInTheMiddle: the shell lock's mkdir comes between our look and the
// second rename: the first is given back, with its grant, and the place is kept.
func TestTakenInTheMiddle(t *testing.T) {
	for _, granted := range []bool{false, true} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("granted %v, waiting %v", granted, wait), func(t *testing.T) {
				b := newBase(t)
				if granted {
					supervise(t, b)
					give(t, b, "a", "gpu", "usb", "web")
				}
				a := start(t, b, "a")
				a.do(order{Do: "steps", Step: "claim.2", N: 2, Path: "stop"})
				a.want("counting")
				a.do(order{Do: "acquire", Resources: []string{"gpu", "usb", "web"}, NoWait: !wait})
				if !a.stopped() {
					t.Fatal("it doesn't stop")
				}
				if s, err := b.Look("gpu"); err != nil || s.Kind != lease.Running {
					t.Fatalf("it isn't in the middle: %+v, %v", s, err)
				}
				write(t, at(b, "usb", "holder.json"), good)
				a.signal(syscall.SIGCONT)
				n, _ := a.next(patience)
				if wait && n.Ev != "waiting" || !wait && n.Kind != "blocked" || n.Holder != "s-ann" {
					t.Fatalf("%+v", n)
				}
				only(t, b, "usb")
				if got := fmt.Sprint(len(document(t, b).Grants)); granted && got != "3" {
					t.Errorf("%s grants are left", got)
				}
				if !wait {
					tidy(t, b, "gpu", "usb", "web")
					return
				}
				must(t, os.RemoveAll(at(b, "usb")))
				a.want("claimed")
				a.release()
				only(t, b)
				if got := len(document(t, b).Grants); got != 0 {
					t.Errorf("%d grants are left", got)
				}
			})
		}
	}
}

// TestTakenAtOnce: the same where the file system would have replaced it: an
// empty directory is held.
func TestTakenAtOnce(t *testing.T) {
	b := newBase(t)
	a := start(t, b, "a")
	a.do(order{Do: "steps", Step: "claim.2", N: 1, Path: "stop"})
	a.want("counting")
	a.do(order{Do: "acquire", Resources: []string{"gpu"}})
	if !a.stopped() {
		t.Fatal("it doesn't stop")
	}
	must(t, os.Mkdir(at(b, "gpu"), 0o700))
	a.signal(syscall.SIGCONT)
	if n := a.want("waiting"); n.Holder != "" {
		t.Errorf("%+v", n)
	}
	if got := names(t, at(b, "gpu")); len(got) != 0 {
		t.Errorf("it put %q in there", got)
	}
	must(t, os.Remove(at(b, "gpu")))
	a.want("claimed")
}

// TestClaimTakenAtOnce: the same of a claim without a command, which doesn't wait.
func TestClaimTakenAtOnce(t *testing.T) {
	for _, record := range []bool{false, true} {
		b := newBase(t)
		a := start(t, b, "a")
		a.do(order{Do: "steps", Step: "claim.2", N: 1, Path: "stop"})
		a.want("counting")
		a.do(order{Do: "hold", Resources: []string{"gpu"}})
		if !a.stopped() {
			t.Fatal("it doesn't stop")
		}
		must(t, os.Mkdir(at(b, "gpu"), 0o700))
		want := "gpu is held by somebody"
		if record {
			write(t, at(b, "gpu", "holder.json"), good)
			want = "gpu is held by s-ann"
		}
		before := tree(t, at(b, "gpu"))
		a.signal(syscall.SIGCONT)
		if n := a.want("held"); n.Err != want {
			t.Errorf("%+v, want %q", n, want)
		}
		if after := tree(t, at(b, "gpu")); after != before {
			t.Errorf("it was\n%s\nand is\n%s", before, after)
		}
		only(t, b, "gpu")
	}
}

// TestClaimTakenForAMoment: the shell lock may also have gone again when the claim
// looks who it was. That is no failure, of a claim with a command or without one.
func TestClaimTakenForAMoment(t *testing.T) {
	b := newBase(t)
	free(t, b, "gpu")
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				os.Mkdir(at(b, "gpu"), 0o700)
				os.Remove(at(b, "gpu"))
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	for i := range 1000 {
		var blocked *lease.Blocked
		if i%2 == 0 {
			_, _, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: bob.Session}, 0)
			if err == nil {
				must(t, b.Free(t.Context(), "gpu", bob))
			} else if !errors.As(err, &blocked) {
				t.Fatalf("%d: %v", i, err)
			}
			continue
		}
		l, err := claimNow(b, bob, "gpu")
		if err == nil {
			must(t, l.Release(t.Context(), "exit 0"))
		} else if !errors.As(err, &blocked) {
			t.Fatalf("%d: %v", i, err)
		}
	}
}

// TestUnrelated: B73. A line keeps nobody from another resource.
func TestUnrelated(t *testing.T) {
	b := newBase(t)
	h, a := start(t, b, "h"), start(t, b, "a")
	h.claim("gpu")
	a.wait(order{Resources: []string{"gpu"}})
	free(t, b, "usb")
	supervise(t, b)
	give(t, b, "fresh", "usb")
	free(t, b, "usb")
}

// TestGrantsOfSeveral: all of a run's grants in one write are used together;
// given one by one in two orders they block two runs, which is found, and ends
// when one is taken back.
func TestGrantsOfSeveral(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	a, c := start(t, b, "a"), start(t, b, "c")
	a.wait(order{Resources: []string{"gpu", "usb"}})
	c.wait(order{Resources: []string{"usb", "gpu"}})
	give(t, b, "c", "usb", "gpu")
	c.want("claimed")
	give(t, b, "a", "gpu", "usb")
	a.quiet()
	c.release()
	a.want("claimed")
	a.release()

	a.wait(order{Resources: []string{"gpu", "usb"}})
	c.wait(order{Resources: []string{"usb", "gpu"}})
	give(t, b, "a", "gpu")
	give(t, b, "c", "usb")
	give(t, b, "a", "usb")
	give(t, b, "c", "gpu")
	both := func(state.Party, string, string) bool { return true }
	if got := lease.Crossed(document(t, b), time.Now(), both); len(got) != 1 {
		t.Errorf("crossed: %+v", got)
	}
	a.quiet()
	c.quiet()
	must(t, second(b.Revoke(t.Context(), []string{"usb"}, session("c"), boss, false)))
	a.want("claimed")
	a.release()
	give(t, b, "c", "usb")
	c.want("claimed")
	c.release()
	only(t, b)
	if got := document(t, b).Grants; len(got) != 0 {
		t.Errorf("left are %+v", got)
	}
}

// TestOneOfTwoGranted: half a permission is none, and the half isn't used up.
func TestOneOfTwoGranted(t *testing.T) {
	b := newBase(t)
	supervise(t, b)
	give(t, b, "a", "gpu")
	var bl *lease.Blocked
	if l, err := claimNow(b, session("a"), "gpu", "usb"); !errors.As(err, &bl) || bl.Resource != "usb" || bl.Refused == nil {
		t.Fatalf("%v, %v", l, err)
	}
	if got := granted(t, b, "gpu"); got != "s-a" {
		t.Errorf("granted to %q", got)
	}
	only(t, b)
	if got := slices.Collect(func(yield func(string) bool) {
		for _, res := range []string{"gpu", "usb"} {
			if waits(t, b, res) != "" && !yield(res) {
				return
			}
		}
	}); len(got) > 0 {
		t.Errorf("somebody waits for %q", got)
	}
}
