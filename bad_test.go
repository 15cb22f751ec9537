package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Files that are not as they should be: each row must cost one line on standard
// error and the right exit status, and lose and make nothing.

// lab is a base directory, and the program on it.
type lab struct {
	*testing.T
	dir    string // writable, everything lies below
	base   string
	leases string
	env    []string
}

func newLab(t *testing.T) *lab {
	dir := t.TempDir()
	base := filepath.Join(dir, "base")
	l := &lab{t, dir, base, filepath.Join(base, "leases"), nil}
	l.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LOGNAME=ann", "TZ=UTC", "WITHLEASE_DIR=" + base, "BASE=" + base, "WORK=" + dir}
	for _, name := range []string{"GOCOVERDIR", "GORACE"} {
		if v := os.Getenv(name); v != "" {
			l.env = append(l.env, name+"="+v)
		}
	}
	return l
}

// write makes a file, and the directories above it.
func (l *lab) write(path, text string) string {
	l.Helper()
	path = filepath.Join(l.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
	return path
}

func (l *lab) read(path string) string {
	text, err := os.ReadFile(filepath.Join(l.dir, path))
	if err != nil {
		l.Error(err)
	}
	return string(text)
}

// answer is how a program ended.
type answer struct {
	lab      *lab
	what     string
	status   string
	out, err string
}

// run runs a program to its end.
func (l *lab) run(name string, args ...string) *answer {
	l.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 3*deadline) // a script is many programs
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.dir, l.env, &out, &errs
	// A script that hangs goes with all that it started, which has its output too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		l.Fatalf("%s %q has not ended: out %q, err %q", name, args, out.String(), errs.String())
	}
	a := &answer{l, fmt.Sprintf("%s %q", name, args), endOf(err), out.String(), errs.String()}
	for line := range strings.Lines(a.err) {
		if name == "withlease" && !strings.HasPrefix(line, "withlease: ") {
			l.Errorf("%s says %q, not one of its lines", a.what, line)
		}
	}
	return a
}

func (l *lab) withlease(args ...string) *answer {
	l.Helper()
	return l.run("withlease", args...)
}

// ends checks the exit status.
func (a *answer) ends(status string) *answer {
	a.lab.Helper()
	if a.status != status {
		a.lab.Errorf("%s: ended with %s, not %s; out %q, err %q", a.what, a.status, status, a.out, a.err)
	}
	return a
}

// says checks that standard error is one line, and matches.
func (a *answer) says(pattern string) *answer {
	a.lab.Helper()
	if strings.Count(a.err, "\n") != 1 || !regexp.MustCompile("(?m)"+pattern).MatchString(a.err) {
		a.lab.Errorf("%s: not one line that is %q: %q", a.what, pattern, a.err)
	}
	return a
}

// shows checks standard output; an empty pattern means none.
func (a *answer) shows(pattern string) *answer {
	a.lab.Helper()
	if pattern == "" && a.out != "" || !regexp.MustCompile("(?m)"+pattern).MatchString(a.out) {
		a.lab.Errorf("%s: not %q: %q", a.what, pattern, a.out)
	}
	return a
}

// silent checks that nothing is on standard error.
func (a *answer) silent() *answer {
	a.lab.Helper()
	if a.err != "" {
		a.lab.Errorf("%s: says %q", a.what, a.err)
	}
	return a
}

