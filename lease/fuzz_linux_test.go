package lease_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// What lies in a lease directory is whatever its users put there. Each target
// writes such files where they belong, and reads them as a claim, a look or a
// wait does: what is held stays held, and nothing else is touched.

// most is how much of a file is read.
const most = 1 << 20

// fuzzed is a base with somebody's gpu, which a target fills, and a lease, a line
// and a directory that are none of its business. untouched says that those are
// as they were.
func fuzzed(t *testing.T) (b *lease.Base, untouched func()) {
	b = newBase(t)
	must(t, os.Mkdir(at(b, "gpu"), 0o700))
	others := []string{at(b, "usb"), at(b, ".queue", "usb"), filepath.Join(b.Store.Dir, "notes")}
	for _, dir := range others {
		write(t, filepath.Join(dir, "holder.json"), good)
	}
	look := func() (all string) {
		for _, dir := range others {
			all += tree(t, dir)
		}
		return all
	}
	before := look()
	return b, func() {
		t.Helper()
		if after := look(); after != before {
			t.Errorf("the others' files were\n%s\nand are\n%s", before, after)
		}
		for _, name := range slices.Concat(names(t, string(b.Leases)), names(t, b.Store.Dir)) {
			switch name {
			case ".queue", "usb", "gpu", "leases", "notes", "events.jsonl", "state.lock", "state.json":
			default:
				t.Errorf("%s is left", name)
			}
		}
	}
}

// witness puts a FIFO, or a regular file, where a run proves that it lives.
func witness(t *testing.T, path string, regular, alive bool) {
	if regular {
		write(t, path, "")
	} else {
		must(t, unix.Mkfifo(path, 0o600))
	}
	if alive {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		must(t, unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB))
		if !strings.HasSuffix(path, "under") {
			must(t, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
		}
	}
}

// looked is what a look sees, which must change nothing.
func looked(t *testing.T, b *lease.Base) lease.Sight {
	t.Helper()
	before := tree(t, b.Store.Dir)
	s, err := b.Look("gpu")
	must(t, err)
	all, err := b.List()
	must(t, err)
	if i := slices.IndexFunc(all, func(l lease.Sight) bool { return l.Resource == "gpu" }); i < 0 || !reflect.DeepEqual(all[i], s) {
		t.Errorf("the look says %+v, the list %+v", s, all)
	}
	if h, err := b.Leases.Get("gpu"); err != nil || (h != nil) != s.Held {
		t.Errorf("got %+v, %v where held is %v", h, err, s.Held)
	}
	if after := tree(t, b.Store.Dir); after != before {
		t.Errorf("a look made of\n%s\nthis:\n%s", before, after)
	}
	oneLine(t, s.Problem)
	return s
}

// oneLine says that a text is fit for a message.
func oneLine(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r < ' ' || 0x7f <= r && r <= 0x9f {
			t.Errorf("U+%04X in %q", r, text)
		}
	}
}

// decodes reads a whole file of JSON, as little as a reader of this package may.
func decodes(text []byte, v any) bool { return len(text) <= most && json.Unmarshal(text, v) == nil }

// pieces are good files, and what may be left of one.
func pieces(f *testing.F, whole string, add func(text []byte)) {
	for _, text := range []string{whole, whole[:len(whole)/2], "", "{}", "null", "[]", "\x00\x00\x00", strings.ToUpper(whole), whole + whole, "\xef\xbb\xbf" + whole,
		strings.Repeat(`{"x":`, 500), strings.ReplaceAll(whole, `":"`, `":"\u001b[2J\r\n`)} {
		add([]byte(text))
	}
}

