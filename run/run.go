// Package run is what each verb of withlease does, the run of a command first.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"withlease/lease"
	"withlease/signals"
)

// Command is the command line of a run.
type Command struct {
	Resources    []string
	Spelled      bool // the word run is needed before them: the first is named like a verb
	Argv         []string
	NoWait       bool
	Wait         time.Duration // how long to wait; 0: as long as it takes
	KeepPlace    time.Duration
	KeepOnFail   time.Duration // how long the lease stays when the command fails; 0: not
	Ticket       string
	Purpose      string
	PTY          string // auto, always, never
	Notify       string // auto, bell, osc, off
	TTL          time.Duration
	Grace        time.Duration
	OnLost       string // kill, warn
	ConflictExit int
	StatusFile   string
	BudgetGiB    int
	Quiet        bool
	Verbose      bool
}

// Defaults of a run.
const (
	DefaultTTL   = 60 * time.Second
	DefaultGrace = 10 * time.Second
)

// check is what kong can't say about a command line.
func (c *Command) check(s *Session) error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return usage("no command after --: withlease %s -- COMMAND [ARG...]", strings.Join(append(c.Resources, []string{"RESOURCE"}[min(len(c.Resources), 1):]...), " "))
	}
	if len(c.Resources) == 0 {
		return usage("no resource before --: withlease RESOURCE... -- %s", commandLine(c.Argv))
	}
	for i, r := range c.Resources {
		if err := lease.CheckName(r); err != nil {
			return err
		}
		if slices.Contains(c.Resources[:i], r) {
			return usage("%s is named twice", r)
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		zero  bool
	}{{"--wait", c.Wait, true}, {"--keep-place", c.KeepPlace, true}, {"--keep-on-fail", c.KeepOnFail, true}, {"--ttl", c.TTL, false}, {"--grace", c.Grace, true}} {
		if d.value < 0 || d.value == 0 && !d.zero {
			return usage("%s=%v: a duration greater than 0 is needed, like 90s or 5m", d.flag, d.value)
		}
	}
	if !slices.Contains([]string{"", "auto", "always", "never"}, c.PTY) {
		return usage("--pty or $WITHLEASE_PTY is %q: auto, always or never", show(c.PTY))
	}
	if !slices.Contains([]string{"", "auto", "bell", "osc", "off"}, c.Notify) {
		return usage("--notify or $WITHLEASE_NOTIFY is %q: auto, bell, osc or off", show(c.Notify))
	}
	if c.ConflictExit < 0 || c.ConflictExit > 255 {
		return usage("--conflict-exit-code=%d: an exit status is between 0 and 255", c.ConflictExit)
	}
	if c.BudgetGiB < 0 {
		return usage("--budget-gib=%d: a number of GiB greater than 0 is needed", c.BudgetGiB)
	}
	if c.BudgetGiB > 0 {
		for _, r := range c.Resources {
			if !slices.Contains(s.modelServers(), r) {
				return usage("--budget-gib is for a model server (%s), and %s is none", strings.Join(s.modelServers(), ", "), r)
			}
		}
	}
	return nil
}

// run is one run on its way.
type run struct {
	*Session
	Command
	asked Command // as it was, before the environment's say
	base  *lease.Base
	path  string // of the executable
	lease *lease.Lease
	tell  *teller

	mu      sync.Mutex
	phase   phase
	ended   signals.Signal // what ended the wait
	cancel  context.CancelCauseFunc
	forward func(signals.Signal)
	forked  time.Time // when the command was started

	lostOnce sync.Once
	status   Status
}

// phase says what a signal means.
type phase int

const (
	waiting phase = iota // it ends the wait, and withlease
	running              // it is the command's
	done                 // the command has ended: nobody's
)

// errSignal is the cause of a wait that a signal ended.
var errSignal = errors.New("ended by a signal")

var errLockBusy = errors.New("the lock on state.lock could not be had in 10 s: the process that has it is stopped (fuser shows which); continue or end it")

