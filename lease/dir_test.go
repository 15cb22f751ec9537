package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// newBase is an empty base directory, as the layout has it.
func newBase(t testing.TB) *lease.Base {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "base")
	b := openBase(dir)
	if err := b.Make(); err != nil {
		t.Fatal(err)
	}
	return b
}

func openBase(dir string) *lease.Base { return lease.Open(dir, filepath.Join(dir, "leases"), dir) }

// again is the same base as another process has it.
func again(b *lease.Base) *lease.Base { return openBase(b.Store.Dir) }

func at(b *lease.Base, names ...string) string {
	return filepath.Join(append([]string{string(b.Leases)}, names...)...)
}

// names are what is in a directory, `ls -A`.
func names(t testing.TB, dir string) []string {
	t.Helper()
	ents, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var ns []string
	for _, e := range ents {
		ns = append(ns, e.Name())
	}
	return ns
}

// only says that a base has these leases and nothing half-made.
func only(t testing.TB, b *lease.Base, leases ...string) {
	t.Helper()
	got := slices.DeleteFunc(names(t, string(b.Leases)), func(n string) bool { return n == ".queue" })
	if !slices.Equal(got, leases) {
		t.Errorf("%s has %q, want %q", b.Leases, got, leases)
	}
	for _, n := range names(t, b.Store.Dir) {
		switch n {
		case "leases", "state.json", "state.lock", "events.jsonl":
		default:
			t.Errorf("%s is left in the base directory", n)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDir(t *testing.T) {
	d := lease.Dir(filepath.Join(t.TempDir(), "deep", "leases"))
	if h, err := d.Get("gpu"); h != nil || err != nil {
		t.Errorf("get where nothing is: %+v, %v", h, err)
	}
	if l, err := d.List(); l != nil || err != nil {
		t.Errorf("list where nothing is: %+v, %v", l, err)
	}
	isFree := func(err error) {
		t.Helper()
		var e *lease.DirError
		if !errors.Is(err, lease.ErrNotHeld) || !errors.As(err, &e) || e.Resource != "gpu" || e.Path != filepath.Join(string(d), "gpu") {
			t.Errorf("release of nobody's: %v", err)
		}
	}
	mine := lease.Holder{
		Env: "../not this", Holder: "ann@lab", Session: "s", HostSession: "hs", Name: "n", Person: "p", Team: "t", Host: "h",
		Purpose: "<&\"\n", UpgradeUnblock: "u", BudgetGiB: 48,
	}
	before := time.Now().Truncate(time.Second)
	if h, err := d.Claim("gpu", mine); h != nil || err != nil {
		t.Fatalf("claim: %+v, %v", h, err)
	}
	h, err := d.Get("gpu")
	if err != nil || h == nil {
		t.Fatalf("get: %+v, %v", h, err)
	}
	since := h.SinceTime()
	if since.Before(before) || since.After(time.Now()) || h.Since != since.UTC().Format("2006-01-02T15:04:05Z") {
		t.Errorf("since %q", h.Since)
	}
	want := mine
	want.Env, want.Since = "gpu", h.Since
	if *h != want {
		t.Errorf("got %+v, want %+v", *h, want)
	}
	other, err := d.Claim("gpu", lease.Holder{Session: "other"})
	if err != nil || other == nil || *other != want {
		t.Errorf("second claim: %+v, %v", other, err)
	}
	if h, _ := d.Get("gpu"); *h != want {
		t.Errorf("a refused claim changed the record: %+v", *h)
	}
	must(t, d.Release("gpu"))
	if h, err := d.Get("gpu"); h != nil || err != nil {
		t.Errorf("get after the release: %+v, %v", h, err)
	}
	isFree(d.Release("gpu"))
	if got := names(t, string(d)); !slices.Equal(got, []string{".queue"}) {
		t.Errorf("a release leaves %q", got)
	}
	if h, err := d.Claim("gpu", mine); h != nil || err != nil {
		t.Errorf("claim after the release: %+v, %v", h, err)
	}
}

func TestListOldestFirst(t *testing.T) {
	d := lease.Dir(filepath.Join(t.TempDir(), "leases"))
	for _, c := range []struct{ res, since string }{
		{"c", "2026-03-01T10:00:00Z"},
		{"a", "2026-03-01T12:00:00Z"},
		{"b", "2026-03-01T11:30:00+01:00"}, // 10:30
		{"e", "2026-03-01T10:00:00Z"},
		{"d", "2026-03-01T10:00:00Z"},
		{"f", "2025-12-31T23:59:59Z"},
	} {
		if h, err := d.Claim(c.res, lease.Holder{Since: c.since, Session: "s"}); h != nil || err != nil {
			t.Fatal(h, err)
		}
	}
	hs, err := d.List()
	must(t, err)
	var got []string
	for _, h := range hs {
		got = append(got, h.Env)
	}
	if want := []string{"f", "c", "d", "e", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// TestClaimIsExclusive: claims at once, of which one must win, each time.
func TestClaimIsExclusive(t *testing.T) {
	d := lease.Dir(filepath.Join(t.TempDir(), "leases"))
	for range 20 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 8 {
			wg.Go(func() {
				h, err := d.Claim("gpu", lease.Holder{Session: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
				}
				if h == nil {
					mu.Lock()
					won++
					mu.Unlock()
				} else if h.Session == "" {
					t.Error("the holder has no name: the lease showed before its record")
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Fatalf("%d claims won", won)
		}
		must(t, d.Release("gpu"))
	}
}

// good is a record as the shell lock writes it.
const good = `{"env":"gpu","holder":"ann@lab","session":"s-ann","purpose":"tests","since":"2026-03-01T10:00:00Z"}` + "\n"

// oddLeases are things that can lie where a lease lies: each is held, as far as
// anybody can tell, and can be released (B11, B58).
var oddLeases = []struct {
	name string
	make func(t testing.TB, lease, victim string) // victim is a directory with a lease's files in it
	who  string                                   // the session that the record gives; empty: it gives none
}{
	{"a file", func(t testing.TB, l, v string) { write(t, l, good) }, ""},
	{"an empty file", func(t testing.TB, l, v string) { write(t, l, "") }, ""},
	{"a FIFO", func(t testing.TB, l, v string) { must(t, unix.Mkfifo(l, 0o600)) }, ""},
	{"a link to a directory", func(t testing.TB, l, v string) { must(t, os.Symlink(v, l)) }, ""},
	{"a link to a file", func(t testing.TB, l, v string) { must(t, os.Symlink(v+"/holder.json", l)) }, ""},
	{"a dangling link", func(t testing.TB, l, v string) { must(t, os.Symlink(v+"/nothing", l)) }, ""},
	{"a link to itself", func(t testing.TB, l, v string) { must(t, os.Symlink(l, l)) }, ""},
	{"a link for a record", func(t testing.TB, l, v string) {
		must(t, os.Mkdir(l, 0o700))
		must(t, os.Symlink(v+"/holder.json", l+"/holder.json"))
	}, ""},
	{"a dangling link for a record", func(t testing.TB, l, v string) {
		must(t, os.Mkdir(l, 0o700))
		must(t, os.Symlink(v+"/nothing", l+"/holder.json"))
	}, ""},
	{"a link for a witness", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", good)
		must(t, os.Symlink(v+"/witness", l+"/witness"))
	}, ""},
	{"a dangling link for a witness", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", good)
		must(t, os.Symlink(v+"/nothing", l+"/witness"))
	}, ""},
	{"a link for process.json", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", good)
		must(t, os.Symlink(v+"/process.json", l+"/process.json"))
	}, "s-ann"},
	{"a directory for a record", func(t testing.TB, l, v string) { must(t, os.MkdirAll(l+"/holder.json/x", 0o700)) }, ""},
	{"a directory for a witness", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", good)
		must(t, os.MkdirAll(l+"/witness/x", 0o700))
	}, ""},
	{"a FIFO for a record", func(t testing.TB, l, v string) {
		must(t, os.Mkdir(l, 0o700))
		must(t, unix.Mkfifo(l+"/holder.json", 0o600))
	}, ""},
	{"no record, a process", func(t testing.TB, l, v string) { write(t, l+"/process.json", "{}") }, ""},
	{"more files than ours", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", good)
		write(t, l+"/more/and/more", "x")
	}, "s-ann"},
	{"a good record", func(t testing.TB, l, v string) { write(t, l+"/holder.json", good) }, "s-ann"},
	{"unknown members", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", `{"session":"s-ann","future":{"a":[1e400]},"pid":18446744073709551616}`)
	}, "s-ann"},
	{"another's name in the record", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", `{"env":"../../etc","session":"s-ann"}`)
	}, "s-ann"},
	{"an empty record", func(t testing.TB, l, v string) { write(t, l+"/holder.json", "") }, ""},
	{"a truncated record", func(t testing.TB, l, v string) { write(t, l+"/holder.json", good[:20]) }, ""},
	{"an empty object", func(t testing.TB, l, v string) { write(t, l+"/holder.json", "{}") }, ""},
	{"null", func(t testing.TB, l, v string) { write(t, l+"/holder.json", "null") }, ""},
	{"a list", func(t testing.TB, l, v string) { write(t, l+"/holder.json", "[]") }, ""},
	{"a string", func(t testing.TB, l, v string) { write(t, l+"/holder.json", `"x"`) }, ""},
	{"a wrong type", func(t testing.TB, l, v string) { write(t, l+"/holder.json", `{"session":"s-ann","since":5}`) }, ""},
	{"a budget that overflows", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", `{"session":"s-ann","budgetGiB":1e99}`)
	}, ""},
	{"zeros", func(t testing.TB, l, v string) { write(t, l+"/holder.json", strings.Repeat("\x00", 512)) }, ""},
	{"5 MB of junk", func(t testing.TB, l, v string) { write(t, l+"/holder.json", strings.Repeat("junk ", 1<<20)) }, ""},
	{"5 MB of purpose", func(t testing.TB, l, v string) {
		write(t, l+"/holder.json", `{"session":"s-ann","purpose":"`+strings.Repeat("x", 5<<20)+`"}`)
	}, ""},
	{"deep", func(t testing.TB, l, v string) { write(t, l+"/holder.json", strings.Repeat("[", 1<<19)) }, ""},
}

