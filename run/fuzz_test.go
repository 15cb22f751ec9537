package run

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// What others put into the files is shown to people and to programs: each target
// writes files where they belong, and asks every verb that shows them.

// written writes files below a base directory. Nothing is no file.
func written(t *testing.T, dir string, files map[string][]byte) {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if len(text) == 0 {
			continue
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// escapes puts what a terminal obeys into the texts of a JSON document, the times
// left out.
func escapes(text string) string {
	const bad = `":"\u001b[2J\r\n\u202e\u009b`
	return strings.ReplaceAll(strings.ReplaceAll(text, `":"`, bad), bad+"2", `":"2`)
}

// locked makes a FIFO whose owner lives.
func locked(t *testing.T, path string) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
}

// shows runs a verb on the base in dir, for a person and as JSON. What it prints
// is harmless, no longer than a person reads, and JSON; its status is one of
// codes.
func shows(t *testing.T, dir, what string, verb func(s *Session) Exit, codes ...int) {
	t.Helper()
	for _, asJSON := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		s := &Session{Flags: Flags{Dir: dir, JSON: asJSON, Session: "s-ann", Name: "ann"}, Stdout: &stdout, Stderr: &stderr,
			Getenv: func(string) string { return "" }, Now: time.Now, host: "lab"}
		code := verb(s).Code
		found := false
		for _, c := range codes {
			found = found || c == code
		}
		if !found {
			t.Errorf("%s: exit %d, want one of %d: %s", what, code, codes, &stderr)
		}
		if s.JSON && code != ExitFailed && stdout.Len() > 0 {
			for d := json.NewDecoder(&stdout); d.More(); { // a document, or one a line
				var doc json.RawMessage
				if err := d.Decode(&doc); err != nil {
					t.Fatalf("%s: no JSON: %v", what, err)
				}
				for line := range strings.Lines(string(doc)) {
					harmless(t, what, strings.TrimSuffix(line, "\n"))
				}
			}
		}
		for line := range strings.Lines(stdout.String() + stderr.String()) {
			harmless(t, what, strings.TrimSuffix(line, "\n"))
			if n := utf8.RuneCountInString(line); !asJSON && n > 9000 { // 1500, escaped
				t.Errorf("%s: a line of %d characters", what, n)
			}
		}
	}
}