// FuzzRecord: whatever a record and a process file say, the witness alone decides
// whether a run lives, and a record alone is held. What can't be read is nobody's
// in particular: not the caller's either.
func FuzzRecord(f *testing.F) {
	process := (&lease.Process{PID: 7, Start: 9, BootID: lease.BootID(), MachineID: lease.MachineID(), Host: "h", Token: strings.Repeat("5a", 16), Fence: 3, TTL: 60,
		Command: []string{"make", "test"}, Child: &lease.PID{PID: os.Getpid(), Start: lease.StartTime(os.Getpid())}}).Encode()
	f.Add([]byte(good), process, byte(2)) // with its token, whoever looks goes through /proc
	process = []byte(strings.Replace(string(process), "5a5a5a5a", "", 3))
	for how := range byte(20) {
		f.Add([]byte(good), process, how)
	}
	pieces(f, good, func(text []byte) { f.Add(text, process, byte(0)) })
	pieces(f, string(process), func(text []byte) { f.Add([]byte(good), text, byte(2)) })
	for _, p := range []string{`{"bootId":"other","machineId":"other","ttl":1e300}`, `{"bootId":"other","machineId":"other","ttl":-1}`,
		`{"bootId":"other","machineId":` + strconv.Quote(lease.MachineID()) + `}`, `{"pid":-1,"start":18446744073709551615,"fence":-1,"child":{"pid":1,"start":1}}`,
		`{"machineId":"other"}`, `{"machineId":"0",`, `{"machineId":` + strconv.Quote(lease.MachineID()) + `}`} {
		f.Add([]byte(good), []byte(p), byte(2))
	}
	f.Fuzz(func(t *testing.T, record, process []byte, how byte) {
		b, untouched := fuzzed(t)
		write(t, at(b, "gpu", "holder.json"), string(record))
		write(t, at(b, "gpu", "process.json"), string(process))
		there, alive := how&3 > 0, how&3 == 1
		if there {
			witness(t, at(b, "gpu", "witness"), how&3 == 3, alive)
		}
		var p lease.Process
		readable := decodes(process, &p)
		if !readable { // half-written
			p = lease.Process{}
			readable = len(process) <= most && decodes(lease.WholeMembers(process), &p)
		}
		away := readable && p.BootID != lease.BootID() && (p.BootID != "" || p.MachineID != "") // of another machine, or boot
		here := p.MachineID != "" && p.MachineID == lease.MachineID()
		if away && 0 < p.TTL && p.TTL < 60 {
			t.Skip() // it may end between two looks
		}
		s := looked(t, b)

		var h lease.Holder
		if !decodes(record, &h) || h == (lease.Holder{}) {
			if want := (lease.Holder{Env: "gpu"}); s.Holder != want || s.Problem == "" {
				t.Errorf("a broken record is %+v, %q", s.Holder, s.Problem)
			}
		} else {
			if h.Env = "gpu"; s.Holder != h || s.Problem != "" {
				t.Errorf("the record is %+v, %q", s.Holder, s.Problem)
			}
			write(t, at(b, "gpu", "holder.json"), string(h.Encode()))
			oneLine(t, strings.TrimSuffix(string(h.Encode()), "\n"))
			if again := looked(t, b); again.Holder != h || again.Problem != "" {
				t.Errorf("%+v was written, and is %+v, %q", h, again.Holder, again.Problem)
			}
			write(t, at(b, "gpu", "holder.json"), string(record))
		}
		if (s.Process != nil) != readable || readable && !reflect.DeepEqual(*s.Process, p) {
			t.Errorf("the process is %+v, want %+v", s.Process, p)
		}
		want := []lease.Kind{lease.Crashed}
		switch {
		case !there:
			want = []lease.Kind{lease.Recorded}
		case alive:
			want = []lease.Kind{lease.Running}
		case away && here && p.BootID != "": // booted since
		case away && !here:
			want = []lease.Kind{lease.Foreign}
		case readable && p.Child != nil && p.Child.Alive():
			want = append(want, lease.Orphaned) // where its pid means anything here
		}
		if !slices.Contains(want, s.Kind) || s.Held == (s.Kind == lease.Crashed) {
			t.Fatalf("kind %v, held %v, want %v", s.Kind, s.Held, want)
		}
		for _, o := range s.Orphans {
			if !o.Alive() {
				t.Errorf("%+v is no process", o)
			}
		}

		before := tree(t, at(b, "gpu"))
		refused, freed := true, false
		switch how >> 2 % 5 {
		case 0:
			var other *lease.HeldError
			err := b.Free(t.Context(), "gpu", bob)
			refused, freed = errors.As(err, &other), err == nil
			if mine := s.Kind == lease.Recorded && s.Holder.Party().Same(bob); freed != (mine || !s.Held) || !freed && !refused {
				t.Fatalf("bob's release of what %+v has: %v", s.Holder, err)
			}
		case 1:
			l, err := claimNow(b, bob, "gpu")
			var blocked *lease.Blocked
			if refused = errors.As(err, &blocked); refused != s.Held || !refused && err != nil {
				t.Fatalf("claimed: %v", err)
			}
			if l != nil {
				must(t, l.Release(t.Context(), "exit 0"))
				freed = true
			}
		case 2:
			already, _, err := b.Hold(t.Context(), "gpu", lease.Holder{Session: bob.Session, Person: bob.Person, Name: bob.Name, Host: bob.Host}, 0)
			var blocked *lease.Blocked
			mine := s.Held && s.Holder.Party().Same(bob)
			if refused = errors.As(err, &blocked) || already != nil; refused != s.Held || (already != nil) != mine || !refused && err != nil {
				t.Fatalf("held for bob: %+v, %v", already, err)
			}
			if !refused {
				must(t, b.Free(t.Context(), "gpu", bob))
				freed = true
			}
		case 3:
			if err := b.Settle(t.Context(), "gpu"); err != nil {
				t.Fatal(err)
			}
			refused, freed = s.Held, !s.Held
		case 4:
			taken, err := b.Force(t.Context(), "gpu", pat, "why")
			must(t, err)
			if refused, freed = false, true; !reflect.DeepEqual(taken.Holder, s.Holder) {
				t.Errorf("taken from %+v", taken.Holder)
			}
		}
		if refused {
			if after := tree(t, at(b, "gpu")); after != before {
				t.Errorf("held, it was\n%s\nand is\n%s", before, after)
			}
		}
		if freed && exists(at(b, "gpu")) {
			t.Errorf("it is still there: %q", names(t, at(b, "gpu")))
		}
		untouched()
	})
}

