package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"withlease/state"
)

// SupervisorError is a change that another party decides about.
type SupervisorError struct {
	Supervisor *state.Supervisor // nil: none is recorded
	Reason     string
}

func (e *SupervisorError) Error() string { return e.Reason }

// Away says since when the supervisor's process is away: until when it may come
// back, or whether it counts as gone.
func (b *Base) Away(st *state.State, now time.Time) (until time.Time, gone bool) {
	c := &change{Base: b, now: now}
	g := c.gateOf(st, &sight{}, state.Party{})
	return g.RestartUntil, g.Gone
}

// Change runs f on the document under the lock, saves it, and wakes those who
// wait for resources (all lines when it is nil). An error of f saves nothing.
// Errors are f's, a *state.BrokenError or an *fs.PathError.
//
// f is given what to look, log, and wake a party with: the document's own order
// wakes those whose turn has come.
func (b *Base) Change(ctx context.Context, f func(st *state.State, held func(string) bool, log Logger, wake func(state.Party)) (resources []string, err error)) error {
	if err := b.Make(); err != nil {
		return err
	}
	l, err := b.Store.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock()
	c := b.change(l)
	st, err := l.State()
	if err != nil {
		return err
	}
	held := func(res string) bool {
		// Settled, so that the grants that waited for a crashed holder, or for
		// the shell lock, have their time (R6).
		s, err := c.settle(res)
		if err != nil {
			return true // when in doubt
		}
		defer s.close()
		return s.held()
	}
	var events []func()
	var also []state.Party
	resources, err := f(st, held, func(by state.Party, verb string, d state.Detail) {
		events = append(events, func() { c.log(by.Label(), verb, d) })
	}, func(p state.Party) { also = append(also, p) })
	if err != nil {
		l.Forget()
		return err
	}
	// Woken before the write, by the document as it will be: a crash in between
	// loses nothing, and who is woken waits on the lock.
	step("grant.1")
	if resources == nil {
		if resources, err = b.Lines(); err != nil {
			return err
		}
		for _, res := range resources {
			b.wakeAll(res)
		}
	} else {
		for _, res := range resources {
			c.wake(st, res, true)
			l := c.lineOf(res)
			for _, p := range also {
				l.wakeParty(p)
			}
		}
	}
	step("grant.2")
	if err := l.Save(st); err != nil {
		return err
	}
	for _, log := range events {
		log()
	}
	return nil
}

// Logger notes an event once the change is saved.
type Logger func(by state.Party, verb string, d state.Detail)

// Grant records that to may claim the resources, all in one write, so that two
// runs that need several of them can't block each other [grant].
type Grant struct {
	Resources []string
	To, By    state.Party
	Unblock   string // why it may go through an upgrade
	BudgetGiB int
	Force     bool // a person's word against the supervisor's
}

// Grant writes g behind the pending grants of each resource. The error is a
// *NameError, a *SupervisorError, a *state.BrokenError or an *fs.PathError.
func (b *Base) Grant(ctx context.Context, g Grant) error {
	for _, res := range g.Resources {
		if err := CheckName(res); err != nil {
			return err
		}
	}
	return b.Change(ctx, func(st *state.State, held func(string) bool, log Logger, wake func(state.Party)) ([]string, error) {
		now := time.Now().UTC()
		if err := decides(st, g.By, g.Force, "grants"); err != nil {
			return nil, err
		}
		if st.Supervisor == nil && !slices.ContainsFunc(g.Resources, func(r string) bool { return st.Upgrade(r, now) != nil }) {
			return nil, &SupervisorError{Reason: "nobody needs a grant: no supervisor is recorded (withlease supervisor start)"}
		}
		busy := map[string]bool{}
		for _, old := range st.Grants {
			if _, asked := busy[old.Resource]; !asked {
				busy[old.Resource] = held(old.Resource)
			}
		}
		Prune(st, busy, now, GrantTTL)
		for _, res := range g.Resources {
			st.Grants = append(st.Grants, state.Grant{Resource: res, To: g.To, By: g.By, At: now, UpgradeUnblock: g.Unblock, BudgetGiB: g.BudgetGiB})
			wake(g.To) // [grant.1]
			log(g.By, "grant", state.Detail{Resource: res, Session: g.To.Session, To: g.To.Label(), Reason: g.Unblock})
		}
		return g.Resources, nil
	})
}

// Revoke takes back the pending grants of the resources to a party, and says
// how many those were.
func (b *Base) Revoke(ctx context.Context, resources []string, to, by state.Party, force bool) (n int, err error) {
	err = b.Change(ctx, func(st *state.State, _ func(string) bool, log Logger, wake func(state.Party)) ([]string, error) {
		if err := decides(st, by, force, "revokes"); err != nil {
			return nil, err
		}
		kept := st.Grants[:0:0]
		for i, g := range st.Grants {
			if slices.Contains(resources, g.Resource) && g.To.Same(to) {
				if n++; n == 1 {
					// [revoke.1] Whose it was, and, for it is rare, all behind it.
					for _, later := range st.Grants[i:] {
						wake(later.To)
					}
				}
				log(by, "revoke", state.Detail{Resource: g.Resource, Session: g.To.Session, To: g.To.Label()})
				continue
			}
			kept = append(kept, g)
		}
		st.Grants = kept
		return resources, nil
	})
	return n, err
}

