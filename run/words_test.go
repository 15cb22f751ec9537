package run

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"withlease/lease"
	"withlease/state"
)

// nasty has everything that text from a file may do to a terminal: clear it,
// set its title and clipboard, ring, forge a second row, turn the direction
// round; as 7-bit and 8-bit controls, as UTF-8 and not.
const nasty = "a\x1b[2J\x1b]0;t\x07\x1b]52;c;eA==\x1b\\\x9b31m\u009b31m\u0085\r\nwithlease: forged\n\x00\x08\x7f\u202eevil\u2066\u2069\u200f\u061c\u2028\u2029\xc3(\xff\t\v\fé😀\ufffd"

// harmful says why a terminal would do more than show a line.
func harmful(line string) string {
	if !utf8.ValidString(line) {
		return "not UTF-8"
	}
	for i, r := range line {
		switch {
		case r < 0x20, r >= 0x7f && r <= 0x9f, r == 0x2028, r == 0x2029, unicode.Is(unicode.Bidi_Control, r):
			return fmt.Sprintf("U+%04X at byte %d", r, i)
		}
	}
	return ""
}

func harmless(t *testing.T, what, line string) {
	t.Helper()
	if why := harmful(line); why != "" {
		t.Errorf("%s: %s in %q", what, why, line)
	}
}

func TestShow(t *testing.T) { // B51
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"go test ./...", "go test ./..."},
		{"Änn é 日本 😀 \u0301", "Änn é 日本 😀 \u0301"},
		{"\ufffd", "\ufffd"},
		{"a\ufffdb\xffc", `a` + "\ufffd" + `b\xffc`},
		{"\x1b[2J", `\x1b[2J`},
		{"\x1b]52;c;eA==\a", `\x1b]52;c;eA==\x07`},
		{"a\r\nb\tc\x00", `a\x0d\x0ab\x09c\x00`},
		{"\x7f", `\x7f`},
		{"\u0080\u009b\u009f\u00a0", `\u0080\u009b\u009f` + "\u00a0"},
		{"\x80\x9b\x9f\xa0", `\x80\x9b\x9f\xa0`},
		{"\xe2\x80", `\xe2\x80`},
		{"\xe2\x80x", `\xe2\x80x`},
		{"\xed\xa0\x80", `\xed\xa0\x80`},
		{"\xf4\x90\x80\x80", `\xf4\x90\x80\x80`},
		{"\xc0\x8a", `\xc0\x8a`},
		{"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", `\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069`},
		{"\u2028\u2029", `\u2028\u2029`},
		{"\u2027\u202f\u2065\u206a", "\u2027\u202f\u2065\u206a"},
		{`\x1b`, `\x1b`},
	} {
		if got := show(c.text); got != c.want {
			t.Errorf("%+q is shown as %+q, want %+q", c.text, got, c.want)
		}
	}
	for r := range rune(0x3000) {
		harmless(t, fmt.Sprintf("U+%04X", r), show("a"+string(r)+"b"))
	}
	for b := range 256 {
		harmless(t, fmt.Sprintf("byte %02x", b), show("a"+string([]byte{byte(b)})+"b"))
		harmless(t, fmt.Sprintf("byte %02x", b), show(string([]byte{0xc2, byte(b)})))
	}
}

func TestShowCuts(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"äöüß", 3, "äöü…"},
		{"\x1b\x1b\x1b\x1b", 3, `\x1b\x1b\x1b…`},
		{"\xff\xff\xff\xff", 3, `\xff\xff\xff…`},
		{"abc\n", 3, "abc…"},
		{"", 3, ""},
		{"a", 0, "…"},
		{"", 0, ""},
	} {
		if got := showAt(c.text, c.most); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
	if got, want := show(strings.Repeat("x", 10_000)), strings.Repeat("x", shown)+"…"; got != want {
		t.Errorf("10 kB are shown as %d bytes", len(got))
	}
	if got, want := show(strings.Repeat("x", shown)), strings.Repeat("x", shown); got != want {
		t.Errorf("%d characters are shown as %d bytes", shown, len(got))
	}
}