// FuzzClaim: whatever claim.json and asked.json have, a claim ends at a time that
// can be read and has passed, and never under a run; and an ask is read back.
func FuzzClaim(f *testing.F) {
	const asked = `{"asks":[{"by":{"session":"s-eve","name":"eve"},"at":"2026-03-01T10:00:00Z","message":"please"}]}`
	token := strings.Repeat("5a", 16)
	for i, until := range []string{`"2026-03-01T10:00:00Z"`, `"9999-12-31T23:59:59-00:01"`, `"0000-01-01T00:00:00+24:00"`, `"2026-03-01T10:00:00+24:60"`, `"2100-01-01T00:00:00.5+01:00"`, `null`, `""`, `5`} {
		for how := range byte(16) {
			f.Add([]byte(`{"token":"`+token+`","fence":1,"until":`+until+`}`), []byte(asked), "please", how<<1|byte(i&1))
		}
	}
	pieces(f, `{"token":"`+token+`","fence":1,"until":"2026-03-01T10:00:00Z"}`, func(text []byte) { f.Add(text, []byte(asked), "m", byte(0)) })
	pieces(f, asked, func(text []byte) { f.Add([]byte(`{"token":"t"}`), text, "m", byte(16)) })
	f.Add([]byte("{}"), []byte("{}"), "\x82\x82", byte(16)) // UTF-8 it is not
	for _, at := range []string{"2026-03-01T10:00:00+24:00", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59"} {
		f.Add([]byte("{}"), []byte(strings.Replace(asked, "2026-03-01T10:00:00Z", at, 1)), "m", byte(16))
	}
	f.Add([]byte("{}"), []byte(strings.Replace(asked, "please", strings.Repeat("<", most/4), 1)), "m", byte(16))
	f.Add([]byte("{}"), []byte(strings.Replace(asked, "s-eve", strings.Repeat("<", most/4), 1)), "m", byte(16))
	f.Add([]byte("{}"), []byte(`{"asks":[`+strings.Repeat("{},", 20)+`{}]}`), "m", byte(16))
	f.Fuzz(func(t *testing.T, claim, asked []byte, message string, how byte) {
		if len(message) > lease.MaxMessage {
			t.Skip()
		}
		b, untouched := fuzzed(t)
		write(t, at(b, "gpu", "holder.json"), good)
		write(t, at(b, "gpu", "claim.json"), string(claim))
		write(t, at(b, "gpu", "asked.json"), string(asked))
		there, alive, under := how&3 > 0, how&3 == 1, how&4 > 0
		if there {
			witness(t, at(b, "gpu", "witness"), how&3 == 3, alive)
		}
		if under {
			witness(t, at(b, "gpu", "under"), false, true)
		}
		began := time.Now()
		s := looked(t, b)

		var terms lease.Terms
		readable := decodes(claim, &terms) && terms.Token != ""
		want := lease.Recorded
		switch {
		case readable && !terms.Until.IsZero() && terms.Until.Before(began) && !under:
			want = lease.Ended
		case readable && terms.Until.Before(time.Now()) && !terms.Until.Before(began):
			t.Skip() // just now
		case readable:
		case alive:
			want = lease.Running
		case there:
			want = lease.Crashed
		}
		if s.Kind != want || s.Held != (want == lease.Recorded || want == lease.Running) {
			t.Fatalf("kind %v, held %v, want %v", s.Kind, s.Held, want)
		}
		if readable != (s.Terms != nil) || readable && (s.Mark() != lease.Mark{Token: terms.Token, Fence: terms.Fence} || !s.Until().Equal(state.Writable(terms.Until))) {
			t.Errorf("the terms are %+v, want %+v", s.Terms, terms)
		}
		if len(s.Asks) > lease.MaxAsks {
			t.Errorf("%d asks", len(s.Asks))
		}
		if !s.Held {
			if err := b.Free(t.Context(), "gpu", bob); want == lease.Ended != errors.Is(err, lease.ErrNotHeld) || exists(at(b, "gpu")) {
				t.Errorf("what is over is given back: %v", err)
			}
			untouched()
			return
		}

		before := tree(t, at(b, "gpu"))
		switch how >> 3 % 4 {
		case 0:
			busy(t, b, "gpu")
			if err := b.Free(t.Context(), "gpu", bob); !errors.Is(err, lease.ErrNotYours) {
				t.Errorf("given back by bob: %v", err)
			}
			if after := tree(t, at(b, "gpu")); after != before {
				t.Errorf("held, it was\n%s\nand is\n%s", before, after)
			}
		case 1: // to a time, and back to one that has passed
			for _, until := range []time.Time{began.Add(time.Hour), began.Add(-time.Second)} {
				got, err := b.Extend(t.Context(), "gpu", ann, until)
				var no *lease.TermError
				if limited := s.Kind == lease.Recorded && !s.Until().IsZero(); limited != (err == nil) || !limited && !errors.As(err, &no) {
					t.Fatalf("extended: %v", err)
				}
				if now := looked(t, b); err == nil && (*now.Terms != got || now.Mark() != s.Mark() || now.Held != (under || until.After(began)) || now.Until().Sub(until).Abs() > time.Millisecond) {
					t.Errorf("%+v was written, and is %+v", got, now)
				}
			}
		default:
			told, err := b.Ask(t.Context(), "gpu", bob, message)
			must(t, err)
			earlier := slices.DeleteFunc(slices.Clone(s.Asks), func(a lease.Ask) bool { return a.By.Same(bob) })
			earlier = earlier[max(0, len(earlier)+1-lease.MaxAsks):]
			now := looked(t, b)
			if n := len(now.Asks); n == 0 || now.Asks[n-1].By != bob || now.Asks[n-1].Message != strings.ToValidUTF8(message, "\ufffd") && !strings.Contains(now.Asks[n-1].Message, "\ufffd") {
				t.Fatalf("an ask is %.300q", fmt.Sprint(now.Asks))
			} else if left := earlier[max(0, len(earlier)+1-n):]; !sameAsks(now.Asks[:n-1], left) || !sameAsks(told.Asks, now.Asks) || len(left) < len(earlier) && len(asked) < most/8 {
				t.Errorf("the asks before it were %.300q and are %.300q", fmt.Sprint(earlier), fmt.Sprint(now.Asks[:n-1]))
			}
			must(t, os.WriteFile(at(b, "gpu", "asked.json"), asked, 0o600))
		}
		untouched()
	})
}

