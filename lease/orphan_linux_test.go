package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

// child has a holder start a command as it is told, and ends it with the test.
func (a *agent) child(o order) int {
	a.t.Helper()
	o.Do = "spawn"
	a.do(o)
	pid := a.want("spawned").PID
	endAtCleanup(a.t, pid)
	return pid
}

// TestOrphans: B02, R9. The wrapper is killed; what it has started holds the
// lease, by its descriptor or by the token in its environment, and is named; a
// waiter hears of its end.
func TestOrphans(t *testing.T) {
	for _, c := range []struct {
		name  string
		child order
		forks bool
		kind  lease.Kind
	}{
		{"with the witness", order{Inherit: true}, false, lease.Running},
		{"with the witness, noted", order{Inherit: true, Note: true, Token: true}, true, lease.Running},
		{"with the token", order{Token: true}, false, lease.Orphaned},
		{"with the token, and a count of forks", order{Token: true}, true, lease.Orphaned},
		{"with the token, in a large environment", order{Token: true, Big: true}, false, lease.Orphaned},
		{"with an outer run's token", order{Held: true}, false, lease.Orphaned},
		{"noted only", order{Note: true}, false, lease.Orphaned},
		{"noted, with the token", order{Note: true, Token: true}, true, lease.Orphaned},
		// The limit that is documented: it has dropped the descriptor, has a
		// clean environment, and is not the command itself.
		{"with neither", order{}, false, lease.Crashed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			a, w := start(t, b, "a"), start(t, b, "w")
			n := a.claim("gpu")
			if c.forks {
				a.do(order{Do: "note forks"})
				a.want("noted")
			}
			pid := a.child(c.child)
			a.kill()
			s, err := b.Look("gpu")
			must(t, err)
			if s.Kind != c.kind || s.Held != (c.kind != lease.Crashed) || s.Holder.Session != "s-a" || s.Process == nil || s.Process.Token != n.Token {
				t.Fatalf("after the kill: %+v", s)
			}
			if c.kind == lease.Crashed {
				free(t, b, "gpu")
				if processState(pid) == 0 {
					t.Error("the child was ended")
				}
				return
			}
			if !s.WrapperGone() {
				t.Error("its wrapper isn't gone")
			}
			if !slices.ContainsFunc(s.Members(), func(m lease.Member) bool { return m.PID.PID == pid && m.Command == "sleep 1000" }) {
				t.Errorf("members %+v, want %d", s.Members(), pid)
			}
			if c.kind == lease.Orphaned && (len(s.Orphans) != 1 || s.Orphans[0].PID.PID != pid) {
				t.Errorf("orphans %+v, want %d", s.Orphans, pid)
			}
			before := tree(t, at(b, "gpu"))
			if bl := busy(t, b, "gpu"); bl.Sight.Kind != c.kind {
				t.Errorf("blocked by %+v", bl.Sight)
			}
			if h, err := b.Leases.Claim("gpu", lease.Holder{Session: "s-x"}); h == nil || h.Session != "s-a" || err != nil {
				t.Errorf("claimed as a record: %+v, %v", h, err)
			}
			w.wait(order{Resources: []string{"gpu"}})
			if after := tree(t, at(b, "gpu")); after != before {
				t.Errorf("the record was\n%s\nand is\n%s", before, after)
			}
			kill(t, pid)
			w.want("claimed")
			w.release()
			only(t, b)
			if vs := verbs(t, b); !slices.Contains(vs, "lease.crash") {
				t.Errorf("log %q", vs)
			}
		})
	}
}

// TestOrphanOnTheMove: a process with the token is found while it becomes another
// program, when its memory has no environment for a moment, and where it has
// started the next process and ended since the list of processes was read.
func TestOrphanOnTheMove(t *testing.T) {
	for _, c := range []struct {
		name, step string
		looks      int
	}{{"exec", `exec sh -c "$step"`, 500}, {"fork", `sh -c "$step" &`, 200}} {
		t.Run(c.name, func(t *testing.T) {
			token := strings.Repeat("5a", 14) + c.name
			cmd := exec.Command("sh", "-c", c.step)
			cmd.Env = append(os.Environ(), "step="+c.step, "WITHLEASE_TOKEN="+token)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			must(t, cmd.Start())
			t.Cleanup(func() {
				syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				cmd.Wait()
				eventually(func() bool { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == syscall.ESRCH })
			})
			for look := range c.looks {
				if len(lease.Survivors(token)) == 0 {
					t.Fatalf("look %d found nobody", look)
				}
			}
		})
	}
}