func TestOddLeases(t *testing.T) {
	for _, c := range oddLeases {
		t.Run(c.name, func(t *testing.T) {
			b := newBase(t)
			victim := filepath.Join(t.TempDir(), "victim")
			for _, f := range []string{"holder.json", "process.json", "more"} {
				write(t, filepath.Join(victim, f), good)
			}
			must(t, unix.Mkfifo(victim+"/witness", 0o640))
			old := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(victim+"/holder.json", old, old))
			vbefore := tree(t, victim)
			if h, err := b.Leases.Claim("usb", lease.Holder{Session: "s"}); h != nil || err != nil {
				t.Fatal(h, err)
			}
			c.make(t, at(b, "gpu"), victim)
			before := tree(t, at(b, "gpu"))

			says := func(what string, h *lease.Holder, err error) {
				t.Helper()
				if err != nil || h == nil || h.Env != "gpu" || h.Session != c.who {
					t.Errorf("%s: %+v, %v; want the holder %q", what, h, err, c.who)
				}
			}
			h, err := b.Leases.Get("gpu")
			says("get", h, err)
			h, err = b.Leases.Claim("gpu", lease.Holder{Session: "eve"})
			says("claim", h, err)
			hs, err := b.Leases.List()
			if err != nil || len(hs) != 2 {
				t.Errorf("listed %+v, %v; want both", hs, err)
			}
			s, err := b.Look("gpu")
			if err != nil || !s.Held || (s.Problem == "") != (c.who != "") {
				t.Errorf("looked at: %+v, %v", s, err)
			}
			ctx := context.Background()
			_, err = b.Acquire(ctx, &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "eve"}}, lease.Options{NoWait: true})
			var blocked *lease.Blocked
			if !errors.As(err, &blocked) || !blocked.Sight.Held {
				t.Errorf("acquired: %v", err)
			}
			if after := tree(t, at(b, "gpu")); after != before {
				t.Errorf("looking changed it:\n%s\n%s", before, after)
			}
			if c.who != "s-ann" {
				if err := b.Free(ctx, "gpu", ann); !errors.Is(err, lease.ErrNotYours) {
					t.Errorf("free of what is nobody's for sure: %v", err)
				}
			}

			for _, release := range []func() error{
				func() error { return b.Leases.Release("gpu") },
				func() error { return second(b.Force(ctx, "gpu", pat, "odd")) },
			} {
				must(t, release())
				if h, err := b.Leases.Get("gpu"); h != nil || err != nil {
					t.Errorf("after the release: %+v, %v", h, err)
				}
				if h, err := b.Leases.Claim("gpu", lease.Holder{Session: "eve"}); h != nil || err != nil {
					t.Errorf("claim after the release: %+v, %v", h, err)
				}
				only(t, b, "gpu", "usb")
				if vafter := tree(t, victim); vafter != vbefore {
					t.Errorf("the victim was\n%s\nand is\n%s", vbefore, vafter)
				}
				must(t, b.Leases.Release("gpu"))
				c.make(t, at(b, "gpu"), victim)
			}
		})
	}
}

