package run

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// CompleteVerb is the hidden first argument by which the shells' completion
// asks for names:
//
//	withlease __complete [--dir=DIR ...] KIND [PREFIX [RESOURCE,...]]
//
// It answers with lines of a name, a TAB and a description, the likeliest
// first. It reads files only: it takes no lock, so that a TAB waits for nobody,
// and writes nothing. Whatever goes wrong makes the answer shorter, and is
// never said: the words would lie across the prompt.
const CompleteVerb = "__complete"

// What a TAB may cost: the rest is left out of the answer.
const (
	mostNames    = 500 // lines of an answer
	mostHistory  = 200 // of them from the event log
	mostRecords  = 200 // records and tickets read; the rest have no description
	mostLines    = 100 // lines of a resource looked into, to say how many wait
	manyLines    = 300 // the same where that is what is asked for
	historyAge   = 30 * 24 * time.Hour
	historyBytes = 2 << 20   // of the log's end
	mostDocument = 256 << 10 // bytes of a state document
	mostRecord   = 64 << 10  // and of a record or ticket
	mostColumns  = 60        // of a description
)

// Print answers with a text that is ready.
func (s *Session) Print(text string) Exit {
	_, err := io.WriteString(s.Stdout, text)
	return s.wrote(err, nil)
}

// Complete answers a shell.
func Complete(args []string, stdout io.Writer) {
	var out bytes.Buffer
	defer func() {
		if recover() == nil {
			stdout.Write(out.Bytes())
		}
	}()
	debug.SetGCPercent(-1) // it ends in milliseconds
	s := NewSession(Flags{})
	flags := map[string]*string{"dir": &s.Dir, "session": &s.Session, "host-session": &s.HostSession, "name": &s.Name, "person": &s.Person, "team": &s.Team}
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		name, value, _ := strings.Cut(args[0][2:], "=")
		if f := flags[name]; f != nil {
			*f = value
		}
		args = args[1:]
	}
	args = append(args, "", "", "")[:3]
	s.complete(&out, args[0], args[1], args[2])
}

func (s *Session) complete(out io.Writer, kind, prefix, resources string) {
	base, err := s.base()
	if err != nil {
		return
	}
	c := &completer{
		base: base, prefix: prefix, now: s.Now(), me: s.Party(), records: mostRecords, lines: mostLines,
		st: &state.State{}, found: map[string]*candidate{},
	}
	switch kind {
	case "held", "mine":
		c.held(kind == "mine")
	case "resources":
		c.document()
		c.held(false)
		c.granted(false)
		c.upgraded()
		c.history()
	case "waiting":
		c.document()
		c.lines = manyLines
		c.waited()
		c.granted(false)
		c.upgraded()
	case "granted":
		c.document()
		c.granted(true)
	case "parties":
		c.document()
		c.lines = manyLines
		c.parties(strings.Split(resources, ","))
	case "grantees":
		c.document()
		c.grantees(resources)
	case "tickets":
		c.lines = manyLines
		c.tickets(resources)
	case "upgrades":
		c.document()
		c.upgrades()
	}
	list := slices.SortedFunc(maps.Values(c.found), func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), b.at.Compare(a.at), cmp.Compare(a.name, b.name))
	})
	for _, n := range list[:min(len(list), mostNames)] {
		fmt.Fprintf(out, "%s\t%s\n", n.name, cut(plain(n.about), mostColumns))
	}
}

// candidate is a name that may be meant. Of lower rank comes first, then what
// is more recent.
type candidate struct {
	name  string
	about string
	rank  int
	at    time.Time
}

const (
	rankMine = iota
	rankFree
	rankBusy
)

type completer struct {
	base   *lease.Base
	prefix string
	now    time.Time
	me     state.Party
	st     *state.State
	grants map[string][]state.Grant // of st, by resource
	found  map[string]*candidate

	records, lines int // what may still be read
}

// add offers a name; the first that offers it describes it.
func (c *completer) add(n candidate) {
	if c.found[n.name] == nil && strings.HasPrefix(n.name, c.prefix) && n.name != "" && n.name == plain(n.name) {
		c.found[n.name] = &n
	}
}

// held offers the resources that somebody holds; of the caller's own, those that
// `release` gives back.
func (c *completer) held(mine bool) {
	names := c.names(c.path(""), c.prefix)
	if mine {
		names = slices.DeleteFunc(names, func(n string) bool {
			return unix.Access(c.path(n)+"/witness", unix.F_OK) == nil // a run does that itself
		})
	}
	for _, n := range names[:min(len(names), mostNames)] {
		if one := c.lease(n); !mine || one.rank == rankMine {
			c.add(one)
		}
	}
}

// waited offers the resources that somebody waits for.
func (c *completer) waited() {
	for _, n := range c.names(c.queue(""), c.prefix) {
		if c.lines <= 0 {
			break
		}
		if len(c.places(n)) == 0 {
			continue
		}
		c.lines++ // once more, to describe it
		c.add(c.known(n))
	}
}

