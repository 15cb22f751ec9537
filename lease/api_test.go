package lease_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// The given API, as lease-package.txt has it: what doesn't fit doesn't compile.
var (
	_ func(*state.State, lease.Gate) (int, error)                              = lease.Check
	_ func(*state.State, string, bool, time.Time, time.Duration) []state.Grant = lease.Pending
	_ func(*state.State, map[string]bool, time.Time, time.Duration)            = lease.Prune
	_ func(lease.Dir, string, lease.Holder) (*lease.Holder, error)             = lease.Dir.Claim
	_ func(lease.Dir, string) (*lease.Holder, error)                           = lease.Dir.Get
	_ func(lease.Dir) ([]lease.Holder, error)                                  = lease.Dir.List
	_ func(lease.Dir, string) error                                            = lease.Dir.Release
	_ func(lease.Holder) string                                                = lease.Holder.Label
	_ func(lease.Holder) state.Party                                           = lease.Holder.Party
	_ func(lease.Holder) time.Time                                             = lease.Holder.SinceTime
	_ func(*lease.Refusal) string                                              = (*lease.Refusal).Error
	_ error                                                                    = (*lease.Refusal)(nil)
	_                                                                          = lease.Dir("")
)

func TestAPIFields(t *testing.T) {
	for _, c := range []struct {
		of   any
		want string
	}{
		{lease.Dir(""), "string"},
		{lease.Gate{}, `
			Resource string
			Caller state.Party
			Supervisor *state.Supervisor
			RestartUntil time.Time
			Gone bool
			Held bool
			Now time.Time
			TTL time.Duration`},
		{lease.Holder{}, `
			Env string json:"env"
			Holder string json:"holder"
			Session string json:"session"
			HostSession string json:"hostSession,omitempty"
			Name string json:"name,omitempty"
			Person string json:"person,omitempty"
			Team string json:"team,omitempty"
			Host string json:"host,omitempty"
			Purpose string json:"purpose"
			Since string json:"since"
			UpgradeUnblock string json:"upgradeUnblock,omitempty"
			BudgetGiB int json:"budgetGiB,omitempty"`},
		{lease.Refusal{}, `
			Reason string
			Position int
			Ahead string`},
	} {
		ty := reflect.TypeOf(c.of)
		got := ty.Kind().String()
		if ty.Kind() == reflect.Struct {
			got = ""
			for i := range ty.NumField() {
				f := ty.Field(i)
				got += strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Name, f.Type, f.Tag)) + "\n"
			}
		}
		if want := lines(c.want); lines(got) != want {
			t.Errorf("%s is\n%s\nwant\n%s", ty, lines(got), want)
		}
	}
}

// lines is a text without the white space round its lines.
func lines(s string) string {
	var ls []string
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			ls = append(ls, l)
		}
	}
	return strings.Join(ls, "\n")
}

func TestHolder(t *testing.T) {
	h := lease.Holder{Env: "kind-1", Session: "s", HostSession: "hs", Name: "n", Person: "p", Team: "t", Host: "h"}
	if got := h.Label(); got != "kind-1" {
		t.Errorf("label %q", got)
	}
	if got := (lease.Holder{Env: "model-server", BudgetGiB: 48}).Label(); got != "model-server (48 GiB)" {
		t.Errorf("label with a budget %q", got)
	}
	if got, want := h.Party(), (state.Party{Session: "s", HostSession: "hs", Name: "n", Person: "p", Team: "t", Host: "h"}); got != want {
		t.Errorf("party %+v, want %+v", got, want)
	}
	for text, want := range map[string]time.Time{
		"2026-03-01T10:20:30Z":      time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC),
		"2026-03-01T11:20:30+01:00": time.Date(2026, 3, 1, 10, 20, 30, 0, time.UTC),
		"":                          {},
		"yesterday":                 {},
		"2026-03-01":                {},
	} {
		if got := (lease.Holder{Since: text}).SinceTime(); !got.Equal(want) {
			t.Errorf("since %q is %v, want %v", text, got, want)
		}
	}
}

// awkward are texts that an encoder can get wrong.
var awkward = []string{"", "plain", `q"b\s`, "<a&b>", "tab\tnl\ncr\r", "\x00\x01\x1f\x7f", "é ü 世界 🔒", "bad \xff\xfe utf", "\u2028\u2029", "esc\x1b[2J"}

// TestEncode: the records are written without encoding/json, which must not
// show.
func TestEncode(t *testing.T) {
	sameJSON := func(got []byte, v any) {
		t.Helper()
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got); n == 0 || got[n-1] != '\n' {
			t.Errorf("%q has no end of line", got)
		}
		var g, w any
		if err := json.Unmarshal(got, &g); err != nil {
			t.Errorf("%q: %v", got, err)
		} else if json.Unmarshal(want, &w); !reflect.DeepEqual(g, w) {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		// The members in the order of the fields: people read records too.
		if a, b := keys(got), keys(want); a != b {
			t.Errorf("members %s, want %s", a, b)
		}
	}
	for _, s := range awkward {
		for _, o := range append([]string{""}, s) {
			h := lease.Holder{Env: "r", Holder: s, Session: s, HostSession: o, Name: o, Person: o, Team: o, Host: o, Purpose: s, Since: s, UpgradeUnblock: o, BudgetGiB: len(o)}
			sameJSON(h.Encode(), h)
			p := lease.Process{PID: 1, BootID: o, MachineID: o, Host: o, Token: s}
			sameJSON(p.Encode(), p)
		}
		p := lease.Process{PID: 1 << 30, Start: 1 << 52, BootID: s, MachineID: s, PIDNS: 4026531836, Host: s, Token: s, Fence: 1<<53 - 1, TTL: 0.25, Command: []string{s, "", s}, Child: &lease.PID{PID: 7, Start: 9}}
		sameJSON(p.Encode(), p)
		p.Child.Start, p.TTL, p.Command = 0, 60, []string{s}
		sameJSON(p.Encode(), p)
	}
}

// keys are the members of an object in order, of the top level.
func keys(doc []byte) string {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.Token()
	var ks []string
	for d.More() {
		k, err := d.Token()
		if err != nil {
			break
		}
		ks = append(ks, fmt.Sprint(k))
		var v json.RawMessage
		d.Decode(&v)
	}
	return strings.Join(ks, " ")
}
