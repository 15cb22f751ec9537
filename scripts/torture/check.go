//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"
)

// finish checks what can only be said in the end.
func (t *torture) finish() {
	t.leftBehind()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conflicts {
		// Forced away, its command has a while to end; the next holder doesn't wait for that.
		first := c.first()
		switch {
		case c.early == nil:
			t.wrongLocked("%s met pid %d on %s, which has never begun", c.late.id, c.pid, c.res)
		case !first.forced[c.res]:
			t.wrongLocked("%s and %s had %s at once, and nobody forced it", c.early.id, c.late.id, c.res)
		default:
			t.did["overlap, after a force"]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.ops)) {
		t.checkEnd(t.ops[id])
	}
	t.checkHandOvers()
	for _, res := range everything() {
		t.checkOrder(res)
		t.checkIntervals(res)
		if h := t.log.of[res].holder; h != nil && !h.mayCrash() {
			t.wrongLocked("%s: the log says that %s has it still", res, h.id)
		}
	}
}

// checkEnd compares how a run ended with what was done to it.
func (t *torture) checkEnd(o *op) {
	e := o.end
	if e == nil {
		return // it never held anything, or its end is another's
	}
	if o.kind == "claim" {
		if e.code == 1 && !o.forced[o.res[0]] {
			t.wrongLocked("%s: its claim of %s was gone, and nobody forced it: %v", o.id, o.res[0], *e)
		}
		return
	}
	last := o // whose command it is in the end
	if o.inside != nil {
		last = o.inside
	}
	forced := len(o.forced)+len(last.forced) > 0
	ok := false
	switch {
	case e.signal == syscall.SIGKILL:
		ok = o.killed || last.commandKilled
	case e.signal == syscall.SIGTERM:
		ok = o.asked
	case e.signal != 0:
	case e.code == 123:
		ok = forced
	case e.code == 125:
		ok = o.killed // its monitor
	case e.code == 75:
		ok = last.begin == 0
	case e.code == last.status:
		ok = last.ended > 0
	}
	if !ok {
		t.wrongLocked("%s (%s of %v) ended with %v; its command's status %d, begun %v, ended %v, wrapper killed %v, command killed %v, TERM %v, forced %v",
			o.id, o.kind, o.res, *e, last.status, last.begin > 0, last.ended > 0, o.killed, last.commandKilled, o.asked, forced)
	}
	if !ownLines(e.err) {
		t.wrongLocked("%s said %q", o.id, e.err)
	}
}

// checkOrder checks that nobody was overtaken where the line decided: who claimed later with a lower number was in line
// all the time.
func (t *torture) checkOrder(res string) {
	var waits *op // with the lowest number of those that claimed later
	lowest, checked := int64(1<<62), 0
	for _, c := range slices.Backward(t.log.of[res].claims) {
		place, had := t.tickets[c.op.id+" "+res]
		n := place
		if !had && (c.op.noPlace || c.op.kind == "claim") {
			n = c.fence // as if it had come to the end of the line that moment
		}
		if c.byLine && n > 0 {
			checked++
			if lowest < n {
				t.wrongLocked("%s: %s with number %d had it before %s with number %d", res, c.op.id, n, waits.id, lowest)
			}
		}
		if had && place < lowest {
			lowest, waits = place, c.op
		}
	}
	t.did["claims whose order was checked"] += checked
}

// checkIntervals checks the commands' own clocks: in the order of the fences, each begins after the one before has
// ended, unless that was forced away or killed.
func (t *torture) checkIntervals(res string) {
	var ran []*op
	for _, o := range t.ops {
		if o.fences[res] > 0 {
			ran = append(ran, o)
		}
	}
	sort.Slice(ran, func(i, j int) bool { return ran[i].fences[res] < ran[j].fences[res] })
	for i := 1; i < len(ran); i++ {
		a, b := ran[i-1], ran[i]
		if a.fences[res] == b.fences[res] {
			t.wrongLocked("%s: %s and %s both had fence %d", res, a.id, b.id, a.fences[res])
		}
		if !a.forced[res] && (b.begin < a.begin || b.begin < a.ended) {
			t.wrongLocked("%s: %s (fence %d) ran from %d to %d, and %s (fence %d) began at %d", res, a.id, a.fences[res], a.begin, a.ended, b.id, b.fences[res], b.begin)
		}
	}
	t.did["commands whose times were checked"] += len(ran)
}

// leftBehind checks that in the end all is free, after one more claim nothing half-made is left, and the document is
// whole.
func (t *torture) leftBehind() {
	time.Sleep(2 * time.Second) // kept places lapse
	for _, res := range everything() {
		if e := t.do(nil, t.bin, "--name", "last", "-n", res, "--", "true"); e.code != 0 || e.err != "" {
			t.violation("in the end %s can't be had: %v", res, e)
		}
	}
	if e := t.do(nil, t.bin, "list", "--json"); e.code != 0 || !strings.Contains(e.out, `"leases": []`) {
		t.violation("in the end something is held: %s", e.out)
	}
	allowed := map[string]bool{
		"state.json": true, "state.lock": true, "events.jsonl": true, "events.jsonl.1": true, "events.jsonl.2": true,
		"leases": true, "leases/.queue": true,
	}
	for _, res := range everything() {
		for _, name := range []string{"", "/last", "/index", "/spare", "/spare/holder.json", "/spare/process.json"} {
			allowed["leases/.queue/"+res+name] = true
		}
	}
	filepath.WalkDir(t.base, func(path string, _ os.DirEntry, err error) error {
		name, _ := filepath.Rel(t.base, path)
		if err != nil || name != "." && !allowed[name] {
			t.violation("in the end %s is left (%v)", name, err)
		}
		return nil
	})
	if doc, err := t.readDocument(); err != nil {
		t.violation("in the end: %v", err)
	} else if grants, _ := doc["grants"].([]any); len(grants) > 0 {
		t.violation("in the end there are grants: %v", grants)
	}
}

// print prints what was done.
func (t *torture) print() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(t.did)) {
		fmt.Printf("%8d  %s\n", t.did[what], what)
	}
	for _, verb := range slices.Sorted(maps.Keys(t.log.verbs)) {
		fmt.Printf("%8d  logged: %s\n", t.log.verbs[verb], verb)
	}
	if n := len(t.wrong); n > 0 {
		fmt.Printf("%d violations:\n", n)
		for _, w := range t.wrong[:min(n, 50)] {
			fmt.Println("  " + w)
		}
	}
}