// Run claims the resources, runs the command, and gives them back, however that
// ends. The steps are in the order in which they must come.
//
// sigs are the signals that arrive. ready returns when they all do: until then
// one of them ends the process, with nothing claimed.
func (s *Session) Run(c Command, sigs <-chan signals.Signal, ready func()) (exit Exit) {
	asked := c
	c.PTY = first(c.PTY, s.Getenv("WITHLEASE_PTY"), "auto")
	c.Notify = first(c.Notify, s.Getenv("WITHLEASE_NOTIFY"), "auto")
	r := &run{Session: s, Command: c, asked: asked}
	r.status.start(s.Now())
	defer func() { exit = r.finish(exit) }()

	if err := c.check(s); err != nil {
		return r.fail(err)
	}
	var err error
	if r.path, err = lookUp(c.Argv[0], s.Getenv("PATH")); err != nil {
		return r.notStarted(err)
	}
	if r.base, err = s.base(); err != nil {
		return r.fail(err)
	}
	if !r.Quiet {
		s.warnPublic(r.base)
	}
	ctx := r.watchSignals(sigs)
	nested, err := r.base.Nested(ctx, c.Resources, s.Getenv("WITHLEASE_HELD"), s.Party())
	if err != nil {
		return r.fail(err)
	}
	if len(nested) == len(c.Resources) {
		return r.underOuterLease()
	}
	if r.lease, err = r.acquire(ctx, nested, ready); err != nil {
		return r.notHeld(err)
	}
	if r.Verbose {
		say(s.Stderr, "claimed %s", strings.Join(r.lease.Resources(), " and "))
	}
	exit, err = r.start()
	r.release(exit, err)
	if err != nil {
		return r.notStarted(err)
	}
	return exit
}

// watchSignals hands each signal to whom it concerns at the moment. The context
// ends when one ends the wait.
func (r *run) watchSignals(sigs <-chan signals.Signal) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = cancel
	go func() {
		for s := range sigs {
			r.signal(s)
		}
	}()
	return ctx
}

func (r *run) signal(s signals.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case waiting:
		if s.Number != syscall.SIGWINCH {
			r.ended = s
			r.cancel(errSignal)
		}
	case running:
		r.forward(s)
	}
}

// acquire waits for the lease.
func (r *run) acquire(ctx context.Context, nested []string, ready func()) (*lease.Lease, error) {
	if r.Wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, r.Wait, lease.ErrWaitOver)
		defer stop()
	}
	h := r.Holder(first(r.Purpose, commandLine(r.Argv)))
	h.BudgetGiB = r.BudgetGiB
	rq := &lease.Request{
		Resources: slices.DeleteFunc(slices.Clone(r.Resources), func(res string) bool { return slices.Contains(nested, res) }),
		Holder:    h,
		Command:   r.Argv,
		TTL:       r.TTL,
	}
	r.tell = newTeller(r)
	defer r.tell.wipe()
	l, err := r.base.Acquire(ctx, rq, lease.Options{
		NoWait: r.NoWait,
		Keep:   r.KeepPlace,
		Ticket: r.Ticket,
		Tell:   r.tell.blocked,
		Ready:  ready,
		Lapsed: func(res string) {
			if !r.Quiet {
				say(r.Stderr, "the place %s in the line of %s has lapsed: waiting at its end", show(r.Ticket), res)
			}
		},
	})
	if err == nil {
		r.tell.wipe()
		r.tell.obtained()
	}
	return l, err
}

// underOuterLease runs the command at once: an outer run of this process tree
// has what it needs, and gives it back. The command takes this process's
// place.
func (r *run) underOuterLease() Exit {
	if r.Verbose {
		say(r.Stderr, "%s is held already, by a run around this one", strings.Join(r.Resources, " and "))
	}
	r.mu.Lock() // no signal from here on is ours
	if r.ended.Number != 0 {
		r.mu.Unlock()
		return dying(r.ended.Number)
	}
	r.status.Outcome = "nested"
	if r.StatusFile != "" {
		r.finish(Exit{})
	}
	err := execute(r.path, r.Argv, os.Environ())
	r.mu.Unlock()
	return r.notStarted(err)
}

func dying(s syscall.Signal) Exit { return Exit{Code: 128 + int(s), Signal: s} }

// environ is the command's environment: ours, and what it holds.
func (r *run) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "WITHLEASE_RESOURCE", "WITHLEASE_TOKEN", "WITHLEASE_FENCE", "WITHLEASE_BUDGET_GIB", "WITHLEASE_HELD":
			return true
		}
		return false
	})
	var fences []string
	for _, f := range r.lease.Fences() {
		fences = append(fences, strconv.FormatInt(f, 10))
	}
	env = append(env,
		"WITHLEASE_RESOURCE="+strings.Join(r.lease.Resources(), " "),
		"WITHLEASE_TOKEN="+r.lease.Token,
		"WITHLEASE_FENCE="+strings.Join(fences, " "),
		"WITHLEASE_HELD="+lease.HeldEnv(r.Getenv("WITHLEASE_HELD"), r.lease))
	if r.BudgetGiB > 0 {
		env = append(env, fmt.Sprintf("WITHLEASE_BUDGET_GIB=%d", r.BudgetGiB))
	}
	return env
}