// TestLongCommand: a run's command line may be as long as the kernel takes; its
// record can be read all the same.
func TestLongCommand(t *testing.T) {
	b := newBase(t)
	a := start(t, b, "a")
	a.do(order{Do: "acquire", Resources: []string{"gpu"}, Big: true})
	n := a.want("claimed")
	pid := a.child(order{Token: true, Note: true})
	s, err := b.Look("gpu")
	if err != nil || s.Process == nil || s.Process.Token != n.Token || len(s.Process.Command) < 2 || s.Process.Command[0] != "test" || s.Process.Child == nil {
		t.Errorf("%+v, %v", s.Process, err)
	}
	a.kill()
	busy(t, b, "gpu")
	kill(t, pid)
	free(t, b, "gpu")
}

// TestTwoOrphans: the lease is held until the last is gone.
func TestTwoOrphans(t *testing.T) {
	b := newBase(t)
	a, w := start(t, b, "a"), start(t, b, "w")
	a.claim("gpu")
	pids := []int{a.child(order{Token: true}), a.child(order{Token: true}), a.child(order{Inherit: true})}
	w.wait(order{Resources: []string{"gpu"}})
	a.kill()
	for _, pid := range pids {
		busy(t, b, "gpu")
		w.quiet()
		kill(t, pid)
	}
	w.want("claimed")
}

// TestOrphanOfSeveral: one run's orphan holds all that the run held.
func TestOrphanOfSeveral(t *testing.T) {
	b := newBase(t)
	a := start(t, b, "a")
	a.claim("gpu", "usb")
	pid := a.child(order{Inherit: true})
	a.kill()
	busy(t, b, "gpu")
	busy(t, b, "usb")
	kill(t, pid)
	free(t, b, "gpu")
	free(t, b, "usb")
	only(t, b)
}

// TestEndOrphans: what `release --kill` does.
func TestEndOrphans(t *testing.T) {
	for _, c := range []order{{Inherit: true}, {Token: true}, {Note: true}} {
		b := newBase(t)
		a, w := start(t, b, "a"), start(t, b, "w")
		a.claim("gpu")
		pid := a.child(c)
		a.kill()
		w.wait(order{Resources: []string{"gpu"}})
		s, err := b.Look("gpu")
		must(t, err)
		left, err := lease.End(s.Members(), patience)
		if len(left) != 0 || err != nil {
			t.Errorf("%+v: left %+v, %v", c, left, err)
		}
		if st := processState(pid); st != 0 && st != 'Z' {
			t.Errorf("%+v: it is %c", c, st)
		}
		must(t, b.Settle(t.Context(), "gpu"))
		w.want("claimed")
	}
}

// TestEndKills: TERM, then KILL; a stopped one too.
func TestEndKills(t *testing.T) {
	var members []lease.Member
	var cmds []*exec.Cmd
	for _, script := range []string{"exec sleep 1000", `trap "" TERM; echo; while :; do sleep 0.05; done`, `echo; kill -STOP $$; exec sleep 1000`} {
		cmd := exec.Command("sh", "-c", script)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		if strings.Contains(script, "echo") {
			out.Read(make([]byte, 1))
		}
		pid := cmd.Process.Pid
		members = append(members, lease.Member{PID: lease.PID{PID: pid, Start: lease.StartTime(pid)}})
		cmds = append(cmds, cmd)
	}
	left, err := lease.End(members, 300*time.Millisecond)
	if len(left) != 0 || err != nil {
		t.Errorf("left %+v, %v", left, err)
	}
	for i, want := range []string{"signal: terminated", "signal: killed", "signal: terminated"} {
		if err := cmds[i].Wait(); err == nil || err.Error() != want {
			t.Errorf("%d: %v, want %s", i, err, want)
		}
	}
	if left, err := lease.End(members, time.Second); len(left) != 0 || err != nil {
		t.Errorf("the dead: left %+v, %v", left, err)
	}
}

