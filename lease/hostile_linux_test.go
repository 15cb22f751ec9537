package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// What a member of a shared base's group may plant, and what comes of it:
// SECURITY.md names these tests.

// TestPlantedHardLinks: a hard link is followed by every open, so nothing is
// written in place that has another name.
func TestPlantedHardLinks(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"leases/.queue/gpu/last", "leases/.queue/gpu/index", "leases/.clock", "leases/.queue/gpu/.1", "leases/.queue/gpu/.new.json", "events.jsonl", ".state.json.new"} {
		t.Run(name, func(t *testing.T) {
			b := newBase(t)
			must(t, os.Chmod(b.Store.Dir, 0o770)) // so that modes are set
			b = openBase(b.Store.Dir)
			must(t, b.Make())
			crash(t, b, "gpu")
			victim := filepath.Join(t.TempDir(), "victim")
			write(t, victim, "7\nprecious\n")
			must(t, os.Chmod(victim, 0o600))
			path := filepath.Join(b.Store.Dir, name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			os.Remove(path)
			must(t, os.Link(victim, path))
			// As if another machine's, so that the file system's clock is asked.
			process(t, b, func(p map[string]any) { p["bootId"], p["machineId"], p["ttl"] = "other", "other", 0.001 })
			if _, err := b.Look("gpu"); err != nil {
				t.Error(err)
			}
			must(t, second(b.Supervise(ctx, boss, 0, false)))
			must(t, b.Unsupervise(ctx, boss, false))
			rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
			l, err := b.Acquire(ctx, rq, lease.Options{})
			must(t, err)
			var blocked *lease.Blocked
			if _, err := b.Acquire(ctx, rq, lease.Options{NoWait: true, Keep: time.Hour}); !errors.As(err, &blocked) {
				t.Error(err)
			}
			must(t, l.Release(ctx, "exit 0"))
			if len(l.Warned) > 0 {
				t.Errorf("warned of %v", l.Warned)
			}
			st, err := os.Stat(victim)
			must(t, err)
			if got := read(t, victim); got != "7\nprecious\n" || st.Mode() != 0o600 {
				t.Errorf("the victim is %v %q", st.Mode(), got)
			}
		})
	}
}

// TestLinkedQueue: dead places are deleted; not where a link for all lines leads.
func TestLinkedQueue(t *testing.T) {
	ctx := context.Background()
	b := newBase(t)
	must(t, b.Make())
	victim := filepath.Join(t.TempDir(), "victim")
	for _, f := range []string{"gpu/1", "gpu/1.json", "gpu/.5", "gpu/.new.json", "gpu/last"} {
		write(t, filepath.Join(victim, f), good)
	}
	before := tree(t, victim)
	must(t, os.Symlink(victim, at(b, ".queue")))
	rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
	if _, err := b.Acquire(ctx, rq, lease.Options{NoWait: true}); err == nil {
		t.Error("claimed")
	}
	if lines, err := b.Lines(); err == nil {
		t.Errorf("lines %q", lines)
	}
	if line, err := b.Line("gpu"); err == nil {
		t.Errorf("line %+v", line)
	}
	if after := tree(t, victim); after != before {
		t.Errorf("the victim was\n%s\nand is\n%s", before, after)
	}
}

// TestPlantedNumbers: a number that no count reaches uses none up: who waits
// after it is seen to wait, and fences stay numbers that grow.
func TestPlantedNumbers(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int64{1 << 59, 1<<60 - 1, 1 << 60, 1<<60 + 1, 1<<63 - 1} {
		for _, file := range []string{"a ticket", "last"} {
			t.Run(fmt.Sprintf("%s %d", file, n), func(t *testing.T) {
				b := newBase(t)
				rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
				l, err := b.Acquire(ctx, rq, lease.Options{})
				must(t, err)
				if file == "last" {
					write(t, at(b, ".queue", "gpu", "last"), fmt.Sprintln(n))
				} else {
					write(t, at(b, ".queue", "gpu", fmt.Sprint(n)), "")
					write(t, at(b, ".queue", "gpu", fmt.Sprint(n)+".json"), `{"kept":"9000-01-01T00:00:00Z"}`)
				}
				var blocked *lease.Blocked
				if _, err := b.Acquire(ctx, rq, lease.Options{NoWait: true, Keep: time.Hour}); !errors.As(err, &blocked) {
					t.Fatal(err)
				}
				line, err := b.Line("gpu")
				must(t, err)
				if len(line) == 0 || line[0].ID != blocked.ID || line[0].Number <= 0 {
					t.Errorf("the line is %+v, without %s", line, blocked.ID)
				}
				must(t, l.Release(ctx, ""))
				fence := int64(0)
				for range 3 {
					l, err := b.Acquire(ctx, rq, lease.Options{Ticket: blocked.ID})
					must(t, err)
					if f := l.Fences()[0]; f <= fence {
						t.Errorf("fence %d after %d", f, fence)
					} else {
						fence = f
					}
					must(t, l.Release(ctx, ""))
				}
			})
		}
	}
}

