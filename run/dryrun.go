package run

import (
	"fmt"
	"time"

	"withlease/lease"
	"withlease/state"
)

// dryRun shows what a release by force or kill would end, and whose turn it is
// then. It changes nothing.
func (s *Session) dryRun(r Release) Exit { return s.answer(func() Exit { return s.showDryRun(r) }) }

func (s *Session) showDryRun(r Release) Exit {
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	q, h, line, err := v.queueOf(r.Resource)
	if err != nil {
		return s.failed(err)
	}
	members := h.Members()
	if r.Kill {
		err = s.killable(v.base, h, members, r)
	} else {
		err = s.meant(v.base, h, r)
	}
	if err != nil {
		return s.notReleased(err)
	}
	next, waits := v.next(q, line)
	if s.JSON {
		doc := struct {
			Schema int `json:"schema"`
			HeldView
			Processes []ProcessView `json:"processes"`
			Next      *PartyView    `json:"next,omitempty"`
		}{Schema: Schema, HeldView: q.HeldView, Processes: []ProcessView{}}
		for _, m := range members {
			doc.Processes = append(doc.Processes, ProcessView{m.PID.PID, m.Command})
		}
		if waits {
			p := partyView(next.who)
			doc.Next = &p
		}
		return s.wrote(writeJSON(s.Stdout, doc), v.bad)
	}
	s.printLease(h, v.now)
	for _, m := range members {
		fmt.Fprintf(s.Stdout, "  would end %d %s\n", m.PID.PID, showAt(m.Command, 100))
	}
	if len(members) == 0 {
		fmt.Fprintln(s.Stdout, "  would end no process: none of it is known here")
	}
	if waits {
		fmt.Fprintf(s.Stdout, "  next is %s%s\n", who(next.who, 0), next.how(v.now))
	} else {
		fmt.Fprintln(s.Stdout, "  nobody waits for it")
	}
	return s.wrote(nil, v.bad)
}

// nextParty is who has a resource next, by a grant or by a place in line.
type nextParty struct {
	who     state.Party
	granted bool
	waiter  lease.Waiter
}

func (n nextParty) how(now time.Time) string {
	if n.granted {
		return ", by a grant"
	}
	return fmt.Sprintf(", waiting for %s: %s", ago(now.Sub(n.waiter.Since)), showAt(n.waiter.Purpose, 80))
}

// next is whose turn it is when the holder has gone: where grants decide that
// of the first, else that of the first in line.
func (v *snapshot) next(q QueueView, line []lease.Waiter) (next nextParty, ok bool) {
	for _, g := range q.Grants {
		if q.Upgrade == nil || g.UpgradeUnblock != "" {
			return nextParty{who: g.To.party(), granted: true}, true
		}
	}
	for _, w := range line {
		if q.Upgrade == nil && (v.st.Supervisor == nil || w.Who().IsPerson() || v.st.Supervisor.Same(w.Who())) {
			return nextParty{who: w.Who(), waiter: w}, true
		}
	}
	return next, false
}