// process edits the process.json of a lease.
func process(t testing.TB, b *lease.Base, f func(p map[string]any)) {
	t.Helper()
	path := at(b, "gpu", "process.json")
	var p map[string]any
	d := json.NewDecoder(strings.NewReader(read(t, path)))
	d.UseNumber()
	must(t, d.Decode(&p))
	f(p)
	text, err := json.Marshal(p)
	must(t, err)
	write(t, path, string(text))
}

// TestPIDReuse: B18. Of a crashed lease whose pids others have now, nothing is
// held, and those others are no members that anybody could end.
func TestPIDReuse(t *testing.T) {
	bystander := exec.Command("sleep", "1000")
	must(t, bystander.Start())
	t.Cleanup(func() { bystander.Process.Kill(); bystander.Wait() })
	pid := bystander.Process.Pid
	start0 := lease.StartTime(pid)
	if start0 == 0 {
		t.Fatal("no start time")
	}
	for _, c := range []struct {
		name string
		edit func(p map[string]any)
	}{
		{"as the wrapper", func(p map[string]any) { p["pid"], p["start"] = pid, start0-1 }},
		{"as the wrapper, without a start time", func(p map[string]any) { p["pid"] = pid; delete(p, "start") }},
		{"as the child", func(p map[string]any) { p["child"] = map[string]any{"pid": pid, "start": start0 - 1} }},
		{"as the child, without a start time", func(p map[string]any) { p["child"] = map[string]any{"pid": pid} }},
		{"as both", func(p map[string]any) {
			p["pid"], p["start"], p["child"] = pid, start0+1, map[string]any{"pid": pid, "start": start0 + 1}
		}},
		{"pid 1", func(p map[string]any) { p["pid"], p["child"] = 1, map[string]any{"pid": 1, "start": 0} }},
		{"our own", func(p map[string]any) {
			p["pid"], p["child"] = os.Getpid(), map[string]any{"pid": os.Getppid(), "start": 5}
		}},
		{"no pids", func(p map[string]any) { p["pid"], p["child"] = 0, map[string]any{"pid": 0} }},
		{"every process", func(p map[string]any) { p["pid"], p["child"] = -1, map[string]any{"pid": -1, "start": 1} }},
		{"another boot, the very process", func(p map[string]any) {
			p["bootId"], p["pid"], p["start"] = "00000000-0000-0000-0000-000000000000", pid, start0
			p["child"] = map[string]any{"pid": pid, "start": start0}
		}},
		{"another PID namespace, the very process", func(p map[string]any) {
			p["pidNS"], p["pid"], p["start"] = 1, pid, start0
		}},
		{"a short token", func(p map[string]any) { p["token"] = "a" }},
		{"an empty token", func(p map[string]any) { p["token"] = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			crash(t, b, "gpu")
			process(t, b, c.edit)
			s, err := b.Look("gpu")
			if err != nil || s.Held || s.Kind != lease.Crashed {
				t.Errorf("%+v, %v", s, err)
			}
			if ms := s.Members(); len(ms) != 0 {
				t.Errorf("members %+v", ms)
			}
			if left, err := lease.End(s.Members(), 0); len(left) != 0 || err != nil {
				t.Errorf("%+v, %v", left, err)
			}
			free(t, b, "gpu")
			if st := processState(pid); st != 'S' && st != 'R' {
				t.Fatalf("the bystander is %c", st)
			}
		})
	}
	for _, p := range []lease.PID{{PID: pid}, {PID: pid, Start: start0 + 1}, {PID: 0, Start: 1}, {PID: -1, Start: 1}, {PID: -pid, Start: start0}, {PID: 1, Start: 0}} {
		if p.Alive() {
			t.Errorf("%+v lives", p)
		}
		if err := p.Signal(9); err == nil {
			t.Errorf("%+v was signalled", p)
		}
	}
	if st := processState(pid); st != 'S' && st != 'R' {
		t.Fatalf("the bystander is %c", st)
	}
}

