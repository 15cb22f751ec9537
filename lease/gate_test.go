package lease_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

const ttl = 10 * time.Minute

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	ann  = state.Party{Session: "s-ann", HostSession: "hs-ann", Name: "ann's agent", Person: "ann", Host: "lab"}
	bob  = state.Party{Session: "s-bob", HostSession: "hs-bob", Name: "bob's agent", Person: "bob", Host: "lab"}
	cleo = state.Party{Session: "s-cleo", Name: "cleo's agent", Person: "cleo"}
	boss = state.Party{Session: "s-boss", HostSession: "hs-boss", Name: "boss", Person: "ada"}
	pat  = state.Party{Name: "pat", Person: "pat"} // a person
)

func grant(res string, to state.Party, at time.Time) state.Grant {
	return state.Grant{Resource: res, To: to, By: boss, At: at}
}

func unblock(res string, to state.Party, at time.Time) state.Grant {
	g := grant(res, to, at)
	g.UpgradeUnblock = "the fix itself"
	return g
}

func upgrade(target string) state.Hold {
	return state.Hold{Target: "upgrade:" + target, Reason: "v2", By: pat, At: noon.Add(-time.Hour)}
}

func supervised(st *state.State, g *lease.Gate) {
	st.Supervisor = &state.Supervisor{Party: boss, Since: noon.Add(-time.Hour)}
	g.Supervisor = st.Supervisor
}

// with is the party with some of its fields changed.
func with(p state.Party, change func(*state.Party)) state.Party {
	change(&p)
	return p
}

type refused struct {
	position int
	ahead    string
	says     []string // all in the reason
	not      []string // none of them
}

