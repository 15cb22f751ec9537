package state

import (
	"maps"
	"slices"
	"time"
)

// Parse reads a document, which belongs to the state from then on and must not
// be changed. The error is a *SyntaxError.
func Parse(doc []byte) (*State, error) {
	d, err := newDecoder(doc)
	if err != nil {
		return nil, err
	}
	top, err := d.object(skipSpace(d.doc), "the document")
	if err != nil {
		return nil, err
	}
	st := &State{}
	var more extra
	for m := range top.members {
		var err error
		switch m.key {
		case "supervisor":
			st.Supervisor, err = d.supervisor(m.raw)
		case "supervisorCLI":
			st.SupervisorCLI, err = d.supervisorCLI(m.raw)
		case "grants":
			st.Grants, err = list(d, m, d.grant)
		case "released":
			st.Released, err = d.times(m)
		case "holds":
			st.Holds, err = list(d, m, d.hold)
		case "seen":
			st.Seen, err = d.times(m)
		default:
			more.keep(m)
		}
		if err != nil {
			return nil, err
		}
	}
	st.more = unknown(more)
	return st, nil
}

func list[T any](d *decoder, m member, one func([]byte) (T, error)) ([]T, error) {
	es, err := d.array(m.raw, m.key)
	if err != nil || len(es) == 0 {
		return nil, err
	}
	ts := make([]T, len(es))
	for i, raw := range es {
		if ts[i], err = one(raw); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

func (d *decoder) times(m member) (map[string]time.Time, error) {
	if string(m.raw) == "null" {
		return nil, nil
	}
	ms, err := d.object(m.raw, m.key)
	if err != nil {
		return nil, err
	}
	ts := map[string]time.Time{}
	for m := range ms.members {
		if ts[m.key], err = d.time(m.raw, "the time of "+m.key); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(ts, func(_ string, t time.Time) bool { return t.IsZero() })
	if len(ts) == 0 {
		return nil, nil
	}
	return ts, nil
}

// field fills p's field of that name; false when p has none of it.
func (d *decoder) field(p *Party, m member) (bool, error) {
	f := p.field(m.key)
	if f == nil {
		return false, nil
	}
	var err error
	*f, err = d.string(m.raw, m.key)
	return true, err
}

func (p *Party) field(key string) *string {
	switch key {
	case "session":
		return &p.Session
	case "hostSession":
		return &p.HostSession
	case "name":
		return &p.Name
	case "person":
		return &p.Person
	case "team":
		return &p.Team
	case "host":
		return &p.Host
	}
	return nil
}

// partyMembers are a party's members in the order they are written.
var partyMembers = [...]string{"session", "hostSession", "name", "person", "team", "host"}

func (d *decoder) party(raw []byte, what string) (p Party, err error) {
	if string(raw) == "null" {
		return p, nil
	}
	ms, err := d.object(raw, what)
	var more extra
	for m := range ms.members {
		if known, err := d.field(&p, m); err != nil {
			return p, err
		} else if !known {
			more.keep(m)
		}
	}
	p.more = unknown(more)
	return p, err
}

func (d *decoder) supervisor(raw []byte) (*Supervisor, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	ms, err := d.object(raw, "supervisor")
	if err != nil {
		return nil, err
	}
	s := &Supervisor{}
	var more extra
	for m := range ms.members {
		if m.key == "since" {
			if s.Since, err = d.time(m.raw, "the supervisor's since"); err != nil {
				return nil, err
			}
			continue
		}
		if known, err := d.field(&s.Party, m); err != nil {
			return nil, err
		} else if !known {
			more.keep(m)
		}
	}
	s.more = unknown(more)
	return s, nil
}

func (d *decoder) supervisorCLI(raw []byte) (*SupervisorCLI, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	ms, err := d.object(raw, "supervisorCLI")
	if err != nil {
		return nil, err
	}
	c := &SupervisorCLI{}
	var more extra
	for m := range ms.members {
		switch m.key {
		case "supervisor":
			c.Supervisor, err = d.string(m.raw, "supervisorCLI's supervisor")
		case "since":
			c.Since, err = d.time(m.raw, "supervisorCLI's since")
		case "pid":
			c.PID, err = d.int(m.raw, "supervisorCLI's pid")
		case "start":
			c.Start, err = d.string(m.raw, "supervisorCLI's start")
		case "gone":
			c.Gone, err = d.time(m.raw, "supervisorCLI's gone")
		default:
			more.keep(m)
		}
		if err != nil {
			return nil, err
		}
	}
	c.more = unknown(more)
	return c, nil
}

func (d *decoder) grant(raw []byte) (g Grant, err error) {
	ms, err := d.object(raw, "a grant")
	var more extra
	for m := range ms.members {
		switch m.key {
		case "resource":
			g.Resource, err = d.string(m.raw, "a grant's resource")
		case "to":
			g.To, err = d.party(m.raw, "a grant's to")
		case "by":
			g.By, err = d.party(m.raw, "a grant's by")
		case "at":
			g.At, err = d.time(m.raw, "a grant's at")
		case "upgradeUnblock":
			g.UpgradeUnblock, err = d.string(m.raw, "a grant's upgradeUnblock")
		case "budgetGiB":
			g.BudgetGiB, err = d.int(m.raw, "a grant's budgetGiB")
		default:
			more.keep(m)
		}
		if err != nil {
			return g, err
		}
	}
	g.more = unknown(more)
	return g, err
}

func (d *decoder) hold(raw []byte) (h Hold, err error) {
	ms, err := d.object(raw, "a hold")
	var more extra
	for m := range ms.members {
		switch m.key {
		case "target":
			h.Target, err = d.string(m.raw, "a hold's target")
		case "reason":
			h.Reason, err = d.string(m.raw, "a hold's reason")
		case "by":
			h.By, err = d.party(m.raw, "a hold's by")
		case "at":
			h.At, err = d.time(m.raw, "a hold's at")
		case "until":
			h.Until, err = d.time(m.raw, "a hold's until")
		case "liftedBy":
			h.LiftedBy, err = d.party(m.raw, "a hold's liftedBy")
		case "liftedAt":
			h.LiftedAt, err = d.time(m.raw, "a hold's liftedAt")
		default:
			more.keep(m)
		}
		if err != nil {
			return h, err
		}
	}
	h.more = unknown(more)
	return h, err
}

// Document is the state as JSON: a line for each member, grant and hold, so
// that it can be read and compared.
func (s *State) Document() []byte {
	const each = 400 // bytes: a grant or hold has somewhat fewer as a rule
	e := &encoder{b: make([]byte, 0, 1024+each*(len(s.Grants)+len(s.Holds)))}
	e.b = append(e.b, "{\n"...)
	line := func(key string) {
		if e.b[len(e.b)-2] != '{' {
			e.b = append(e.b[:len(e.b)-1], ",\n"...)
		}
		e.name(key)
	}
	if v := s.Supervisor; v != nil {
		line("supervisor")
		e.b = append(e.b, '{')
		e.party(v.Party)
		e.time("since", v.Since)
		e.rest(v.more)
		e.b = append(e.b, "}\n"...)
	}
	if c := s.SupervisorCLI; c != nil {
		line("supervisorCLI")
		e.b = append(e.b, '{')
		e.string("supervisor", c.Supervisor)
		e.time("since", c.Since)
		e.int("pid", c.PID)
		e.string("start", c.Start)
		e.time("gone", c.Gone)
		e.rest(c.more)
		e.b = append(e.b, "}\n"...)
	}
	if len(s.Grants) > 0 {
		line("grants")
		lines(e, s.Grants, e.grant)
	}
	if len(s.Released) > 0 {
		line("released")
		e.times(s.Released)
	}
	if len(s.Holds) > 0 {
		line("holds")
		lines(e, s.Holds, e.hold)
	}
	if len(s.Seen) > 0 {
		line("seen")
		e.times(s.Seen)
	}
	if s.more != "" {
		more := s.more[1:] // without its comma
		if e.b[len(e.b)-2] != '{' {
			e.b = append(e.b[:len(e.b)-1], ",\n"...)
		}
		e.b = append(append(e.b, more...), '\n')
	}
	return append(e.b, "}\n"...)
}

func lines[T any](e *encoder, ts []T, one func(T)) {
	e.b = append(e.b, "[\n"...)
	for i, t := range ts {
		if i > 0 {
			e.b = append(e.b, ",\n"...)
		}
		e.b = append(e.b, '{')
		one(t)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, "]\n"...)
}

func (e *encoder) times(ts map[string]time.Time) {
	e.b = append(e.b, '{')
	for _, k := range slices.Sorted(maps.Keys(ts)) {
		e.time(k, ts[k])
	}
	e.b = append(e.b, "}\n"...)
}

func (e *encoder) party(p Party) {
	for _, key := range partyMembers {
		e.string(key, *p.field(key))
	}
}

// one writes a party as a member of its own.
func (e *encoder) one(key string, p Party) {
	if p == (Party{}) {
		return
	}
	e.name(key)
	e.b = append(e.b, '{')
	e.party(p)
	e.rest(p.more)
	e.b = append(e.b, '}')
}

func (e *encoder) grant(g Grant) {
	e.string("resource", g.Resource)
	e.one("to", g.To)
	e.one("by", g.By)
	e.time("at", g.At)
	e.string("upgradeUnblock", g.UpgradeUnblock)
	e.int("budgetGiB", g.BudgetGiB)
	e.rest(g.more)
}

func (e *encoder) hold(h Hold) {
	e.string("target", h.Target)
	e.string("reason", h.Reason)
	e.one("by", h.By)
	e.time("at", h.At)
	e.time("until", h.Until)
	e.one("liftedBy", h.LiftedBy)
	e.time("liftedAt", h.LiftedAt)
	e.rest(h.more)
}