func sameAsks(a, b []lease.Ask) bool {
	return slices.EqualFunc(a, b, func(a, b lease.Ask) bool { return a.By == b.By && a.Message == b.Message && a.At.Equal(b.At) })
}

// FuzzTicket: whatever a ticket, and the last number, have, a live place stays in
// line and a dead one that isn't kept goes, alone; numbers grow.
func FuzzTicket(f *testing.F) {
	const ticket = `{"id":"5a5a5a5a","number":9,"party":{"session":"s-ann","name":"ann"},"holder":"ann@lab","purpose":"tests","since":"2026-03-01T10:00:00Z","pid":7,"start":9,"resources":["gpu"],"kept":"2100-01-01T00:00:00Z"}`
	for how := range byte(32) {
		f.Add([]byte(ticket), []byte(fmt.Sprintf("%020d\n", 3)), int64(2), how)
	}
	pieces(f, ticket, func(text []byte) { f.Add(text, []byte("5"), int64(7), byte(0)) })
	for _, kept := range []string{"2026-03-01T10:00:00Z", "9999-12-31T23:59:59-23:59", "2026-03-01T10:00:00+24:60"} {
		f.Add([]byte(strings.Replace(ticket, "2100-01-01T00:00:00Z", kept, 1)), []byte("7\n"), int64(7), byte(0))
	}
	for _, last := range []string{"", "-1", "x", "999999999999999999999", "garbage that is longer than a number", strings.Repeat("9\n", 40), "\x00", "00000000000000000009\n and more"} {
		f.Add([]byte("{}"), []byte(last), int64(7), byte(4))
		f.Add([]byte(ticket), []byte(last), int64(1<<59-1), byte(0))
	}
	for _, n := range []int64{0, -1, 1 << 59, 1 << 60, 1<<60 + 1, 1<<63 - 1} {
		f.Add([]byte(ticket), []byte("3"), n, byte(8))
	}
	f.Fuzz(func(t *testing.T, text, last []byte, n int64, how byte) {
		b, untouched := fuzzed(t)
		must(t, os.Remove(at(b, "gpu")))
		place := at(b, ".queue", "gpu", strconv.FormatInt(n, 10))
		write(t, place+".json", string(text))
		write(t, at(b, ".queue", "gpu", "last"), string(last))
		write(t, at(b, ".queue", "gpu", "notes"), "ten years")
		write(t, at(b, ".queue", "gpu", "07"), "no number as we write them")
		alive := how&1 > 0
		witness(t, place, how&2 > 0, alive)

		var w lease.Waiter
		began := time.Now()
		if !decodes(text, &w) {
			w = lease.Waiter{}
		}
		if w.Kept.Sub(began).Abs() < time.Minute {
			t.Skip() // just now
		}
		ticket := 0 < n && n <= 1<<60
		counts := ticket && (alive || w.Kept.After(began))
		before := tree(t, b.Store.Dir)
		line, err := b.Line("gpu")
		must(t, err)
		if counts != (len(line) == 1) || len(line) > 1 {
			t.Fatalf("the line is %+v", line)
		}
		if counts && (line[0].Number != n || line[0].ID != w.ID || line[0].Who() != w.Who() || line[0].Kept.IsZero() != alive) {
			t.Errorf("%+v in line, want %+v", line[0], w)
		}
		if lines, err := b.Lines(); err != nil || !slices.Equal(lines, []string{"gpu", "usb"}) {
			t.Errorf("lines %q, %v", lines, err)
		}
		left, err := b.Leftovers(began)
		must(t, err)
		if dead := slices.ContainsFunc(left, func(l lease.Leftover) bool { return l.Path == place }); dead != (ticket && !counts) {
			t.Errorf("left over are %+v", left)
		}
		if after := tree(t, b.Store.Dir); after != before {
			t.Errorf("a look made of\n%s\nthis:\n%s", before, after)
		}

		rq := order{Resources: []string{"gpu"}, Who: bob}.request()
		var blocked *lease.Blocked
		switch how >> 2 % 4 {
		case 0: // who comes is behind, and has the next number
			l, err := b.Acquire(t.Context(), rq, lease.Options{NoWait: true, Keep: time.Hour})
			if errors.As(err, &blocked) != counts || !counts && err != nil {
				t.Fatalf("claimed: %v", err)
			}
			if l != nil {
				must(t, l.Release(t.Context(), "exit 0"))
				break
			}
			line, err := b.Line("gpu")
			must(t, err)
			mine := slices.IndexFunc(line, func(w lease.Waiter) bool { return w.ID == blocked.ID && w.Who().Same(bob) })
			if len(line) != 2 || mine < 0 || blocked.Place != mine+1 && n < 1<<59 || mine == 0 && n < 1<<59 {
				t.Errorf("place %d; the line is %+v", blocked.Place, line)
			}
			if again, err := b.Line("gpu"); err != nil || !reflect.DeepEqual(again, line) {
				t.Errorf("the line is %+v, then %+v, %v", line, again, err)
			}
		case 1: // claims count on
			if counts {
				break
			}
			fence := int64(0)
			for range 3 {
				l, err := b.Acquire(t.Context(), rq, lease.Options{NoWait: true})
				must(t, err)
				got := l.Fences()[0]
				if text := read(t, at(b, ".queue", "gpu", "last")); got <= fence || text != fmt.Sprintf("%020d\n", got) {
					t.Errorf("fence %d after %d, and the last number is %q", got, fence, text)
				}
				fence = got
				must(t, l.Release(t.Context(), "exit 0"))
			}
		case 2: // the ticket's own
			l, err := b.Acquire(t.Context(), rq, lease.Options{NoWait: true, Ticket: w.ID})
			var taken *lease.PlaceError
			switch mine := w.ID != "" && counts; {
			case errors.As(err, &taken) != (mine && alive):
				t.Errorf("with its ticket: %v", err)
			case mine && !alive && err != nil, !counts && err != nil:
				t.Errorf("its turn: %v", err)
			}
			if l != nil {
				must(t, l.Release(t.Context(), "exit 0"))
			}
		case 3: // a grant's party is found by the ticket
			supervise(t, b)
			must(t, b.Settle(t.Context(), "gpu"))
		}
		if alive && ticket && !(exists(place) && exists(place+".json")) {
			t.Error("a live place went")
		}
		if read(t, at(b, ".queue", "gpu", "notes")) != "ten years" || !exists(at(b, ".queue", "gpu", "07")) {
			t.Error("what is no ticket went")
		}
		if !ticket && !exists(place) {
			t.Errorf("%d went", n)
		}
		untouched()
	})
}