// TestFIFOForANumber: what is no file where the last number belongs is put out
// of the way.
func TestFIFOForANumber(t *testing.T) {
	for _, name := range []string{"last", "index"} {
		b := newBase(t)
		must(t, os.MkdirAll(at(b, ".queue", "gpu"), 0o700))
		must(t, unix.Mkfifo(at(b, ".queue", "gpu", name), 0o600))
		ctx := context.Background()
		rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
		l, err := b.Acquire(ctx, rq, lease.Options{})
		must(t, err)
		var blocked *lease.Blocked
		if _, err := b.Acquire(ctx, rq, lease.Options{NoWait: true, Keep: time.Hour}); !errors.As(err, &blocked) {
			t.Fatal(err)
		}
		must(t, l.Release(ctx, ""))
		if st, err := os.Lstat(at(b, ".queue", "gpu", name)); err != nil || !st.Mode().IsRegular() {
			t.Errorf("%s is %v, %v", name, st, err)
		}
	}
}

// TestForeignDirectory: a directory of somebody's own, with files in it and
// without a record, is no abandoned claim: taking over deletes.
func TestForeignDirectory(t *testing.T) {
	ctx := context.Background()
	b := newBase(t)
	must(t, b.Make())
	write(t, at(b, "gpu", "thesis.tex"), "ten years")
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(at(b, "gpu"), old, old))
	var blocked *lease.Blocked
	_, err := b.Acquire(ctx, &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}}, lease.Options{NoWait: true})
	if !errors.As(err, &blocked) || !strings.Contains(blocked.Sight.Problem, "no lease of ours") {
		t.Errorf("%v", err)
	}
	must(t, b.Settle(ctx, "gpu"))
	if got := read(t, at(b, "gpu", "thesis.tex")); got != "ten years" {
		t.Errorf("it has %q", got)
	}
}

// TestHostileProcess: a record that names the very process of somebody else
// must not make a kill of the lease end it.
func TestHostileProcess(t *testing.T) {
	bystander := exec.Command("sleep", "1000")
	must(t, bystander.Start())
	t.Cleanup(func() { bystander.Process.Kill(); bystander.Wait() })
	pid := bystander.Process.Pid
	named := map[string]any{"pid": pid, "start": lease.StartTime(pid)}
	for _, c := range []struct {
		name string
		edit func(p map[string]any)
		then func(path string) error
		root bool
		want int
	}{
		{"its own record", func(p map[string]any) {}, nil, false, 1},
		{"without a boot", func(p map[string]any) { delete(p, "bootId") }, nil, false, 0},
		{"of another boot", func(p map[string]any) { p["bootId"], p["machineId"] = "other", "other" }, nil, false, 0},
		{"of another PID namespace", func(p map[string]any) { p["pidNS"] = 1 }, nil, false, 0},
		{"that the group may write", func(p map[string]any) {}, func(path string) error { return os.Chmod(path, 0o660) }, false, 0},
		{"with another name", func(p map[string]any) {}, func(path string) error { return os.Link(path, path+".more") }, false, 0},
		{"of another user", func(p map[string]any) {}, func(path string) error { return os.Chown(path, 12345, -1) }, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Getuid() != 0 {
				t.Skip("only root gives files away")
			}
			b := newBase(t)
			crash(t, b, "gpu")
			process(t, b, func(p map[string]any) { p["child"] = named; c.edit(p) })
			if c.then != nil {
				must(t, c.then(at(b, "gpu", "process.json")))
			}
			s, err := b.Look("gpu")
			must(t, err)
			if ms := s.Members(); len(ms) != c.want {
				t.Errorf("members %+v, want %d", ms, c.want)
			}
		})
	}
}

