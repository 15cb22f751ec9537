package lease_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// TestStaleTakeover: B01. Sixteen processes race for a crashed lease, again and
// again: one at a time has it, and all get it. At random they are stopped, at
// any moment and at a step of the protocol, and killed. It covers R1 and R2 in
// passing: a wake-up that came too early, or was lost, would cost a round its
// patience.
func TestStaleTakeover(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	for _, c := range []struct {
		name             string
		kills, stops     int
		stopsAtStep      int
		rounds           int
		everybodyArrives bool
	}{
		{"undisturbed", 0, 0, 0, rounds, true},
		{"stopped", 0, 2, 1, rounds, true},
		{"killed and stopped", 3, 1, 1, rounds, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			oracle := filepath.Join(t.TempDir(), "in")
			racers := make([]*agent, 16)
			for i := range racers {
				racers[i] = start(t, b, fmt.Sprintf("racer-%d", i))
			}
			for round := range c.rounds {
				crash(t, b, "gpu")
				var wg sync.WaitGroup
				disturbed := rand.Perm(len(racers))
				pick := func() (a *agent) {
					a, disturbed = racers[disturbed[0]], disturbed[1:]
					return a
				}
				done := make(chan struct{})
				for range c.stopsAtStep {
					a := pick()
					a.do(order{Do: "steps", N: 1 + rand.IntN(16), Path: "stop"})
					a.want("counting")
					wg.Go(func() {
						for tick := time.Tick(time.Millisecond); ; {
							select {
							case <-done: // it was through before it came to that step
								return
							case <-tick:
								if processState(a.pid()) == 'T' {
									time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
									a.signal(syscall.SIGCONT)
									return
								}
							}
						}
					})
				}
				for _, a := range racers {
					a.do(order{Do: "section", Resources: []string{"gpu"}, Path: oracle, Hold: 2 * time.Millisecond})
				}
				for range c.stops {
					a := pick()
					wg.Go(func() {
						time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
						a.signal(syscall.SIGSTOP)
						time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
						a.signal(syscall.SIGCONT)
					})
				}
				killed := map[*agent]bool{}
				for range c.kills {
					a := pick()
					killed[a] = true
					wg.Go(func() {
						time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
						write(t, fmt.Sprintf("%s.killed.%d", oracle, a.pid()), "")
						a.kill()
					})
				}
				for _, a := range racers {
					for {
						n, ok := a.next(patience)
						if killed[a] && (!ok || n.Ev == "ran") {
							if n.Ev == "ran" && !n.Alone {
								t.Errorf("round %d: %s was not alone", round, a.name)
							}
							break
						}
						if !ok {
							t.Fatalf("round %d: %s: %+v, %v", round, a.name, n, ok)
						}
						if n.Ev == "waiting" || n.Ev == "claimed" {
							continue
						}
						if n.Ev != "ran" || n.Err != "" || !n.Alone {
							t.Fatalf("round %d: %s: %+v", round, a.name, n)
						}
						break
					}
				}
				close(done)
				wg.Wait()
				for i, a := range racers {
					if killed[a] {
						racers[i] = start(t, b, a.name)
					} else if c.stopsAtStep > 0 {
						a.do(order{Do: "steps", N: -1})
						a.want("counting")
					}
				}
			}
			free(t, b, "gpu")
			only(t, b)
			if c.everybodyArrives {
				tidy(t, b, "gpu")
			}
		})
	}
}

// TestConcurrentDocument: B16. Waiters join while others grant, revoke and
// supervise; readers see a whole document each time, and nothing is lost.
func TestConcurrentDocument(t *testing.T) {
	b := newBase(t)
	must(t, second(b.Supervise(t.Context(), boss, 0, false)))
	l, err := claimNow(b, boss, "gpu")
	must(t, err)
	waiters := make([]*agent, 30)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() { waiters[i] = start(t, b, fmt.Sprintf("w%02d", i)) })
	}
	wg.Wait()
	churners := []*agent{start(t, b, "a"), start(t, b, "b")}
	const changes = 40
	for _, a := range churners {
		a.do(order{Do: "churn", N: changes, Resources: []string{"usb", "gpu"}})
	}
	for _, a := range waiters {
		a.do(order{Do: "acquire", Resources: []string{"gpu"}})
	}
	read := 0
	for end := time.Now().Add(patience); read < 1000 && time.Now().Before(end); read++ {
		text, err := os.ReadFile(b.Store.Path())
		must(t, err)
		if !json.Valid(text) {
			t.Fatalf("read %d: %q", read, text)
		}
		if _, err := state.Parse(text); err != nil {
			t.Fatalf("read %d: %v", read, err)
		}
		time.Sleep(time.Millisecond)
	}
	if read < 1000 {
		t.Errorf("only %d reads", read)
	}
	for _, a := range churners {
		a.ok("churned")
	}
	for _, a := range waiters {
		a.want("waiting")
	}
	line, err := b.Line("gpu")
	if err != nil || len(line) != len(waiters) {
		t.Errorf("%d in line, %v", len(line), err)
	}
	lock, err := b.Store.Look(t.Context())
	must(t, err)
	st, err := lock.State()
	lock.Unlock()
	must(t, err)
	want := map[string]int{}
	for _, a := range churners {
		for i := 0; i < changes; i += 2 {
			want[fmt.Sprintf("usb s-%s-%d", a.name, i)]++
			want[fmt.Sprintf("gpu s-%s-%d", a.name, i)]++
		}
	}
	for _, g := range st.Grants {
		want[g.Resource+" "+g.To.Session]--
	}
	for k, n := range want {
		if n != 0 {
			t.Errorf("grant %s: %+d", k, -n)
		}
	}
	must(t, l.Release(t.Context(), "exit 0"))
	only(t, b)
	// Nobody is told to go: without the supervisor all of them run.
	must(t, b.Unsupervise(t.Context(), boss, false))
	for range waiters {
		a := waiters[slices.IndexFunc(waiters, func(a *agent) bool { return holds(b, a) })]
		a.want("claimed")
		a.release()
	}
	only(t, b)
}

// holds says whether an agent has gpu; when nobody has it yet, it waits.
func holds(b *lease.Base, a *agent) bool {
	var s lease.Sight
	eventually(func() bool {
		s, _ = b.Look("gpu")
		return s.Held && s.Holder.Session != ""
	})
	return s.Holder.Session == "s-"+a.name
}