// FuzzIndex: whatever the index of a line has, a new place is in it with its
// party, on a line of its own; a line that is cut short is nobody's.
func FuzzIndex(f *testing.F) {
	const line = `1 "s" "h" "n" "p" "lab"` + "\n"
	for _, text := range []string{"", line, line[:12], "\n\n" + line + line, "x " + line, strings.Repeat(line, 300), "1 'a' `b` \"\" \"\" \"\"\n", "99999999999999999999 " + line, line[:len(line)-1] + " \n"} {
		f.Add([]byte(text), "s-ann", "hs", "ann's agent", "ann", "lab", int64(3), 7)
	}
	f.Add([]byte(line), "a\x1b[2J\n\x00\xff\u202e", "\"\\", "`", "\u2028\x9b", "é 1 \"s\"", int64(-1<<63), 40)
	f.Fuzz(func(t *testing.T, text []byte, session, hostSession, name, person, host string, n int64, cut int) {
		if session == "" && name == "" || len(session)+len(hostSession)+len(name)+len(person)+len(host) > 4096 {
			t.Skip()
		}
		who := state.Party{Session: session, HostSession: hostSession, Name: name, Person: person, Host: host}
		b, untouched := fuzzed(t)
		write(t, at(b, "gpu", "holder.json"), good)
		path := at(b, ".queue", "gpu", "index")
		own := lease.IndexLine(n, who)
		oneLine(t, strings.TrimSuffix(own, "\n"))
		write(t, path, own)
		if got := b.Parties("gpu"); len(got) != 1 || got[n] != who {
			t.Fatalf("%q is read as %v", own, got)
		}
		for _, cut := range []int{max(0, min(cut, len(own)-1)), len(own) - 1} {
			write(t, path, own[:cut])
			if got := b.Parties("gpu"); len(got) != 0 {
				t.Errorf("%q is read as %v", own[:cut], got)
			}
		}
		wait := func(h lease.Holder) *lease.Blocked {
			_, err := b.Acquire(t.Context(), &lease.Request{Resources: []string{"gpu"}, Holder: h}, lease.Options{NoWait: true, Keep: time.Hour})
			var blocked *lease.Blocked
			if !errors.As(err, &blocked) {
				t.Fatal(err)
			}
			return blocked
		}
		first := wait(lease.Holder{Session: "first"})
		write(t, path, string(text)+"\n")
		before := b.Parties("gpu")
		if lines := strings.Count(string(text), "\n") + 1; len(before) > lines {
			t.Errorf("%d parties of %d lines", len(before), lines)
		}
		second := wait(lease.Holder{Session: session, HostSession: hostSession, Name: name, Person: person, Host: host})
		line, err := b.Line("gpu")
		must(t, err)
		if len(line) != 2 || line[0].ID != first.ID || line[1].ID != second.ID {
			t.Fatalf("the line is %+v", line)
		}
		after := b.Parties("gpu")
		if at := line[1].Number; after[at] != who {
			t.Errorf("the index %q has %+v, want %+v", read(t, path), after[at], who)
		} else {
			for n, p := range after {
				if n != at && before[n] != p {
					t.Errorf("%d was %+v's and is %+v's", n, before[n], p)
				}
			}
		}
		untouched()
	})
}
