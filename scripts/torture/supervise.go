//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"
)

// supervise decides now and then who may claim.
func (t *torture) supervise(r *rand.Rand) {
	boss := []string{"--session", "boss", "--name", "boss"}
	call := func(what string, codes []int, args ...string) ending {
		return t.verb(what, codes, append(boss[:len(boss):len(boss)], args...)...)
	}
	for !t.isOver() {
		t.pause(time.Duration(1000+r.IntN(5000)) * time.Millisecond)
		if t.isOver() {
			return
		}
		pid := "-1"
		var process *exec.Cmd
		if r.IntN(2) == 0 { // with a process that may be away for a while
			process = exec.Command("sleep", "1000")
			if t.start(process) == nil {
				pid = fmt.Sprint(process.Process.Pid)
			}
		}
		call("supervisor start", []int{0}, "supervisor", "start", "--pid="+pid)
		for until := time.Now().Add(time.Duration(2000+r.IntN(6000)) * time.Millisecond); time.Now().Before(until) && !t.isOver(); {
			t.decide(call, r)
			t.pause(time.Duration(r.IntN(150)) * time.Millisecond)
			if process != nil && r.IntN(20) == 0 {
				process.Process.Kill()
				t.end(process)
				process = nil
				t.count("the supervisor's process killed")
				t.pause(time.Duration(r.IntN(1500)) * time.Millisecond)
				call("supervisor start, again", []int{0}, "supervisor", "start", "--pid=-1")
			}
		}
		call("supervisor stop", []int{0}, "supervisor", "stop")
		if process != nil {
			process.Process.Kill()
			t.end(process)
		}
	}
}

// decide grants, and takes back.
func (t *torture) decide(call func(what string, codes []int, args ...string) ending, r *rand.Rand) {
	e := call("queue, the supervisor's", []int{0}, "queue", "--json")
	var doc struct {
		Queues []struct {
			Resource string `json:"resource"`
			Waiting  []struct {
				Party     struct{ Session string } `json:"party"`
				Resources []string                 `json:"resources"`
				Granted   int                      `json:"granted"`
			} `json:"waiting"`
			Grants []struct {
				To      struct{ Session string } `json:"to"`
				Waiting bool                     `json:"waiting"`
			} `json:"grants"`
		} `json:"queues"`
	}
	if err := json.Unmarshal([]byte(e.out), &doc); err != nil {
		t.violation("queue --json: %v in %q", err, e.out)
		return
	}
	for _, q := range doc.Queues {
		for _, w := range q.Waiting {
			if w.Party.Session != "" && w.Granted == 0 && r.IntN(2) == 0 {
				call("grant", []int{0, 1}, "grant", strings.Join(w.Resources, ","), w.Party.Session)
			}
		}
		for _, g := range q.Grants {
			if !g.Waiting && r.IntN(3) == 0 || r.IntN(20) == 0 {
				call("revoke", []int{0, 1}, "revoke", q.Resource, g.To.Session)
			}
		}
	}
}