// tree is everything below a directory: kind, mode, time and content.
func tree(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprint(st.Mode(), st.ModTime().UnixNano())
		if st.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		all[path] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares two trees.
func same(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for path, text := range before {
		if after[path] != text {
			t.Errorf("%s: %s was %q, is %q", what, path, text, after[path])
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s: %s is new", what, path)
		}
	}
}

var nul = strings.Repeat("\x00", 64)

// B11: a record that is none holds, is shown as unreadable, and can be forced
// away; other leases are none the worse.
func TestBrokenRecord(t *testing.T) {
	t.Parallel()
	good := `{"env":"gpu","holder":"bob@host","session":"s1","purpose":"work","since":"2026-01-02T03:04:05Z"}`
	records := []struct{ name, text string }{
		{"empty", ""}, {"cut short", good[:20]}, {"empty object", "{}"}, {"null", "null"}, {"list", "[]"}, {"string", `"x"`},
		{"NULs", nul}, {"good with NULs", good + nul}, {"two", good + good},
		{"number for a time", `{"holder":"x","since":5}`}, {"object for a name", `{"name":{}}`}, {"budget of text", `{"holder":"x","budgetGiB":"5"}`},
		{"not UTF-8", "{\"holder\":\"\xff\xfe"}, {"5 MB of junk", strings.Repeat("x", 5<<20)},
		{"2 MB of good", `{"holder":"x","purpose":"` + strings.Repeat("x", 2<<20) + `"}`}, {"deep", strings.Repeat("[", 100_000)},
	}
	for _, r := range records {
		t.Run(r.name, func(t *testing.T) {
			l := newLab(t)
			l.withlease("claim", "-p", "other", "net").ends("0")
			other := tree(t, filepath.Join(l.leases, "net"))
			l.write("base/leases/gpu/holder.json", r.text)
			record := tree(t, filepath.Join(l.leases, "gpu"))

			l.withlease("list").ends("0").silent().shows(`^gpu  held by somebody \[its record is unreadable\]$`).shows(`^net  held by ann .*: other$`)
			l.withlease("list", "--json").ends("0").silent().shows(`"problem": "its record is unreadable"`)
			l.withlease("status", "gpu").ends("1").silent().shows(`^gpu  held by somebody`)
			l.withlease("queue", "gpu").ends("0").silent()
			l.withlease("-n", "gpu", "--", "argv", "ran").ends("75").shows("").says(`gpu is held by somebody .*its record is unreadable.*` + regexp.QuoteMeta(l.leases) + `/gpu`)
			l.withlease("claim", "gpu").ends("1").shows("").says(`its record is unreadable`)
			l.withlease("release", "gpu").ends("1").shows("").says(`withlease release --force --reason WHY gpu$`)
			same(t, "the record", record, tree(t, filepath.Join(l.leases, "gpu")))
			l.withlease("release", "--force", "--reason", "test", "gpu").ends("0").shows(`^freed gpu`)
			l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent().shows("ran")
			same(t, "the other lease", other, tree(t, filepath.Join(l.leases, "net")))
		})
	}
}

// A record that is there and is no file is no other's either.
func TestRecordThatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, mk := range map[string]func(path string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"FIFO":      func(p string) error { return unix.Mkfifo(p, 0o600) },
		"link":      func(p string) error { return os.Symlink("/etc/passwd", p) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if err := os.MkdirAll(filepath.Join(l.leases, "gpu"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := mk(filepath.Join(l.leases, "gpu", "holder.json")); err != nil {
				t.Fatal(err)
			}
			l.withlease("list").ends("0").silent().shows(`^gpu  held by somebody \[its record is not a regular file\]$`)
			l.withlease("-n", "gpu", "--", "argv", "ran").ends("75").shows("").says("not a regular file")
			l.withlease("release", "--force", "--reason", "test", "gpu").ends("0")
			l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent()
		})
	}
}

// B11: a document that is none stops what needs it, with its name and where it
// is wrong, and stays as it is, byte for byte. Nobody barges in. What is held
// is still shown, and can be given back.
func TestBrokenDocument(t *testing.T) {
	t.Parallel()
	documents := []struct{ name, text, says string }{
		{"empty", "", "byte 0: "},
		{"cut short", `{"grants":[{"resource":"gpu",`, "byte [0-9]+: unexpected end"},
		{"null", "null", "byte 0: the document is not an object"},
		{"list", "[]", "byte 0: the document is not an object"},
		{"string", `"x"`, "byte 0: the document is not an object"},
		{"NULs", nul, "byte [0-9]+: invalid character"},
		{"two documents", `{}{}`, "byte [0-9]+: invalid character"},
		{"grants of a number", `{"grants":5}`, "byte 10: grants is not a list"},
		{"a grant of a number", `{"grants":[5]}`, "byte 11: a grant is not an object"},
		{"a resource of a number", `{"grants":[{"resource":5}]}`, "byte 23: a grant's resource is not a string"},
		{"a time that is none", `{"holds":[{"at":"x"}]}`, "byte 16: a hold's at is not a time"},
		{"a pid of text", `{"supervisorCLI":{"pid":"1"}}`, "byte 24: .*pid is not a whole number"},
		{"a supervisor of a number", `{"supervisor":7}`, "byte 14: supervisor is not an object"},
		{"1 MB of junk", strings.Repeat("x", 1<<20), "byte [0-9]+: invalid character"},
		{"deep", `{"x":` + strings.Repeat("[", 100_000), "byte [0-9]+: "},
	}
	for _, d := range documents {
		t.Run(d.name, func(t *testing.T) {
			l := newLab(t)
			l.withlease("claim", "-p", "other", "net").ends("0")
			l.write("base/state.json", d.text)
			document := tree(t, filepath.Join(l.base, "state.json"))
			says := regexp.QuoteMeta(l.base) + "/state.json: " + d.says + ".*: it is left as it is; repair it or move it away"

			l.withlease("gpu", "--", "argv", "ran").ends("125").shows("").says(says)
			l.withlease("claim", "gpu").ends("125").shows("").says(says)
			l.withlease("grant", "gpu", "s1").ends("125").shows("").says(says)
			l.withlease("grant", "--force", "gpu", "s1").ends("125").shows("").says(says)
			l.withlease("revoke", "gpu", "s1").ends("125").shows("").says(says)
			l.withlease("supervisor", "start").ends("125").shows("").says(says)
			l.withlease("supervisor", "stop").ends("125").shows("").says(says)
			l.withlease("supervisor", "status").ends("125").shows("").says(says)
			l.withlease("upgrade", "begin", "gpu").ends("125").shows("").says(says)
			l.withlease("upgrade", "end", "gpu").ends("125").shows("").says(says)
			l.withlease("list").ends("125").shows("^net  held by ann .*: other$").says(says)
			l.withlease("status", "net").ends("125").shows("^net  held by ann").says(says)
			l.withlease("queue").ends("125").shows("").says(says)
			if _, err := os.Lstat(filepath.Join(l.leases, "gpu")); err == nil {
				t.Error("gpu was claimed")
			}
			l.withlease("release", "net").ends("0").silent()
			same(t, "the document", document, tree(t, filepath.Join(l.base, "state.json")))
		})
	}
}

// A run whose document breaks meanwhile ends as it would have, and gives back
// what it holds.
func TestDocumentBreaksDuringRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("--status-file", "status", "gpu", "--", "sh", "-c", `echo '{"grants":' > $WITHLEASE_DIR/state.json; exit 6`).ends("6")
	if text := l.read("base/state.json"); text != "{\"grants\":\n" {
		t.Errorf("the document is %q", text)
	}
	if _, err := os.Lstat(filepath.Join(l.leases, "gpu")); err == nil {
		t.Error("gpu is still held")
	}
}

