//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A worker does one thing after another.
type worker struct {
	*torture
	name string
	rand *rand.Rand
	made int
}

// An op is something that may hold resources, known by its name: the purpose in withlease's records, and an argument of
// its command. What is known of it is guarded by torture.mu.
type op struct {
	id, kind string
	session  string // "": a person
	res      []string
	began    time.Time
	limit    time.Duration // it must have ended by then
	status   int           // its command's
	noPlace  bool          // it never has a place in line
	outer    *op           // whose command it is
	inside   *op           // what it has for a command, when that is an op
	warns    bool          // it goes on when its lease is lost

	// What was done to it.
	killed, commandKilled, asked bool

	// What its command wrote down.
	pid                   int
	begin, got, ended     int64
	fences                map[string]int64
	claimed, gone, forced map[string]bool // by the log
	end                   *ending
}

func (w *worker) chance(percent int) bool { return w.rand.IntN(100) < percent }

func (w *worker) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

// newOp is an op on some resources that begins now.
func (w *worker) newOp(kind string, limit time.Duration, res ...string) *op {
	w.made++
	o := &op{
		id: fmt.Sprintf("op-%s-%d", w.name, w.made), kind: kind, res: res, began: time.Now(), limit: limit,
		claimed: map[string]bool{}, gone: map[string]bool{}, forced: map[string]bool{},
	}
	if !w.chance(20) {
		o.session = "s-" + w.name
	}
	w.mu.Lock()
	w.ops[o.id] = o
	w.mu.Unlock()
	return o
}

// party are the flags that say who calls.
func (w *worker) party(o *op) []string {
	if o.session == "" {
		return []string{"--name", w.name}
	}
	return []string{"--session", o.session, "--name", w.name}
}

func (w *worker) resource() string { return resources[w.rand.IntN(len(resources))] }

func (w *worker) some() []string {
	some := slices.Clone(resources)
	w.rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	if w.chance(75) {
		return some[:1]
	}
	return some[:2+w.rand.IntN(len(some)-1)]
}

// step does one thing.
func (w *worker) step() {
	if w.chance(30) {
		w.pause(w.between(0, 200*time.Millisecond))
	}
	switch n := w.rand.IntN(100); {
	case n < 50:
		w.plainRun()
	case n < 58:
		w.keptRun()
	case n < 65:
		w.nestedRun()
	case n < 73:
		w.claim()
	case n < 79:
		w.shellLock()
	case n < 84:
		w.orphan()
	case n < 90:
		w.force()
	case n < 92:
		w.verb("release --kill", []int{0, 1}, "--name", w.name, "release", "--kill", "--grace", "200ms", w.resource())
	case n < 94:
		w.upgrade()
	default:
		w.read()
	}
}

// commandLine is a command for an op's lease.
func (w *worker) commandLine(o *op, most time.Duration, flags ...string) []string {
	args := append([]string{w.self, commandVerb, "--dir", w.dir, "--op", o.id, "--for", w.between(0, most).String(), "--status", fmt.Sprint(o.status)}, flags...)
	return append(args, o.res...)
}

const longWait = 15 * time.Second

// plainRun is a run in one of all the ways.
func (w *worker) plainRun() {
	o := w.newOp("run", 2*longWait, w.some()...)
	o.status = w.rand.IntN(4)
	args := append(w.party(o), "-p", o.id, "--grace", "300ms")
	switch n := w.rand.IntN(100); {
	case n < 20:
		args = append(args, "-n")
		o.kind, o.noPlace = "run -n", true
	case n < 35:
		args = append(args, "--wait", w.between(time.Millisecond, 300*time.Millisecond).String())
		o.kind = "run --wait short"
	case n < 80:
		args = append(args, "--wait", longWait.String())
		o.kind = "run --wait"
	}
	if len(o.res) > 1 {
		o.kind += ", several"
	}
	if w.chance(10) {
		args = append(args, "--on-lost=warn")
		o.warns = true
	}
	var flags []string
	if w.chance(15) {
		flags = []string{"--stubborn"}
	}
	most := 60 * time.Millisecond
	if w.chance(20) {
		most = 400 * time.Millisecond
	}
	args = append(append(args, o.res...), "--")
	w.torment(o, append(args, w.commandLine(o, most, flags...)...), w.chance(25))
}

// keptRun waits too short a time, keeps its place, and comes back with it.
func (w *worker) keptRun() {
	o := w.newOp("run --keep-place", longWait, w.some()...)
	args := append(w.party(o), "-p", o.id, "--grace", "300ms", "--wait", w.between(time.Millisecond, 100*time.Millisecond).String(),
		"--keep-place", w.between(100*time.Millisecond, 2*time.Second).String())
	args = append(append(args, o.res...), "--")
	e := w.torment(o, append(args, w.commandLine(o, 50*time.Millisecond)...), false)
	_, id, kept := strings.Cut(e.err, "--ticket ")
	if !kept {
		return
	}
	id, _, _ = strings.Cut(id, " ")
	w.pause(w.between(0, 1500*time.Millisecond))
	back := w.newOp("run --ticket", 2*longWait, o.res...)
	back.session = o.session
	args = append(w.party(back), "-p", back.id, "--grace", "300ms", "--wait", longWait.String(), "--ticket", id)
	args = append(append(args, back.res...), "--")
	w.torment(back, append(args, w.commandLine(back, 50*time.Millisecond)...), false)
}