// granted offers the resources of the grants, described by them or by how they
// are.
func (c *completer) granted(byGrant bool) {
	for res, grants := range c.grants {
		if lease.CheckName(res) != nil || c.found[res] != nil {
			continue
		}
		one := candidate{name: res, about: "granted to " + grants[0].To.Label()}
		if !byGrant {
			one = c.known(res)
		}
		if one.at.IsZero() {
			one.at = grants[0].At
		}
		c.add(one)
	}
}

// upgraded offers the installations that an upgrade holds back.
func (c *completer) upgraded() {
	for _, h := range c.st.Holds {
		inst, _, _ := strings.Cut(strings.TrimPrefix(h.Target, "upgrade:"), "/")
		if h.Active(c.now) && lease.CheckName(inst) == nil {
			c.add(c.known(inst))
		}
	}
}

// known describes a resource of which it isn't known whether it is held.
func (c *completer) known(res string) candidate {
	if unix.Access(c.path(res), unix.F_OK) == nil {
		return c.lease(res)
	}
	return c.free(res)
}

// lease describes a held resource. That its holder may have crashed a moment
// ago can't be seen without asking the kernel for a lock.
func (c *completer) lease(res string) candidate {
	one := candidate{name: res, about: "held", rank: rankBusy}
	h, ok := c.holder(res)
	if !ok {
		return one
	}
	p := h.Party()
	who := p.Label()
	if p == (state.Party{Host: p.Host}) && h.Holder != "" {
		who = h.Holder // the shell lock of a person
	}
	if p.Same(c.me) {
		one.rank, who = rankMine, "YOU"
	}
	one.about = "held by " + who
	one.at = h.SinceTime()
	one.about += c.since(one.at)
	if n := len(c.places(res)); n > 0 {
		one.about += fmt.Sprintf(", %d waiting", n)
	}
	if h.Purpose != "" {
		one.about += ": " + h.Purpose
	}
	return one
}

// since is since when, as a part of a description; empty for no time.
func (c *completer) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + ago(c.now.Sub(t))
}

func (c *completer) holder(res string) (h lease.Holder, ok bool) {
	ok = c.read(c.path(res)+"/holder.json", &h)
	return h, ok
}

// free describes a resource that nobody holds.
func (c *completer) free(res string) candidate {
	one := candidate{name: res, about: "free", rank: rankFree}
	if h := c.st.Upgrade(res, c.now); h != nil {
		one.about, one.rank = "held back by an upgrade: "+h.Reason, rankBusy
		return one
	}
	if pending := lease.Pending(&state.State{Grants: c.grants[res], Released: c.st.Released}, res, false, c.now, lease.GrantTTL); len(pending) > 0 {
		one.about += ", granted to " + pending[0].To.Label()
		return one
	}
	if n := len(c.places(res)); n > 0 {
		one.about += fmt.Sprintf(", %d waiting", n)
	}
	return one
}

// history offers what was held in the last month: not a name that was tried
// once, in vain.
func (c *completer) history() {
	type past struct {
		last   state.Event
		claims int
		worked bool
	}
	seen := map[string]*past{}
	good := 0
	c.base.Store.RecentEvents(c.now.Add(-historyAge), historyBytes, `"resource":"`+c.prefix, func(e state.Event) bool {
		name := e.Detail.Resource
		if e.Verb != "claim" && e.Verb != "release" || !strings.HasPrefix(name, c.prefix) || lease.CheckName(name) != nil {
			return true
		}
		p := seen[name]
		if p == nil {
			p = &past{last: e}
			seen[name] = p
		}
		was := p.claims > 1 || p.worked
		switch {
		case e.Verb == "claim":
			p.claims++
		case e.Detail.Outcome == "exit 0" || e.Detail.Outcome == "":
			p.worked = true
		}
		if !was && (p.claims > 1 || p.worked) {
			good++
		}
		return good < mostHistory
	})
	for name, p := range seen {
		if c.found[name] != nil || p.claims < 2 && !p.worked {
			continue
		}
		one := c.free(name)
		if one.at = p.last.At; one.about == "free" {
			one.about += fmt.Sprintf(", last used %s ago by %s", ago(c.now.Sub(one.at)), p.last.By)
		}
		c.add(one)
	}
}

// tickets offers the places that are kept in the lines of the resources, or in
// any.
func (c *completer) tickets(resources string) {
	lines := strings.Split(resources, ",")
	if resources == "" {
		lines = c.names(c.queue(""), "")
	}
	for _, res := range lines {
		for i, w := range c.line(res) {
			if !w.Kept.After(c.now) {
				continue
			}
			rank := rankBusy
			if w.Who().Same(c.me) {
				rank = rankMine
			}
			c.add(candidate{w.ID, fmt.Sprintf("place %d of %s, kept for %s: %s", i+1, res, ago(w.Kept.Sub(c.now)), w.Purpose), rank, w.Since})
		}
	}
}

// upgrades offers what `upgrade end` can end.
func (c *completer) upgrades() {
	for _, h := range c.st.Holds {
		if target, ok := strings.CutPrefix(h.Target, "upgrade:"); ok && h.Active(c.now) {
			c.add(candidate{target, fmt.Sprintf("by %s%s: %s", h.By.Label(), c.since(h.At), h.Reason), 0, h.At})
		}
	}
}
