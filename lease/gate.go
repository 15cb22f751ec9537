package lease

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"withlease/state"
)

// Gate is what a claim is checked against.
type Gate struct {
	Resource string
	Caller   state.Party
	// Supervisor is who decides, nil when nobody does.
	Supervisor *state.Supervisor
	// RestartUntil is set while the supervisor's process is away and may
	// still come back. Gone means that it stayed away for longer: what it
	// granted still counts, and new grants wait for a successor.
	RestartUntil time.Time
	Gone         bool
	// Held is whether anybody has the resource right now.
	Held bool
	Now  time.Time
	TTL  time.Duration // how long a grant of a free resource waits to be claimed
}

// Refusal is why a claim isn't allowed. Position (from 1) and Ahead (who claims
// first) are set when the caller has a grant and others come before it.
type Refusal struct {
	Reason   string
	Position int
	Ahead    string
}

func (r *Refusal) Error() string { return r.Reason }

// Check decides whether the caller may claim. It returns the index in st.Grants
// of the grant that the claim uses up, -1 when it needs none. The error is a
// *Refusal.
//
// Without a supervisor everybody may. With one, it and persons (a party without
// a session) may; a session needs the first pending grant. While an upgrade
// holds the installation that the resource names, only the first pending
// upgrade-unblock grant admits anybody.
func Check(st *state.State, g Gate) (int, error) {
	hold := st.Upgrade(g.Resource, g.Now)
	if hold == nil && (g.Supervisor == nil || g.Caller.IsPerson() || g.Supervisor.Same(g.Caller)) {
		return -1, nil
	}
	place := 0
	var first *state.Grant
	for i, grant := range deciding(st, g.Resource, g.Held, hold != nil, g.Now, g.TTL) {
		if place++; place == 1 {
			first = grant
		}
		if !grant.To.Same(g.Caller) {
			continue
		}
		if place == 1 {
			return i, nil
		}
		return -1, &Refusal{
			Reason:   fmt.Sprintf("%s is granted to %s first; your grant is number %d", g.Resource, first.To.Label(), place),
			Position: place,
			Ahead:    first.To.Label(),
		}
	}
	if hold != nil {
		return -1, &Refusal{Reason: upgradeReason(g, hold)}
	}
	return -1, &Refusal{Reason: noGrantReason(g)}
}

func noGrantReason(g Gate) string {
	who := g.Supervisor.Label()
	ask := fmt.Sprintf("%s needs a grant for %s", g.Caller.Label(), g.Resource)
	switch {
	case g.Gone:
		return fmt.Sprintf("%s, and its supervisor %s is gone: ask for a new supervisor (withlease supervisor start) and then for the grant", ask, who)
	case !g.RestartUntil.IsZero():
		return fmt.Sprintf("%s, and its supervisor %s is away and may restart until %s: ask it then (withlease grant %s %s)",
			ask, who, g.RestartUntil.Local().Format("15:04:05"), g.Resource, GrantWord(g.Caller))
	}
	return fmt.Sprintf("%s: ask the supervisor %s (withlease grant %s %s)", ask, who, g.Resource, GrantWord(g.Caller))
}

// GrantWord is how a grant's command line names a party. By its session as a
// rule: a name is found only while its owner waits or holds, and may be
// another's too.
func GrantWord(p state.Party) string {
	if p.Session != "" {
		return ShellWord(p.Session)
	}
	return ShellWord(p.Label())
}

func upgradeReason(g Gate, h *state.Hold) string {
	s := fmt.Sprintf("%s is held back by %s of %s", g.Resource, h.Target, h.By.Label())
	if h.Reason != "" {
		s += " (" + h.Reason + ")"
	}
	if !h.Until.IsZero() {
		s += " until " + h.Until.Local().Format("2006-01-02 15:04")
	}
	asked := "a person"
	if g.Supervisor != nil {
		asked = "the supervisor " + g.Supervisor.Label()
		switch {
		case g.Gone:
			asked += ", which is gone,"
		case !g.RestartUntil.IsZero():
			asked += ", which is away and may restart until " + g.RestartUntil.Local().Format("15:04:05") + ","
		}
	}
	return fmt.Sprintf("%s: wait for its end, or ask %s to let you through (withlease grant --unblock WHY %s %s)", s, asked, g.Resource, GrantWord(g.Caller))
}

// claimable says whether a grant of res can still be claimed. It waits without
// expiring while the resource is held. Once free, it is out when more than ttl
// has passed since the later of the grant and the resource's last release.
func claimable(st *state.State, g *state.Grant, res string, held bool, now time.Time, ttl time.Duration) bool {
	return g.Resource == res && (held || !now.After(expiry(st, g, ttl)))
}

// expiry is the last moment at which a grant of a free resource can be claimed.
func expiry(st *state.State, g *state.Grant, ttl time.Duration) time.Time {
	from := g.At
	if r := st.Released[g.Resource]; r.After(from) {
		from = r
	}
	return from.Add(ttl)
}

// Pending returns the grants of res that can still be claimed, in order. held
// is whether the resource is held at now; ttl is how long a grant of a free
// resource waits.
func Pending(st *state.State, res string, held bool, now time.Time, ttl time.Duration) []state.Grant {
	var pending []state.Grant
	for _, g := range deciding(st, res, held, false, now, ttl) {
		pending = append(pending, *g)
	}
	return pending
}

// deciding yields the grants of res that can still be claimed, in order, with
// their index in st.Grants; while an upgrade holds it back (hold) only those that
// go through. They are st's own: a line of grants is not copied at each look.
func deciding(st *state.State, res string, held, hold bool, now time.Time, ttl time.Duration) iter.Seq2[int, *state.Grant] {
	return func(yield func(int, *state.Grant) bool) {
		for i := range st.Grants {
			g := &st.Grants[i]
			if claimable(st, g, res, held, now, ttl) && (!hold || g.UpgradeUnblock != "") && !yield(i, g) {
				return
			}
		}
	}
}

// Prune drops the grants whose time ran out; held says which resources are held
// at now (their grants wait without expiring).
func Prune(st *state.State, held map[string]bool, now time.Time, ttl time.Duration) {
	kept := st.Grants[:0:0]
	for i := range st.Grants {
		if g := &st.Grants[i]; claimable(st, g, g.Resource, held[g.Resource], now, ttl) {
			kept = append(kept, *g)
		}
	}
	st.Grants = kept
}

// ShellWord is a word as a person types it for a shell. What others wrote must
// not become a command when somebody pastes a hint that names it.
func ShellWord(s string) string {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_@%+=:,./-", c) >= 0) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	if s == "" {
		return "''"
	}
	return s
}
