package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"withlease/state"
)

// FuzzParse: whatever is read is written so that it means the same to
// encoding/json, and again in the same way; what isn't read has a byte to blame
// and is wrong by encoding/json and the table of members too.
func FuzzParse(f *testing.F) {
	f.Add(fullDocument())
	f.Add(bigState(3).Document())
	for _, marked := range broken {
		if text, _ := without(marked); len(text) < 4096 {
			f.Add([]byte(text))
		}
	}
	for _, doc := range []string{
		`{"grants":[{"budgetGiB":-0}],"supervisorCLI":{"pid":-9223372036854775808}}`,
		`{"released":{"":"0001-01-01T00:00:00Z","a":"9999-12-31T23:59:59.999999999Z"},"released":{}}`,
		`{"supervisor":{"session":"\ud83d\ude00\ud800","since":"2026-03-04T05:06:07,5Z"},"supervisor":null}`,
		`{"\u0000":[[],{},"",1e1,true,null],"a":"\\","b":"\"","c":"[{","d":{"}":"]"}}`,
		"{\"x\":\"\u2028\u009b\x7f\",\"seen\":{\"\u2029\":\"2026-03-04T05:06:07Z\"}}",
		`{"holds":[{"by":{"x":1},"liftedBy":{},"until":"0000-01-01T00:00:00+23:59"}]}`,
		"\t{ \"grants\" : [ { \"to\" : { \"name\" : \"n\" } , \"x\" : - } ] }",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		st, err := state.Parse(doc)
		if !bytes.Equal(doc, before) {
			t.Fatal("the text was changed")
		}
		want, wantErr := oracle(doc)
		if err != nil {
			var syntax *state.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > int64(len(doc)) || st != nil {
				t.Fatalf("%v, %#v", st, err)
			}
			if !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("the error is %q", err)
			}
			if wantErr == nil && !repeats(doc) {
				t.Errorf("%v, but encoding/json reads %v", err, want)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("read, but %v", wantErr)
		}
		once := st.Document()
		got, err := oracle(once)
		if err != nil {
			t.Fatalf("written as %s: %v", once, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v\nin %s", got, want, once)
		}
		again, err := state.Parse(once)
		if err != nil {
			t.Fatalf("%v in %s", err, once)
		}
		if twice := again.Document(); !bytes.Equal(twice, once) {
			t.Fatalf("first\n%s\nthen\n%s", once, twice)
		}
	})
}

// repeats says whether an object of doc has two members of one name: of those
// encoding/json sees the last, and Parse each.
func repeats(doc []byte) bool {
	type level struct {
		keys map[string]bool // nil: a list
		name bool            // a name comes next
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var in []level
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		n := len(in) - 1
		if tok == json.Delim('}') || tok == json.Delim(']') {
			in = in[:n]
			continue
		}
		if n >= 0 && in[n].keys != nil {
			if in[n].name {
				key, _ := tok.(string)
				if in[n].keys[key] {
					return true
				}
				in[n].keys[key], in[n].name = true, false
				continue
			}
			in[n].name = true
		}
		switch tok {
		case json.Delim('{'):
			in = append(in, level{map[string]bool{}, true})
		case json.Delim('['):
			in = append(in, level{})
		}
	}
}

// FuzzTime: a time that is read is the one that is written.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-03-04T05:06:07Z", "2026-03-04T05:06:07.123456789+14:00", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01",
		"0001-01-01T00:00:00Z", "2026-03-04T5:06:07Z", "2026-03-04T05:06:07,5Z", "2016-12-31T23:59:60Z", "2026-03-04t05:06:07z", "", "null", "2026-02-29T00:00:00Z", "2026-03-04T05:06:07+24:60"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Skip()
		}
		st, err := state.Parse([]byte(`{"seen":{"r":` + string(quoted) + `}}`))
		if err != nil {
			return
		}
		at, ok := st.Seen["r"]
		again, err := state.Parse(st.Document())
		if err != nil {
			t.Fatalf("%q was written as %s: %v", text, st.Document(), err)
		}
		if now, still := again.Seen["r"]; still != ok || !now.Equal(at) {
			t.Errorf("%q is %v, then %v", text, at, now)
		}
		if ok {
			if want, err := time.Parse(time.RFC3339, text); err != nil || !want.Equal(at) {
				t.Errorf("%q is %v, want %v, %v", text, at, want, err)
			}
		}
	})
}

