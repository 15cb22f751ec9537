package run

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"withlease/lease"
	"withlease/state"
)

// The JSON shapes of the verbs, documented in withlease(1). A member is left
// out when it says nothing.

// PartyView is a party.
type PartyView struct {
	Session     string `json:"session,omitempty"`
	HostSession string `json:"hostSession,omitempty"`
	Name        string `json:"name,omitempty"`
	Person      string `json:"person,omitempty"`
	Team        string `json:"team,omitempty"`
	Host        string `json:"host,omitempty"`
}

func partyView(p state.Party) PartyView {
	return PartyView{p.Session, p.HostSession, p.Name, p.Person, p.Team, p.Host}
}

func (v PartyView) party() state.Party {
	return state.Party{Session: v.Session, HostSession: v.HostSession, Name: v.Name, Person: v.Person, Team: v.Team, Host: v.Host}
}

// HeldView is a lease.
type HeldView struct {
	Resource       string        `json:"resource"`
	Held           bool          `json:"held"`
	State          string        `json:"state"` // free, running, orphaned, recorded, claiming, foreign, odd, crashed, abandoned, ended
	Holder         string        `json:"holder,omitempty"`
	Party          PartyView     `json:"party,omitzero"`
	Purpose        string        `json:"purpose,omitempty"`
	Since          *time.Time    `json:"since,omitempty"`
	HeldSeconds    float64       `json:"heldSeconds,omitempty"`
	Renewed        *time.Time    `json:"renewed,omitempty"`
	UpgradeUnblock string        `json:"upgradeUnblock,omitempty"`
	BudgetGiB      int           `json:"budgetGiB,omitempty"`
	PID            int           `json:"pid,omitempty"`
	Command        []string      `json:"command,omitempty"`
	Token          string        `json:"token,omitempty"`
	Fence          int64         `json:"fence,omitempty"`
	Until          *time.Time    `json:"until,omitempty"`
	Asks           []AskView     `json:"asks,omitempty"`
	Orphans        []ProcessView `json:"orphans,omitempty"`
	Problem        string        `json:"problem,omitempty"`
	Expected       *ExpectedView `json:"expected,omitempty"` // of status and queue
}

// AskView is somebody's ask for a lease.
type AskView struct {
	By      PartyView `json:"by"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
}

// ProcessView is a process that holds a lease.
type ProcessView struct {
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
}

var kindNames = [...]string{"free", "running", "orphaned", "recorded", "claiming", "foreign", "odd", "crashed", "abandoned", "ended"}

func kindName(s lease.Sight) string {
	if s.Kind == lease.Running && s.WrapperGone() {
		return "orphaned"
	}
	return kindNames[s.Kind]
}

func heldView(s lease.Sight) HeldView {
	h := s.Holder
	v := HeldView{
		Resource: s.Resource, Held: s.Held, State: kindName(s), Holder: h.Holder, Party: partyView(s.Party()),
		Purpose: h.Purpose, UpgradeUnblock: h.UpgradeUnblock, BudgetGiB: h.BudgetGiB, Problem: s.Problem,
	}
	if since := h.SinceTime(); !since.IsZero() {
		v.Since, v.HeldSeconds = &since, time.Since(since).Truncate(time.Millisecond).Seconds()
	}
	if !s.Renewed.IsZero() {
		v.Renewed = &s.Renewed
	}
	if p := s.Process; p != nil {
		v.PID, v.Command = p.PID, p.Command
	}
	v.Token, v.Fence = s.Mark().Token, s.Mark().Fence
	if until := s.Until(); !until.IsZero() {
		v.Until = &until
	}
	for _, a := range s.Asks {
		v.Asks = append(v.Asks, AskView{partyView(a.By), a.At, a.Message})
	}
	if v.State == "orphaned" {
		for _, m := range s.Members() {
			v.Orphans = append(v.Orphans, ProcessView{m.PID.PID, m.Command})
		}
	}
	return v
}

// WaiterView is a place in a line.
type WaiterView struct {
	Number    int64      `json:"number"`
	Place     int        `json:"place"`
	Party     PartyView  `json:"party,omitzero"`
	Purpose   string     `json:"purpose,omitempty"`
	Since     time.Time  `json:"since,omitzero"`
	PID       int        `json:"pid,omitempty"`
	Resources []string   `json:"resources,omitempty"`
	KeptUntil *time.Time `json:"keptUntil,omitempty"`
	Granted   int        `json:"granted,omitempty"` // the place of its grant, from 1
}

// GrantView is a grant that can still be claimed.
type GrantView struct {
	Place          int       `json:"place"`
	To             PartyView `json:"to"`
	By             PartyView `json:"by,omitzero"`
	At             time.Time `json:"at"`
	UpgradeUnblock string    `json:"upgradeUnblock,omitempty"`
	BudgetGiB      int       `json:"budgetGiB,omitempty"`
	Waiting        bool      `json:"waiting"` // somebody of that party is in the line
}

// HoldView is an upgrade that holds a resource back.
type HoldView struct {
	Target string     `json:"target"`
	Reason string     `json:"reason,omitempty"`
	By     PartyView  `json:"by,omitzero"`
	At     time.Time  `json:"at"`
	Until  *time.Time `json:"until,omitempty"`
}

// SupervisorView is who decides.
type SupervisorView struct {
	PartyView
	Since        time.Time  `json:"since"`
	State        string     `json:"state"` // running, away, gone
	PID          int        `json:"pid,omitempty"`
	RestartUntil *time.Time `json:"restartUntil,omitempty"`
}

func supervisorView(b *lease.Base, st *state.State, now time.Time) *SupervisorView {
	if st.Supervisor == nil {
		return nil
	}
	v := &SupervisorView{PartyView: partyView(st.Supervisor.Party), Since: st.Supervisor.Since, State: "running"}
	if st.SupervisorCLI != nil {
		v.PID = st.SupervisorCLI.PID
	}
	switch until, gone := b.Away(st, now); {
	case gone:
		v.State = "gone"
	case !until.IsZero():
		v.State, v.RestartUntil = "away", &until
	}
	return v
}

// QueueView is one resource with its grants and its line.
type QueueView struct {
	HeldView
	Grants  []GrantView  `json:"grants,omitempty"`
	Waiting []WaiterView `json:"waiting,omitempty"`
	Upgrade *HoldView    `json:"upgrade,omitempty"`
}

// writeJSON writes one document.
func writeJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, escapeJSON(text))
	return err
}

// escapeJSON makes a document fit for a terminal: what encoding/json leaves of
// the characters that show escapes becomes \u escapes, which mean the same, and
// stand in strings only.
func escapeJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || bidi(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