// TestPlantedLinks: B58. A link at any path that is written or deleted on the
// way of a claim and a release: what it points at stays as it is.
func TestPlantedLinks(t *testing.T) {
	ctx := context.Background()
	for _, at := range []string{
		"leases/.staging.new", "leases/.trash.gpu", "leases/.clock", "leases/.queue/gpu/last", "leases/.queue/gpu/.new.json", "leases/.queue/gpu/.1",
		"leases/.queue/gpu/.2", "leases/.queue/gpu/spare", "leases/.queue/gpu/index", "leases/.queue/gpu/1", "leases/.queue/gpu/1.json", "leases/.queue/gpu/2.json", "leases/.queue/gpu", "leases/.queue",
		"state.json", "state.lock", ".state.json.new", "events.jsonl",
	} {
		for _, kind := range []string{"directory", "file", "nothing"} {
			t.Run(at+" to a "+kind, func(t *testing.T) {
				b := newBase(t)
				victim := filepath.Join(t.TempDir(), "victim")
				switch kind {
				case "directory":
					for _, f := range []string{"holder.json", "process.json", "witness", "more"} {
						write(t, filepath.Join(victim, f), good)
					}
				case "file":
					write(t, victim, "{}")
				}
				before := tree(t, filepath.Dir(victim))
				link := filepath.Join(b.Store.Dir, at)
				must(t, os.MkdirAll(filepath.Dir(link), 0o700))
				must(t, os.Symlink(victim, link))
				// A failure is one way to answer this; a release that frees is another.
				b.Supervise(ctx, boss, 0, false)
				b.Grant(ctx, lease.Grant{Resources: []string{"gpu"}, To: ann, By: boss})
				b.Grant(ctx, lease.Grant{Resources: []string{"gpu"}, To: bob, By: boss})
				rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: ann.Session}, TTL: time.Minute}
				l, err := b.Acquire(ctx, rq, lease.Options{NoWait: true})
				if err == nil {
					b.Acquire(ctx, rq, lease.Options{NoWait: true, Keep: time.Minute})
					l.Renew()
					if err := l.Release(ctx, "exit 0"); err != nil {
						t.Errorf("release: %v", err)
					}
				}
				b.Hold(ctx, "gpu", lease.Holder{Session: bob.Session}, 0)
				b.Force(ctx, "gpu", pat, "")
				b.Leases.List()
				if after := tree(t, filepath.Dir(victim)); after != before {
					t.Errorf("the victim was\n%s\nand is\n%s", before, after)
				}
			})
		}
	}
}