// TestOtherBoot: the same machine has booted since: crashed, whatever lives. But
// a witness that is held decides.
func TestOtherBoot(t *testing.T) {
	if lease.MachineID() == "" || lease.BootID() == "" {
		t.Skip("this machine has no id")
	}
	b := newBase(t)
	a := start(t, b, "a")
	a.claim("gpu")
	pid := a.child(order{Token: true, Note: true})
	process(t, b, func(p map[string]any) { p["bootId"] = "11111111-2222-3333-4444-555555555555" })
	if s, err := b.Look("gpu"); err != nil || s.Kind != lease.Running {
		t.Errorf("with the witness held: %+v, %v", s, err)
	}
	busy(t, b, "gpu")
	a.kill()
	if s, err := b.Look("gpu"); err != nil || s.Kind != lease.Crashed || len(s.Members()) != 0 {
		t.Errorf("with it free: %+v, %v", s, err)
	}
	free(t, b, "gpu")
	if processState(pid) == 0 {
		t.Error("the process was ended")
	}
}

// TestOtherMachine: on a shared file system another machine's lease lives while
// it is renewed within its ttl, by the file system's clock. A ttl that is none
// doesn't lose it at once.
func TestOtherMachine(t *testing.T) {
	for _, c := range []struct {
		name    string
		ttl     any
		renewed time.Duration // ago
		held    bool
	}{
		{"just renewed", 60, 0, true},
		{"renewed within its ttl", 60, 55 * time.Second, true},
		{"not renewed within its ttl", 60, 62 * time.Second, false},
		{"long ago", 60, 24 * time.Hour, false},
		{"a long ttl", 7200, time.Hour, true},
		{"a short ttl", 1, 3 * time.Second, false},
		{"in the future", 60, -time.Hour, true},
		{"no ttl", nil, 0, true},
		{"no ttl, half a minute ago", nil, 30 * time.Second, true},
		{"no ttl, long ago", nil, time.Hour, false},
		{"a ttl of 0", 0, time.Second, true},
		{"a negative ttl", -60, time.Second, true},
		{"a huge ttl", json.Number("1e300"), time.Second, true},
		{"a huge ttl, long ago", json.Number("1e12"), time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			crash(t, b, "gpu")
			process(t, b, func(p map[string]any) {
				p["bootId"], p["machineId"], p["host"] = "11111111-2222-3333-4444-555555555555", "0123456789abcdef", "elsewhere"
				p["pid"], p["start"] = os.Getpid(), lease.StartTime(os.Getpid())
				if c.ttl == nil {
					delete(p, "ttl")
				} else {
					p["ttl"] = c.ttl
				}
			})
			then := time.Now().Add(-c.renewed)
			must(t, os.Chtimes(at(b, "gpu", "holder.json"), then, then))
			s, err := b.Look("gpu")
			must(t, err)
			if s.Held != c.held || (s.Kind == lease.Foreign) != c.held {
				t.Errorf("%+v, want held %v", s, c.held)
			}
			if ms := s.Members(); len(ms) != 0 {
				t.Errorf("members of another machine: %+v", ms)
			}
			if c.held {
				busy(t, b, "gpu")
				only(t, b, "gpu")
			} else {
				free(t, b, "gpu")
				only(t, b)
			}
		})
	}
}

// TestOtherMachineStopsRenewing: a waiter finds it, though nothing tells.
func TestOtherMachineStopsRenewing(t *testing.T) {
	b := newBase(t)
	crash(t, b, "gpu")
	process(t, b, func(p map[string]any) {
		p["bootId"], p["machineId"], p["ttl"] = "11111111-2222-3333-4444-555555555555", "0123456789abcdef", 3
	})
	now := time.Now()
	must(t, os.Chtimes(at(b, "gpu", "holder.json"), now, now))
	a := start(t, b, "a")
	a.wait(order{Resources: []string{"gpu"}})
	a.want("claimed")
	if d := time.Since(now); d < 3*time.Second {
		t.Errorf("taken after %v", d)
	}
	a.release()
	only(t, b)
}

