package lease_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"withlease/lease"
	"withlease/state"
)

var (
	long     = strings.Repeat("n", 128)
	goodName = []string{"a", "Z", "0", "kind-1", "browser", "model-server", "a..b", "a.", "a-", "x@y:z+1_2.3-4", "holder.json", "state.json", "0.5", "GPU", "gpu", long}
	badName  = []string{
		"", " ", ".", "..", "...", "../x", "/etc/x", "a/b", "a/", "/", "a/../b", ".hidden", ".queue", ".staging.new", ".trash.gpu",
		"-rf", "--", "_a", "@a", ":a", "+a", "a b", " a", "a ", "a\x00b", "a\x00", "\x00", "a\nb", "a\n", "a\r", "a\t", "\x1b[2J", "a\x7f", "a\x80",
		"é", "aé", "世界", "a\xff", "\xff", "ａ", "a\u202eb", "a\u00a0b", "a*", "a?", "a\\b", "a$b", "a'b", `a"b`, "a=b", "a,b", "a#", "a%", "~", "a|b", "a;b",
		long + "n", strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("n", 5000), strings.Repeat("é", 64),
	}
	namePattern = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._@:+-]{0,127}\z`)
)

// TestNames: B50, B60.
func TestNames(t *testing.T) {
	for _, n := range goodName {
		if err := lease.CheckName(n); err != nil {
			t.Errorf("%q: %v", n, err)
		}
	}
	for _, n := range badName {
		err := lease.CheckName(n)
		var bad *lease.NameError
		if !errors.As(err, &bad) || bad.Name != n {
			t.Errorf("%q: %v, want a NameError", n, err)
			continue
		}
		for _, c := range err.Error() {
			if c < ' ' || c >= 0x7f && c <= 0x9f || c == '\u202e' {
				t.Errorf("the error shows %q as it is", c)
			}
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, n := range slices.Concat(goodName, badName) {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n string) {
		if got, want := lease.CheckName(n) == nil, namePattern.MatchString(n); got != want {
			t.Errorf("%q: valid %v, want %v", n, got, want)
		}
	})
}

// tree lists all that is below dir, with modes and contents.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(st.Mode().String() + " " + path)
		switch {
		case st.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.WriteString(" " + st.ModTime().Format(time.RFC3339Nano) + " " + string(text))
		case st.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			b.WriteString(" -> " + to)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestBadNamesTouchNothing: B50. Every way in says no before it makes or
// removes anything.
func TestBadNamesTouchNothing(t *testing.T) {
	ctx := context.Background()
	for _, made := range []bool{false, true} {
		top := t.TempDir()
		dir := filepath.Join(top, "base")
		leases := filepath.Join(dir, "leases")
		if made {
			if err := os.MkdirAll(filepath.Join(leases, "gpu"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"leases/.hidden", "leases/gpu/holder.json", "x", "leases/\x1b[2J"} {
				if err := os.WriteFile(filepath.Join(dir, f), []byte("{}"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := tree(t, top)
		b := lease.Open(dir, leases, dir)
		for _, n := range badName {
			h := lease.Holder{Session: "s", Purpose: "p"}
			for what, err := range map[string]error{
				"Dir.Claim":   second(b.Leases.Claim(n, h)),
				"Dir.Get":     second(b.Leases.Get(n)),
				"Dir.Release": b.Leases.Release(n),
				"Hold":        third(b.Hold(ctx, n, h, 0)),
				"Acquire":     second(b.Acquire(ctx, &lease.Request{Resources: []string{n}, Holder: h}, lease.Options{NoWait: true})),
				"Acquire two": second(b.Acquire(ctx, &lease.Request{Resources: []string{"usb", n}, Holder: h}, lease.Options{NoWait: true})),
				"Free":        b.Free(ctx, n, h.Party()),
				"Force":       second(b.Force(ctx, n, pat, "")),
				"Look":        second(b.Look(n)),
				"Line":        second(b.Line(n)),
				"Grant":       b.Grant(ctx, lease.Grant{Resources: []string{"usb", n}, To: ann, By: pat, Force: true}),
				"Nested":      second(b.Nested(t.Context(), []string{n}, n+"=token", ann)),
			} {
				var bad *lease.NameError
				if !errors.As(err, &bad) || bad.Name != n {
					t.Errorf("%s(%q): %v, want a NameError", what, n, err)
				}
			}
			// An upgrade's target may have one slash, between two names.
			if n != "a/b" {
				if err := b.Upgrade(ctx, n, "r", time.Time{}, pat); err == nil {
					t.Errorf("Upgrade(%q) did", n)
				}
			}
		}
		if after := tree(t, top); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// TestNamesOfOthers: what else lies in the directory is no lease, and what a
// document says of odd names breaks nothing (B50).
func TestNamesOfOthers(t *testing.T) {
	dir := t.TempDir()
	leases := filepath.Join(dir, "leases")
	for _, n := range []string{".hidden", ".queue", "_x", "a b", "\x1b[2J", "\xff", long + "n", "gpu"} {
		if err := os.MkdirAll(filepath.Join(leases, n), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(leases, n, "holder.json"), []byte(`{"session":"s","purpose":"p"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := lease.Dir(leases).List()
	if err != nil || len(got) != 1 || got[0].Env != "gpu" {
		t.Errorf("listed %+v, %v; want gpu alone", got, err)
	}
	st := &state.State{Grants: []state.Grant{grant("../x", ann, noon), grant("", ann, noon), grant("gpu", ann, noon)}}
	if got := lease.Pending(st, "gpu", false, noon, ttl); len(got) != 1 {
		t.Errorf("pending %+v", got)
	}
	lease.Prune(st, nil, noon, ttl)
}

// TestNamesAreDistinct: B60. Names that look alike don't share a lease, and the
// longest works with all that is derived from it.
func TestNamesAreDistinct(t *testing.T) {
	leases := lease.Dir(filepath.Join(t.TempDir(), "leases"))
	for i, n := range goodName {
		if h, err := leases.Claim(n, lease.Holder{Session: "s", Purpose: "p"}); err != nil || h != nil {
			t.Fatalf("claim %q: %+v, %v", n, h, err)
		}
		if l, err := leases.List(); err != nil || len(l) != i+1 {
			t.Fatalf("%d leases after %d claims, %v", len(l), i+1, err)
		}
	}
	b := lease.Open("", string(leases), filepath.Dir(string(leases)))
	// Its place in line, and its end.
	_, err := b.Acquire(context.Background(), &lease.Request{Resources: []string{long}, Holder: lease.Holder{Session: "t"}}, lease.Options{NoWait: true, Keep: time.Hour})
	var blocked *lease.Blocked
	if !errors.As(err, &blocked) || blocked.Kept.IsZero() {
		t.Fatalf("%v, want a kept place", err)
	}
	if line, err := b.Line(long); err != nil || len(line) != 1 {
		t.Errorf("line %+v, %v", line, err)
	}
	for _, n := range goodName {
		if err := leases.Release(n); err != nil {
			t.Errorf("release %q: %v", n, err)
		}
	}
}