// TestPlantedFiles: a file, a directory or a FIFO where something else belongs
// is an error that names it, or no matter; never a hang, a panic, or a lease
// given twice.
func TestPlantedFiles(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, at := range []string{
		"leases/.staging.new", "leases/.trash.gpu", "leases/.queue/gpu/last", "leases/.queue/gpu/index", "leases/.queue/gpu/spare", "leases/.queue/gpu/.new.json", "leases/.queue/gpu/.1",
		"leases/.queue/gpu/1.json", "leases/.queue/gpu", "leases/.queue", "state.json", "state.lock", ".state.json.new", "events.jsonl",
	} {
		for _, kind := range []string{"directory", "full directory", "file", "FIFO"} {
			t.Run(at+" is a "+kind, func(t *testing.T) {
				b := newBase(t)
				path := filepath.Join(b.Store.Dir, at)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				switch kind {
				case "directory":
					must(t, os.Mkdir(path, 0o700))
				case "full directory":
					must(t, os.MkdirAll(path+"/a/b", 0o700))
					write(t, path+"/a/c", "")
				case "file":
					write(t, path, "{")
				case "FIFO":
					must(t, unix.Mkfifo(path, 0o600))
				}
				l, err := b.Acquire(ctx, &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}, lease.Options{NoWait: true})
				if err != nil {
					if !strings.Contains(err.Error(), strings.TrimPrefix(filepath.Base(at), ".")) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%v: doesn't name %s", err, at)
					}
					if s, err := b.Look("gpu"); err != nil || s.Held {
						t.Errorf("a failed claim left %+v, %v", s, err)
					}
					return
				}
				_, err = again(b).Acquire(ctx, &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "t"}, TTL: time.Minute}, lease.Options{NoWait: true, Keep: time.Minute})
				var blocked *lease.Blocked
				if !errors.As(err, &blocked) && !strings.Contains(fmt.Sprint(err), b.Store.Dir) {
					t.Errorf("second claim: %v", err)
				}
				if err := l.Release(ctx, "exit 0"); err != nil {
					t.Errorf("release: %v", err)
				}
				if s, err := b.Look("gpu"); err != nil || s.Held {
					t.Errorf("after the release: %+v, %v", s, err)
				}
			})
		}
	}
}