// TestTokenInEnvironment: the token is one in a variable of ours only.
func TestTokenInEnvironment(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	for env, want := range map[string]bool{
		"":                         false,
		"WITHLEASE_TOKEN=" + token: true,
		"A=1\x00WITHLEASE_TOKEN=" + token + "\x00B=2\x00":               true,
		"WITHLEASE_HELD=gpu=" + token:                                   true,
		"WITHLEASE_HELD=usb=fedcba9876543210,gpu=" + token + ",x=y\x00": true,
		"TOKEN=" + token:                                                      false,
		"X=WITHLEASE_TOKEN=" + token:                                          false,
		"XWITHLEASE_TOKEN=" + token:                                           false,
		"WITHLEASE_TOKEN=" + token[:31]:                                       false,
		"NOTE=" + token + "\x00WITHLEASE_TOKEN=" + token:                      true,
		"NOTE=" + token + "\x00MORE=" + token + "\x00":                        false,
		"WITHLEASE_TOKEN=\x00" + token:                                        false,
		"WITHLEASE_RESOURCE=" + token + "\x00WITHLEASE_FENCE=" + token:        false,
		strings.Repeat("P=x\x00", 9999) + "WITHLEASE_TOKEN=" + token + "\x00": true,
	} {
		if got := lease.HasToken([]byte(env), token); got != want {
			t.Errorf("%.60q: %v", env, got)
		}
	}
}

// TestNested: an outer run of this tree is known by its live lease.
func TestNested(t *testing.T) {
	b := newBase(t)
	l, err := claimNow(b, ann, "gpu", "usb")
	must(t, err)
	must(t, second(b.Leases.Claim("web", lease.Holder{Session: ann.Session})))
	must(t, second(b.Leases.Claim("tty", lease.Holder{Session: bob.Session})))
	all := []string{"gpu", "usb", "web", "tty", "free"}
	env := lease.HeldEnv("old=0000,usb=1111", l)
	if env != "old=0000,gpu="+l.Token+",usb="+l.Token {
		t.Errorf("environment %q", env)
	}
	for _, c := range []struct{ env, want string }{
		{env, "[gpu usb web]"},
		{"gpu=" + l.Token, "[gpu web]"},
		{"", "[web]"},
		{"gpu=x,usb=" + l.Token + "0", "[web]"},
		{"tty=" + l.Token + ",free=" + l.Token + ",,=,gpu", "[web]"},
		{"gpu=", "[web]"},
	} {
		got, err := b.Nested(t.Context(), all, c.env, ann)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%q: %v, %v, want %s", c.env, got, err, c.want)
		}
	}
	must(t, l.Release(context.Background(), ""))
	if got, err := b.Nested(t.Context(), all, env, ann); err != nil || fmt.Sprint(got) != "[web]" {
		t.Errorf("after the release: %v, %v", got, err)
	}
}

// TestNamespaces: B27. Another PID namespace, another host name, the same kernel:
// the witness decides, and no pid is taken for one of ours.
func TestNamespaces(t *testing.T) {
	for name, wrap := range map[string][]string{
		"PID namespace": {"unshare", "-Urpf", "--mount-proc", "--kill-child"},
		"host name":     {"unshare", "-Uru", "sh", "-c", `hostname elsewhere; exec "$@"`, "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.Command(wrap[0], append(wrap[1:], "true")...).CombinedOutput(); err != nil {
				t.Skipf("unshare is not allowed here: %v: %s", err, out)
			}
			b := newBase(t)
			in, out := start(t, b, "in", wrap...), start(t, b, "out")
			in.claim("gpu")
			s, err := b.Look("gpu")
			if err != nil || s.Kind != lease.Running || s.Holder.Session != "s-in" || s.WrapperGone() {
				t.Errorf("from outside: %+v, %v", s, err)
			}
			if name == "PID namespace" {
				if s.Process.PID > 10 {
					t.Errorf("its pid is %d", s.Process.PID)
				}
				if ms := s.Members(); slices.ContainsFunc(ms, func(m lease.Member) bool { return m.PID.PID <= 10 }) {
					t.Errorf("members %+v", ms)
				}
			} else if s.Process.Host != "elsewhere" {
				t.Errorf("its host is %q", s.Process.Host)
			}
			busy(t, b, "gpu")
			out.wait(order{Resources: []string{"gpu"}})
			in.release()
			out.want("claimed")
			// The reverse.
			in.do(order{Do: "acquire", Resources: []string{"gpu"}, NoWait: true})
			if n := in.want("failed"); n.Kind != "blocked" || n.Holder != "s-out" {
				t.Errorf("from inside: %+v", n)
			}
			in.do(order{Do: "look", Resources: []string{"gpu"}})
			if n := in.want("looked"); !n.Alone || lease.Kind(n.N) != lease.Running {
				t.Errorf("from inside: %+v", n)
			}
			in.wait(order{Resources: []string{"gpu"}})
			out.kill()
			in.want("claimed")
			// And its crash.
			in.kill()
			if !eventually(func() bool { s, err := b.Look("gpu"); return err == nil && s.Kind == lease.Crashed }) {
				t.Error("its crash isn't seen")
			}
			free(t, b, "gpu")
		})
	}
}