// nestedRun is a run inside a run: of the same resource, or of one more.
func (w *worker) nestedRun() {
	some := w.some()
	outer := w.newOp("nested", 3*longWait, some[0])
	if len(some) == 1 {
		outer.kind = "nested, the same"
		outer.status = w.rand.IntN(4)
		args := append(w.party(outer), "-p", outer.id, "--grace", "300ms", "--wait", longWait.String(), some[0], "--", w.bin, "-p", outer.id, some[0], "--")
		w.torment(outer, append(args, w.commandLine(outer, 60*time.Millisecond)...), w.chance(25))
		return
	}
	// The inner command guards the inner resource only: when the inner wrapper is killed, the outer run has ended.
	inner := w.newOp("inner", 3*longWait, some[1:]...)
	inner.outer, outer.inside, inner.session, inner.status = outer, inner, outer.session, w.rand.IntN(4)
	args := append(w.party(outer), "-p", outer.id, "--grace", "300ms", "--wait", longWait.String(), some[0], "--")
	args = append(append(append(args, w.bin), w.party(inner)...), "-p", inner.id, "--grace", "300ms", "--wait", "1s", some[0])
	args = append(append(args, some[1:]...), "--")
	w.torment(outer, append(args, w.commandLine(inner, 60*time.Millisecond)...), w.chance(25))
}

// claim holds a resource without a run.
func (w *worker) claim() {
	o := w.newOp("claim", longWait, w.resource())
	if w.verb("claim", []int{0, 1}, append(w.party(o), "claim", "-p", o.id, o.res[0])...).code != 0 {
		return
	}
	command := w.commandLine(o, 60*time.Millisecond)
	w.do(nil, command[0], command[1:]...)
	e := w.verb("release", []int{0, 1}, append(w.party(o), "release", o.res[0])...)
	w.mu.Lock()
	o.end = &e
	w.mu.Unlock()
}

// orphan leaves a command without its wrapper, and has it ended.
func (w *worker) orphan() {
	o := w.newOp("orphan", 2*longWait, w.resource())
	args := append(w.party(o), "-p", o.id, "--wait", "5s", o.res[0], "--")
	command := w.commandLine(o, 3*time.Second, "--stubborn")
	if w.chance(50) { // a child with a clean environment, that nothing but the witness tells of when the command is gone
		command = append([]string{"sh", "-c", `env -i WITHLEASE_RESOURCE="$WITHLEASE_RESOURCE" WITHLEASE_FENCE="$WITHLEASE_FENCE" "$@"; exit $?`, "sh"}, command...)
	}
	cmd, finish, err := w.launch(append(args, command...), w.chance(25))
	if err != nil {
		w.violation("%v", err)
		return
	}
	if w.awaitBegin(o, cmd) {
		w.done(&o.killed)
		cmd.Process.Kill()
	}
	e := finish()
	w.ended(o, e)
	w.done(&o.commandKilled)
	w.verb("release --kill, an orphan", []int{0, 1}, "--name", w.name, "release", "--kill", "--grace", "100ms", o.res[0])
}

func (w *worker) force() {
	res := w.resource()
	if !w.shells[res].TryLock() {
		return
	}
	defer w.shells[res].Unlock()
	w.verb("release --force", []int{0, 1}, "--name", w.name, "release", "--force", "--reason", "torture", res)
}

// An upgrade holds one resource back for a moment.
const upgradeMost = 1500 * time.Millisecond

func (w *worker) upgrade() {
	if w.verb("upgrade begin", []int{0, 1}, "--name", w.name, "upgrade", "begin", "--until", upgradeMost.String(), "--reason", "torture", resources[0]).code != 0 {
		return
	}
	w.pause(w.between(0, 2*upgradeMost))
	w.verb("upgrade end", []int{0, 1}, "--name", w.name, "upgrade", "end", resources[0])
}

func (w *worker) read() {
	switch w.rand.IntN(4) {
	case 0:
		e := w.verb("list", []int{0}, "list", "--json")
		w.mustBeJSON("list", e.out)
	case 1:
		e := w.verb("queue", []int{0}, "queue", "--json")
		w.mustBeJSON("queue", e.out)
	case 2:
		w.verb("status", []int{0, 1}, "status", w.resource())
	case 3:
		w.verb("supervisor status", []int{0, 1}, "supervisor", "status")
	}
}
