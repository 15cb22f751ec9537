package run

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"withlease/lease"
	"withlease/state"
)

// snapshot is what `list`, `status` and `queue` see together, under the shared
// lock.
type snapshot struct {
	base *lease.Base
	st   *state.State
	now  time.Time
	bad  error // the document can't be read; the leases can
}

func (s *Session) look() (*snapshot, func(), error) {
	b, err := s.Base()
	if err != nil {
		return nil, nil, err
	}
	l, err := b.Store.Look(soon())
	if err != nil {
		return nil, nil, err
	}
	v := &snapshot{base: b, now: s.Now()}
	if v.st, err = l.State(); err != nil {
		v.st, v.bad = &state.State{}, err
	}
	lease.NoteAway(v.st, v.now)
	return v, l.Unlock, nil
}

// answer collects what show prints and writes it when the lock is given back:
// whoever pages it may take his time, and every claim would wait for him.
func (s *Session) answer(show func() Exit) Exit {
	out := s.Stdout
	var text bytes.Buffer
	s.Stdout = &text
	exit := show()
	s.Stdout = out
	if _, err := out.Write(text.Bytes()); err != nil {
		return s.failed(err)
	}
	return exit
}

// List shows every lease, oldest first.
func (s *Session) List() Exit { return s.answer(s.list) }

func (s *Session) list() Exit {
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	held, err := v.base.List()
	if err != nil {
		return s.failed(err)
	}
	if s.JSON {
		doc := struct {
			Schema     int             `json:"schema"`
			Leases     []HeldView      `json:"leases"`
			Supervisor *SupervisorView `json:"supervisor,omitempty"`
		}{Schema: Schema, Leases: []HeldView{}, Supervisor: supervisorView(v.base, v.st, v.now)}
		for _, h := range held {
			doc.Leases = append(doc.Leases, heldView(h))
		}
		return s.wrote(writeJSON(s.Stdout, doc), v.bad)
	}
	for _, h := range held {
		s.printLease(h, v.now)
	}
	if len(held) == 0 && v.bad == nil {
		say(s.Stderr, "nothing is held in %s", show(string(v.base.Leases)))
	}
	return s.wrote(nil, v.bad)
}

// printLease shows a lease on a line, and below it what its holder should know.
func (s *Session) printLease(h lease.Sight, now time.Time) {
	fmt.Fprintln(s.Stdout, leaseRow(h, now))
	if left, soon := endsSoon(h, now); soon && h.Party().Same(s.Party()) {
		fmt.Fprintf(s.Stdout, "  ends in %s: withlease extend %s 30m\n", ago(left), h.Resource)
	}
	for _, a := range h.Asks {
		text := fmt.Sprintf("  asked by %s %s ago", who(a.By, 0), ago(now.Sub(a.At)))
		if a.Message != "" {
			text += ": " + show(a.Message)
		}
		fmt.Fprintln(s.Stdout, text)
	}
}

// endsSoon says whether a claim is in the last 5 minutes of its time, or in the
// last tenth.
func endsSoon(h lease.Sight, now time.Time) (left time.Duration, soon bool) {
	left = h.Until().Sub(now)
	return left, h.Held && left > 0 && left <= max(5*time.Minute, h.Until().Sub(h.Holder.SinceTime())/10)
}

// leaseRow is a lease on one line.
func leaseRow(h lease.Sight, now time.Time) string {
	label := h.Holder.Label()
	switch h.Kind {
	case lease.Crashed:
		return fmt.Sprintf("%s  crashed: free for the next claim; was %s", label, heldBy(h, now))
	case lease.Abandoned:
		return fmt.Sprintf("%s  an abandoned claim: free for the next", label)
	case lease.Ended:
		return fmt.Sprintf("%s  ended %s ago: free for the next claim; was %s", label, ago(now.Sub(h.Until())), heldBy(h, now))
	}
	return fmt.Sprintf("%s  %s", label, heldBy(h, now))
}

// Status shows one resource: 0 when it is free, 1 when it is held.
func (s *Session) Status(res string) Exit { return s.answer(func() Exit { return s.showStatus(res) }) }