// A document that is too large, or no file at all, is not read.
func TestDocumentThatIsNoFile(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name string
		mk   func(path string) error
		says string
	}{
		{"too large", func(p string) error {
			if err := os.WriteFile(p, []byte("{"), 0o600); err != nil {
				return err
			}
			return os.Truncate(p, 1<<40)
		}, "has 1099511627776 bytes, more than"},
		{"directory", func(p string) error { return os.Mkdir(p, 0o700) }, "is not a regular file"},
		{"FIFO", func(p string) error { return unix.Mkfifo(p, 0o600) }, "is not a regular file"},
		{"link", func(p string) error { return os.Symlink(filepath.Dir(p)+"/real", p) }, "is a symbolic link"},
	} {
		t.Run(d.name, func(t *testing.T) {
			l := newLab(t)
			l.write("base/real", "{}")
			if err := d.mk(filepath.Join(l.base, "state.json")); err != nil {
				t.Fatal(err)
			}
			l.withlease("gpu", "--", "argv", "ran").ends("125").shows("").says("/state.json: " + d.says)
			l.withlease("supervisor", "start").ends("125").shows("").says(d.says)
			l.withlease("list").ends("125").shows("").says(d.says)
			if text := l.read("base/real"); text != "{}" {
				t.Errorf("the link's target is %q", text)
			}
		})
	}
}

