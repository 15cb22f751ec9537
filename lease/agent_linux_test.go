package lease_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// An agent is another process that claims, waits and releases as it is told,
// one order at a time, and tells what happened. Whoever kills, stops or
// interrupts it is the test; what it says comes when it is so, so that no test
// has to sleep and hope.

// order is a line of an agent's standard input.
type order struct {
	Do        string
	Resources []string      `json:",omitempty"`
	Who       state.Party   `json:",omitzero"`
	Wait      time.Duration `json:",omitempty"`
	NoWait    bool          `json:",omitempty"`
	Keep      time.Duration `json:",omitempty"`
	Ticket    string        `json:",omitempty"`
	Path      string        `json:",omitempty"`
	Hold      time.Duration `json:",omitempty"`
	N         int           `json:",omitempty"`
	Step      string        `json:",omitempty"`
	Inherit   bool          `json:",omitempty"` // spawn: the child gets the witness
	Token     bool          `json:",omitempty"` // ... the token in its environment
	Note      bool          `json:",omitempty"` // ... and is noted as the command
	Big       bool          `json:",omitempty"` // ... a large environment
	Held      bool          `json:",omitempty"` // ... the token of an outer run
}

// news is a line of its standard output.
type news struct {
	Ev      string
	Err     string        `json:",omitempty"`
	Kind    string        `json:",omitempty"` // of the error: blocked, lost, other
	Refused string        `json:",omitempty"`
	Place   int           `json:",omitempty"`
	Behind  int64         `json:",omitempty"`
	Holder  string        `json:",omitempty"` // the session that holds it
	ID      string        `json:",omitempty"`
	Kept    time.Time     `json:",omitzero"`
	Until   time.Time     `json:",omitzero"`
	Tells   int           `json:",omitempty"` // how often it went to sleep in this wait
	Fences  []int64       `json:",omitempty"`
	Token   string        `json:",omitempty"`
	Waited  time.Duration `json:",omitempty"`
	PID     int           `json:",omitempty"`
	N       int           `json:",omitempty"`
	Alone   bool          `json:",omitempty"`
	Steps   []string      `json:",omitempty"`
}

func init() { helpers["agent"] = beAgent }

// worker is the agent in its own process.
type worker struct {
	base   *lease.Base
	lease  *lease.Lease
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	out   *json.Encoder
	steps []string
}

func beAgent() {
	w := &worker{base: openBase(os.Args[1]), out: json.NewEncoder(os.Stdout)}
	w.tell(news{Ev: "ready"})
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o order
		if in.Decode(&o) != nil {
			os.Exit(0) // the test has ended
		}
		w.do(o)
	}
}

func (w *worker) tell(n news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Encode(n)
}

func (w *worker) fail(ev string, err error) {
	n := news{Ev: ev, Kind: "other"}
	var blocked *lease.Blocked
	var lost *lease.LostError
	switch {
	case err == nil:
		n.Kind = ""
	case errors.As(err, &blocked):
		n = blockedNews(ev, blocked)
	case errors.As(err, &lost):
		n.Kind, n.Holder = "lost", lost.By.Holder.Session
	}
	if err != nil {
		n.Err = err.Error()
	}
	w.tell(n)
}

func blockedNews(ev string, b *lease.Blocked) news {
	n := news{Ev: ev, Kind: "blocked", Place: b.Place, Behind: b.Behind.Number, Holder: b.Sight.Holder.Session, ID: b.ID, Kept: b.Kept}
	if b.Refused != nil {
		n.Refused = b.Refused.Reason
	}
	return n
}

// session makes a party of a short name.
func session(name string) state.Party { return state.Party{Session: "s-" + name, Name: name} }

func (o order) request() *lease.Request {
	h := lease.Holder{Holder: "u@h", Session: o.Who.Session, HostSession: o.Who.HostSession, Name: o.Who.Name, Person: o.Who.Person, Purpose: "a test"}
	rq := &lease.Request{Resources: o.Resources, Holder: h, TTL: time.Minute, Command: []string{"test", "command"}}
	if o.Big {
		for range 20 {
			rq.Command = append(rq.Command, strings.Repeat("<", 100<<10))
		}
	}
	return rq
}