// FuzzEvent: an event is one line, whatever its texts are, and is read back.
func FuzzEvent(f *testing.F) {
	f.Add("ann", "claim", "kind-1", "go test ./...", "why", int64(7), 1.25, []byte("torn"))
	f.Add(hostile, hostile, hostile, hostile, hostile, int64(-1), 1e21, []byte("\x00\n\n{"))
	f.Add("", "v", "", "", "", int64(0), 0.0004, []byte(`{"at":"2026-03-04T05:06:07Z","verb":"v"}`))
	f.Fuzz(func(t *testing.T, by, verb, resource, purpose, reason string, fence int64, seconds float64, before []byte) {
		if verb == "" || seconds != seconds || seconds > 1e15 || seconds < -1e15 || len(by)+len(verb)+len(resource)+len(purpose)+len(reason) > 4096 {
			t.Skip() // 6 characters for one: still no longer than a line may be
		}
		s := newStore(t)
		write(t, s.Events(), string(before))
		l := &state.Locked{Store: s}
		seconds = float64(int64(seconds*1000)) / 1000
		e := state.Event{At: t0, By: by, Verb: verb, Detail: state.Detail{Resource: resource, Purpose: purpose, Reason: reason, Fence: fence, WaitSeconds: seconds}}
		must(t, l.Log(e))
		must(t, l.Log(state.Event{At: t0.Add(time.Second), Verb: "next"}))
		text := read(t, s.Events())
		rest, ok := strings.CutPrefix(text, string(before))
		if len(before) > 0 && before[len(before)-1] != '\n' {
			rest, ok = strings.CutPrefix(rest, "\n")
		}
		if !ok || strings.Count(rest, "\n") != 2 || !strings.HasSuffix(rest, "\n") {
			t.Fatalf("the log is %q", text)
		}
		for _, r := range rest {
			if r < ' ' && r != '\n' || 0x7f <= r && r <= 0x9f {
				t.Errorf("U+%04X in %q", r, rest)
			}
		}
		es := events(t, s, time.Time{})
		if len(es) < 2 {
			t.Fatalf("%d events in %q", len(es), text)
		}
		if got, want := es[len(es)-2], logged(e); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %#v\nwant %#v", got, want)
		}
		if es[len(es)-1].Verb != "next" {
			t.Errorf("the last event is %v", es[len(es)-1])
		}
	})
}

// FuzzEvents: of any text in the log's files, the events since a time are those
// of a reader that knows nothing but lines and encoding/json.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"at":"2026-03-04T05:06:07Z","by":"b","verb":"v","detail":{}}`+"\n"), []byte("\n\x00\n{}\n"), int64(0))
	f.Add([]byte(`{"at":"2026-03-04T05:06:07.500Z","by":"b","verb":"v","detail":{"fence":1}}`+"\n"+`{"at":"2026-03-04T05:06:06.500Z","by":"b","verb":"v","detail":{"fence":1}}`), []byte(""), int64(300))
	f.Add([]byte(`{"AT":"2026-03-04T05:06:08+01:00","Verb":"v","detail":{"resource":5}}`+"\r\n"+`{"at":"2026-03-04T05:06:07.499Z","verb":"v","detail":null}`), []byte(`{"at":"2026-03-04T05:06:07.5001Z","verb":"v"}`), int64(500_000_001))
	f.Fuzz(func(t *testing.T, old, now []byte, since int64) {
		if len(old) > 32<<10 || len(now) > 32<<10 {
			t.Skip() // a line no longer than one may be
		}
		s := newStore(t)
		write(t, logFile(s, 1), string(old))
		write(t, s.Events(), string(now))
		sameEvents(t, s, scan(t, s), t0.Add(time.Duration(since)))
		sameEvents(t, s, scan(t, s), time.Time{})
	})
}