// B58: what somebody planted as a symbolic link is never followed: its target
// keeps content, mode and time, whatever the verb.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	// A link of each name to the directory, to a file in it, and to nothing.
	names := []string{"leases/gpu", "leases/gpu/holder.json", "leases/gpu/process.json", "leases/gpu/witness", "leases/.staging.new", "leases/.trash.gpu",
		"leases/.clock", "leases/.queue/gpu", "leases/.queue/gpu/last", "leases/.queue/gpu/1", "leases/.queue/gpu/1.json", "leases/.queue/gpu/.new.json",
		"leases/.queue/gpu/.1", "state.json", "state.lock", ".state.json.new", "events.jsonl", "events.jsonl.1"}
	for _, name := range names {
		for _, target := range []string{"victim", "victim/holder.json", "victim/nothing"} {
			t.Run(name+" to "+target, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.write("victim/holder.json", `{"holder":"victim@host"}`)
				l.write("victim/process.json", `{}`)
				l.write("victim/witness", "")
				l.write("victim/1", "")
				l.write("victim/last", "5\n")
				link := filepath.Join(l.base, name)
				if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(l.dir, target), link); err != nil {
					t.Fatal(err)
				}
				before := tree(t, filepath.Join(l.dir, "victim"))
				for _, args := range [][]string{
					{"list"}, {"status", "gpu"}, {"queue"},
					{"-n", "gpu", "--", "true"}, {"-w", "1ms", "gpu", "--", "true"}, {"-w", "1ms", "--keep-place", "1ms", "gpu", "--", "true"},
					{"claim", "gpu"}, {"release", "gpu"}, {"release", "--kill", "gpu"},
					{"supervisor", "start", "--pid=-1"}, {"grant", "gpu", "s1"}, {"upgrade", "begin", "gpu"}, {"upgrade", "end", "gpu"}, {"supervisor", "stop"},
					{"release", "--force", "--reason", "test", "gpu"}, {"-n", "gpu", "--", "true"}, {"-w", "1s", "--ttl", "30ms", "gpu", "--", "sleep", "0.1"}, {"list"},
				} {
					a := l.withlease(args...)
					switch a.status {
					case "0", "1", "75", "125":
					default:
						t.Errorf("%s ended with %s: %s", a.what, a.status, a.err)
					}
				}
				same(t, "the target", before, tree(t, filepath.Join(l.dir, "victim")))
			})
		}
	}
}

// A link left where the program puts away or builds its leases must not stop it
// for good.
func TestPlantedLinkIsRemoved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".staging.new", ".trash.gpu"} {
		for _, target := range []string{"victim", "nothing"} {
			t.Run(name+" to "+target, func(t *testing.T) {
				l := newLab(t)
				l.write("victim/keep", "")
				if err := os.MkdirAll(l.leases, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(l.dir, target), filepath.Join(l.leases, name)); err != nil {
					t.Fatal(err)
				}
				l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent().shows("ran")
				l.withlease("list").ends("0").shows("")
				l.read("victim/keep")
			})
		}
	}
}

// unprivileged is the program as a user whom permissions bind: root runs it as
// nobody.
func unprivileged(l *lab) func(args ...string) *answer {
	if os.Getuid() != 0 {
		return l.withlease
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		l.Skip("root is bound by no permissions, and setpriv(1) is not installed")
	}
	// Where nobody may go: the directories of the tests are root's alone.
	self, err := exec.LookPath("withlease")
	if err != nil {
		l.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		l.Fatal(err)
	}
	copied := filepath.Join(l.dir, "withlease")
	if err := os.WriteFile(copied, text, 0o755); err != nil {
		l.Fatal(err)
	}
	for _, d := range []string{l.dir, filepath.Dir(l.dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			l.Fatal(err)
		}
	}
	return func(args ...string) *answer {
		l.Helper()
		a := l.run("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", copied}, args...)...)
		for line := range strings.Lines(a.err) {
			if !strings.HasPrefix(line, "withlease: ") {
				l.Errorf("%s says %q, not one of its lines", a.what, line)
			}
		}
		return a
	}
}

// B52, B57: another's directory that may be read and not written shows what is
// held, and refuses the rest with whose it is.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("claim", "-p", "other", "net").ends("0")
	withlease := unprivileged(l)
	chmodAll(t, l.base, 0o555, 0o444)
	before := tree(t, l.base)
	withlease("list").ends("0").silent().shows("^net  held by ann .*: other$")
	withlease("status", "net").ends("1").silent().shows("^net  held by ann")
	withlease("status", "gpu").ends("0").silent().shows("^gpu  free")
	withlease("queue").ends("0").shows("")
	withlease("supervisor", "status").ends("1").silent()
	says := `permission denied .*belongs to uid [0-9]+.*: ask its owner for group write, or name another place with --dir or \$WITHLEASE_DIR$`
	withlease("gpu", "--", "/bin/echo", "ran").ends("125").shows("").says(says)
	withlease("claim", "gpu").ends("125").shows("").says(says)
	withlease("release", "net").ends("125").shows("").says(says)
	withlease("release", "--force", "--reason", "test", "net").ends("125").shows("").says(says)
	withlease("supervisor", "start").ends("125").shows("").says(says)
	withlease("upgrade", "begin", "gpu").ends("125").shows("").says(says)
	withlease("supervisor", "stop").ends("125").shows("").says(says)
	same(t, "the directory", before, tree(t, l.base))
}