func (w *worker) acquire(o order) (*lease.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	if o.Wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, o.Wait, lease.ErrWaitOver)
		defer stop()
	}
	tells := 0
	l, err := w.base.Acquire(ctx, o.request(), lease.Options{
		NoWait: o.NoWait, Keep: o.Keep, Ticket: o.Ticket,
		Tell: func(b *lease.Blocked) time.Duration {
			tells++
			n := blockedNews("waiting", b)
			n.Tells = tells
			w.tell(n)
			return 0
		},
		Lapsed: func(res string) { w.tell(news{Ev: "lapsed", Err: res}) },
	})
	if err == nil {
		w.lease = l
		w.tell(news{Ev: "claimed", Fences: l.Fences(), Token: l.Token, Waited: l.Waited(), Tells: tells})
		for _, warn := range l.Warned {
			w.tell(news{Ev: "warned", Err: warn.Error()})
		}
	}
	return l, err
}

func (w *worker) do(o order) {
	ctx := context.Background()
	switch o.Do {
	case "acquire":
		go func() {
			if _, err := w.acquire(o); err != nil {
				w.fail("failed", err)
			}
		}()
	case "cancel":
		w.mu.Lock()
		cancel := w.cancel
		w.mu.Unlock()
		cancel(errors.New("interrupted"))
	case "release":
		w.fail("released", w.lease.Release(ctx, "exit 0"))
	case "renew":
		w.fail("renewed", w.lease.Renew())
	case "check":
		w.fail("checked", w.lease.Check())
	case "watch":
		w.lease.Watch(func(err error) { w.fail("lost", err) }, func(a lease.Ask) { w.tell(news{Ev: "asked", Holder: a.By.Session, Err: a.Message}) })
		w.tell(news{Ev: "watching"})
	case "forced?":
		n := news{Ev: "forced?"}
		if w.lease.Forced() {
			n.N = 1
		}
		w.tell(n)
	case "note forks":
		w.lease.NoteForks()
		w.tell(news{Ev: "noted"})
	case "spawn":
		w.spawn(o)
	case "section":
		w.section(o)
	case "order": // claims in its turn, notes its name, and gives back
		go func() {
			l, err := w.acquire(o)
			if err != nil {
				w.fail("failed", err)
				return
			}
			f, err := os.OpenFile(o.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				fmt.Fprintln(f, o.Who.Name)
				f.Close()
			}
			time.Sleep(o.Hold)
			w.fail("ran", errors.Join(err, l.Release(ctx, "exit 0")))
		}()
	case "barge": // claims without waiting, again and again, until Path exists and N are done
		n := news{Ev: "barged"}
		for n.N < o.N || !exists(o.Path) {
			l, err := w.base.Acquire(ctx, o.request(), lease.Options{NoWait: true})
			var blocked *lease.Blocked
			if err == nil {
				n.Err = "got it"
				l.Release(ctx, "exit 0")
			} else if !errors.As(err, &blocked) {
				n.Err = err.Error()
			}
			n.N++
		}
		w.tell(n)
	case "hold":
		h, terms, err := w.base.Hold(ctx, o.Resources[0], o.request().Holder, o.Hold)
		n := news{Ev: "held", Alone: h == nil && err == nil, Token: terms.Token, Until: terms.Until}
		if err != nil {
			n.Err = err.Error()
		}
		w.tell(n)
	case "free":
		w.fail("freed", w.base.Free(ctx, o.Resources[0], o.Who))
	case "extend":
		terms, err := w.base.Extend(ctx, o.Resources[0], o.Who, time.Now().Add(o.Hold))
		n := news{Ev: "extended", Until: terms.Until}
		if err != nil {
			n.Err = err.Error()
		}
		w.tell(n)
	case "stay":
		_, until, err := w.lease.Stay(ctx, o.Hold, "exit 1")
		n := news{Ev: "stays", Until: until}
		if err != nil {
			n.Err = err.Error()
		}
		w.tell(n)
	case "ask":
		w.fail("asks", second(w.base.Ask(ctx, o.Resources[0], o.Who, "please")))
	case "force":
		w.fail("forced", second(w.base.Force(ctx, o.Resources[0], o.Who, "a test")))
	case "supervise":
		w.fail("supervises", second(w.base.Supervise(ctx, o.Who, 0, false)))
	case "unsupervise":
		w.fail("unsupervised", w.base.Unsupervise(ctx, o.Who, false))
	case "grant":
		w.fail("granted", w.base.Grant(ctx, lease.Grant{Resources: o.Resources, To: o.Who, By: boss}))
	case "revoke":
		w.fail("revoked", second(w.base.Revoke(ctx, o.Resources, o.Who, boss, false)))
	case "churn":
		w.churn(o)
	case "steps":
		w.watchSteps(o)
		w.tell(news{Ev: "counting"})
	case "counted":
		w.mu.Lock()
		n := news{Ev: "counted", Steps: w.steps}
		w.mu.Unlock()
		w.tell(n)
	case "setuid":
		w.fail("setuid", syscall.Setuid(o.N))
	case "look":
		s, err := w.base.Look(o.Resources[0])
		n := news{Ev: "looked", N: int(s.Kind), Alone: s.Held, Holder: s.Holder.Session, Kind: s.Problem}
		if err != nil {
			n.Err = err.Error()
		}
		w.tell(n)
	default:
		w.tell(news{Ev: "failed", Err: "no such order: " + o.Do})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// watchSteps kills or stops this process at the N-th step from here on, or at
// the N-th of that name; or only counts them.
func (w *worker) watchSteps(o order) {
	n := 0
	lease.AtStep(func(name string) {
		w.mu.Lock()
		w.steps = append(w.steps, name)
		if o.Step == "" || o.Step == name {
			n++
		}
		now := n == o.N && (o.Step == "" || o.Step == name)
		w.mu.Unlock()
		if !now {
			return
		}
		s := syscall.SIGKILL
		if o.Path == "stop" {
			s = syscall.SIGSTOP
		}
		// To this very thread, so that it doesn't get any further.
		runtime.LockOSThread()
		unix.Tgkill(os.Getpid(), unix.Gettid(), s)
		runtime.UnlockOSThread()
	})
}

// section claims and releases; in between nobody else may be in there.
func (w *worker) section(o order) {
	l, err := w.acquire(o)
	if err != nil {
		w.fail("failed", err)
		return
	}
	alone := enter(o.Path)
	time.Sleep(o.Hold)
	alone = leave(o.Path) && alone
	n := news{Ev: "ran", Alone: alone}
	if err := l.Release(context.Background(), "exit 0"); err != nil {
		n.Err = err.Error()
	}
	w.tell(n)
}

// enter makes a link that says who is in there: like mkdir it is made at once
// or not at all. The test marks whom it kills before it does, for such a one
// doesn't leave.
func enter(path string) bool {
	me := strconv.Itoa(os.Getpid())
	for {
		if os.Symlink(me, path) == nil {
			return true
		}
		who, err := os.Readlink(path)
		if err != nil {
			continue
		}
		if !exists(path + ".killed." + who) {
			return false
		}
		os.Remove(path)
	}
}

func leave(path string) bool {
	who, _ := os.Readlink(path)
	return who == strconv.Itoa(os.Getpid()) && os.Remove(path) == nil
}

// spawn starts what a command may be.
func (w *worker) spawn(o order) {
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for i := 0; o.Big && i < 12; i++ {
		cmd.Env = append(cmd.Env, fmt.Sprintf("BIG%d=%s", i, strings.Repeat("x", 120<<10)))
	}
	if o.Token {
		cmd.Env = append(cmd.Env, "WITHLEASE_TOKEN="+w.lease.Token)
	}
	if o.Held {
		cmd.Env = append(cmd.Env, "WITHLEASE_HELD=other=0123456789abcdef0123456789abcdef,gpu="+w.lease.Token)
	}
	w.lease.Inherit(o.Inherit)
	err := cmd.Start()
	w.lease.Inherit(false)
	if err != nil {
		w.fail("failed", err)
		return
	}
	if o.Note {
		w.lease.NoteChild(cmd.Process.Pid)
	}
	go cmd.Wait()
	w.tell(news{Ev: "spawned", PID: cmd.Process.Pid})
}

// churn changes the document N times: it grants to parties of its own and
// revokes every other grant.
func (w *worker) churn(o order) {
	ctx := context.Background()
	var errs []error
	for i := range o.N {
		to := session(fmt.Sprintf("%s-%d", o.Who.Name, i))
		errs = append(errs, w.base.Grant(ctx, lease.Grant{Resources: o.Resources, To: to, By: boss}))
		if i%2 == 1 {
			n, err := w.base.Revoke(ctx, o.Resources, to, boss, false)
			if err == nil && n != len(o.Resources) {
				err = fmt.Errorf("revoked %d grants to %s", n, to.Name)
			}
			errs = append(errs, err)
		}
		if i%5 == 0 {
			errs = append(errs, second(w.base.Supervise(ctx, boss, 0, false)))
		}
	}
	w.fail("churned", errors.Join(errs...))
}

// agent is an agent as the test sees it.
type agent struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	in   *json.Encoder
	news chan news

	once sync.Once
	err  error // of its end
}

// patience is how long anything may take on a machine that has much else to do.
const patience = 20 * time.Second

// start starts an agent. wrap is a command to start it with.
func start(t testing.TB, b *lease.Base, name string, wrap ...string) *agent {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	args := append(slices.Clone(wrap), exe, b.Store.Dir)
	a := &agent{t: t, name: name, cmd: exec.Command(args[0], args[1:]...), news: make(chan news, 4096)}
	a.cmd.Env = append(os.Environ(), helperEnv+"=agent", "GOMAXPROCS=1")
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := a.cmd.StdinPipe()
	must(t, err)
	out, err := a.cmd.StdoutPipe()
	must(t, err)
	must(t, a.cmd.Start())
	a.in = json.NewEncoder(in)
	go a.listen(out)
	t.Cleanup(func() {
		in.Close()
		a.kill()
	})
	a.want("ready")
	return a
}

func (a *agent) listen(out io.Reader) {
	defer close(a.news)
	for d := json.NewDecoder(out); ; {
		var n news
		if d.Decode(&n) != nil {
			return
		}
		a.news <- n
	}
}

func (a *agent) pid() int { return a.cmd.Process.Pid }

// do gives an order. One that is dead doesn't hear it.
func (a *agent) do(o order) {
	if o.Who == (state.Party{}) {
		o.Who = session(a.name)
	}
	a.in.Encode(o)
}

// next is its next news; false when it has ended or says nothing.
func (a *agent) next(most time.Duration) (news, bool) {
	select {
	case n, ok := <-a.news:
		return n, ok
	case <-time.After(most):
		return news{Ev: "silence"}, false
	}
}

// expect waits for news of that name; what it says of its wait is passed over.
func (a *agent) expect(ev string) (news, error) {
	end := time.Now().Add(patience)
	for {
		n, ok := a.next(time.Until(end))
		switch {
		case !ok && n.Ev != "":
			return n, fmt.Errorf("%s: nothing in %v, want %q", a.name, patience, ev)
		case !ok:
			return n, fmt.Errorf("%s has ended, want %q", a.name, ev)
		case n.Ev == ev:
			return n, nil
		case n.Ev != "waiting":
			return n, fmt.Errorf("%s: %+v, want %q", a.name, n, ev)
		}
	}
}

func (a *agent) want(ev string) news {
	a.t.Helper()
	n, err := a.expect(ev)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// ok is want of something that may not fail.
func (a *agent) ok(ev string) news {
	a.t.Helper()
	n := a.want(ev)
	if n.Err != "" {
		a.t.Fatalf("%s: %s: %s", a.name, ev, n.Err)
	}
	return n
}

// claim has it claim and waits for that.
func (a *agent) claim(resources ...string) news {
	a.t.Helper()
	a.do(order{Do: "acquire", Resources: resources})
	return a.want("claimed")
}

// wait has it wait, until it says that it does.
func (a *agent) wait(o order) news {
	a.t.Helper()
	o.Do = "acquire"
	a.do(o)
	return a.want("waiting")
}

func (a *agent) release() {
	a.t.Helper()
	a.do(order{Do: "release"})
	a.ok("released")
}

// quiet says that nothing but waits has been told so far.
func (a *agent) quiet() {
	a.t.Helper()
	for {
		select {
		case n, ok := <-a.news:
			if !ok || n.Ev != "waiting" {
				a.t.Fatalf("%s: %+v, want nothing", a.name, n)
			}
		default:
			return
		}
	}
}

// kill ends it as a crash does, and returns when the kernel has cleaned up.
func (a *agent) kill() {
	a.once.Do(func() {
		a.cmd.Process.Signal(syscall.SIGKILL)
		a.err = a.cmd.Wait()
	})
}

// died says whether it has been killed by a signal, and waits for its end.
func (a *agent) died() error {
	for {
		n, ok := a.next(patience)
		if !ok && n.Ev != "" {
			return fmt.Errorf("%s lives", a.name)
		}
		if !ok {
			break
		}
	}
	a.once.Do(func() { a.err = a.cmd.Wait() })
	if s, ok := a.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s: %v, want a kill", a.name, a.cmd.ProcessState)
	}
	return nil
}

func (a *agent) signal(s syscall.Signal) { a.cmd.Process.Signal(s) }

// stopped waits until it is: by a signal that was sent or by its own.
func (a *agent) stopped() bool {
	return eventually(func() bool { return processState(a.pid()) == 'T' })
}

// stop stops it, and returns when it is.
func (a *agent) stop() {
	a.t.Helper()
	a.signal(syscall.SIGSTOP)
	if !a.stopped() {
		a.t.Fatalf("%s doesn't stop", a.name)
	}
}

// processState is the letter of /proc/PID/stat; 0 when there is no such process.
func processState(pid int) byte {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return (rest + "\x00")[0]
}

// eventually waits for what no event tells.
func eventually(f func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f() {
			return true
		}
	}
	return f()
}