// TestLeaseDirectoryIsNone: a file where a directory should be.
func TestLeaseDirectoryIsNone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "text")
	for _, path := range []string{file, filepath.Join(file, "leases"), filepath.Join(file, "deeper", "leases")} {
		d := lease.Dir(path)
		h, claimErr := d.Claim("gpu", lease.Holder{})
		_, listErr := d.List()
		for what, err := range map[string]error{"claim": claimErr, "release": d.Release("gpu"), "list": listErr} {
			var pe *fs.PathError
			if !errors.As(err, &pe) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s at %s: %v, want an error that names it", what, path, err)
			}
		}
		if h != nil {
			t.Errorf("claimed at %s: %+v", path, h)
		}
	}
	if got := read(t, file); got != "text" {
		t.Errorf("the file is %q now", got)
	}
}

// TestModes: the base directory's group, whatever the umask.
func TestModes(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		base  fs.FileMode
		umask int
		dir   fs.FileMode
		file  fs.FileMode
	}{
		{fs.ModeSetgid | 0o770, 0o077, fs.ModeSetgid | 0o770, 0o660},
		{fs.ModeSetgid | 0o770, 0o027, fs.ModeSetgid | 0o770, 0o660},
		{fs.ModeSetgid | 0o770, 0, fs.ModeSetgid | 0o770, 0o660},
		{fs.ModeSetgid | 0o775, 0o022, fs.ModeSetgid | 0o770, 0o660},
		{0o700, 0o022, 0o700, 0o600},
		{0o755, 0o002, 0o700, 0o600},
		{0o700, 0, 0o700, 0o600},
	} {
		for _, given := range []bool{true, false} { // does the base directory exist, or only its parent?
			if !given && c.base.Perm()&0o020 != 0 {
				continue // the base directory decides
			}
			t.Run(fmt.Sprintf("%v umask %03o given %v", c.base, c.umask, given), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "base")
				if given {
					must(t, os.Mkdir(dir, 0o700))
					must(t, os.Chmod(dir, c.base))
				}
				defer syscall.Umask(syscall.Umask(c.umask))
				b := openBase(dir)
				must(t, b.Make())
				must(t, second(b.Supervise(ctx, boss, 0, false)))
				must(t, b.Grant(ctx, lease.Grant{Resources: []string{"gpu", "gpu", "usb"}, To: ann, By: boss}))
				rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: ann.Session}, TTL: time.Minute}
				l, err := b.Acquire(ctx, rq, lease.Options{NoWait: true})
				must(t, err)
				defer l.Release(ctx, "")
				var blocked *lease.Blocked
				if _, err := b.Acquire(ctx, rq, lease.Options{NoWait: true, Keep: time.Hour}); !errors.As(err, &blocked) {
					t.Fatal(err)
				}
				must(t, os.Remove(at(b, "gpu", "holder.json")))
				must(t, l.Renew()) // writes it again
				if h, _, err := b.Hold(ctx, "usb", lease.Holder{Session: ann.Session}, 0); h != nil || err != nil {
					t.Fatal(h, err)
				}
				if h, err := b.Leases.Claim("web", lease.Holder{}); h != nil || err != nil {
					t.Fatal(h, err)
				}
				count := 0
				must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err != nil || path == dir && given {
						return err
					}
					st, err := d.Info()
					if err != nil {
						return err
					}
					count++
					want := c.file
					if d.IsDir() {
						want = c.dir
					}
					if d.Name() == "process.json" { // says whom a kill may end
						want &^= 0o020
					}
					if got := st.Mode() & (fs.ModePerm | fs.ModeSetgid | fs.ModeSetuid | fs.ModeSticky); got != want {
						t.Errorf("%s is %v, want %v", path, got, want)
					}
					return nil
				}))
				if count < 18 {
					t.Errorf("only %d files: what became of the test?", count)
				}
			})
		}
	}
}