// decides says whether by may grant and revoke: the recorded supervisor, or a
// person that insists.
func decides(st *state.State, by state.Party, force bool, what string) error {
	if st.Supervisor != nil && st.Supervisor.Same(by) || force && by.IsPerson() {
		return nil
	}
	e := &SupervisorError{Supervisor: st.Supervisor}
	switch {
	case st.Supervisor == nil:
		e.Reason = "no supervisor is recorded: become it (withlease supervisor start)"
	case by.IsPerson():
		e.Reason = fmt.Sprintf("%s %s here: ask it%s", st.Supervisor.Label(), what, insist(by))
	default:
		e.Reason = fmt.Sprintf("%s %s here, and %s is not it: ask it", st.Supervisor.Label(), what, by.Label())
	}
	return e
}

// Supervise records who as the supervisor, with the process by which it is
// seen to live (pid 0: none, it counts as there). Another party's is taken over
// only when it is gone; the grants stay as they are [sup].
func (b *Base) Supervise(ctx context.Context, who state.Party, pid int, force bool) (took *state.Supervisor, err error) {
	err = b.Change(ctx, func(st *state.State, _ func(string) bool, log Logger, _ func(state.Party)) ([]string, error) {
		now := time.Now().UTC()
		watchSupervisor(st, now)
		old := st.Supervisor
		if old != nil && !old.Same(who) {
			until, gone := b.Away(st, now)
			switch {
			case gone, force && who.IsPerson():
				took = old
			case !until.IsZero():
				return nil, &SupervisorError{old, fmt.Sprintf("%s supervises since %s; its process is away and may restart until %s: try again then",
					old.Label(), old.Since.Local().Format("15:04"), until.Local().Format("15:04:05")) + insist(who)}
			default:
				return nil, &SupervisorError{old, fmt.Sprintf("%s supervises since %s and is there: ask it to stop (withlease supervisor stop)%s",
					old.Label(), old.Since.Local().Format("2006-01-02 15:04"), insist(who))}
			}
		}
		since := now
		if old != nil && took == nil {
			since = old.Since // a restart of the same
		}
		p := who
		if old != nil && took == nil { // with what other tools wrote of it
			p = old.Party
			p.Session, p.HostSession, p.Name, p.Person, p.Team, p.Host = who.Session, who.HostSession, who.Name, who.Person, who.Team, who.Host
		}
		st.Supervisor = &state.Supervisor{Party: p, Since: since}
		cli := state.SupervisorCLI{}
		if old != nil && took == nil && st.SupervisorCLI != nil {
			cli = *st.SupervisorCLI
		}
		cli.Supervisor, cli.Since, cli.PID, cli.Start, cli.Gone = cliName(who), now, pid, processMark(pid), time.Time{}
		st.SupervisorCLI = &cli
		log(who, "supervisor.start", state.Detail{Session: who.Session})
		return nil, nil
	})
	return took, err
}

// insist is what a person can do besides.
func insist(who state.Party) string {
	if who.IsPerson() {
		return ", or insist as a person (--force)"
	}
	return ""
}

func cliName(p state.Party) string {
	if p.Session != "" {
		return p.Session
	}
	return p.Name
}

// Unsupervise ends the supervision, and with it every plain grant: tickets
// decide from here on. Grants through an upgrade stay.
func (b *Base) Unsupervise(ctx context.Context, who state.Party, force bool) error {
	return b.Change(ctx, func(st *state.State, _ func(string) bool, log Logger, _ func(state.Party)) ([]string, error) {
		if st.Supervisor == nil {
			return nil, &SupervisorError{Reason: "no supervisor is recorded"}
		}
		if !st.Supervisor.Same(who) && !(force && who.IsPerson()) {
			return nil, &SupervisorError{st.Supervisor, fmt.Sprintf("%s supervises, not %s: ask it%s", st.Supervisor.Label(), who.Label(), insist(who))}
		}
		log(who, "supervisor.stop", state.Detail{Session: st.Supervisor.Session, To: st.Supervisor.Label()})
		st.Supervisor, st.SupervisorCLI = nil, nil
		st.Grants = slices.DeleteFunc(st.Grants, func(g state.Grant) bool { return g.UpgradeUnblock == "" })
		return nil, nil
	})
}

// watchSupervisor notes in the document that the supervisor's process is away,
// or back. It says whether anything changed.
func watchSupervisor(st *state.State, now time.Time) bool {
	cli := st.SupervisorCLI
	if cli == nil || cli.PID == 0 {
		return false
	}
	if supervisorLives(cli) == cli.Gone.IsZero() {
		return false
	}
	if cli.Gone.IsZero() {
		cli.Gone = now.UTC()
	} else {
		cli.Gone = time.Time{}
	}
	return true
}