// One that may not even be read is no empty one.
func TestUnreadableDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"base", "base/leases"} {
		t.Run(dir, func(t *testing.T) {
			l := newLab(t)
			l.withlease("claim", "net").ends("0")
			withlease := unprivileged(l)
			chmodAll(t, l.base, 0o755, 0o644)
			before := tree(t, l.base)
			if err := os.Chmod(filepath.Join(l.dir, dir), 0); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"list"}, {"list", "--json"}, {"status", "net"}, {"queue", "net"}, {"gpu", "--", "/bin/echo", "ran"}, {"-n", "net", "--", "/bin/echo", "ran"},
				{"claim", "gpu"}, {"release", "net"}, {"release", "--force", "--reason", "test", "net"}, {"release", "--kill", "net"}, {"supervisor", "start"}} {
				withlease(args...).ends("125").shows("").says("permission denied .*belongs to uid ")
			}
			if err := os.Chmod(filepath.Join(l.dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			after := tree(t, l.base)
			delete(before, filepath.Join(l.dir, dir))
			delete(after, filepath.Join(l.dir, dir))
			same(t, "the directory", before, after)
		})
	}
}

// An unreadable record, and an unreadable document.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("claim", "net").ends("0")
	l.write("base/state.json", "{}")
	withlease := unprivileged(l)
	chmodAll(t, l.base, 0o770, 0o660)
	if os.Getuid() == 0 {
		err := filepath.WalkDir(l.base, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, -1, 65534))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(l.leases, "net", "holder.json"), 0); err != nil {
		t.Fatal(err)
	}
	withlease("list").ends("0").silent().shows(`^net  held by somebody \[its record can't be read: permission denied\]$`)
	withlease("-n", "net", "--", "/bin/echo", "ran").ends("75").shows("").says("permission denied")
	if err := os.Chmod(filepath.Join(l.base, "state.json"), 0); err != nil {
		t.Fatal(err)
	}
	withlease("-n", "gpu", "--", "/bin/echo", "ran").ends("125").shows("").says("state.json: permission denied")
	withlease("supervisor", "start").ends("125").shows("").says("state.json: permission denied")
}

func chmodAll(t *testing.T, dir string, dirs, files os.FileMode) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, dirs)
		}
		return os.Chmod(path, files)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// inNamespace runs a shell script in a user and mount namespace of its own,
// where it may mount.
func inNamespace(l *lab, script string) *answer {
	l.Helper()
	if out, err := exec.Command("unshare", "-Urm", "mount", "-t", "tmpfs", "none", l.dir).CombinedOutput(); err != nil {
		l.Skipf("no mounts in a user namespace here: %v %s", err, out)
	}
	if err := os.MkdirAll(l.base, 0o700); err != nil {
		l.Fatal(err)
	}
	a := l.run("unshare", "-Urm", "sh", "-euc", script)
	a.what = "the script"
	l.Logf("%s%s", a.out, a.err)
	return a.ends("0")
}

// A file system that is mounted read-only says so.
func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("claim", "-p", "other", "net").ends("0")
	inNamespace(l, `
		mount --bind "$BASE" "$BASE"
		mount -o remount,ro,bind "$BASE"
		withlease list
		s=0; withlease gpu -- echo ran || s=$?; echo "run $s"
		s=0; withlease release net || s=$?; echo "release $s"
		s=0; withlease status gpu || s=$?; echo "status $s"
	`).shows(`^net  held by ann`).shows("^run 125$").shows("^release 125$").shows("^status 0$")
}