// TestReleaseLeavesNothing: no temporary files after a life of all kinds.
func TestReleaseLeavesNothing(t *testing.T) {
	ctx := context.Background()
	b := newBase(t)
	for range 3 {
		rq := &lease.Request{Resources: []string{"gpu", "usb"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
		l, err := b.Acquire(ctx, rq, lease.Options{})
		must(t, err)
		only(t, b, "gpu", "usb")
		must(t, l.Release(ctx, "exit 0"))
		must(t, l.Release(ctx, "exit 0")) // twice is no matter
		only(t, b)
		if h, _, err := b.Hold(ctx, "gpu", lease.Holder{Session: "s"}, 0); h != nil || err != nil {
			t.Fatal(h, err)
		}
		if h, terms, err := b.Hold(ctx, "gpu", lease.Holder{Session: "s"}, 0); h == nil || len(terms.Token) != 32 || terms.Fence == 0 || err != nil {
			t.Fatalf("claimed twice: %+v, %+v, %v", h, terms, err)
		}
		if err := b.Free(ctx, "gpu", bob); !errors.Is(err, lease.ErrNotYours) {
			t.Fatalf("another's: %v", err)
		}
		must(t, b.Free(ctx, "gpu", state.Party{Session: "s"}))
		only(t, b)
	}
	for _, res := range []string{"gpu", "usb"} {
		if got := names(t, at(b, ".queue", res)); !slices.Equal(got, []string{"last", "spare"}) {
			t.Errorf("the line of %s has %q", res, got)
		}
	}
}

// TestBrokenDocument: B11. What needs the document says where it is broken, and
// leaves it; a lease is given back all the same.
func TestBrokenDocument(t *testing.T) {
	ctx := context.Background()
	for _, doc := range []string{"", "{", `{"supervisor":`, "null", "[]", `"x"`, "\x00\x00", `{"grants":{}}`, `{"supervisor":5}`, `{"released":[1]}`} {
		b := newBase(t)
		rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
		l, err := b.Acquire(ctx, rq, lease.Options{})
		must(t, err)
		path := b.Store.Path()
		write(t, path, doc)
		rq.Resources = []string{"usb"}
		for what, err := range map[string]error{
			"acquire": second(b.Acquire(ctx, rq, lease.Options{})),
			"hold":    third(b.Hold(ctx, "usb", lease.Holder{Session: "s"}, 0)),
			"grant":   b.Grant(ctx, lease.Grant{Resources: []string{"usb"}, To: ann, By: pat, Force: true}),
		} {
			var broken *state.BrokenError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s with %q: %v, want a BrokenError", what, doc, err)
			}
		}
		if h, err := b.Leases.Get("gpu"); h == nil || err != nil {
			t.Errorf("get with %q: %+v, %v", doc, h, err)
		}
		if err := l.Release(ctx, "exit 0"); err != nil {
			t.Errorf("release with %q: %v", doc, err)
		}
		only(t, b)
		if got := read(t, path); got != doc {
			t.Errorf("%q became %q", doc, got)
		}
	}
}

// TestRecordKeepsItsBytes: who looks, is refused or waits leaves a holder's
// record byte for byte.
func TestRecordKeepsItsBytes(t *testing.T) {
	b := newBase(t)
	write(t, at(b, "gpu", "holder.json"), good)
	before, err := os.Stat(at(b, "gpu", "holder.json"))
	must(t, err)
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, lease.ErrWaitOver)
	defer cancel()
	_, err = b.Acquire(ctx, &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "t"}}, lease.Options{})
	var blocked *lease.Blocked
	if !errors.As(err, &blocked) {
		t.Errorf("%v", err)
	}
	after, err := os.Stat(at(b, "gpu", "holder.json"))
	must(t, err)
	if !bytes.Equal([]byte(read(t, at(b, "gpu", "holder.json"))), []byte(good)) || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("the record was touched")
	}
}

