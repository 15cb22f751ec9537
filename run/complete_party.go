package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"withlease/lease"
	"withlease/state"
)

// parties offers whom a grant can be for: who waits for the resources, then
// everybody else who waits, and who holds something.
func (c *completer) parties(resources []string) {
	var all []partyAt
	first := len(resources)
	for i, res := range append(resources, entries(c.queue(""))...) {
		if c.lines <= 0 {
			break
		}
		for _, w := range c.line(res) {
			one := candidate{about: fmt.Sprintf("waits for %s%s: %s", res, c.since(w.Since), w.Purpose), rank: rankFree, at: w.Since}
			if i < first {
				one.rank = rankMine
			}
			all = append(all, partyAt{w.Who(), one})
		}
	}
	for _, res := range entries(c.path("")) {
		if c.records <= 0 {
			break
		}
		if lease.CheckName(res) != nil {
			continue
		}
		if h, ok := c.holder(res); ok {
			all = append(all, partyAt{h.Party(), candidate{
				about: fmt.Sprintf("holds %s%s: %s", res, c.since(h.SinceTime()), h.Purpose), rank: rankBusy, at: h.SinceTime()}})
		}
	}
	for _, g := range c.st.Grants {
		all = append(all, partyAt{g.To, candidate{about: "granted " + g.Resource, rank: rankBusy, at: g.At}})
	}
	c.addParties(all)
}

// grantees offers who has a grant of one of the resources.
func (c *completer) grantees(resources string) {
	var all []partyAt
	of := strings.Split(resources, ",")
	for _, g := range c.st.Grants {
		if resources == "" || slices.Contains(of, g.Resource) {
			all = append(all, partyAt{g.To, candidate{about: "granted " + g.Resource + c.since(g.At), at: g.At}})
		}
	}
	c.addParties(all)
}

type partyAt struct {
	party state.Party
	candidate
}

// addParties offers each party by its name where that means it alone, else by
// its session.
func (c *completer) addParties(all []partyAt) {
	names := map[string]state.Party{}
	shared := map[string]bool{}
	for _, p := range all {
		if n := p.party.Name; n != "" {
			if q, taken := names[n]; taken && !q.Same(p.party) {
				shared[n] = true
			}
			names[n] = p.party
		}
	}
	slices.SortStableFunc(all, func(a, b partyAt) int { return cmp.Compare(a.rank, b.rank) })
	for i, p := range all {
		if slices.ContainsFunc(all[:i], func(q partyAt) bool { return q.party.Same(p.party) }) {
			continue
		}
		p.name = p.party.Name
		if p.name == "" || shared[p.name] || p.name != plain(p.name) {
			if p.name = first(p.party.Session, p.party.HostSession); p.party.Name != "" {
				p.about = p.party.Name + " " + p.about
			}
		}
		c.add(p.candidate)
	}
}
