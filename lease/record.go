package lease

import (
	"fmt"
	"time"

	"withlease/state"
)

// Holder is the record in <leaseDir>/<resource>/holder.json. Its fields are
// those of the shell lock.
type Holder struct {
	// Env is the resource; the shell lock called it so.
	Env string `json:"env"`
	// Holder is user@host.
	Holder      string `json:"holder"`
	Session     string `json:"session"`
	HostSession string `json:"hostSession,omitempty"`
	Name        string `json:"name,omitempty"`
	// Person, Team and Host are those of the party that holds it.
	Person  string `json:"person,omitempty"`
	Team    string `json:"team,omitempty"`
	Host    string `json:"host,omitempty"`
	Purpose string `json:"purpose"`
	// Since is RFC 3339, UTC, in seconds.
	Since string `json:"since"`
	// UpgradeUnblock is why an upgrade-unblock grant admitted the claim.
	UpgradeUnblock string `json:"upgradeUnblock,omitempty"`
	// BudgetGiB is what the holder's models may hold of the model server's
	// memory, in GiB; 0 on every other resource.
	BudgetGiB int `json:"budgetGiB,omitempty"`
}

// Label is the resource, with the budget when the claim carries one:
// "kind-1", "model-server (48 GiB)".
func (h Holder) Label() string {
	if h.BudgetGiB > 0 {
		return fmt.Sprintf("%s (%d GiB)", h.Env, h.BudgetGiB)
	}
	return h.Env
}

// Party is the holder as the state document names it.
func (h Holder) Party() state.Party {
	return state.Party{
		Session:     h.Session,
		HostSession: h.HostSession,
		Name:        h.Name,
		Person:      h.Person,
		Team:        h.Team,
		Host:        h.Host,
	}
}

// SinceTime is Since as a time, zero when it isn't one.
func (h Holder) SinceTime() time.Time {
	t, err := time.Parse(time.RFC3339, h.Since)
	if err != nil {
		return time.Time{}
	}
	return state.Writable(t)
}

// encode is h as encoding/json has it; a test compares.
func (h Holder) encode() []byte {
	o := state.NewObject()
	o.String("env", h.Env)
	o.String("holder", h.Holder)
	o.String("session", h.Session)
	o.StringIf("hostSession", h.HostSession)
	o.StringIf("name", h.Name)
	o.StringIf("person", h.Person)
	o.StringIf("team", h.Team)
	o.StringIf("host", h.Host)
	o.String("purpose", h.Purpose)
	o.String("since", h.Since)
	o.StringIf("upgradeUnblock", h.UpgradeUnblock)
	if h.BudgetGiB != 0 {
		o.Int("budgetGiB", int64(h.BudgetGiB))
	}
	return o.Line()
}
