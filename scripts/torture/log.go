//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// event is a line of withlease's event log.
type event struct {
	At     time.Time
	By     string
	Verb   string
	Detail struct {
		Resource, Session, Purpose, Target string
		Fence                              int64
	}
}

// eventLog is what the log has said so far.
type eventLog struct {
	file       *os.File
	rest       []byte
	of         map[string]*history
	supervised bool
	verbs      map[string]int
}

// history is what the log has said of one resource.
type history struct {
	holder  *op
	fence   int64
	claims  []claim
	granted []string // the sessions, in order
	unsure  bool     // a killed claim may have used a grant, or not
	held    time.Time
}

// A claim, and whether the line decided about it.
type claim struct {
	op     *op
	fence  int64
	byLine bool
}

// followLog reads what the commands and withlease have written since.
func (t *torture) followLog() {
	t.readStamps()
	t.mu.Lock()
	defer t.mu.Unlock()
	path := filepath.Join(t.base, "events.jsonl")
	l := &t.log
	for {
		if l.file == nil {
			f, err := os.Open(path)
			if err != nil {
				return
			}
			l.file = f
		}
		st, _ := l.file.Stat()
		now, err := os.Stat(path)
		moved := err != nil || !os.SameFile(st, now) // asked before the read: what is read then is all of it
		text, err := io.ReadAll(l.file)
		if err != nil {
			t.wrongLocked("the log: %v", err)
			return
		}
		l.rest = append(l.rest, text...)
		for {
			line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
			if !whole {
				break
			}
			l.rest = rest
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				t.wrongLocked("the log has %q: %v", line, err)
				continue
			}
			l.verbs[e.Verb]++
			t.moved++
			t.event(e)
		}
		if !moved {
			return
		}
		l.file.Close()
		l.file = nil
	}
}

// event checks a line against those before it. withlease writes it under its one lock, so the order is the true one.
// Who is killed may have done something and not written it down: what that excuses is said each time.
func (t *torture) event(e event) {
	wrong := func(format string, args ...any) {
		t.wrongLocked("%s %s of %s (%s): "+format, append([]any{e.At.Format(time.StampMilli), e.Verb, e.Detail.Resource, e.Detail.Purpose}, args...)...)
	}
	switch e.Verb {
	case "supervisor.start":
		t.log.supervised = true
		return
	case "supervisor.stop":
		t.log.supervised = false
		for _, h := range t.log.of {
			h.granted, h.unsure = nil, false
		}
		return
	case "upgrade.begin": // it ends by itself too
		t.log.of[e.Detail.Target].held = e.At.Add(upgradeMost)
		return
	case "upgrade.end":
		t.log.of[e.Detail.Target].held = time.Time{}
		return
	}
	h := t.log.of[e.Detail.Resource]
	if h == nil {
		wrong("no such resource")
		return
	}
	switch e.Verb {
	case "grant":
		h.granted = append(h.granted, e.Detail.Session)
		return
	case "revoke":
		if i := slices.Index(h.granted, e.Detail.Session); i >= 0 {
			h.granted = slices.Delete(h.granted, i, i+1)
		} else if !h.unsure {
			wrong("%s has no grant; granted are %q", e.Detail.Session, h.granted)
		}
		return
	case "grant.expire":
		h.unsure = true
		return
	}
	o := t.ops[e.Detail.Purpose]
	if o == nil {
		if e.Verb != "lease.abandoned" {
			wrong("nobody's")
		}
		return
	}
	res := e.Detail.Resource
	switch e.Verb {
	case "claim":
		if h.holder != nil && !h.holder.mayCrash() {
			wrong("%s holds it", h.holder.id)
		}
		if o.claimed[res] && !o.forced[res] { // what runs inside claims anew then
			wrong("claimed twice")
		}
		if e.Detail.Fence <= h.fence {
			wrong("fence %d after %d", e.Detail.Fence, h.fence)
		}
		t.usesGrant(h, e, wrong)
		byLine := !t.log.supervised && e.At.After(h.held.Add(time.Second))
		h.claims = append(h.claims, claim{o, e.Detail.Fence, byLine})
		h.holder, h.fence, o.claimed[res] = o, e.Detail.Fence, true
	case "release", "force", "lease.crash":
		// A killed run may have logged its release and not done it, or the claim and not logged it.
		if h.holder != o && !o.mayCrash() && o.kind != "lab-lock" {
			wrong("it isn't the holder's")
		}
		if !o.claimed[res] {
			h.unsure = true
		}
		if e.Verb == "lease.crash" && !o.mayCrash() {
			wrong("nobody killed it")
		}
		if e.Verb == "force" {
			o.forced[res] = true
		}
		if h.holder == o {
			h.holder = nil
		}
		o.gone[res] = true
	default:
		wrong("an unknown verb")
	}
}

