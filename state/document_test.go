package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// odd is a value that few tools would write back as it is: exact numbers,
// escapes, white space, a member named twice, and the names of known members
// where they mean nothing.
const odd = `{ "n" : [1e400, 12345678901234567890, 1.10, -0, 1E+2, 0.1000],` + "\n\t" + `"s":"\u00e9 é \ud83d\ude00 😀 \/ \\ \" \n\u0000<&>` + "\u2028\u202e\u007f" + `",` +
	`"":{}, "a":1,"a":2 , "grants" : null, "supervisor":[[[]]]  ,"lone":"\ud800" }`

// full is a document with everything in it, and an unknown member everywhere.
// @ stands for odd.
const full = ` {
  "new1": @,
  "supervisor": {"new": @, "session": "s-1", "hostSession": "h-1", "name": "lab \"one\"\t", "person": "Änn", "team": "t", "host": "b", "since": "2026-03-04T05:06:07+01:00", "SINCE": "x"},
  "supervisorCLI": {"supervisor": "s-1", "since": "2026-03-04T05:06:07.120Z", "pid": 4711, "start": "boot:42", "gone": "2026-03-04T05:06:08Z", "new": @, "PID": 1.5},
  "GRANTS": @,
  "grants": [
    {"resource": "z", "to": {"session": "s-2", "new": @}, "by": {"new": @, "name": "n"}, "at": "2026-03-04T05:06:09Z", "upgradeUnblock": "why", "budgetGiB": 48, "new": @},
    {"resource": "a", "to": {"new": @}, "by": {"name": "n", "new": @}, "new": @, "Resource": "not this"},
    {"resource": "m", "new": @, "to": {"name": "😀", "new": @}, "by": {"name": "x", "new": @}}
  ],
  "Released": @,
  "released": {"z": "2026-03-04T05:06:10Z", "a": "2026-03-04T05:06:11.000000001Z"},
  "holds": [{"new": @, "target": "upgrade:kind-1/a", "reason": "r", "by": {"new": @, "session": "s"}, "at": "2026-03-04T05:06:12Z", "until": "2026-03-05T00:00:00Z", "liftedBy": {"new": @, "name": "l"}, "liftedAt": "2026-03-04T05:06:13Z"}],
  "seen": {"m": "2026-03-04T05:06:14Z"},
  "\u006eew2" : @
} `

func fullDocument() []byte { return []byte(strings.ReplaceAll(full, "@", odd)) }

// at is the text of a value inside a document, by member names and indexes.
func at(t *testing.T, doc []byte, path ...any) string {
	t.Helper()
	for _, step := range path {
		var err error
		switch step := step.(type) {
		case string:
			var m map[string]json.RawMessage
			err = json.Unmarshal(doc, &m)
			doc = m[step]
		case int:
			var l []json.RawMessage
			if err = json.Unmarshal(doc, &l); err == nil && step < len(l) {
				doc = l[step]
			}
		}
		if err != nil {
			t.Fatalf("%v: %v in %q", path, err, doc)
		}
	}
	return string(doc)
}

func mustParse(t *testing.T, doc []byte) *state.State {
	t.Helper()
	st, err := state.Parse(doc)
	if err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return st
}

func TestUnknownMembersSurvive(t *testing.T) { // B59
	paths := [][]any{{"new1"}, {"new2"}, {"GRANTS"}, {"Released"}, {"supervisor", "new"}, {"supervisorCLI", "new"}}
	for i := range 3 {
		for _, p := range [][]any{{"new"}, {"to", "new"}, {"by", "new"}} {
			paths = append(paths, append([]any{"grants", i}, p...))
		}
	}
	for _, p := range [][]any{{"new"}, {"by", "new"}, {"liftedBy", "new"}} {
		paths = append(paths, append([]any{"holds", 0}, p...))
	}
	doc := fullDocument()
	if want := strings.Count(full, "@"); len(paths) != want {
		t.Fatalf("the document has %d unknown members, %d are looked for", want, len(paths))
	}
	for round := range 3 {
		doc = mustParse(t, doc).Document()
		for _, p := range paths {
			if got := at(t, doc, p...); got != odd {
				t.Errorf("rewrite %d: %v is\n%s\nwant\n%s", round+1, p, got, odd)
			}
		}
		for _, p := range []struct {
			path []any
			want string
		}{
			{[]any{"supervisor", "SINCE"}, `"x"`},
			{[]any{"supervisorCLI", "PID"}, `1.5`},
			{[]any{"grants", 1, "Resource"}, `"not this"`},
		} {
			if got := at(t, doc, p.path...); got != p.want {
				t.Errorf("rewrite %d: %v is %s", round+1, p.path, got)
			}
		}
	}
}