// TestCheck has a row for each rule of the gate. The caller is ann, the
// resource gpu, the time noon, unless the row says otherwise.
func TestCheck(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	for _, c := range []struct {
		name   string
		given  func(st *state.State, g *lease.Gate)
		index  int
		refuse *refused
	}{
		// Nobody decides.
		{"no supervisor", func(st *state.State, g *lease.Gate) {}, -1, nil},
		{"no supervisor, held: the claim says so, not the gate", func(st *state.State, g *lease.Gate) { g.Held = true }, -1, nil},
		{"no supervisor, another's grant left over", func(st *state.State, g *lease.Gate) {
			st.Grants = []state.Grant{grant("gpu", bob, noon)}
		}, -1, nil},

		// Who needs no grant.
		{"the supervisor itself", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = boss
		}, -1, nil},
		{"the supervisor, restarted: by its host session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(boss, func(p *state.Party) { p.Session = "s-boss-2" })
		}, -1, nil},
		{"the supervisor's session, but another person", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(boss, func(p *state.Party) { p.Person = "eve" })
		}, 0, &refused{says: []string{"gpu", "boss"}}},
		{"a person", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = pat
		}, -1, nil},
		{"a person, others' grants or not", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = pat
			st.Grants = []state.Grant{grant("gpu", bob, noon)}
		}, -1, nil},
		{"a person while the supervisor is gone", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller, g.Gone = pat, true
		}, -1, nil},
		{"without a session, and a host session all the same: a person", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = state.Party{HostSession: "hs", Name: "x"}
		}, -1, nil},

		// Grants.
		{"a grant", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
		{"the index counts all grants", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("usb", bob, noon), grant("usb", ann, noon), grant("gpu", ann, noon), grant("gpu", ann, noon)}
		}, 2, nil},
		{"another resource's grant doesn't do", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("usb", ann, noon), grant("gpu2", ann, noon), grant("GPU", ann, noon)}
		}, 0, &refused{}},
		{"second in the queue", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", bob, noon), grant("usb", cleo, noon), grant("gpu", ann, noon)}
		}, 0, &refused{position: 2, ahead: "bob's agent", says: []string{"gpu", "bob's agent"}}},
		{"third in the queue: ahead is who claims first", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", bob, noon), grant("gpu", cleo, noon), grant("gpu", ann, noon)}
		}, 0, &refused{position: 3, ahead: "bob's agent"}},
		{"two grants of the same time keep their order", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", bob, noon), grant("gpu", ann, ago(time.Minute))}
		}, 0, &refused{position: 2, ahead: "bob's agent"}},
		{"first twice: the first of the two", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, noon), grant("gpu", bob, noon), grant("gpu", ann, noon)}
		}, 0, nil},
		{"an unblock grant does as a plain one where no upgrade runs", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{unblock("gpu", ann, noon)}
		}, 0, nil},
		{"an unblock grant is behind a plain one where no upgrade runs", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", bob, noon), unblock("gpu", ann, noon)}
		}, 0, &refused{position: 2, ahead: "bob's agent"}},
		{"the first pending grant counts, granted by a supervisor that is gone", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Gone = true
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},

		// No grant: what to ask for, and of whom.
		{"no grant, it runs", func(st *state.State, g *lease.Gate) { supervised(st, g) }, 0,
			&refused{says: []string{"ann's agent", "gpu", "boss", "ask"}, not: []string{"restart", "gone"}}},
		{"no grant, it may restart", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.RestartUntil = noon.Add(30 * time.Second)
		}, 0, &refused{says: []string{"ann's agent", "gpu", "boss", "may restart until " + noon.Add(30*time.Second).Local().Format("15:04:05")}, not: []string{"gone"}}},
		{"no grant, it is gone", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Gone = true
		}, 0, &refused{says: []string{"ann's agent", "gpu", "boss", "gone", "new supervisor"}, not: []string{"restart until"}}},

		// Time.
		{"exactly the TTL since the grant is not yet out", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(ttl))}
		}, 0, nil},
		{"a nanosecond more is", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(ttl+1))}
		}, 0, &refused{}},
		{"exactly the TTL since the release, the later one", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(24*time.Hour))}
			st.Released = map[string]time.Time{"gpu": ago(ttl)}
		}, 0, nil},
		{"a nanosecond more since the release", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(24*time.Hour))}
			st.Released = map[string]time.Time{"gpu": ago(ttl + 1)}
		}, 0, &refused{}},
		{"the grant is later than the release", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(ttl))}
			st.Released = map[string]time.Time{"gpu": ago(24 * time.Hour)}
		}, 0, nil},
		{"another resource's release is no release", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(ttl+1))}
			st.Released = map[string]time.Time{"usb": noon}
		}, 0, &refused{}},
		{"while it is held a grant never runs out", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Held = true
			st.Grants = []state.Grant{grant("gpu", ann, ago(1000*time.Hour))}
		}, 0, nil},
		{"an expired grant holds nobody back", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", bob, ago(ttl+1)), grant("gpu", ann, noon)}
		}, 1, nil},
		{"while it is held an old one does", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Held = true
			st.Grants = []state.Grant{grant("gpu", bob, ago(ttl+1)), grant("gpu", ann, noon)}
		}, 0, &refused{position: 2, ahead: "bob's agent"}},
		{"an expired grant of one's own is none", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, ago(ttl+1)), grant("gpu", bob, noon), grant("gpu", ann, noon)}
		}, 0, &refused{position: 2, ahead: "bob's agent"}},
		{"a grant from the future is a grant", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", ann, noon.Add(time.Hour))}
		}, 0, nil},

		// Upgrades.
		{"an upgrade holds everybody back, supervised or not", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu/main")}
		}, 0, &refused{says: []string{"gpu", "upgrade:gpu/main", "pat", "v2"}}},
		{"the supervisor too", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = boss
			st.Holds = []state.Hold{upgrade("gpu/main")}
		}, 0, &refused{says: []string{"upgrade"}}},
		{"persons too", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = pat
			st.Holds = []state.Hold{upgrade("gpu/main")}
		}, 0, &refused{says: []string{"upgrade", "boss"}}},
		{"without a cluster", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
		}, 0, &refused{says: []string{"upgrade:gpu"}}},
		{"another installation", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("usb/main"), upgrade("gpu2"), upgrade("gp"), upgrade("gp/u"), upgrade("GPU"), upgrade("x/gpu")}
		}, -1, nil},
		{"a target that is no upgrade", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{{Target: "gpu"}, {Target: "freeze:gpu"}, {Target: "upgrade:"}, {Target: "Upgrade:gpu"}}
		}, -1, nil},
		{"lifted", func(st *state.State, g *lease.Gate) {
			h := upgrade("gpu/main")
			h.LiftedAt = ago(time.Minute)
			st.Holds = []state.Hold{h}
		}, -1, nil},
		{"one lifted, one not", func(st *state.State, g *lease.Gate) {
			h := upgrade("gpu/main")
			h.LiftedAt = ago(time.Minute)
			st.Holds = []state.Hold{h, upgrade("gpu/other")}
		}, 0, &refused{says: []string{"gpu/other"}}},
		{"until later", func(st *state.State, g *lease.Gate) {
			h := upgrade("gpu/main")
			h.Until = noon.Add(1)
			st.Holds = []state.Hold{h}
		}, 0, &refused{}},
		{"past its time", func(st *state.State, g *lease.Gate) {
			h := upgrade("gpu/main")
			h.Until = ago(1)
			st.Holds = []state.Hold{h}
		}, -1, nil},
		{"an upgrade that is over leaves the supervisor's rule", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			h := upgrade("gpu")
			h.LiftedAt = ago(time.Minute)
			st.Holds = []state.Hold{h}
		}, 0, &refused{says: []string{"boss"}, not: []string{"upgrade"}}},
		{"a plain grant doesn't go through", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, &refused{says: []string{"upgrade"}}},
		{"an unblock grant does", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{unblock("gpu", ann, noon)}
		}, 0, nil},
		{"without a supervisor too", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{unblock("gpu", ann, noon)}
		}, 0, nil},
		{"the supervisor's own", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = boss
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{grant("gpu", ann, noon), unblock("gpu", boss, noon)}
		}, 1, nil},
		{"a person's", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = pat
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{unblock("gpu", pat, noon)}
		}, 0, nil},
		{"past plain ones", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{grant("gpu", bob, noon), grant("gpu", ann, noon), unblock("gpu", ann, noon)}
		}, 2, nil},
		{"not past another unblock grant", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{grant("gpu", bob, noon), unblock("gpu", cleo, noon), unblock("gpu", ann, noon)}
		}, 0, &refused{position: 2, ahead: "cleo's agent"}},
		{"another resource's unblock grant", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu"), upgrade("usb")}
			st.Grants = []state.Grant{unblock("usb", ann, noon)}
		}, 0, &refused{says: []string{"upgrade:gpu"}}},
		{"an expired unblock grant", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			st.Grants = []state.Grant{unblock("gpu", ann, ago(ttl+1))}
		}, 0, &refused{says: []string{"upgrade"}}},

		// Who is whom.
		{"restarted: another session, the same host session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Session = "s-ann-2" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
		{"the same session, no host session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			st.Grants = []state.Grant{grant("gpu", state.Party{Session: ann.Session}, noon)}
		}, 0, nil},
		{"two sessions without host sessions", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = state.Party{Session: "s1"}
			st.Grants = []state.Grant{grant("gpu", state.Party{Session: "s2"}, noon)}
		}, 0, &refused{}},
		{"the same name, two sessions", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = state.Party{Session: "s1", Name: "agent"}
			st.Grants = []state.Grant{grant("gpu", state.Party{Session: "s2", Name: "agent"}, noon)}
		}, 0, &refused{}},
		{"the same name, one of them a session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = state.Party{Session: "s1", Name: "pat"}
			st.Grants = []state.Grant{grant("gpu", pat, noon)}
		}, 0, &refused{}},
		{"persons by name", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			g.Caller = state.Party{Name: "pat"}
			st.Grants = []state.Grant{unblock("gpu", pat, noon)}
		}, 0, nil},
		{"persons of two names", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			g.Caller = state.Party{Name: "pia"}
			st.Grants = []state.Grant{unblock("gpu", pat, noon)}
		}, 0, &refused{}},
		{"nobody's name is nobody", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			g.Caller = state.Party{}
			st.Grants = []state.Grant{unblock("gpu", state.Party{}, noon)}
		}, 0, &refused{}},
		{"two persons, one session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Person = "anna" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, &refused{}},
		{"two persons, one host session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Session, p.Person = "s-x", "bob" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, &refused{}},
		{"a person in capitals", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Person = "ANN" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
		{"a person that only one names", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Person = "" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
		{"two hosts, one session", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Host = "lab2" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, &refused{}},
		{"two hosts, persons of one name", func(st *state.State, g *lease.Gate) {
			st.Holds = []state.Hold{upgrade("gpu")}
			g.Caller = state.Party{Name: "pat", Host: "lab2"}
			st.Grants = []state.Grant{unblock("gpu", state.Party{Name: "pat", Host: "lab"}, noon)}
		}, 0, &refused{}},
		{"a host that only one names", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Host = "" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
		{"another team is the same party", func(st *state.State, g *lease.Gate) {
			supervised(st, g)
			g.Caller = with(ann, func(p *state.Party) { p.Team = "red" })
			st.Grants = []state.Grant{grant("gpu", ann, noon)}
		}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &state.State{}
			g := lease.Gate{Resource: "gpu", Caller: ann, Now: noon, TTL: ttl}
			c.given(st, &g)
			before := string(st.Document())
			index, err := lease.Check(st, g)
			if string(st.Document()) != before {
				t.Error("Check changed the document")
			}
			if c.refuse == nil {
				if err != nil || index != c.index {
					t.Fatalf("index %d, %v; want %d", index, err, c.index)
				}
				return
			}
			var r *lease.Refusal
			if !errors.As(err, &r) || index != -1 {
				t.Fatalf("index %d, %v; want a refusal", index, err)
			}
			if r.Position != c.refuse.position || r.Ahead != c.refuse.ahead {
				t.Errorf("position %d behind %q, want %d behind %q", r.Position, r.Ahead, c.refuse.position, c.refuse.ahead)
			}
			if r.Reason == "" || r.Error() != r.Reason {
				t.Errorf("reason %q, error %q", r.Reason, r.Error())
			}
			for _, s := range c.refuse.says {
				if !strings.Contains(r.Reason, s) {
					t.Errorf("%q doesn't say %q", r.Reason, s)
				}
			}
			for _, s := range c.refuse.not {
				if strings.Contains(r.Reason, s) {
					t.Errorf("%q says %q", r.Reason, s)
				}
			}
		})
	}
}

// TestPendingAndPrune: what can still be claimed is what isn't dropped.
func TestPendingAndPrune(t *testing.T) {
	doc := func() *state.State {
		return &state.State{
			Grants: []state.Grant{
				grant("gpu", ann, noon.Add(-ttl-1)), // out
				grant("usb", bob, noon.Add(-ttl-1)), // out when usb is free
				grant("gpu", bob, noon.Add(-ttl)),   // just not out
				grant("web", ann, noon.Add(-1000*time.Hour)),
				grant("gpu", ann, noon),
				unblock("gpu", cleo, noon),
				grant("tty", ann, noon.Add(-1000*time.Hour)),
			},
			Released: map[string]time.Time{"web": noon.Add(-ttl), "tty": noon.Add(-ttl - 1)},
		}
	}
	index := func(gs []state.Grant) (is []int) {
		all := doc().Grants
		for _, g := range gs {
			is = append(is, slices.Index(all, g))
		}
		return is
	}
	for _, c := range []struct {
		res  string
		held bool
		want []int
	}{
		{"gpu", false, []int{2, 4, 5}},
		{"gpu", true, []int{0, 2, 4, 5}},
		{"usb", false, nil},
		{"usb", true, []int{1}},
		{"web", false, []int{3}},
		{"tty", false, nil},
		{"tty", true, []int{6}},
		{"none", false, nil},
	} {
		st := doc()
		got := index(lease.Pending(st, c.res, c.held, noon, ttl))
		if !slices.Equal(got, c.want) {
			t.Errorf("pending %s, held %v: %v, want %v", c.res, c.held, got, c.want)
		}
		if !slices.Equal(index(st.Grants), []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("Pending changed the grants")
		}
	}
	for _, c := range []struct {
		held map[string]bool
		want []int
	}{
		{nil, []int{2, 3, 4, 5}},
		{map[string]bool{"gpu": true}, []int{0, 2, 3, 4, 5}},
		{map[string]bool{"gpu": false, "usb": true, "tty": true}, []int{1, 2, 3, 4, 5, 6}},
	} {
		st := doc()
		lease.Prune(st, c.held, noon, ttl)
		if got := index(st.Grants); !slices.Equal(got, c.want) {
			t.Errorf("pruned with held %v: %v, want %v", c.held, got, c.want)
		}
	}
	empty := &state.State{}
	lease.Prune(empty, nil, noon, ttl)
	if len(empty.Grants) != 0 || lease.Pending(empty, "gpu", false, noon, ttl) != nil {
		t.Error("an empty document has grants")
	}
}

// TestCrossed: grants given one by one in different orders block each other,
// and are found.
func TestCrossed(t *testing.T) {
	both := func(state.Party, string, string) bool { return true }
	st := &state.State{Grants: []state.Grant{
		grant("a", ann, noon), grant("b", bob, noon), grant("b", ann, noon), grant("a", bob, noon),
	}}
	got := lease.Crossed(st, noon, both)
	if len(got) != 1 || got[0].First != "a" || got[0].Second != "b" || got[0].A != ann || got[0].B != bob {
		t.Errorf("crossed %+v", got)
	}
	if got := lease.Crossed(st, noon, func(p state.Party, _, _ string) bool { return p.Same(ann) }); got != nil {
		t.Errorf("bob needs only one of them: %+v", got)
	}
	st.Grants = []state.Grant{grant("a", ann, noon), grant("b", ann, noon), grant("a", bob, noon), grant("b", bob, noon)}
	if got := lease.Crossed(st, noon, both); got != nil {
		t.Errorf("grants in one order: %+v", got)
	}
}