// TestReaderDoesntDisturb: R2. Who only looks, for however long, keeps nobody
// from taking a crashed lease over, and makes no live one look dead.
func TestReaderDoesntDisturb(t *testing.T) {
	const readers = 2
	b := newBase(t)
	a := start(t, b, "a")
	a.claim("gpu")
	stop := make(chan struct{})
	done := make(chan error)
	for range readers {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				r := again(b)
				if _, err := r.List(); err != nil {
					done <- err
					return
				}
				if _, err := r.Line("gpu"); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 10 {
		w := start(t, b, "w")
		w.wait(order{Resources: []string{"gpu"}})
		busy(t, b, "gpu")
		a.kill()
		w.want("claimed")
		a = w
	}
	close(stop)
	for range readers {
		must(t, <-done)
	}
	a.release()
	only(t, b)
}

// TestHalfWrittenProcess: a run adds to its process file in place while others
// read it, and one of them may be its own command, which asks whether it runs
// under it: taken for a stranger it would wait for itself. Whatever part of the
// addition it sees, it sees the run.
func TestHalfWrittenProcess(t *testing.T) {
	b := newBase(t)
	l, err := b.Acquire(t.Context(), &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "eve"}}, lease.Options{NoWait: true})
	must(t, err)
	defer l.Release(t.Context(), "exit 0")
	path := at(b, "gpu", "process.json")
	before := read(t, path)
	l.NoteForks()
	if text := read(t, path); text != before {
		t.Errorf("before there is a child %q was written", text)
	}
	l.NoteChild(os.Getpid())
	whole, err := b.Look("gpu")
	must(t, err)
	after := read(t, path)
	if !strings.HasPrefix(after, before[:len(before)-2]) || whole.Process.Child == nil || whole.Process.Forks == 0 {
		t.Fatalf("%q became %q, which is no addition", before, after)
	}
	var views []string
	for k := range after {
		if k < len(before) {
			views = append(views, after[:k]+before[k:])
		} else {
			views = append(views, after[:k])
		}
	}
	for _, text := range views {
		write(t, path, text)
		s, err := b.Look("gpu")
		must(t, err)
		p := s.Process
		if p == nil || p.Token != l.Token || p.PID != whole.Process.PID || p.Start != whole.Process.Start || p.Fence != whole.Process.Fence {
			t.Fatalf("of %q is read %+v", text, p)
		}
		if p.Child != nil && *p.Child != *whole.Process.Child || p.Forks != 0 && p.Forks != whole.Process.Forks {
			t.Fatalf("of %q is read %+v", text, p)
		}
		if under, err := b.Covers("gpu", "gpu="+l.Token, state.Party{}); err != nil || !under {
			t.Fatalf("with %q its own command is a stranger (%v)", text, err)
		}
	}
}

// TestMembersUnderTheLock: who is about to end the processes of a lease sees them
// and the lease together, or those of the next holder are ended.
func TestMembersUnderTheLock(t *testing.T) {
	b := newBase(t)
	crash(t, b, "gpu")
	locked, err := b.Store.Lock(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := b.LookMembers(ctx, "gpu"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it looked while somebody changed the lease: %v", err)
	}
	locked.Unlock()
	if s, _, err := b.LookMembers(t.Context(), "gpu"); err != nil || s.Kind != lease.Crashed {
		t.Errorf("%v, %v", s.Kind, err)
	}
}