// mayCrash says whether an op's wrapper may have been killed: by us, or by a run around it that ended its command.
func (o *op) mayCrash() bool {
	return o.killed || o.outer != nil && (o.outer.killed || len(o.outer.forced) > 0)
}

// usesGrant checks that a claim under the supervisor was granted, and was the next.
func (t *torture) usesGrant(h *history, e event, wrong func(string, ...any)) {
	// What runs inside of one that was forced claims for itself, without the outer's session.
	session := e.Detail.Session
	if !t.log.supervised || session == "" || h.unsure {
		return
	}
	if len(h.granted) == 0 || h.granted[0] != session {
		wrong("claimed by %s, and granted are %q", session, h.granted)
		h.unsure = true
		return
	}
	h.granted = h.granted[1:]
}

// readStamps reads what the commands have written since.
func (t *torture) readStamps() {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := os.Open(filepath.Join(t.dir, "stamps"))
	if err != nil {
		t.wrongLocked("%v", err)
		return
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, t.stamps, 1<<30))
	if err != nil {
		t.wrongLocked("%v", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			return // being written
		}
		t.stamps += int64(len(line))
		var s stamp
		if err := json.Unmarshal([]byte(line), &s); err != nil || t.ops[s.Op] == nil {
			t.wrongLocked("a command wrote %q: %v", line, err)
			continue
		}
		t.moved++
		t.stamped(t.ops[s.Op], s)
	}
}

func (t *torture) stamped(o *op, s stamp) {
	switch s.What {
	case "begin":
		if o.begin > 0 {
			t.wrongLocked("%s: its command began twice", o.id)
		}
		o.begin, o.pid, o.fences = s.At, s.PID, s.Fences
		t.pids[s.PID] = o
	case "got":
		o.got = s.At
	case "end":
		o.ended = s.At
	case "stuck":
		t.wrongLocked("%s waits for pid %d on %s, which should be gone", o.id, s.Other, s.Resource)
	case "conflict":
		// By the pid, of which the latest is meant.
		t.conflicts = append(t.conflicts, conflict{o, t.pids[s.Other], s.Resource, s.Other})
	}
}

// conflict is two commands at once.
type conflict struct {
	late, early *op
	res         string
	pid         int
}

// first is who claimed first, by the fences: on a busy machine the command of a run that was forced away may begin later
// than the next holder's.
func (c conflict) first() *op {
	if c.early != nil && c.late.fences[c.res] > 0 && c.late.fences[c.res] < c.early.fences[c.res] {
		return c.late
	}
	return c.early
}

// sampleLines notes who has which place in a line, as far as it is seen in passing.
func (t *torture) sampleLines() {
	for _, res := range everything() {
		dir := filepath.Join(t.leases, ".queue", res)
		ents, _ := os.ReadDir(dir)
		for _, e := range ents {
			name, json := strings.CutSuffix(e.Name(), ".json")
			if !json || name == "" || name[0] == '.' {
				continue
			}
			t.notePlace(filepath.Join(dir, e.Name()), res)
		}
	}
}

func (t *torture) notePlace(path, res string) {
	text, err := os.ReadFile(path)
	var w struct {
		Number  int64
		Purpose string
		Kept    time.Time
	}
	if err != nil || json.Unmarshal(text, &w) != nil {
		return // it has gone
	}
	if !w.Kept.IsZero() {
		return // its run has ended
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.ops[w.Purpose]
	if o == nil || o.inside != nil || o.kind == "nested, the same" || o.kind == "run --ticket" && len(o.res) > 1 {
		return // it may have to take another place: forced away, or lapsed in one of its lines
	}
	key := w.Purpose + " " + res
	if n, known := t.tickets[key]; known && n != w.Number {
		t.wrongLocked("%s had place %d in the line of %s, and has %d", w.Purpose, n, res, w.Number)
	}
	t.tickets[key] = w.Number
}