func FuzzShow(f *testing.F) {
	f.Add(nasty, 200)
	f.Add("go test ./...", 80)
	f.Add("\xe2\x80\xae\xe2\x80", 2)
	f.Add("\ufffd\xef\xbf", 40)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(0, min(most, 10_000))
		got := showAt(text, most)
		harmless(t, "shown", got)
		n := utf8.RuneCountInString(text)
		if cut := strings.HasSuffix(got, "…") && !strings.HasSuffix(text, "…"); cut != (n > most) && !strings.HasSuffix(text, "…") {
			t.Errorf("%d characters of at most %d are %q", n, most, got)
		}
		if shown := utf8.RuneCountInString(got); shown < min(n, most) || shown > 6*most+1 {
			t.Errorf("%d characters of at most %d are shown in %d", n, most, shown)
		}
		if n <= most && harmful(text) == "" && got != text {
			t.Errorf("%q is harmless, and shown as %q", text, got)
		}
		if again := showAt(got, len(got)); again != got {
			t.Errorf("%q, shown again, is %q", got, again)
		}
		if head := showAt(text, 10_000); n > most && !strings.HasPrefix(head, strings.TrimSuffix(got, "…")) {
			t.Errorf("%q is no beginning of %q", got, head)
		}
	})
}

func TestAgo(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"}, {0, "0s"}, {1, "0s"}, {time.Second - 1, "0s"}, {time.Second, "1s"}, {time.Minute - 1, "59s"},
		{time.Minute, "1m"}, {time.Hour - 1, "59m"}, {time.Hour, "1h00m"}, {3*time.Hour + 5*time.Minute + 59*time.Second, "3h05m"},
		{24*time.Hour - 1, "23h59m"}, {24 * time.Hour, "1d0h"}, {52*time.Hour + 59*time.Minute, "2d4h"}, {48*time.Hour - 1, "1d23h"},
		{1<<63 - 1, "106751d23h"}, {-1 << 63, "0s"},
	} {
		if got := ago(c.d); got != c.want {
			t.Errorf("%v: %q, want %q", c.d, got, c.want)
		}
	}
}

var agoForm = regexp.MustCompile(`^(\d+)(s|m|h(\d\d)m|d(\d+)h)$`)

func FuzzAgo(f *testing.F) {
	for _, d := range []int64{0, -1, 59_999_999_999, 60_000_000_000, 1<<63 - 1, -1 << 63} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, ns int64) {
		d := time.Duration(ns)
		got := ago(d)
		m := agoForm.FindStringSubmatch(got)
		if m == nil || len(got) > 10 {
			t.Fatalf("%v is %q", d, got)
		}
		var big, small int64
		fmt.Sscan(m[1], &big)
		fmt.Sscan(m[3]+m[4], &small)
		unit, less := time.Second, time.Duration(0)
		switch m[2][0] {
		case 'm':
			unit = time.Minute
		case 'h':
			unit, less = time.Hour, time.Minute
		case 'd':
			unit, less = 24*time.Hour, time.Hour
		}
		said := time.Duration(big)*unit + time.Duration(small)*less
		if most := max(less, unit); said > max(d, 0) || less == 0 && max(d, 0)-said >= unit || less > 0 && max(d, 0)-said >= less || small >= int64(most/max(less, 1)) && less > 0 {
			t.Errorf("%v is %q", d, got)
		}
	})
}