func (s *Session) showStatus(res string) Exit {
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	q, h, line, err := v.queueOf(res)
	if err != nil {
		return s.failed(err)
	}
	done() // the log is read without the lock
	code := Exit{}
	if h.Held {
		code.Code = ExitRefused
		q.Expected = readPast(v.base, res).expected(h, v.now)
	}
	if s.JSON {
		doc := struct {
			Schema int `json:"schema"`
			QueueView
			Supervisor *SupervisorView `json:"supervisor,omitempty"`
		}{Schema, q, supervisorView(v.base, v.st, v.now)}
		if e := s.wrote(writeJSON(s.Stdout, doc), v.bad); e.Code != 0 {
			return e
		}
		return code
	}
	if !h.Held && h.Kind == lease.Free {
		fmt.Fprintf(s.Stdout, "%s  free\n", res)
	} else {
		s.printLease(h, v.now)
	}
	if p := h.Process; p != nil && h.Held {
		fmt.Fprintf(s.Stdout, "  run: pid %d on %s, fence %d, renewed %s ago: %s\n",
			p.PID, show(p.Host), p.Fence, ago(v.now.Sub(h.Renewed)), showAt(strings.Join(p.Command, " "), 100))
	}
	s.printExpected(q)
	fmt.Fprintf(s.Stdout, "  at: %s/%s\n", show(string(v.base.Leases)), res)
	s.printQueue(v, q, line)
	if e := s.wrote(nil, v.bad); e.Code != 0 {
		return e
	}
	return code
}

// queueOf gathers what is known of a resource's line.
func (v *snapshot) queueOf(res string) (QueueView, lease.Sight, []lease.Waiter, error) {
	h, err := v.base.Look(res)
	if err != nil {
		return QueueView{}, h, nil, err
	}
	line, err := v.base.Line(res)
	if err != nil {
		return QueueView{}, h, nil, err
	}
	q := QueueView{HeldView: heldView(h)}
	pending := lease.Pending(v.st, res, h.Held, v.now, lease.GrantTTL)
	for i, g := range pending {
		q.Grants = append(q.Grants, GrantView{
			Place: i + 1, To: partyView(g.To), By: partyView(g.By), At: g.At, UpgradeUnblock: g.UpgradeUnblock, BudgetGiB: g.BudgetGiB,
			Waiting: slices.ContainsFunc(line, func(w lease.Waiter) bool { return g.To.Same(w.Who()) }),
		})
	}
	for i, w := range line {
		wv := WaiterView{
			Number: w.Number, Place: i + 1, Party: partyView(w.Who()), Purpose: w.Purpose, Since: w.Since, PID: w.PID, Resources: w.Resources,
			Granted: 1 + slices.IndexFunc(pending, func(g state.Grant) bool { return g.To.Same(w.Who()) }),
		}
		if !w.Kept.IsZero() {
			wv.KeptUntil = &w.Kept
		}
		q.Waiting = append(q.Waiting, wv)
	}
	if u := v.st.Upgrade(res, v.now); u != nil {
		q.Upgrade = &HoldView{Target: u.Target, Reason: u.Reason, By: partyView(u.By), At: u.At}
		if !u.Until.IsZero() {
			q.Upgrade.Until = &u.Until
		}
	}
	return q, h, line, nil
}

func (s *Session) printExpected(q QueueView) {
	if q.Expected != nil {
		fmt.Fprintf(s.Stdout, "  %s\n", q.Expected)
	}
}

func (s *Session) printQueue(v *snapshot, q QueueView, line []lease.Waiter) {
	if u := q.Upgrade; u != nil {
		why := ""
		if u.Reason != "" {
			why = ": " + show(u.Reason)
		}
		fmt.Fprintf(s.Stdout, "  held back by %s%s\n", show(u.Target), why)
	}
	for i, g := range q.Grants {
		here := "not waiting"
		if g.Waiting {
			here = "waiting"
		}
		why := ""
		if g.UpgradeUnblock != "" {
			why = ", through the upgrade: " + show(g.UpgradeUnblock)
		}
		to := lease.Pending(v.st, q.Resource, q.Held, v.now, lease.GrantTTL)[i].To
		fmt.Fprintf(s.Stdout, "  granted %d  %s, %s, %s ago%s\n", g.Place, who(to, 0), here, ago(v.now.Sub(g.At)), why)
	}
	for i, w := range line {
		more := ""
		if !w.Kept.IsZero() {
			more = fmt.Sprintf(", kept for %s", ago(w.Kept.Sub(v.now)))
		}
		if v.st.Supervisor != nil && q.Waiting[i].Granted == 0 && !w.Who().IsPerson() && !v.st.Supervisor.Same(w.Who()) {
			more += fmt.Sprintf(", asks for a grant (withlease grant %s %s)", q.Resource, show(lease.ShellWord(w.Who().Label())))
		}
		also := ""
		if len(w.Resources) > 1 {
			also = ", all of " + show(strings.Join(w.Resources, " "))
		}
		fmt.Fprintf(s.Stdout, "  waiting %d  %s for %s: %s%s%s\n", i+1, who(w.Who(), w.PID), ago(v.now.Sub(w.Since)), showAt(w.Purpose, 80), also, more)
	}
}