// B12: a full disk loses nothing and leaves nothing half-made.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := inNamespace(l, `
		mount -t tmpfs -o size=256k,mode=700 none "$BASE"
		full() { dd if=/dev/zero of="$BASE/fill" bs=1k status=none 2>/dev/null || true; }
		try() { echo "$ $*"; s=0; withlease "$@" 2>err || s=$?; cat err; echo "-> $s"; }

		full
		try gpu -- touch ran
		try claim gpu
		test ! -e ran
		rm "$BASE/fill"
		ls -A "$BASE/leases" | grep -v '^\.queue$' || echo nothing left
		try gpu -- echo ran well
		echo "== grants"
		try --session boss supervisor start --pid=-1
		try --session boss grant gpu s1
		cp "$BASE/state.json" before
		full
		try --session boss grant gpu s2
		try --session boss supervisor stop
		cmp before "$BASE/state.json"
		ls -A "$BASE" | grep new || echo no temporary
		rm "$BASE/fill"
		try -n --session s1 gpu -- echo granted
		echo "== release"
		try --session boss grant gpu s1
		try --session boss grant gpu s2
		cp "$BASE/state.json" before
		try -n --session s1 gpu -- sh -c 'dd if=/dev/zero of="$WITHLEASE_DIR/fill" bs=1k status=none 2>/dev/null; exit 3'
		rm "$BASE/fill"
		try -n --session s2 gpu -- echo next
		try list
		ls -A "$BASE/leases"
	`)
	for _, want := range []string{
		`\$ gpu -- touch ran\nwithlease: .*/leases/.*: no space left on device: make room on that file system.*\n-> 125\n`,
		`\$ claim gpu\nwithlease: .*: no space left on device.*\n-> 125\n`,
		`\nnothing left\n`,
		`ran well\n-> 0\n`,
		`\$ --session boss grant gpu s2\nwithlease: .*no space left on device.*\n-> 125\n\$ --session boss supervisor stop\nwithlease: .*no space left on device.*\n-> 125\nno temporary\n`,
		`\ngranted\n-> 0\n`,
		`exit 3\n(withlease: .*no space left on device.*\n)*-> 3\n`,
		`\nnext\n-> 0\n`,
		`\$ list\nwithlease: nothing is held in .*\n-> 0\n\.queue\n$`,
	} {
		a.shows("(?s)" + strings.ReplaceAll(want, ".*", "[^\n]*"))
	}
}

// The same wherever on its way a claim finds no room: with one file less to be
// had each time, it fails at every step.
func TestFullDiskAtEveryStep(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := inNamespace(l, `
		for n in 2 3 4 5 6 7 8 9 10 11 12; do
			mount -t tmpfs -o size=1m,nr_inodes=$n,mode=700 none "$BASE"
			rm -f ran
			s=0; withlease gpu -- touch ran 2>err || s=$?
			echo "$n files: $s $(test -e ran && echo ran) $(ls -A "$BASE/leases" 2>/dev/null | grep -v '^\.queue$' | tr '\n' ' ')"
			case $s in
			0) test -e ran ;;
			125) test ! -e ran; grep -q '^withlease: .*no space left on device' err; test "$(wc -l <err)" = 1 ;;
			*) exit 1 ;;
			esac
			mount -o remount,nr_inodes=1000 "$BASE"
			withlease -n gpu -- echo "then it ran" || exit 1
			umount "$BASE"
		done
	`)
	a.shows(`^2 files: 125  $`).shows(`^12 files: 0 ran $`)
	if n := strings.Count(a.out, ": 125  \n"); n < 5 {
		t.Errorf("%d failures that left nothing: too few to be every step", n)
	}
}

// A limit on the size of files is one more full disk, not a crash of Go's.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.run("sh", "-c", `ulimit -f 0; exec withlease gpu -- touch ran`)
	a.ends("125").says("^withlease: .*file too large")
	if _, err := os.Lstat(filepath.Join(l.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent()
}

// A base in which everybody may do anything is warned of, once a command, and
// used.
func TestPublicDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"base", "base/leases"} {
		l := newLab(t)
		l.withlease("claim", "net").ends("0").silent()
		if err := os.Chmod(filepath.Join(l.dir, dir), 0o777); err != nil {
			t.Fatal(err)
		}
		says := "^withlease: " + regexp.QuoteMeta(filepath.Join(l.dir, dir)) + " can be written by every user of this machine.*: chmod o-w "
		l.withlease("list").ends("0").says(says).shows("^net  held by ann")
		l.withlease("gpu", "--", "argv", "ran").ends("0").says(says).shows("ran")
		l.withlease("-q", "gpu", "--", "argv", "ran").ends("0").silent().shows("ran")
		l.withlease("__complete", "held").ends("0").silent()
	}
}

// A status file that is a device or a FIFO is written to, and stays what it is:
// root's /dev/null must not become a file.
func TestStatusFileThatIsNoFile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := filepath.Join(l.dir, "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l.withlease("--status-file", path, "gpu", "--", "argv", "ran").ends("0").says("fifo: no such device or address").shows("ran") // nobody reads
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Symlink(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + ".link"} {
		l.withlease("--status-file", p, "gpu", "--", "argv", "ran").ends("0").silent().shows("ran")
		buf := make([]byte, 4096)
		n, err := f.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), `{"schema":1,"outcome":"exit"`) {
			t.Errorf("read %q, %v", buf[:n], err)
		}
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("it is %v, %v", st.Mode(), err)
	}
}
