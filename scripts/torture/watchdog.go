//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stillness is how long nothing may move: no process ends, nothing is logged.
const stillness = 30 * time.Second

// watchdog ends a torture that stands still, and says how everything stands. A wait that goes on far beyond its time
// is stillness too.
func (t *torture) watchdog() {
	last, since := -1, time.Now()
	for {
		time.Sleep(time.Second)
		t.mu.Lock()
		moved := t.moved
		var late *op
		for _, o := range t.ops {
			if o.end == nil && o.outer == nil && o.kind != "claim" && o.kind != "lab-lock" && time.Since(o.began) > o.limit+stuckAfter {
				late = o
			}
		}
		t.mu.Unlock()
		if moved != last {
			last, since = moved, time.Now()
		}
		switch {
		case late != nil:
			t.violation("%s (%s of %v) has not ended after %v", late.id, late.kind, late.res, time.Since(late.began))
		case time.Since(since) > stillness:
			t.violation("nothing has moved for %v", stillness)
		default:
			continue
		}
		t.dump()
		t.print()
		fmt.Printf("torture: FAILED, seed %d; files: %s\n", t.seed, t.dir)
		t.killAll()
		os.Exit(1)
	}
}

// dump prints how everything stands.
func (t *torture) dump() {
	for _, args := range [][]string{{"list"}, {"queue"}, {"supervisor", "status"}} {
		cmd := exec.Command(t.bin, args...)
		cmd.Env = t.env
		text, err := cmd.CombinedOutput()
		fmt.Printf("== %s (%v)\n%s", args, err, text)
	}
	text, _ := os.ReadFile(filepath.Join(t.base, "state.json"))
	fmt.Printf("== state.json\n%s\n", text)
	text, _ = os.ReadFile(filepath.Join(t.base, "events.jsonl"))
	lines := strings.Split(string(text), "\n")
	fmt.Printf("== the last events\n%s\n== processes\n", strings.Join(lines[max(0, len(lines)-30):], "\n"))
	var show func(pid, depth int)
	show = func(pid, depth int) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		where, _ := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		fmt.Printf("%s%d %.1s %s %.300s\n", strings.Repeat("  ", depth), pid, state, where, strings.ReplaceAll(string(line), "\x00", " "))
		for _, child := range childrenOf(pid) {
			show(child, depth+1)
		}
	}
	show(os.Getpid(), 0)
}