// FuzzShownLease: whatever the files of a lease and of a place in line have, the
// verbs that show them work, and harm no terminal.
func FuzzShownLease(f *testing.F) {
	const (
		record  = `{"env":"gpu","holder":"ann@lab","session":"s-ann","hostSession":"h","name":"ann","person":"Ann","team":"t","host":"lab","purpose":"tests","since":"2026-03-01T10:00:00Z","budgetGiB":48}`
		process = `{"pid":7,"start":9,"bootId":"b","machineId":"m","host":"lab","token":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","fence":3,"ttl":60,"command":["make","test"]}`
		claim   = `{"token":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","fence":3,"until":"2100-01-01T00:00:00Z"}`
		asked   = `{"asks":[{"by":{"session":"s-eve","name":"eve"},"at":"2026-03-01T10:00:00Z","message":"please"}]}`
		ticket  = `{"id":"5a5a5a5a","number":2,"party":{"session":"s-bob","name":"bob"},"holder":"bob@lab","purpose":"tests","since":"2026-03-01T10:00:00Z","pid":7,"resources":["gpu","usb"],"kept":"2100-01-01T00:00:00Z"}`
	)
	add := func(change func(text string) string) {
		for how := range byte(8) {
			f.Add([]byte(change(record)), []byte(change(process)), []byte(change(claim)), []byte(change(asked)), []byte(change(ticket)), how)
		}
	}
	add(func(text string) string { return text })
	add(func(text string) string { return text[:len(text)/2] })
	add(escapes)
	add(func(text string) string { return strings.ReplaceAll(text, "00Z", "00+24:60") })
	add(func(text string) string {
		return strings.ReplaceAll(text, "2026-03-01T10:00:00Z", "0000-01-01T00:00:00+01:00")
	})
	add(func(text string) string {
		return strings.ReplaceAll(text, "2100-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00")
	})
	add(func(text string) string { return strings.ReplaceAll(text, "a", strings.Repeat("\u200f", 300)) })
	f.Fuzz(func(t *testing.T, record, process, claim, asked, ticket []byte, how byte) {
		dir := t.TempDir()
		written(t, dir, map[string][]byte{"leases/gpu/holder.json": record, "leases/gpu/process.json": process, "leases/.queue/gpu/2.json": ticket})
		if how&1 > 0 {
			written(t, dir, map[string][]byte{"leases/gpu/claim.json": claim})
		}
		if how&2 > 0 {
			locked(t, filepath.Join(dir, "leases/gpu/witness"))
		}
		written(t, dir, map[string][]byte{"leases/gpu/asked.json": asked, "leases/.queue/gpu/last": []byte("2")})
		if how&4 > 0 {
			locked(t, filepath.Join(dir, "leases/.queue/gpu/2"))
		} else if err := os.WriteFile(filepath.Join(dir, "leases/.queue/gpu/2"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		sight, err := lease.Open(dir, filepath.Join(dir, "leases"), dir).Look("gpu")
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		if sight.Held {
			held = ExitRefused
		}
		shows(t, dir, "list", (*Session).List, 0)
		shows(t, dir, "status", func(s *Session) Exit { return s.Status("gpu") }, held)
		shows(t, dir, "queue", func(s *Session) Exit { return s.Queue("") }, 0)
		shows(t, dir, "stats", func(s *Session) Exit { return s.Stats("", "2026-01-01") }, 0)
		shows(t, dir, "ask", func(s *Session) Exit { return s.Ask("gpu", "please") }, 0, ExitRefused)
		shows(t, dir, "release", func(s *Session) Exit { s.Flags.Session = "s-new"; return s.Release(Release{Resource: "gpu"}) }, 0, ExitRefused)
	})
}

// FuzzShownState: whatever the state document and the event log have, the verbs
// that show them work or say what is broken, and harm no terminal.
func FuzzShownState(f *testing.F) {
	const (
		document = `{"supervisor":{"session":"s-boss","name":"boss","since":"2026-03-01T10:00:00Z"},"supervisorCLI":{"supervisor":"s-boss","since":"2026-03-01T10:00:00Z","pid":7,"gone":"2026-03-01T10:00:00Z"},` +
			`"grants":[{"resource":"gpu","to":{"session":"s-ann","name":"ann"},"by":{"name":"boss"},"at":"2100-01-01T00:00:00Z","upgradeUnblock":"why","budgetGiB":4},{"resource":"usb","to":{"name":"bob"},"at":"2100-01-01T00:00:00Z"}],` +
			`"released":{"gpu":"2026-03-01T10:00:00Z"},"seen":{"gpu":"2026-03-01T10:00:00Z"},"holds":[{"target":"upgrade:gpu/a","reason":"why","by":{"name":"boss"},"at":"2026-03-01T10:00:00Z","until":"2100-01-01T00:00:00Z"}]}`
		claim = `{"at":"2026-03-01T10:00:00.000Z","by":"ann","verb":"claim","detail":{"resource":"gpu","session":"s-ann","purpose":"tests","token":"5a","fence":1,"waitSeconds":1.5}}` + "\n"
	)
	log := claim
	for _, verb := range []string{"release", "claim", "lease.crash", "force", "grant", "revoke", "grant.expire", "upgrade.begin", "keep", "claim.end", "ask", "extend", "supervisor.start", "lease.abandoned"} {
		log += `{"at":"2026-03-01T10:00:07.000Z","by":"ann","verb":"` + verb + `","detail":{"resource":"gpu","resources":["gpu"],"session":"s-ann","to":"bob","purpose":"tests","reason":"why","token":"5a","fence":1,"outcome":"exit 0","heldSeconds":7,` +
			`"renewed":"2026-03-01T10:00:00Z","target":"gpu/a","until":"2100-01-01T00:00:00Z"}}` + "\n"
	}
	add := func(change func(text string) string) { f.Add([]byte(change(document)), []byte(change(log))) }
	add(func(text string) string { return text })
	add(func(text string) string { return text[:len(text)/2] })
	add(escapes)
	add(func(text string) string { return strings.ReplaceAll(text, "Z", "+24:60") })
	add(func(text string) string { return strings.ReplaceAll(text, "2026-03-01T10", "0000-01-01T00") })
	add(func(text string) string { return strings.ReplaceAll(text, "00Z", "00-23:59") })
	add(func(text string) string { return strings.ReplaceAll(text, "2026-03-01", "9999-12-31") })
	add(func(text string) string { return strings.ReplaceAll(text, "Seconds\":", "Seconds\":1e308") })
	add(func(text string) string { return strings.ReplaceAll(text, "Seconds\":", "Seconds\":-1e300") })
	add(func(text string) string {
		return strings.ReplaceAll(text, "\"why\"", "\""+strings.Repeat("\u200f", 300)+"\"")
	})
	f.Fuzz(func(t *testing.T, document, log []byte) {
		dir := t.TempDir()
		written(t, dir, map[string][]byte{"state.json": document, "events.jsonl": log, "leases/usb/holder.json": []byte(`{"session":"s-bob","name":"bob","purpose":"p","since":"2026-03-01T10:00:00Z"}`)})
		free, held := 0, ExitRefused
		if _, err := state.Parse(document); err != nil && len(document) > 0 {
			free, held = ExitFailed, ExitFailed
		}
		shows(t, dir, "list", (*Session).List, free)
		shows(t, dir, "status", func(s *Session) Exit { return s.Status("usb") }, held)
		shows(t, dir, "queue", func(s *Session) Exit { return s.Queue("") }, free)
		shows(t, dir, "supervisor status", (*Session).SupervisorStatus, free, held)
		shows(t, dir, "history", func(s *Session) Exit { return s.History("", "2026-01-01", 0) }, 0)
		shows(t, dir, "history of one", func(s *Session) Exit { return s.History("gpu", "2026-01-01", 3) }, 0)
		shows(t, dir, "stats", func(s *Session) Exit { return s.Stats("", "2026-01-01") }, 0)
		shows(t, dir, "timeline", func(s *Session) Exit { s.JSON = false; return s.Timeline(nil, "-", "", "2026-01-01") }, 0)
		text, err := os.ReadFile(filepath.Join(dir, "state.json"))
		if err == nil && !bytes.Equal(text, document) {
			t.Errorf("the document was %q and is %q", document, text)
		}
	})
}

// FuzzGuardRules: whatever the file of rules has, the hook refuses by its rules,
// or says on a line what is wrong with it.
func FuzzGuardRules(f *testing.F) {
	for _, rules := range []string{oneRule, "", "{}", "null", "[]", `{"rules":null}`, `{"rules":[{"resource":"kind-1"}]}`, `{"rules":[{"resource":"../x","programs":["kubectl"]}]}`,
		`{"rules":[{"resource":"kind-1","programs":["kubectl","kubectl",""],"args":["","*"],"reason":"` + strings.Repeat("x", 500) + `"}]}`, oneRule[:40], `{"rules":[{"resource":"\u001b[2J"}]}`,
		`{"rules":[{"resource":5}]}`, `{"Rules":[{"RESOURCE":"kind-1","programs":["kubectl"]}]} x`, "\x1b[2J", strings.Repeat("[", 2000)} {
		f.Add([]byte(rules))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		code, said := guardOf(t, bash("kubectl --context kind-1 get pods"), string(text))
		harmless(t, "the hook", strings.TrimSuffix(said, "\n"))
		if n := utf8.RuneCountInString(said); n > 3000 {
			t.Errorf("a line of %d characters", n)
		}
		path := filepath.Join(t.TempDir(), "guard.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		rules, err := lease.ReadGuard(path)
		if err != nil {
			harmless(t, "the error", Explain(err))
			if want := min(1, len(text)); code != want { // nothing in it is no file here
				t.Errorf("exit %d of %v", code, err)
			}
			return
		}
		want := 0
		for _, r := range rules {
			if lease.CheckName(r.Resource) != nil || len(r.Programs) == 0 {
				t.Errorf("a rule is %+v", r)
			}
			if len(guarded("kubectl --context kind-1 get pods", noFlags)[0].needs([]lease.GuardRule{r})) > 0 {
				want = ExitGuarded
			}
		}
		if code != want || (said == "") != (code == 0) {
			t.Errorf("exit %d, want %d: %s", code, want, said)
		}
		whole, err := json.Marshal(map[string]any{"rules": rules})
		if err != nil {
			t.Fatal(err)
		}
		if again, said := guardOf(t, bash("kubectl --context kind-1 get pods"), string(whole)); again != code {
			t.Errorf("exit %d, and of the same rules %d: %s", code, again, said)
		}
	})
}