// A grant or a party that is copied, or moved in its list, takes its unknown
// members along.
func TestUnknownMembersFollowTheirEntry(t *testing.T) {
	st := mustParse(t, []byte(`{"grants":[{"resource":"a","n":1},{"resource":"b","n":2,"to":{"session":"s","n":3}},{"resource":"c","n":4}],"holds":[{"target":"x","n":5},{"target":"y","n":6}]}`))
	st.Grants = slices.Delete(st.Grants, 0, 1)
	st.Grants[0].Resource = "B"
	st.Grants[0].To.Name = "new"
	st.Holds[0], st.Holds[1] = st.Holds[1], st.Holds[0]
	want := `{"grants":[{"resource":"B","n":2,"to":{"session":"s","name":"new","n":3}},{"resource":"c","n":4}],"holds":[{"target":"y","n":6},{"target":"x","n":5}]}`
	if got := st.Document(); !same(t, got, []byte(want)) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The layout: a line for each member, grant and hold, known members first.
func TestDocument(t *testing.T) {
	doc := `{"x":1,"holds":[{"target":"upgrade:k","until":"2026-03-05T00:00:00+02:00"},{"target":"t"}],"released":{"b":"2026-03-04T05:06:10.5Z","a":"2026-03-04T05:06:11Z"},"y":[ 1 ],
		"grants":[{"z":0,"budgetGiB":48,"at":"2026-03-04T05:06:09Z","by":{"name":"n"},"to":{"host":"b","session":"s"},"resource":"r"},{}],"seen":{"s":"2026-03-04T05:06:12Z"},
		"supervisorCLI":{"pid":7},"supervisor":{"since":"2026-03-04T05:06:07Z","team":"t","name":"<&>"}}`
	want := `{
"supervisor":{"name":"<&>","team":"t","since":"2026-03-04T05:06:07Z"},
"supervisorCLI":{"pid":7},
"grants":[
{"resource":"r","to":{"session":"s","host":"b"},"by":{"name":"n"},"at":"2026-03-04T05:06:09Z","budgetGiB":48,"z":0},
{}],
"released":{"a":"2026-03-04T05:06:11Z","b":"2026-03-04T05:06:10.5Z"},
"holds":[
{"target":"upgrade:k","until":"2026-03-04T22:00:00Z"},
{"target":"t"}],
"seen":{"s":"2026-03-04T05:06:12Z"},
"x":1,"y":[ 1 ]
}
`
	if got := string(mustParse(t, []byte(doc)).Document()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Every combination of members gives JSON: the commas are written by hand.
func TestDocumentOfEveryCombination(t *testing.T) {
	one := []string{`"supervisor":{"name":"n","u":1}`, `"supervisorCLI":{"u":1}`, `"grants":[{"resource":"r"},{"u":1}]`,
		`"released":{"r":"2026-03-04T05:06:07Z"}`, `"holds":[{"by":{"u":1}}]`, `"seen":{"r":"2026-03-04T05:06:07Z"}`, `"u":{"\n":"\n"}`, `"v":2`}
	for set := range 1 << len(one) {
		var ms []string
		for i := range one {
			if set&(1<<i) != 0 {
				ms = append(ms, one[i])
			}
		}
		doc := []byte("{" + strings.Join(ms, ",") + "}")
		got := mustParse(t, doc).Document()
		if !json.Valid(got) || !same(t, got, doc) {
			t.Errorf("%s was written as\n%s", doc, got)
		}
	}
}

func TestParseFields(t *testing.T) {
	st := mustParse(t, fullDocument())
	utc := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	s, c := st.Supervisor, st.SupervisorCLI
	if s.Session != "s-1" || s.HostSession != "h-1" || s.Name != "lab \"one\"\t" || s.Person != "Änn" || s.Team != "t" || s.Host != "b" || !s.Since.Equal(utc("2026-03-04T04:06:07Z")) {
		t.Errorf("supervisor %+v", s)
	}
	if c.Supervisor != "s-1" || !c.Since.Equal(utc("2026-03-04T05:06:07.12Z")) || c.PID != 4711 || c.Start != "boot:42" || !c.Gone.Equal(utc("2026-03-04T05:06:08Z")) {
		t.Errorf("supervisorCLI %+v", c)
	}
	var order []string
	for _, g := range st.Grants {
		order = append(order, g.Resource)
	}
	if !slices.Equal(order, []string{"z", "a", "m"}) {
		t.Errorf("grants of %q: the order of the document is the order of the queue", order)
	}
	if g := st.Grants[0]; g.To.Session != "s-2" || g.By.Name != "n" || !g.At.Equal(utc("2026-03-04T05:06:09Z")) || g.UpgradeUnblock != "why" || g.BudgetGiB != 48 {
		t.Errorf("grant %+v", g)
	}
	if g := st.Grants[1]; !g.At.IsZero() || g.To.Session != "" || g.BudgetGiB != 0 {
		t.Errorf("grant %+v", g)
	}
	if h := st.Holds[0]; h.Target != "upgrade:kind-1/a" || h.Reason != "r" || h.By.Session != "s" || !h.At.Equal(utc("2026-03-04T05:06:12Z")) ||
		!h.Until.Equal(utc("2026-03-05T00:00:00Z")) || h.LiftedBy.Name != "l" || !h.LiftedAt.Equal(utc("2026-03-04T05:06:13Z")) {
		t.Errorf("hold %+v", h)
	}
	if len(st.Released) != 2 || !st.Released["a"].Equal(utc("2026-03-04T05:06:11.000000001Z")) || len(st.Seen) != 1 || !st.Seen["m"].Equal(utc("2026-03-04T05:06:14Z")) {
		t.Errorf("released %v, seen %v", st.Released, st.Seen)
	}
}

func TestEmptyDocuments(t *testing.T) {
	for _, doc := range []string{"{}", " \t\r\n{ \t\r\n} \t\r\n", `{"grants":[],"holds":[ ],"released":{},"seen":{ }}`, `{"grants":null,"holds":null,"released":null,"seen":null,"supervisor":null,"supervisorCLI":null}`} {
		st := mustParse(t, []byte(doc))
		if !reflect.DeepEqual(st, &state.State{}) {
			t.Errorf("%q is %+v", doc, st)
		}
		if got := string(st.Document()); got != "{\n}\n" {
			t.Errorf("%q was written as %q", doc, got)
		}
	}
}

// Other tools write null, an empty string, a zero, or nothing for what isn't
// there.
func TestNothingIsNothing(t *testing.T) {
	for _, doc := range []string{
		`{"grants":[{"resource":"r","to":null,"by":null,"at":null,"upgradeUnblock":null,"budgetGiB":null}],"holds":[{"target":"t","reason":null,"by":null,"at":null,"until":null,"liftedBy":null,"liftedAt":null}],"supervisor":{"session":"s","name":null,"since":null},"supervisorCLI":{"supervisor":null,"pid":null,"start":null,"gone":null}}`,
		`{"grants":[{"resource":"r","to":{},"by":{},"at":"","upgradeUnblock":"","budgetGiB":0}],"holds":[{"target":"t","reason":"","by":{},"at":"","until":"","liftedBy":{},"liftedAt":""}],"supervisor":{"session":"s","name":"","since":""},"supervisorCLI":{"supervisor":"","pid":0,"start":"","gone":""}}`,
		`{"grants":[{"resource":"r","at":"0001-01-01T00:00:00Z"}],"holds":[{"target":"t","at":"0001-01-01T00:00:00Z"}],"supervisor":{"session":"s","since":"0001-01-01T00:00:00Z"},"supervisorCLI":{}}`,
		`{"grants":[{"resource":"r"}],"holds":[{"target":"t"}],"supervisor":{"session":"s"},"supervisorCLI":{}}`,
	} {
		want := &state.State{
			Grants: []state.Grant{{Resource: "r"}}, Holds: []state.Hold{{Target: "t"}},
			Supervisor: &state.Supervisor{Party: state.Party{Session: "s"}}, SupervisorCLI: &state.SupervisorCLI{},
		}
		if st, err := state.Parse([]byte(doc)); err != nil {
			t.Errorf("%s: %v", doc, err)
		} else if !reflect.DeepEqual(st, want) {
			t.Errorf("%s\nis %+v", doc, st)
		}
	}
}

// A time that is no time is dropped, and an empty list of them with it: the
// second rewrite is like the first.
func TestNoTimeIsDropped(t *testing.T) {
	first := mustParse(t, []byte(`{"released":{"r":null},"seen":{"r":""}}`)).Document()
	if second := mustParse(t, first).Document(); !bytes.Equal(first, second) {
		t.Errorf("first %s, then %s", first, second)
	}
}

// What is read can be read again when it was written: times at the ends of
// RFC 3339's years, zones, fractions.
func TestTimes(t *testing.T) {
	for _, text := range []string{"2026-03-04T05:06:07Z", "2026-03-04T05:06:07.123456789Z", "2026-03-04T05:06:07.5+14:00", "1969-12-31T23:59:59Z",
		"2016-12-31T23:59:59-00:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999999+01:00", "0000-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00", "0001-01-01T00:00:00-01:00"} {
		st, err := state.Parse([]byte(`{"released":{"r":"` + text + `"}}`))
		if err != nil {
			continue // refused is well enough
		}
		doc := st.Document()
		again, err := state.Parse(doc)
		if err != nil {
			t.Errorf("%s was read, and then written as %s: %v", text, doc, err)
		} else if !again.Released["r"].Equal(st.Released["r"]) {
			t.Errorf("%s became %v", text, again.Released["r"])
		}
	}
	for _, text := range []string{"2026-03-04", "2026-03-04 05:06:07Z", "2026-03-04T05:06:07", "now", "2026-02-30T05:06:07Z", "1767225600", "2026-03-04T05:06:07Z ", "10000-01-01T00:00:00Z"} {
		if _, err := state.Parse([]byte(`{"released":{"r":"` + text + `"}}`)); err == nil {
			t.Errorf("%q is a time", text)
		}
	}
}

// The name of an unknown member is nobody's to spell anew: names that can't be
// told apart when they are decoded would become one.
func TestUnknownNamesSurvive(t *testing.T) {
	doc := string(mustParse(t, []byte(`{"\ud800":1,"\ud801":2,"a\/b":3,"\u0061c":4,"supervisor":{"\udfff":5}}`)).Document())
	for _, want := range []string{`"\ud800":1`, `"\ud801":2`, `"a\/b":3`, `"\u0061c":4`, `{"\udfff":5}`} {
		if !strings.Contains(doc, want) {
			t.Errorf("%s isn't in\n%s", want, doc)
		}
	}
}

// broken are texts that are no state document; @ marks the byte to blame where
// it isn't the first, and is no part of the text.
var broken = map[string]string{
	"empty":                     "",
	"white space":               " \n@",
	"null":                      "null",
	"a list":                    " @[]",
	"a string":                  `"x"`,
	"a number":                  "5",
	"a word":                    "true",
	"NULs":                      strings.Repeat("\x00", 4096),
	"trailing NULs":             "{}\n@" + strings.Repeat("\x00", 512),
	"a byte order mark":         "\xef\xbb\xbf{}",
	"UTF-16":                    "\xff\xfe{\x00}\x00",
	"trailing text":             `{"grants":[]} @x`,
	"a trailing comma":          `{"grants":[],@}`,
	"two documents":             "{}\n@{}",
	"two documents on a line":   "{}@{}",
	"a comment":                 `{@// hello` + "\n}",
	"single quotes":             `{@'a':1}`,
	"a merge conflict":          "@<<<<<<< HEAD\n{}\n",
	"deep nesting":              `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}",
	"deep and open":             strings.Repeat(`{"a":`, 5000) + "@",
	"a raw control character":   "{\"a\":\"@\x01\"}",
	"a raw new line":            "{\"a\":\"@\n\"}",
	"latin 1 in a value":        "{\"grants\":[{\"resource\":\"@\xe9\"}]}",
	"latin 1 in an unknown one": "{\"new\":\"@\xe9\"}",
	"latin 1 in a name":         "{\"@\xe9\":1}",
	"a surrogate as UTF-8":      "{\"new\":\"@\xed\xa0\x80\"}",
	"grants an object":          `{"grants": @{}}`,
	"grants a string":           `{"grants":@"x"}`,
	"a grant a string":          `{"grants":[{},@"x"]}`,
	"a grant null":              `{"grants":[@null]}`,
	"a grant a list":            `{"grants":[@[]]}`,
	"grants in grants":          `{"grants":[@[{}]]}`,
	"to a string":               `{"grants":[{"to":@"s"}]}`,
	"to a list":                 `{"grants":[{"to":@[]}]}`,
	"by a number":               `{"grants":[{"by":@0}]}`,
	"resource a number":         `{"grants":[{"resource":@5}]}`,
	"resource an object":        `{"grants":[{"resource":@{}}]}`,
	"at a number":               `{"grants":[{"at":@5}]}`,
	"at no time":                `{"grants":[{"at":@"yesterday"}]}`,
	"at a list":                 `{"grants":[{"at":@[]}]}`,
	"budget a string":           `{"grants":[{"budgetGiB":@"48"}]}`,
	"budget a fraction":         `{"grants":[{"budgetGiB":@4.8}]}`,
	"budget beyond 64 bits":     `{"grants":[{"budgetGiB":@12345678901234567890}]}`,
	"budget an object":          `{"grants":[{"budgetGiB":@{}}]}`,
	"session a number":          `{"supervisor":{"session":@5}}`,
	"team a bool":               `{"supervisor":{"team":@false}}`,
	"since a number":            `{"supervisor":{"since":@5}}`,
	"supervisor a string":       `{"supervisor":@"s"}`,
	"supervisor false":          `{"supervisor":@false}`,
	"supervisorCLI a list":      `{"supervisorCLI":@[]}`,
	"pid a string":              `{"supervisorCLI":{"pid":@"5"}}`,
	"start a number":            `{"supervisorCLI":{"start":@5}}`,
	"supervisor's name":         `{"supervisorCLI":{"supervisor":@{}}}`,
	"gone a word":               `{"supervisorCLI":{"gone":@true}}`,
	"released a list":           `{"released":@[]}`,
	"released a number":         `{"released":{"a":"2026-03-04T05:06:07Z","b":@5}}`,
	"seen a string":             `{"seen":@"x"}`,
	"holds an object":           `{"holds":@{}}`,
	"a hold a number":           `{"holds":[@1]}`,
	"target a list":             `{"holds":[{"target":@[]}]}`,
	"reason a number":           `{"holds":[{"reason":@1}]}`,
	"until no time":             `{"holds":[{"until":@"2026-13-01T00:00:00Z"}]}`,
	"lifted by a string":        `{"holds":[{"liftedBy":@"x"}]}`,
	"lifted at a number":        `{"holds":[{"liftedAt":@1}]}`,
	"an escaped name":           `{"gr\u0061nts":@1}`,
	"the second of two":         `{"grants":[],"grants":@1}`,
	"5 MB of junk":              strings.Repeat("\x9c\x00junk", 1<<20),
	"5 MB of brackets":          strings.Repeat("[", 5<<20),
	"5 MB of a string":          `{"x":"` + strings.Repeat("x", 5<<20) + "@",
}

// without takes the mark out of a broken text and says where it was; -1: it
// had none.
func without(marked string) (text string, at int) {
	before, after, ok := strings.Cut(marked, "@")
	if !ok {
		return marked, -1
	}
	return before + after, len(before)
}

func TestBrokenDocuments(t *testing.T) { // B11
	for name, marked := range broken {
		t.Run(name, func(t *testing.T) {
			text, offset := without(marked)
			s := newStore(t)
			write(t, s.Path(), text)
			before, err := os.Stat(s.Path())
			if err != nil {
				t.Fatal(err)
			}
			l := lock(t, s)
			for range 2 { // the second time it is no better
				st, err := l.State()
				isBroken(t, s, st, err, offset)
			}
			if read(t, s.Path()) != text {
				t.Error("the file was changed")
			}
			if after, err := os.Stat(s.Path()); err != nil || !os.SameFile(before, after) || after.ModTime() != before.ModTime() {
				t.Errorf("the file was touched: %v", err)
			}
			if got := names(t, s.Dir); !slices.Equal(got, []string{"state.json", "state.lock"}) {
				t.Errorf("beside it there is %q", got)
			}
		})
	}
}

// isBroken says that an error is what a broken document must give: its path,
// the byte, and both in the text. An offset of -1 is any.
func isBroken(t *testing.T, s *state.Store, st *state.State, err error, offset int) {
	t.Helper()
	var broken *state.BrokenError
	if !errors.As(err, &broken) || st != nil {
		t.Errorf("got %v, %T %v", st, err, err)
		return
	}
	if broken.Path != s.Path() || !strings.Contains(broken.Error(), s.Path()) {
		t.Errorf("%v doesn't name %s", broken, s.Path())
	}
	var syntax *state.SyntaxError
	if !errors.As(err, &syntax) {
		t.Errorf("%v has no offset", err)
		return
	}
	if text := fmt.Sprintf("byte %d: ", syntax.Offset); !strings.Contains(broken.Error(), text) || len(syntax.Reason) == 0 {
		t.Errorf("%v doesn't say %q", broken, text)
	}
	if offset >= 0 && syntax.Offset != int64(offset) {
		t.Errorf("%v: the byte to blame is %d", broken, offset)
	}
}

// Cut short at every byte, a real document is broken at that byte.
func TestTruncatedDocument(t *testing.T) {
	doc := mustParse(t, fullDocument()).Document()
	whole := len(bytes.TrimSpace(doc))
	s := newStore(t)
	l := lock(t, s)
	for n := range whole {
		write(t, s.Path(), string(doc[:n]))
		st, err := l.State()
		offset := n
		if !utf8.Valid(doc[:n]) {
			offset = -1 // in the middle of a character
		}
		isBroken(t, s, st, err, offset)
		if t.Failed() {
			t.Fatalf("at %d, after %q", n, doc[max(0, n-40):n])
		}
	}
	write(t, s.Path(), string(doc[:whole]))
	if _, err := l.State(); err != nil {
		t.Errorf("only its last new line is missing: %v", err)
	}
}

func TestDocumentIsNoFile(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, path string){
		"a directory":        func(t *testing.T, path string) { must(t, os.MkdirAll(filepath.Join(path, "x"), 0o700)) },
		"a FIFO":             func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) },
		"a socket":           plantSocket,
		"a symbolic link":    func(t *testing.T, path string) { write(t, path+".real", "{}"); must(t, os.Symlink(path+".real", path)) },
		"a dangling link":    func(t *testing.T, path string) { must(t, os.Symlink(path+".none", path)) },
		"a link to itself":   func(t *testing.T, path string) { must(t, os.Symlink(filepath.Base(path), path)) },
		"a link to a device": func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) },
		"a huge file": func(t *testing.T, path string) {
			write(t, path, "{}")
			must(t, os.Truncate(path, state.MaxDocument+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			plant(t, s.Path())
			before, err := os.Lstat(s.Path())
			must(t, err)
			l := lock(t, s)
			promptly(t, func() {
				st, err := l.State()
				var broken *state.BrokenError
				if !errors.As(err, &broken) || st != nil || broken.Path != s.Path() {
					t.Errorf("got %v, %T %v", st, err, err)
					return
				}
				if why := broken.Error(); strings.Contains(name, "link") != strings.HasSuffix(why, ": is a symbolic link") ||
					strings.Contains(name, "huge") != strings.Contains(why, fmt.Sprint(state.MaxDocument+1)) {
					t.Errorf("%s: %s", name, why)
				}
			})
			if after, err := os.Lstat(s.Path()); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() || after.Size() != before.Size() {
				t.Errorf("it was changed: %v %v", after, err)
			}
		})
	}
}

// A document of the largest size is read to its last byte.
func TestLargestDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("64 MiB")
	}
	s := newStore(t)
	f, err := os.Create(s.Path())
	must(t, err)
	defer f.Close()
	_, err = f.WriteString(`{"x":"`)
	must(t, err)
	_, err = f.Write(bytes.Repeat([]byte("x"), state.MaxDocument-len(`{"x":"`)-len(`"}`)))
	must(t, err)
	_, err = f.WriteString(`"}`)
	must(t, err)
	if _, err := lock(t, s).State(); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// promptly fails the test when f blocks: what is planted must make nobody wait.
