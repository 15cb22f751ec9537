package lease_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"withlease/lease"
)

// shell is a call of the shell lock on the same lease directory. before comes
// before what is in $PATH.
func shell(b *lease.Base, before string, args ...string) *exec.Cmd {
	cmd := exec.Command("../scripts/lab-lock.sh", args...)
	cmd.Env = append(os.Environ(), "WITHLEASE_LEASE_DIR="+string(b.Leases), "WITHLEASE_SESSION=s-shell")
	if before != "" {
		cmd.Env = append(cmd.Env, "PATH="+before+":"+os.Getenv("PATH"))
	}
	return cmd
}

// locks runs the shell lock and says with which status it ended.
func locks(t testing.TB, b *lease.Base, args ...string) (status int, out string) {
	t.Helper()
	text, err := shell(b, "", args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), string(text)
	}
	must(t, err)
	return 0, string(text)
}

// TestShellLockKeepsUsOut, and a waiter hears of its release.
func TestShellLockKeepsUsOut(t *testing.T) {
	b := newBase(t)
	if status, out := locks(t, b, "claim", "gpu", `a "purpose"`); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	bl := busy(t, b, "gpu")
	if h := bl.Sight.Holder; bl.Sight.Kind != lease.Recorded || h.Session != "s-shell" || h.Purpose != `a "purpose"` || h.Env != "gpu" || h.SinceTime().IsZero() || !strings.Contains(h.Holder, "@") {
		t.Errorf("%+v", bl.Sight)
	}
	// Age never frees it.
	for _, path := range []string{at(b, "gpu"), at(b, "gpu", "holder.json")} {
		must(t, os.Chtimes(path, noon, noon))
	}
	busy(t, b, "gpu")
	if h, err := b.Leases.Claim("gpu", lease.Holder{}); h == nil || err != nil {
		t.Errorf("claimed: %+v, %v", h, err)
	}
	a, c := start(t, b, "a"), start(t, b, "c")
	a.wait(order{Resources: []string{"gpu"}})
	c.wait(order{Resources: []string{"gpu"}})
	c.quiet()
	if status, out := locks(t, b, "release", "gpu"); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	a.want("claimed")
	c.quiet()
	a.release()
	c.want("claimed")
	c.release()
	only(t, b)
	tidy(t, b, "gpu")
}

// TestWeKeepTheShellLockOut, whatever kind of lease it is.
func TestWeKeepTheShellLockOut(t *testing.T) {
	b := newBase(t)
	a := start(t, b, "a")
	a.claim("gpu")
	must(t, second(b.Leases.Claim("usb", lease.Holder{Holder: "u@h", Session: "s-a", Purpose: "p"})))
	before := tree(t, string(b.Leases))
	for _, res := range []string{"gpu", "usb"} {
		for _, verb := range []string{"claim", "release"} {
			if status, out := locks(t, b, verb, res); status != 1 || strings.Contains(out, "claimed") {
				t.Errorf("%s %s: %d, %s", verb, res, status, out)
			}
		}
		if status, out := locks(t, b, "status", res); status != 0 || !strings.Contains(out, "held by u@h") || !strings.Contains(out, "a test") && res == "gpu" {
			t.Errorf("status: %d, %s", status, out)
		}
	}
	if after := tree(t, string(b.Leases)); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	a.release()
	if status, out := locks(t, b, "status", "gpu"); status != 1 || !strings.Contains(out, "free") {
		t.Errorf("status: %d, %s", status, out)
	}
	if status, out := locks(t, b, "claim", "gpu"); status != 0 {
		t.Errorf("%d: %s", status, out)
	}
}

// pausing makes a directory for $PATH whose mkdir pauses after it has made a
// lease, until go is there.
func pausing(t testing.TB) (dir, there, goOn string) {
	t.Helper()
	mkdir, err := exec.LookPath("mkdir")
	must(t, err)
	dir = t.TempDir()
	there, goOn = filepath.Join(dir, "there"), filepath.Join(dir, "go")
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\" || exit\ncase $1 in -p) exit ;; esac\n: >%s\nuntil [ -e %s ]; do sleep 0.01; done\n", mkdir, there, goOn)
	must(t, os.WriteFile(filepath.Join(dir, "mkdir"), []byte(script), 0o755))
	return dir, there, goOn
}