// queues is the answer of `queue --json`.
type queues struct {
	Schema     int             `json:"schema"`
	Queues     []QueueView     `json:"queues"`
	Supervisor *SupervisorView `json:"supervisor,omitempty"`
}

// needsBoth says whether somebody of that party waits for both resources at
// once.
func (q queues) needsBoth(p state.Party, a, b string) bool {
	for _, one := range q.Queues {
		for _, w := range one.Waiting {
			if w.Party.party().Same(p) && slices.Contains(w.Resources, a) && slices.Contains(w.Resources, b) {
				return true
			}
		}
	}
	return false
}

// Queue shows the grants and the lines of one resource, or of all that have
// any.
func (s *Session) Queue(res string) Exit { return s.answer(func() Exit { return s.queue(res) }) }

func (s *Session) queue(res string) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	past := readPast(b, res) // before the lock, which is held for less time than that takes
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	names := []string{res}
	if res == "" {
		if names, err = v.queued(); err != nil {
			return s.failed(err)
		}
	}
	doc := queues{Schema: Schema, Queues: []QueueView{}, Supervisor: supervisorView(v.base, v.st, v.now)}
	if !s.JSON {
		s.printSupervisor(v)
	}
	for _, n := range names {
		q, h, line, err := v.queueOf(n)
		if err != nil {
			return s.failed(err)
		}
		if res == "" && len(q.Grants) == 0 && len(q.Waiting) == 0 && q.Upgrade == nil {
			continue
		}
		q.Expected = past.expected(h, v.now)
		doc.Queues = append(doc.Queues, q)
		if !s.JSON {
			if h.Held {
				s.printLease(h, v.now)
			} else {
				fmt.Fprintf(s.Stdout, "%s  free\n", n)
			}
			s.printExpected(q)
			s.printQueue(v, q, line)
		}
	}
	if s.JSON {
		return s.wrote(writeJSON(s.Stdout, doc), v.bad)
	}
	if len(doc.Queues) == 0 && v.bad == nil {
		say(s.Stderr, "nobody waits, and nothing is granted")
	}
	for _, c := range lease.Crossed(v.st, v.now, doc.needsBoth) {
		fmt.Fprintf(s.Stdout, "blocked: %s: grant both in one (withlease grant %s,%s PARTY)\n", crossed(c), c.First, c.Second)
	}
	return s.wrote(nil, v.bad)
}

// crossed says which grants block each other.
func crossed(c lease.Cross) string {
	return fmt.Sprintf("%s and %s were granted %s and %s in different orders, and wait for each other", show(c.A.Label()), show(c.B.Label()), c.First, c.Second)
}

// queued are the resources with a line, a grant or an upgrade.
func (v *snapshot) queued() ([]string, error) {
	names, err := v.base.Lines()
	if err != nil {
		return nil, err
	}
	for _, g := range v.st.Grants {
		if lease.CheckName(g.Resource) == nil {
			names = append(names, g.Resource)
		}
	}
	for _, h := range v.st.Holds {
		inst, _, _ := strings.Cut(strings.TrimPrefix(h.Target, "upgrade:"), "/")
		if h.Active(v.now) && lease.CheckName(inst) == nil {
			names = append(names, inst)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (s *Session) printSupervisor(v *snapshot) {
	sv := supervisorView(v.base, v.st, v.now)
	if sv == nil {
		return
	}
	text := "running"
	switch sv.State {
	case "away":
		text = fmt.Sprintf("away, may restart until %s", sv.RestartUntil.Local().Format("15:04:05"))
	case "gone":
		text = "gone: its grants still claim, nothing new does until somebody takes over (withlease supervisor start)"
	}
	fmt.Fprintf(s.Stdout, "supervisor  %s since %s, %s\n", who(v.st.Supervisor.Party, sv.PID), sv.Since.Local().Format("2006-01-02 15:04"), text)
}

// failed is the end of a verb that could not do its work.
func (s *Session) failed(err error) Exit {
	var no refusal
	if errors.As(err, &no) {
		say(s.Stderr, "%s", string(no)) // in our own words already
		return Exit{Code: ExitRefused}
	}
	say(s.Stderr, "%s", Explain(err))
	return Exit{Code: verbCode(err)}
}

// verbCode is the exit status of a verb's failure.
func verbCode(err error) int {
	var use *UsageError
	var name *lease.NameError
	switch {
	case errors.As(err, &use), errors.As(err, &name):
		return ExitUsage
	case lease.IsRefusal(err):
		return ExitRefused
	}
	return ExitFailed
}

// wrote is the end of a verb that has shown what it could.
func (s *Session) wrote(err, bad error) Exit {
	if err == nil {
		err = bad
	}
	if err != nil {
		return s.failed(err)
	}
	return Exit{}
}
