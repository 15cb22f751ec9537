package state_test

import (
	"testing"
	"time"

	"withlease/state"
)

func TestSame(t *testing.T) {
	type party = state.Party
	for _, c := range []struct {
		name string
		p, q party
		want bool
	}{
		{"one session", party{Session: "s"}, party{Session: "s"}, true},
		{"two sessions", party{Session: "s"}, party{Session: "t"}, false},
		{"two sessions of one name", party{Session: "s", Name: "n"}, party{Session: "t", Name: "n"}, false},
		{"a restarted session", party{Session: "s", HostSession: "h"}, party{Session: "t", HostSession: "h"}, true},
		{"two host sessions", party{Session: "s", HostSession: "h"}, party{Session: "t", HostSession: "i"}, false},
		{"one session, two host sessions", party{Session: "s", HostSession: "h"}, party{Session: "s", HostSession: "i"}, true},
		{"a host session only", party{HostSession: "h"}, party{Session: "t", HostSession: "h"}, true},
		{"one's session is the other's host session", party{Session: "s"}, party{HostSession: "s"}, false},
		{"a person", party{Name: "n"}, party{Name: "n"}, true},
		{"two persons' names", party{Name: "n"}, party{Name: "m"}, false},
		{"names keep their case", party{Name: "n"}, party{Name: "N"}, false},
		{"a person and a session of that name", party{Name: "n"}, party{Session: "s", Name: "n"}, false},
		{"two nobodies", party{}, party{}, false},
		{"a person, no names", party{Person: "p"}, party{Person: "p"}, false},
		{"one session, two persons", party{Session: "s", Person: "Ann"}, party{Session: "s", Person: "Bob"}, false},
		{"one session, one person in two cases", party{Session: "s", Person: "ann"}, party{Session: "s", Person: "ANN"}, true},
		{"one session, one person named", party{Session: "s", Person: "Ann"}, party{Session: "s"}, true},
		{"a restarted session, two persons", party{Session: "s", HostSession: "h", Person: "Ann"}, party{Session: "t", HostSession: "h", Person: "Bob"}, false},
		{"one name, two persons", party{Name: "n", Person: "Ann"}, party{Name: "n", Person: "Bob"}, false},
		{"one session, two hosts", party{Session: "s", Host: "a"}, party{Session: "s", Host: "b"}, false},
		{"one session, one host named", party{Session: "s", Host: "a"}, party{Session: "s"}, true},
		{"a restarted session, two hosts", party{Session: "s", HostSession: "h", Host: "a"}, party{Session: "t", HostSession: "h", Host: "b"}, false},
		{"one name, two hosts", party{Name: "n", Host: "a"}, party{Name: "n", Host: "b"}, false},
		{"one name, one host", party{Name: "n", Host: "a"}, party{Name: "n", Host: "a"}, true},
		{"hosts keep their case", party{Name: "n", Host: "a"}, party{Name: "n", Host: "A"}, false},
		{"teams don't matter", party{Session: "s", Team: "a"}, party{Session: "s", Team: "b"}, true},
	} {
		if got := c.p.Same(c.q); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := c.q.Same(c.p); got != c.want {
			t.Errorf("%s, the other way round: %v", c.name, got)
		}
	}
}

func TestIsPerson(t *testing.T) {
	if !(state.Party{Name: "n", HostSession: "h"}).IsPerson() {
		t.Error("a party without a session is no person")
	}
	if (state.Party{Session: "s", Name: "n"}).IsPerson() {
		t.Error("a session is a person")
	}
}

func TestLabel(t *testing.T) {
	p := state.Party{Session: "s", HostSession: "h", Name: "n", Person: "p", Team: "t", Host: "b"}
	for _, want := range []string{"n", "p", "s", "h", "somebody"} {
		if got := p.Label(); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
		switch want {
		case "n":
			p.Name = ""
		case "p":
			p.Person = ""
		case "s":
			p.Session = ""
		case "h":
			p.HostSession = ""
		}
	}
}

func TestHold(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		name string
		hold state.Hold
		want bool
	}{
		{"until it is lifted", state.Hold{}, true},
		{"until later", state.Hold{Until: now.Add(1)}, true},
		{"until now", state.Hold{Until: now}, false},
		{"until earlier", state.Hold{Until: now.Add(-1)}, false},
		{"lifted", state.Hold{LiftedAt: now.Add(-time.Hour)}, false},
		{"lifted before its end", state.Hold{LiftedAt: now.Add(-time.Hour), Until: now.Add(time.Hour)}, false},
	} {
		if got := c.hold.Active(now); got != c.want {
			t.Errorf("%s: active %v", c.name, got)
		}
	}
	for _, c := range []struct {
		target, res string
		want        bool
	}{
		{"upgrade:kind-1", "kind-1", true},
		{"upgrade:kind-1/a", "kind-1", true},
		{"upgrade:kind-1/a/b", "kind-1", true},
		{"upgrade:kind-10", "kind-1", false},
		{"upgrade:kind-10/kind-1", "kind-1", false},
		{"upgrade:kind-1", "kind-10", false},
		{"kind-1", "kind-1", false},
		{"Upgrade:kind-1", "kind-1", false},
		{"move:upgrade:kind-1", "kind-1", false},
		{"upgrade:", "kind-1", false},
	} {
		if got := (state.Hold{Target: c.target}).Upgrades(c.res); got != c.want {
			t.Errorf("%q upgrades %q: %v", c.target, c.res, got)
		}
	}
}

func TestUpgrade(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	st := &state.State{Holds: []state.Hold{
		{Target: "upgrade:kind-1", Reason: "lifted", LiftedAt: now},
		{Target: "upgrade:kind-1", Reason: "over", Until: now},
		{Target: "other:kind-1", Reason: "another kind"},
		{Target: "upgrade:kind-1/a", Reason: "this"},
		{Target: "upgrade:kind-1/b", Reason: "later"},
	}}
	h := st.Upgrade("kind-1", now)
	if h == nil || h.Reason != "this" {
		t.Fatalf("the upgrade of kind-1 is %+v", h)
	}
	h.LiftedAt = now // the one of the document, to be lifted
	if h := st.Upgrade("kind-1", now); h == nil || h.Reason != "later" {
		t.Errorf("after the first was lifted it is %+v", h)
	}
	if h := st.Upgrade("kind-2", now); h != nil {
		t.Errorf("kind-2 is upgraded: %+v", h)
	}
}

func TestHasGrants(t *testing.T) {
	st := &state.State{Grants: []state.Grant{{Resource: "a"}, {Resource: "b"}}}
	for res, want := range map[string]bool{"a": true, "b": true, "c": false, "A": false, "": false} {
		if got := st.HasGrants(res); got != want {
			t.Errorf("%q: %v", res, got)
		}
	}
}