// crash leaves a crashed lease of the resources.
func crash(t testing.TB, b *lease.Base, resources ...string) {
	t.Helper()
	a := start(t, b, "crash")
	a.claim(resources...)
	a.kill()
	for _, res := range resources {
		if s, err := b.Look(res); err != nil || s.Kind != lease.Crashed {
			t.Fatalf("%s after a crash: %+v, %v", res, s, err)
		}
	}
}

// at once claims without waiting in this process.
func claimNow(b *lease.Base, who state.Party, resources ...string) (*lease.Lease, error) {
	return b.Acquire(context.Background(), order{Resources: resources, Who: who}.request(), lease.Options{NoWait: true})
}

// busy says that nobody can have res now.
func busy(t testing.TB, b *lease.Base, res string) *lease.Blocked {
	t.Helper()
	l, err := claimNow(b, session("fresh"), res)
	var blocked *lease.Blocked
	if !errors.As(err, &blocked) {
		if err == nil {
			l.Release(context.Background(), "")
		}
		t.Fatalf("%s was to be had: %v", res, err)
	}
	return blocked
}

// free says that res can be had now.
func free(t testing.TB, b *lease.Base, res string) {
	t.Helper()
	l, err := claimNow(b, session("fresh"), res)
	if err != nil {
		t.Fatalf("%s is not to be had: %v", res, err)
	}
	must(t, l.Release(context.Background(), "exit 0"))
}

// endAtCleanup ends a process that an agent started.
func endAtCleanup(t testing.TB, pid int) {
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
}

// kill ends a process that is no child of ours, and waits for its end.
func kill(t testing.TB, pid int) {
	t.Helper()
	syscall.Kill(pid, syscall.SIGKILL)
	if !eventually(func() bool { s := processState(pid); return s == 0 || s == 'Z' }) {
		t.Fatalf("process %d doesn't end", pid)
	}
}

// verbs are the events of the log, in order.
func verbs(t testing.TB, b *lease.Base) (vs []string) {
	t.Helper()
	must(t, b.Store.ReadEvents(time.Time{}, func(e state.Event) { vs = append(vs, e.Verb) }))
	return vs
}