func promptly(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
}

// same says whether two documents mean the same, apart from what this program
// writes in its own way.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, errX := oracle(a)
	y, errY := oracle(b)
	if errX != nil || errY != nil {
		t.Errorf("no document: %v, %v", errX, errY)
	}
	return reflect.DeepEqual(x, y)
}

// oracle reads a document by encoding/json and the table below alone: the
// members that this program knows are checked, and left out when they say
// nothing; all others are kept, numbers as they are written.
func oracle(doc []byte) (map[string]any, error) {
	if !utf8.Valid(doc) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() || !json.Valid(doc) {
		return nil, errors.New("trailing text")
	}
	top, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("no object")
	}
	return top, document.normal(top)
}

// A shape is what an object's known members are; the value is "string", "int",
// "time", "times", or the shape of an object or of a list's elements.
type shape map[string]any

type listOf shape

var (
	aParty   = shape{"session": "string", "hostSession": "string", "name": "string", "person": "string", "team": "string", "host": "string"}
	document = shape{
		"supervisor":    with(aParty, "since", "time"),
		"supervisorCLI": shape{"supervisor": "string", "since": "time", "pid": "int", "start": "string", "gone": "time"},
		"grants":        listOf{"resource": "string", "to": aParty, "by": aParty, "at": "time", "upgradeUnblock": "string", "budgetGiB": "int"},
		"released":      "times",
		"holds":         listOf{"target": "string", "reason": "string", "by": aParty, "at": "time", "until": "time", "liftedBy": aParty, "liftedAt": "time"},
		"seen":          "times",
	}
)