func supervisorLives(cli *state.SupervisorCLI) bool {
	mark := processMark(cli.PID)
	return mark != "" && (cli.Start == "" || cli.Start == mark)
}

// processMark tells a process from every other that has had its pid: the boot
// and the start time. Empty when it doesn't run.
func processMark(pid int) string {
	if pid <= 0 {
		return ""
	}
	start := startTime(pid)
	if start == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", thisMachine().bootID, start)
}

// SupervisorPID is the supervisor's process, to be watched; false when there is
// none or it is away.
func SupervisorPID(st *state.State) (PID, bool) {
	cli := st.SupervisorCLI
	if st.Supervisor == nil || cli == nil || cli.PID == 0 || !cli.Gone.IsZero() {
		return PID{}, false
	}
	return PID{cli.PID, startTime(cli.PID)}, true
}

// Upgrade holds the installation that target names ("inst" or "inst/cluster")
// back until it is ended, or until a time.
func (b *Base) Upgrade(ctx context.Context, target, reason string, until time.Time, by state.Party) error {
	if _, err := installation(target); err != nil {
		return err
	}
	return b.Change(ctx, func(st *state.State, _ func(string) bool, log Logger, _ func(state.Party)) ([]string, error) {
		now := time.Now().UTC()
		for _, h := range st.Holds {
			if h.Target == "upgrade:"+target && h.Active(now) {
				return nil, &SupervisorError{st.Supervisor, fmt.Sprintf("an upgrade of %s by %s runs already, since %s: end it first (withlease upgrade end %s)",
					target, h.By.Label(), h.At.Local().Format("15:04"), target)}
			}
		}
		st.Holds = append(st.Holds, state.Hold{Target: "upgrade:" + target, Reason: reason, By: by, At: now, Until: until})
		log(by, "upgrade.begin", state.Detail{Target: target, Reason: reason})
		return nil, nil
	})
}

// EndUpgrade lifts the upgrade of target.
func (b *Base) EndUpgrade(ctx context.Context, target string, by state.Party) error {
	inst, err := installation(target)
	if err != nil {
		return err
	}
	return b.Change(ctx, func(st *state.State, _ func(string) bool, log Logger, _ func(state.Party)) ([]string, error) {
		now := time.Now().UTC()
		lifted := false
		for i := range st.Holds {
			if h := &st.Holds[i]; h.Target == "upgrade:"+target && h.Active(now) {
				h.LiftedBy, h.LiftedAt, lifted = by, now, true
			}
		}
		if !lifted {
			return nil, &SupervisorError{st.Supervisor, fmt.Sprintf("no upgrade of %s runs", target)}
		}
		st.Grants = slices.DeleteFunc(st.Grants, func(g state.Grant) bool {
			return g.UpgradeUnblock != "" && g.Resource == inst && st.Upgrade(inst, now) == nil && st.Supervisor == nil
		})
		log(by, "upgrade.end", state.Detail{Target: target})
		return nil, nil
	})
}

func installation(target string) (string, error) {
	inst, cluster, both := strings.Cut(target, "/")
	if err := CheckName(inst); err != nil {
		return "", err
	}
	if both {
		if err := CheckName(cluster); err != nil {
			return "", err
		}
	}
	return inst, nil
}

// IsRefusal says whether err is somebody's no rather than a failure.
func IsRefusal(err error) bool {
	var s *SupervisorError
	var h *HeldError
	var b *Blocked
	var d *DirError
	var o *OtherError
	var t *TermError
	return errors.As(err, &s) || errors.As(err, &h) || errors.As(err, &b) || errors.As(err, &d) || errors.As(err, &o) || errors.As(err, &t)
}

// NoteAway notes in a document that was only read that the supervisor's process
// is away: what is shown is true, and the next change writes it.
func NoteAway(st *state.State, now time.Time) { watchSupervisor(st, now) }

// Cross is two parties that wait for each other: both have grants of both
// resources, and each comes first on another one.
type Cross struct {
	First, Second string
	A, B          state.Party
}

// Crossed finds the grants that block each other: given one by one in different
// orders to parties that need both resources at once. Grants of one write have
// one order.
func Crossed(st *state.State, now time.Time, needsBoth func(p state.Party, a, b string) bool) []Cross {
	heads := map[string]state.Party{}
	behind := map[string][]state.Party{}
	var order []string
	for _, g := range st.Grants {
		if !claimable(st, &g, g.Resource, false, now, GrantTTL) {
			continue
		}
		if _, ok := heads[g.Resource]; !ok {
			heads[g.Resource] = g.To
			order = append(order, g.Resource)
			continue
		}
		behind[g.Resource] = append(behind[g.Resource], g.To)
	}
	var found []Cross
	for i, a := range order {
		for _, b := range order[i+1:] {
			if !heads[a].Same(heads[b]) && needsBoth(heads[a], a, b) && needsBoth(heads[b], a, b) &&
				slices.ContainsFunc(behind[a], heads[b].Same) && slices.ContainsFunc(behind[b], heads[a].Same) {
				found = append(found, Cross{a, b, heads[a], heads[b]})
			}
		}
	}
	return found
}