// errEnded is a run that a signal ended before its command was started.
var errEnded = errors.New("ended before the start")

// begin decides, with the signals held back, whether the command may start.
// The caller unlocks r.mu.
func (r *run) begin() error {
	if r.ended.Number != 0 {
		return errEnded
	}
	if r.lease.Forced() {
		if err := r.lease.Check(); err != nil {
			return err
		}
	}
	r.forked = time.Now()
	return nil
}

// start runs the command to its end, in the mode that fits.
func (r *run) start() (Exit, error) {
	if r.wantsPTY() {
		return r.inPTY()
	}
	return r.shared()
}

// release gives the lease back. The command is reaped, or was never started.
func (r *run) release(exit Exit, err error) {
	r.mu.Lock()
	r.phase = done
	r.mu.Unlock()
	outcome := lease.Outcome(fmt.Sprintf("exit %d", exit.Code))
	switch {
	case err != nil:
		outcome = "not started"
	case exit.Signal != 0:
		outcome = lease.Outcome(fmt.Sprintf("signal %d", int(exit.Signal)))
	}
	r.status.hold(r.lease, r.Now())
	if errors.Is(err, errMonitor) {
		return // the command may live: the witness decides
	}
	var releaseErr error
	stays := r.KeepOnFail > 0 && err == nil && exit.Code != 0 && r.status.Outcome != "lost"
	if stays {
		releaseErr = r.stay(outcome)
	} else {
		releaseErr = r.lease.Release(soon(), outcome)
	}
	var lost *lease.LostError
	if errors.As(releaseErr, &lost) {
		r.reportLoss(lost)
	} else if releaseErr != nil {
		say(r.Stderr, "the lease could not be given back: %s; the next who claims it takes it over", Explain(releaseErr))
	} else if r.Verbose && !stays {
		say(r.Stderr, "released %s", strings.Join(r.Resources, " and "))
	}
	for _, w := range r.lease.Warned {
		say(r.Stderr, "%s", Explain(w))
	}
}

// stay keeps the lease for a while, so that what the command has left can be
// looked at. It is said even by a quiet run: others wait for it.
func (r *run) stay(outcome lease.Outcome) error {
	kept, until, err := r.lease.Stay(soon(), r.KeepOnFail, outcome)
	for _, res := range kept {
		say(r.Stderr, "%s stays yours until %s since the command failed (%s); give it back with: withlease release %s", res, clock(until, r.Now()), outcome, res)
	}
	if len(kept) > 0 {
		r.status.HeldUntil = &until
	}
	return err
}

// fail is withlease's own failure.
func (r *run) fail(err error) Exit {
	r.status.Error = err.Error()
	say(r.Stderr, "%s", Explain(err))
	return Exit{Code: ExitFailed}
}

// notHeld explains why the command did not run.
func (r *run) notHeld(err error) Exit {
	var blocked *lease.Blocked
	switch {
	case errors.Is(err, errSignal):
		r.mu.Lock()
		defer r.mu.Unlock()
		return dying(r.ended.Number)
	case errors.As(err, &blocked):
		r.tell.refused(blocked)
		r.status.Outcome = "busy"
		return Exit{Code: r.ConflictExit}
	}
	return r.fail(err)
}

// notStarted explains why the command did not start although it was claimed
// for.
func (r *run) notStarted(err error) Exit {
	var lost *lease.LostError
	switch {
	case errors.Is(err, errEnded):
		return dying(r.ended.Number)
	case errors.As(err, &lost):
		r.status.Outcome = "lost"
		return Exit{Code: ExitLost}
	}
	var start *startError
	if errors.As(err, &start) {
		say(r.Stderr, "%s", start.Error())
		r.status.Error = start.Error()
		return Exit{Code: start.code}
	}
	return r.fail(err)
}

// reportLoss says once that the lease is gone.
func (r *run) reportLoss(err error) {
	r.lostOnce.Do(func() {
		say(r.Stderr, "the lease was lost: %s", show(err.Error()))
	})
}