// TestSpareOfAPrivateBase: the files of a base that its owner opens to the group
// later are the group's from the next claim on.
func TestSpareOfAPrivateBase(t *testing.T) {
	ctx := context.Background()
	b := newBase(t)
	rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
	l, err := b.Acquire(ctx, rq, lease.Options{})
	must(t, err)
	must(t, l.Release(ctx, ""))
	must(t, os.Chmod(b.Store.Dir, 0o770))
	b = openBase(b.Store.Dir)
	l, err = b.Acquire(ctx, rq, lease.Options{})
	must(t, err)
	defer l.Release(ctx, "")
	for name, want := range map[string]os.FileMode{"holder.json": 0o660, "process.json": 0o640, "witness": 0o660 | os.ModeNamedPipe} {
		if st, err := os.Lstat(at(b, "gpu", name)); err != nil || st.Mode() != want {
			t.Errorf("%s is %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
}

// TestLongLastNumber: what lies behind the last number is cut off, or it would be
// counted from the clock for ever, twice the same in a millisecond.
func TestLongLastNumber(t *testing.T) {
	for _, text := range []string{"garbage that is longer than a number\n", "00000000000000000009\nmore\n"} {
		b := newBase(t)
		write(t, at(b, ".queue", "gpu", "last"), text)
		last := int64(0)
		for range 2 {
			l, err := claimNow(b, ann, "gpu")
			must(t, err)
			fence := l.Fences()[0]
			if got := read(t, at(b, ".queue", "gpu", "last")); got != fmt.Sprintf("%020d\n", fence) || last > 0 && fence != last+1 {
				t.Errorf("fence %d after %d, and the last number is %q", fence, last, got)
			}
			last = fence
			must(t, l.Release(t.Context(), "exit 0"))
		}
	}
}

// TestHugeAsks: asks that only fill the file make room for one that is read.
func TestHugeAsks(t *testing.T) {
	b := newBase(t)
	timed(t, b, ann, time.Hour, "gpu")
	for _, huge := range []string{`"message":"` + strings.Repeat("<", 1<<18) + `"`, `"by":{"session":"` + strings.Repeat("<", 1<<18) + `"}`} {
		write(t, at(b, "gpu", "asked.json"), `{"asks":[{`+huge+`},{"by":{"session":"s-eve"},"message":"mine"}]}`)
		must(t, second(b.Ask(t.Context(), "gpu", bob, "please")))
		s, err := b.Look("gpu")
		if err != nil || len(s.Asks) != 2 || s.Asks[0].Message != "mine" || s.Asks[1].Message != "please" {
			t.Errorf("%d asks, %v", len(s.Asks), err)
		}
	}
}

// TestOddTimes: a time that is read can be written again, whatever its offset.
func TestOddTimes(t *testing.T) {
	b := newBase(t)
	timed(t, b, ann, time.Hour, "gpu")
	for _, when := range []string{"2026-03-01T10:00:00+24:60", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59"} {
		record := strings.Replace(good, "2026-03-01T10:00:00Z", when, 1)
		write(t, at(b, "gpu", "holder.json"), record)
		write(t, at(b, "gpu", "claim.json"), `{"token":"t","until":"`+when+`"}`)
		write(t, at(b, "gpu", "asked.json"), `{"asks":[{"at":"`+when+`"}]}`)
		write(t, at(b, ".queue", "gpu", "1"), "")
		write(t, at(b, ".queue", "gpu", "1.json"), `{"since":"`+when+`","kept":"`+when+`"}`)
		s, err := b.Look("gpu")
		must(t, err)
		line, err := b.Line("gpu")
		must(t, err)
		for _, a := range s.Asks {
			line = append(line, lease.Waiter{Since: a.At})
		}
		if _, err := json.Marshal([]any{s.Holder.SinceTime(), s.Until(), line}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}