func with(s shape, key string, v any) shape {
	s = maps.Clone(s)
	s[key] = v
	return s
}

func (s shape) normal(v map[string]any) error {
	for key, what := range s {
		x, ok := v[key]
		if !ok {
			continue
		}
		if x == nil {
			delete(v, key)
			continue
		}
		keep, err := normalValue(what, x)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if m, ok := keep.(map[string]any); ok && len(m) == 0 && (key == "to" || key == "by" || key == "liftedBy") {
			keep = nil
		}
		if keep == nil {
			delete(v, key)
		} else {
			v[key] = keep
		}
	}
	return nil
}

// normalValue is what is kept of a known value; nil: it says nothing.
func normalValue(what, x any) (any, error) {
	wrong := fmt.Errorf("%v is no %v", x, what)
	switch what := what.(type) {
	case shape:
		m, ok := x.(map[string]any)
		if !ok {
			return nil, wrong
		}
		return m, what.normal(m)
	case listOf:
		l, ok := x.([]any)
		if !ok {
			return nil, wrong
		}
		for _, x := range l {
			m, ok := x.(map[string]any)
			if !ok {
				return nil, wrong
			}
			if err := shape(what).normal(m); err != nil {
				return nil, err
			}
		}
		if len(l) == 0 {
			return nil, nil
		}
		return l, nil
	}
	switch what {
	case "times":
		m, ok := x.(map[string]any)
		if !ok {
			return nil, wrong
		}
		for k, x := range m {
			at, err := normalValue("time", x)
			if err != nil {
				return nil, err
			}
			if m[k] = at; at == nil {
				delete(m, k)
			}
		}
		if len(m) == 0 {
			return nil, nil
		}
		return m, nil
	case "int":
		n, ok := x.(json.Number)
		if !ok {
			return nil, wrong
		}
		i, err := strconv.Atoi(n.String())
		if i == 0 {
			return nil, err
		}
		return json.Number(strconv.Itoa(i)), err
	}
	if x == nil || x == "" {
		return nil, nil
	}
	text, ok := x.(string)
	if !ok {
		return nil, wrong
	}
	if what == "time" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.IsZero() {
			return nil, err
		}
		if y := at.UTC().Year(); y < 0 || y > 9999 {
			return nil, errors.New("a year that RFC 3339 can't write in UTC")
		}
		return at.UTC().Format(time.RFC3339Nano), nil
	}
	return text, nil
}

func plantSocket(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
}