// TestShellLockInTheInstant: B10 d. Between its mkdir and its record the shell
// lock holds, too.
func TestShellLockInTheInstant(t *testing.T) {
	b := newBase(t)
	dir, there, goOn := pausing(t)
	cmd := shell(b, dir, "claim", "gpu")
	must(t, cmd.Start())
	if !eventually(func() bool { return exists(there) }) {
		t.Fatal("it makes no directory")
	}
	if bl := busy(t, b, "gpu"); bl.Sight.Kind != lease.Claiming || !bl.Sight.Held {
		t.Errorf("%+v", bl.Sight)
	}
	if h, err := b.Leases.Claim("gpu", lease.Holder{Session: "s-x"}); h == nil || err != nil {
		t.Errorf("claimed: %+v, %v", h, err)
	}
	a := start(t, b, "a")
	a.wait(order{Resources: []string{"gpu"}})
	write(t, goOn, "")
	must(t, cmd.Wait())
	if bl := busy(t, b, "gpu"); bl.Sight.Kind != lease.Recorded || bl.Sight.Holder.Session != "s-shell" {
		t.Errorf("%+v", bl.Sight)
	}
	a.quiet()
	if status, out := locks(t, b, "release", "gpu"); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	a.want("claimed")
	a.release()
	only(t, b)
}

// TestShellLockComesTooLate: it was so long between its mkdir and its record
// that the directory was taken for abandoned. It has no lease then, and what is
// there is another's.
func TestShellLockComesTooLate(t *testing.T) {
	for _, now := range []string{"held", "free"} {
		t.Run(now, func(t *testing.T) {
			b := newBase(t)
			dir, there, goOn := pausing(t)
			cmd := shell(b, dir, "claim", "gpu")
			must(t, cmd.Start())
			if !eventually(func() bool { return exists(there) }) {
				t.Fatal("it makes no directory")
			}
			old := time.Now().Add(-lease.ClaimGrace - time.Second)
			must(t, os.Chtimes(at(b, "gpu"), old, old))
			a := start(t, b, "a")
			a.claim("gpu")
			if now == "free" {
				a.release()
			}
			before := tree(t, string(b.Leases))
			write(t, goOn, "")
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("it says %v", err)
			}
			if after := tree(t, string(b.Leases)); after != before {
				t.Errorf("it made\n%s\nof\n%s", after, before)
			}
			if now == "held" {
				a.do(order{Do: "check"})
				a.ok("checked")
			}
		})
	}
}

// TestUnfinishedDirectory: B10 a, b, c. A directory without a record is a claim
// in progress for ten seconds, then abandoned: taken over, and logged.
func TestUnfinishedDirectory(t *testing.T) {
	for _, c := range []struct {
		name string
		age  time.Duration
		kind lease.Kind
	}{
		{"just made", 0, lease.Claiming},
		{"eight seconds ago", lease.ClaimGrace - 2*time.Second, lease.Claiming},
		{"an hour ago", time.Hour, lease.Abandoned},
		{"in an hour", -time.Hour, lease.Abandoned},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			must(t, os.Mkdir(at(b, "gpu"), 0o700))
			made := time.Now().Add(-c.age)
			must(t, os.Chtimes(at(b, "gpu"), made, made))
			s, err := b.Look("gpu")
			if err != nil || s.Kind != c.kind || s.Held != (c.kind == lease.Claiming) {
				t.Fatalf("%+v, %v", s, err)
			}
			if c.kind == lease.Claiming {
				busy(t, b, "gpu")
				if h, err := b.Leases.Get("gpu"); h == nil || h.Env != "gpu" || err != nil {
					t.Errorf("got %+v, %v", h, err)
				}
			}
			if c.age > 0 {
				a := start(t, b, "a")
				a.do(order{Do: "acquire", Resources: []string{"gpu"}})
				a.want("claimed")
				if d := time.Since(made); d < lease.ClaimGrace {
					t.Errorf("taken over %v after it was made", d)
				}
				a.release()
				if vs := verbs(t, b); !slices.Contains(vs, "lease.abandoned") {
					t.Errorf("log %q", vs)
				}
				if log := read(t, b.Store.Events()); !strings.Contains(log, "lease record missing, recovered") {
					t.Errorf("log %s", log)
				}
			} else if c.kind == lease.Abandoned {
				free(t, b, "gpu")
			}
			if c.kind == lease.Abandoned {
				only(t, b)
			}
		})
	}
}