// TestPlantedSpare: what lies in the directory that the next claim is made of
// is not written through, nor believed (B58).
func TestPlantedSpare(t *testing.T) {
	ctx := context.Background()
	rq := &lease.Request{Resources: []string{"gpu"}, Holder: lease.Holder{Session: "s"}, TTL: time.Minute}
	for _, name := range []string{"holder.json", "process.json", "witness"} {
		for what, plant := range map[string]func(victim, path string) error{
			"link":      os.Symlink,
			"hard link": os.Link,
			"directory": func(_, path string) error { return os.Mkdir(path, 0o700) },
			"FIFO":      func(_, path string) error { return unix.Mkfifo(path, 0o600) },
			"long file": func(_, path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<20), 0o600) },
			"nothing":   func(_, path string) error { return nil },
		} {
			t.Run(name+" is a "+what, func(t *testing.T) {
				b := newBase(t)
				l, err := b.Acquire(ctx, rq, lease.Options{})
				must(t, err)
				must(t, l.Release(ctx, "exit 0"))
				victim := filepath.Join(t.TempDir(), "victim")
				write(t, victim, good)
				path := at(b, ".queue", "gpu", "spare", name)
				os.Remove(path)
				must(t, plant(victim, path))
				if l, err = b.Acquire(ctx, rq, lease.Options{}); err != nil {
					t.Fatal(err)
				}
				s, err := b.Look("gpu")
				if err != nil || s.Kind != lease.Running || s.Problem != "" || s.Holder.Session != "s" || s.Process == nil || s.Process.Token != l.Token {
					t.Errorf("the lease is %+v, %v", s, err)
				}
				if got := read(t, at(b, "gpu", "holder.json")); strings.Count(got, "\n") != 1 {
					t.Errorf("the record has %d bytes", len(got))
				}
				if got := names(t, at(b, "gpu")); !slices.Equal(got, []string{"holder.json", "process.json", "witness"}) {
					t.Errorf("the lease has %q", got)
				}
				must(t, l.Release(ctx, "exit 0"))
				if got := read(t, victim); got != good {
					t.Errorf("the victim has %q", got)
				}
				only(t, b)
			})
		}
	}
}
