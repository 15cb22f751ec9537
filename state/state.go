// Package state holds the document that everybody on a machine shares: who
// supervises, what is granted to whom and in which order, which upgrades hold
// what back, and when a resource was last given back. Beside it lies the event
// log.
//
// The document is read and written under one kernel lock (Store.Lock) and
// replaced as a whole. Members that this package doesn't know are written back
// unchanged.
package state

import (
	"strings"
	"time"
)

// Party is somebody who can hold a lease: a session (of a person's agent or
// shell), or, without a session, a person.
type Party struct {
	Session     string
	HostSession string
	Name        string
	Person      string
	Team        string
	Host        string

	more unknown
}

// IsPerson says whether p has no session: persons need no grant.
func (p Party) IsPerson() bool { return p.Session == "" }

// Same says whether p and q are one party: their sessions match, or their host
// sessions match, or neither has a session and their names match; never when
// both name a person and the persons differ, or both name a host and the hosts
// differ.
func (p Party) Same(q Party) bool {
	if p.Person != "" && q.Person != "" && !strings.EqualFold(p.Person, q.Person) {
		return false
	}
	if p.Host != "" && q.Host != "" && p.Host != q.Host {
		return false
	}
	switch {
	case p.Session != "" && p.Session == q.Session:
		return true
	case p.HostSession != "" && p.HostSession == q.HostSession:
		return true
	}
	return p.Session == "" && q.Session == "" && p.Name != "" && p.Name == q.Name
}

// Label is the shortest text that tells a person who p is.
func (p Party) Label() string {
	for _, s := range []string{p.Name, p.Person, p.Session, p.HostSession} {
		if s != "" {
			return s
		}
	}
	return "somebody"
}

// Supervisor is the party that decides who may claim.
type Supervisor struct {
	Party
	Since time.Time
}

// SupervisorCLI is the supervisor's process: while it runs the supervisor is
// there; when it went away, Gone says since when.
type SupervisorCLI struct {
	Supervisor string // the supervisor's session, or name
	Since      time.Time
	PID        int
	Start      string // the process's start time as /proc/PID/stat has it, with the boot id in front
	Gone       time.Time

	more unknown
}

// Grant is the supervisor's word that a party may claim a resource.
type Grant struct {
	Resource string
	To       Party
	By       Party
	At       time.Time
	// UpgradeUnblock is why the claim may go through while an upgrade holds
	// the resource; empty for a plain grant.
	UpgradeUnblock string
	BudgetGiB      int

	more unknown
}

// Hold keeps claims back while something else has the resource: an upgrade's
// target is "upgrade:<installation>" or "upgrade:<installation>/<cluster>".
type Hold struct {
	Target   string
	Reason   string
	By       Party
	At       time.Time
	Until    time.Time // zero: until it is lifted
	LiftedBy Party
	LiftedAt time.Time

	more unknown
}

// Active says whether the hold still counts at now.
func (h Hold) Active(now time.Time) bool {
	return h.LiftedAt.IsZero() && (h.Until.IsZero() || now.Before(h.Until))
}

// Upgrades says whether h is an upgrade of installation.
func (h Hold) Upgrades(installation string) bool {
	target, ok := strings.CutPrefix(h.Target, "upgrade:")
	return ok && (target == installation || strings.HasPrefix(target, installation+"/"))
}

// State is the document.
type State struct {
	Supervisor    *Supervisor
	SupervisorCLI *SupervisorCLI
	Grants        []Grant
	Released      map[string]time.Time // the last release of a resource that grants wait for
	Holds         []Hold
	// Seen marks the resources that a waiter saw held by a lock that
	// announces nothing (the shell lock), so that whoever finds one free
	// again knows that its release has not been noted.
	Seen map[string]time.Time

	more unknown
}

// Upgrade returns the active upgrade of the installation that res names, nil
// when there is none.
func (s *State) Upgrade(res string, now time.Time) *Hold {
	for i := range s.Holds {
		if h := &s.Holds[i]; h.Upgrades(res) && h.Active(now) {
			return h
		}
	}
	return nil
}

// Grants reports whether any grant names res, claimable or not.
func (s *State) HasGrants(res string) bool {
	for i := range s.Grants {
		if s.Grants[i].Resource == res {
			return true
		}
	}
	return false
}