func TestWho(t *testing.T) {
	type party = state.Party
	for _, c := range []struct {
		p    party
		pid  int
		want string
	}{
		{party{}, 0, "somebody"},
		{party{}, 7, "somebody (pid 7)"},
		{party{Name: "n"}, 0, "n"},
		{party{Name: "n"}, -1, "n"},
		{party{Person: "p"}, 0, "p"},
		{party{Session: "s"}, 0, "s"},
		{party{HostSession: "h"}, 0, "h"},
		{party{Name: "n", Person: "n", Session: "n", Host: "n"}, 0, "n"},
		{party{Name: "n", Person: "p", Session: "s", HostSession: "h", Team: "t", Host: "b"}, 7, "n (p, session s, pid 7, on b)"},
		{party{Person: "p", Session: "s"}, 0, "p (session s)"},
		{party{Name: strings.Repeat("n", 300), Person: strings.Repeat("p", 50)}, 0, strings.Repeat("n", 200) + "… (" + strings.Repeat("p", 40) + "…)"},
		{party{Name: "n\x1b", Host: "b\n"}, 0, `n\x1b (on b\x0a)`},
	} {
		if got := who(c.p, c.pid); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// heldSight is kind-1 held by Ann's run for five minutes.
func heldSight() lease.Sight {
	return lease.Sight{
		Resource: "kind-1", Kind: lease.Running, Held: true,
		Holder:  lease.Holder{Name: "lab", Person: "Ann", Session: "s-1", Host: "b", Purpose: "make e2e", Since: "2026-03-04T05:01:07Z"},
		Process: &lease.Process{PID: 42},
	}
}

func TestHeldBy(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *lease.Sight)
		want   string
	}{
		{"a run", func(s *lease.Sight) {}, "held by lab (Ann, session s-1, pid 42, on b) for 5m: make e2e"},
		{"a claim", func(s *lease.Sight) { s.Kind, s.Process, s.Holder.Purpose = lease.Recorded, nil, "" }, "held by lab (Ann, session s-1, on b) for 5m"},
		{"no time", func(s *lease.Sight) { s.Holder.Since = "yesterday" }, "held by lab (Ann, session s-1, pid 42, on b): make e2e"},
		{"a clock ahead", func(s *lease.Sight) { s.Holder.Since = "2026-03-04T06:01:07Z" }, "held by lab (Ann, session s-1, pid 42, on b) for 0s: make e2e"},
		{"the shell lock of a person", func(s *lease.Sight) { s.Process, s.Holder = nil, lease.Holder{Holder: "ann@b", Purpose: "p"} }, "held by ann@b: p"},
		{"nothing known", func(s *lease.Sight) {
			s.Process, s.Holder, s.Problem = nil, lease.Holder{}, "holder.json: byte 3: broken"
		}, "held by somebody [holder.json: byte 3: broken]"},
		{"in progress", func(s *lease.Sight) { s.Kind, s.Renewed = lease.Claiming, now.Add(-3*time.Second) }, "being claimed by a shell lock for 3s"},
		{"another machine's", func(s *lease.Sight) { s.Kind, s.Process.Host = lease.Foreign, "far" },
			"held by lab (Ann, session s-1, pid 42, on b) for 5m: make e2e; its run is on another machine (far), which renews it"},
		{"orphaned", func(s *lease.Sight) {
			s.Kind = lease.Orphaned
			for _, c := range []string{"sleep 8", "b", strings.Repeat("c", 50), "d", "e"} {
				s.Orphans = append(s.Orphans, lease.Member{PID: lease.PID{PID: 100 + len(s.Orphans)}, Command: c})
			}
		}, "held by lab (Ann, session s-1, pid 42, on b) for 5m: make e2e; its wrapper is gone, still running: 100 sleep 8, 101 b, 102 " + strings.Repeat("c", 40) +
			"…, … (withlease release --kill kind-1 ends them)"},
		{"orphaned, unseen", func(s *lease.Sight) { s.Kind = lease.Orphaned },
			"held by lab (Ann, session s-1, pid 42, on b) for 5m: make e2e; its wrapper is gone, and a process that can't be seen from here still holds it"},
	} {
		s := heldSight()
		c.change(&s)
		if got := heldBy(s, now); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// waiter is a place in line of somebody of that name.
func waiter(n int64, name string) lease.Waiter {
	w := lease.Waiter{Number: n}
	w.Party.Name = name
	return w
}

func TestWaitLine(t *testing.T) {
	const held = "kind-1 is held by lab (Ann, session s-1, pid 42, on b) for 5m: make e2e"
	kept := waiter(3, "bob")
	kept.ID, kept.Purpose, kept.Kept = "0a1b", "later", now.Add(90*time.Second)
	for _, c := range []struct {
		name string
		b    lease.Blocked
		want string
	}{
		{"first in line", lease.Blocked{Sight: heldSight(), Place: 1}, held + "; place 1 in line [/d]"},
		{"no line", lease.Blocked{Sight: heldSight()}, held + " [/d]"},
		{"behind somebody", lease.Blocked{Sight: heldSight(), Place: 2, Behind: waiter(3, "bob")}, held + "; place 2 in line, behind bob [/d]"},
		{"behind a kept place", lease.Blocked{Place: 2, Behind: kept}, "place 2 in line, behind bob: later (place kept for 1m) [/d]"},
		{"behind one's own", lease.Blocked{Place: 2, Behind: kept, Caller: state.Party{Name: "bob"}}, "place 2 in line, behind bob: later (your own place, kept for 1m; withlease --ticket=0a1b takes it) [/d]"},
		{"behind nobody known", lease.Blocked{Place: 2}, "place 2 in line [/d]"},
		{"refused", lease.Blocked{Refused: &lease.Refusal{Reason: "ask lab for a grant"}, Place: 1}, "ask lab for a grant [/d]"},
		{"refused and held", lease.Blocked{Sight: heldSight(), Refused: &lease.Refusal{Reason: "ask lab"}, Place: 2, Behind: waiter(3, "bob")}, held + "; ask lab; place 2 in line, behind bob [/d]"},
		{"between two", lease.Blocked{}, "kind-1 is being handed over [/d]"},
		{"free, no place yet", lease.Blocked{Sight: lease.Sight{Resource: "kind-1"}}, "kind-1 is being handed over [/d]"},
	} {
		c.b.Resource = "kind-1"
		if got := waitLine(&c.b, "/d", now); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// taint puts text into every string that can be reached from v, but for names of
// resources, which are checked where they are read.
func taint(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		taint(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && f.Name != "Resource" && f.Name != "Resources" && f.Name != "Since" && f.Type != reflect.TypeFor[time.Time]() {
				taint(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 5, 5))
		for i := range v.Len() {
			taint(v.Index(i), text)
		}
	case reflect.String:
		v.SetString(text)
	}
}

// blockeds are all kinds of a wait, with text in every field that another user
// or a file may fill.
func blockeds(text string) map[string]*lease.Blocked {
	all := map[string]*lease.Blocked{}
	for k := lease.Free; k <= lease.Abandoned; k++ {
		for _, refused := range []bool{false, true} {
			for place := range 3 {
				b := &lease.Blocked{}
				taint(reflect.ValueOf(b).Elem(), text)
				b.Resource, b.Sight.Resource = "kind-1", "kind-1"
				b.Sight.Kind, b.Sight.Held = k, true
				b.Sight.Holder.Since, b.Sight.Renewed = "2026-03-04T05:01:07Z", now
				b.Place, b.Behind.Number, b.Behind.Kept = place, 1, now
				if !refused {
					b.Refused = nil
				}
				all[fmt.Sprintf("kind %d, refused %v, place %d", k, refused, place)] = b
			}
		}
	}
	return all
}

func TestLinesAreHarmless(t *testing.T) { // B51
	for what, b := range blockeds(nasty) {
		line := waitLine(b, nasty, now)
		harmless(t, what, line)
		if !strings.Contains(line, `\x1b[2J`) {
			t.Errorf("%s: nothing was escaped: %q", what, line)
		}
		harmless(t, what, heldBy(b.Sight, now))
		harmless(t, what, orphaned(b.Sight))
		harmless(t, what, behind(b, now))
		// With no name it is the holder's text that is shown.
		b.Sight.Holder.Name, b.Sight.Holder.Person, b.Sight.Holder.Session, b.Sight.Holder.HostSession = "", "", "", ""
		harmless(t, what, heldBy(b.Sight, now))
	}
	harmless(t, "a command", commandLine([]string{nasty, nasty, "", nasty}))
	harmless(t, "a party", who(state.Party{Session: nasty, Person: nasty, Host: nasty}, 1))
}

// However long the texts are, a line is one that a person reads.
func TestLinesAreCut(t *testing.T) { // B51
	for _, text := range []string{strings.Repeat("x", 10_000), strings.Repeat("\x1b", 10_000), strings.Repeat("\u202e\xff", 5_000)} {
		most := 1550 // characters, before they are escaped
		if text[0] != 'x' {
			most *= 6
		}
		for what, b := range blockeds(text) {
			if n := utf8.RuneCountInString(waitLine(b, text, now)); n > most {
				t.Errorf("%s: a line of %d characters", what, n)
			}
		}
	}
	if got := commandLine([]string{"/usr/bin/" + strings.Repeat("x", 10_000)}); utf8.RuneCountInString(got) != 81 {
		t.Errorf("a command is %d characters long", utf8.RuneCountInString(got))
	}
}

func FuzzLines(f *testing.F) {
	f.Add(nasty, nasty, int64(3e11))
	f.Add("lab", "make e2e", int64(0))
	f.Fuzz(func(t *testing.T, name, text string, ns int64) {
		for what, b := range blockeds(text) {
			b.Sight.Holder.Name, b.Behind.Party.Name = name, name
			b.Sight.Renewed = now.Add(time.Duration(ns))
			b.Behind.Kept = now.Add(time.Duration(ns))
			harmless(t, what, waitLine(b, text, now))
		}
		harmless(t, "a party", who(state.Party{Name: name, Person: text, Host: name}, 1))
		harmless(t, "a command", commandLine([]string{name, text}))
		for _, err := range hostileErrors(text) {
			harmless(t, fmt.Sprintf("%T", err), Explain(err))
		}
	})
}

// hostileErrors are errors that name what others may have named.
func hostileErrors(text string) []error {
	errs := []error{
		errors.New(text),
		&lease.NameError{Name: text},
		&state.BrokenError{Path: text, Err: &state.SyntaxError{Offset: 5, Reason: text}},
		&state.BrokenError{Path: text, Err: errors.New(text)},
		&UsageError{text},
		&lease.Refusal{Reason: text},
	}
	for _, e := range []error{errors.New(text), syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.ENOTDIR, syscall.ELOOP, syscall.EMFILE, syscall.EXDEV, syscall.EISDIR} {
		errs = append(errs, &fs.PathError{Op: text, Path: text, Err: e}, &fs.PathError{Op: "open", Path: "/tmp/" + text, Err: e})
	}
	return errs
}

func TestExplainIsHarmless(t *testing.T) { // B51
	for _, err := range hostileErrors(nasty) {
		line := Explain(err)
		harmless(t, fmt.Sprintf("%T", err), line)
		if !strings.Contains(line, `\x1b[2J`) {
			t.Errorf("%T: nothing was escaped: %q", err, line)
		}
	}
}

// A long path doesn't push the cause and the offset out of the line.
func TestExplainNamesTheCause(t *testing.T) {
	path := "/home/" + strings.Repeat("a-long-name/", 30) + "state.json"
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}, []string{"open /home/a-long-name/", "permission denied", "--dir"}},
		{&fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}, []string{"no space left on device", "make room"}},
		{&state.BrokenError{Path: path, Err: &state.SyntaxError{Offset: 5, Reason: "a grant is not an object"}}, []string{"/home/a-long-name/", "byte 5", "a grant is not an object", "repair it or move it away"}},
	} {
		got := Explain(c.err)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q isn't in %q", want, got)
			}
		}
	}
}

func TestSay(t *testing.T) {
	var b strings.Builder
	say(&b, "%s is %d%%", "a", 5)
	if got, want := b.String(), "withlease: a is 5%\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"make"}, "make"},
		{[]string{"/usr/bin/make", "-j4", "CFLAGS=-O2", "a/b.o"}, "make -j4 CFLAGS=-O2 a/b.o"},
		{[]string{"sh", "-c", "echo $HOME; it's"}, `sh -c 'echo $HOME; it'\''s'`},
		{[]string{"echo", ""}, "echo ''"},
		{[]string{"echo", "a\nb"}, `echo 'a\x0ab'`},
		{[]string{"a b"}, "'a b'"},
	} {
		if got := commandLine(c.argv); got != c.want {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
	for n, want := range map[int]string{0: "0 processes", 1: "1 process", 2: "2 processes"} {
		if got := plural(n, "process", "processes"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