// TestShellLockAtEveryStep: we are stopped at any step of a claim or a release,
// and the shell lock comes: one of both has it.
func TestShellLockAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		step string
		ours bool // at that moment the lease is ours
		ends bool // it is being given back
	}{
		{"claim.1", false, false},
		{"claim.1 directory", false, false},
		{"claim.1 record", false, false},
		{"claim.1 process", false, false},
		{"claim.2", false, false},
		{"claim.6", true, false},
		{"release.1", true, true},
		{"release.3", true, true},
		{"release.4", true, true},
		{"release.5", true, true},
		{"release.6", false, true},
		{"release.6 delete", false, true},
		{"release.7", false, true},
		{"release.8", false, true},
	} {
		t.Run(c.step, func(t *testing.T) {
			b := newBase(t)
			a := start(t, b, "a")
			if c.ends {
				a.claim("gpu")
			}
			a.do(order{Do: "steps", Step: c.step, N: 1, Path: "stop"})
			a.want("counting")
			if c.ends {
				a.do(order{Do: "release"})
			} else {
				a.do(order{Do: "acquire", Resources: []string{"gpu"}, NoWait: true})
			}
			if !a.stopped() {
				t.Fatal("it doesn't stop")
			}
			status, out := locks(t, b, "claim", "gpu", "instant")
			if (status == 0) == c.ours {
				t.Errorf("the shell lock's status is %d: %s", status, out)
			}
			shells := ""
			if status == 0 {
				shells = tree(t, at(b, "gpu"))
			}
			a.signal(syscall.SIGCONT)
			switch {
			case c.ends:
				a.ok("released")
			case c.ours:
				a.want("claimed")
				a.release()
			default:
				if n := a.want("failed"); n.Kind != "blocked" || n.Holder != "s-shell" {
					t.Errorf("%+v", n)
				}
			}
			if shells != "" && tree(t, at(b, "gpu")) != shells {
				t.Errorf("the shell's lease was\n%s\nand is\n%s", shells, tree(t, at(b, "gpu")))
			}
			if status == 0 {
				if status, out := locks(t, b, "release", "gpu"); status != 0 {
					t.Errorf("%d: %s", status, out)
				}
			}
			free(t, b, "gpu")
			only(t, b)
			tidy(t, b, "gpu")
		})
	}
}

// TestShellLockRaces: loops of the shell lock and of ours, on one resource: never
// two in there.
func TestShellLockRaces(t *testing.T) {
	const loops = 12
	b := newBase(t)
	oracle := filepath.Join(t.TempDir(), "in")
	script := fmt.Sprintf(`n=0; while [ $n -lt %d ]; do
		%s claim gpu >/dev/null 2>&1 || continue
		ln -s sh$$ %s || echo DOUBLE
		[ "$(readlink %s)" = sh$$ ] || echo DOUBLE
		rm %s
		%s release gpu >/dev/null || echo LOST
		n=$((n + 1))
	done`, loops, "../scripts/lab-lock.sh", oracle, oracle, oracle, "../scripts/lab-lock.sh")
	var shells []*exec.Cmd
	var outs []*strings.Builder
	for range 2 {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = shell(b, "").Env
		out := &strings.Builder{}
		cmd.Stdout, cmd.Stderr = out, out
		must(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		shells, outs = append(shells, cmd), append(outs, out)
	}
	var agents []*agent
	for i := range 3 {
		agents = append(agents, start(t, b, fmt.Sprintf("a%d", i)))
	}
	for range loops {
		for _, a := range agents {
			a.do(order{Do: "section", Resources: []string{"gpu"}, Path: oracle, Hold: time.Millisecond})
		}
		for _, a := range agents {
			a.want("claimed")
			if n := a.want("ran"); !n.Alone || n.Err != "" {
				t.Errorf("%s: %+v", a.name, n)
			}
		}
	}
	for i, cmd := range shells {
		if err := cmd.Wait(); err != nil || outs[i].Len() > 0 {
			t.Errorf("shell %d: %v, %s", i, err, outs[i])
		}
	}
	free(t, b, "gpu")
	only(t, b)
}

// TestForceOfAShellLock: it has no owner to tell; what is there afterwards is
// another's.
func TestForceOfAShellLock(t *testing.T) {
	b := newBase(t)
	if status, out := locks(t, b, "claim", "gpu"); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	s, err := b.Force(t.Context(), "gpu", pat, "test")
	if err != nil || s.Kind != lease.Recorded || s.Holder.Session != "s-shell" {
		t.Errorf("%+v, %v", s, err)
	}
	a := start(t, b, "a")
	a.claim("gpu")
	// R8: its late release sees a run, and leaves it.
	if status, out := locks(t, b, "release", "gpu"); status != 1 {
		t.Errorf("%d: %s", status, out)
	}
	a.do(order{Do: "check"})
	a.ok("checked")
}
