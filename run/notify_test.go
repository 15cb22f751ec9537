package run

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"withlease/lease"
)

// waitOn is a whole wait on a terminal of its own, which takes as long as the
// clock says, and what the terminal was sent. end ends it.
func waitOn(t *testing.T, c Command, took time.Duration, env map[string]string, end func(r *run, free func())) (shown string, err error) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	// The bytes as they are sent, and no newline added.
	settings, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil {
		t.Fatal(err)
	}
	settings.Oflag &^= unix.OPOST
	unix.IoctlSetTermios(int(slave.Fd()), setTermios, settings)
	pty.Setsize(slave, &pty.Winsize{Rows: 40, Cols: 60})

	dir := t.TempDir()
	b := lease.Open(dir, dir+"/leases", dir)
	if h, err := b.Leases.Claim("gpu", lease.Holder{Name: "bob"}); h != nil || err != nil {
		t.Fatal(h, err)
	}
	var late atomic.Int64
	began := time.Now()
	s := &Session{
		Flags: Flags{Session: "s1"}, Stderr: slave,
		Getenv: func(name string) string {
			if v, ok := env[name]; ok {
				return v
			}
			return map[string]string{"TERM": "xterm", "HOME": dir}[name]
		},
		Now: func() time.Time { return began.Add(time.Duration(late.Load())) },
	}
	c.Resources, c.Argv, c.TTL = []string{"gpu"}, []string{"true"}, time.Minute
	r := &run{Session: s, Command: c, base: b}
	ctx := r.watchSignals(nil)
	told := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var l *lease.Lease
		if l, err = r.acquire(ctx, nil, func() {}); l != nil {
			l.Release(soon(), "exit 0")
		}
	}()
	go func() {
		buf := make([]byte, 4096)
		n, _ := master.Read(buf) // the first line
		shown = string(buf[:n])
		close(told)
	}()
	if env["TERM"] == "dumb" || c.Quiet {
		for line := []lease.Waiter(nil); len(line) == 0; time.Sleep(time.Millisecond) {
			line, _ = b.Line("gpu")
		}
	} else {
		<-told
	}
	late.Store(int64(took))
	end(r, func() {
		if err := b.Leases.Release("gpu"); err != nil {
			t.Error(err)
		}
	})
	<-done
	slave.WriteString("END")
	<-told
	for !strings.HasSuffix(shown, "END") {
		buf := make([]byte, 4096)
		n, e := master.Read(buf)
		if e != nil {
			t.Fatal(e)
		}
		shown += string(buf[:n])
	}
	return strings.TrimSuffix(shown, "END"), err
}

// after is what came when the line was wiped.
func after(shown string) string {
	_, text, _ := strings.Cut(shown, "\r\x1b[K")
	return text
}

func letIn(_ *run, free func()) { free() }

// TestNotify: check 31, by the bytes.
func TestNotify(t *testing.T) {
	const long, short = 12 * time.Second, 9 * time.Second
	type env = map[string]string
	for _, c := range []struct {
		name string
		how  string
		took time.Duration
		env  env
		want string
	}{
		{"auto", "auto", long, nil, "\a"},
		{"ten seconds", "auto", notifyAfter, nil, "\a"},
		{"a short wait", "auto", short, nil, ""},
		{"bell", "bell", long, env{"KITTY_WINDOW_ID": "1"}, "\a"},
		{"off", "off", long, nil, ""},
		{"osc where none is known", "osc", long, nil, "\a"},
		{"a short wait, osc", "osc", short, env{"KITTY_WINDOW_ID": "1"}, ""},
		{"kitty", "osc", long, env{"KITTY_WINDOW_ID": "1"}, "\x1b]99;;withlease: gpu: obtained after 12s\x1b\\"},
		{"ghostty", "osc", long, env{"TERM_PROGRAM": "ghostty"}, "\x1b]777;notify;withlease;gpu: obtained after 12s\x1b\\"},
		{"WezTerm", "osc", long, env{"TERM_PROGRAM": "WezTerm"}, "\x1b]777;notify;withlease;gpu: obtained after 12s\x1b\\"},
		{"VTE", "osc", long, env{"VTE_VERSION": "7000"}, "\x1b]777;notify;withlease;gpu: obtained after 12s\x1b\\"},
		{"rxvt", "osc", long, env{"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;withlease;gpu: obtained after 12s\x1b\\"},
		{"foot", "osc", long, env{"TERM": "foot"}, "\x1b]777;notify;withlease;gpu: obtained after 12s\x1b\\"},
		{"iTerm2", "osc", long, env{"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;withlease: gpu: obtained after 12s\x1b\\"},
		{"tmux", "osc", long, env{"TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1", "TMUX": "/tmp/x"}, "\a"},
		{"screen", "osc", long, env{"VTE_VERSION": "7000", "STY": "1.x"}, "\a"},
	} {
		shown, err := waitOn(t, Command{Notify: c.how}, c.took, c.env, letIn)
		if got := after(shown); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if got := (&Session{Getenv: func(string) string { return "ghostty" }}).notice("a;b"); strings.Contains(got, ";b") {
		t.Errorf("a notice of %q", got)
	}
	for _, c := range []struct {
		name  string
		quiet bool
		env   env
	}{{"dumb", false, env{"TERM": "dumb", "WT_SESSION": "1"}}, {"CI", false, env{"CI": "true", "WT_SESSION": "1"}}, {"no TERM", false, env{"TERM": "", "WT_SESSION": "1"}}, {"quiet", true, env{"WT_SESSION": "1"}}} {
		shown, _ := waitOn(t, Command{Notify: "auto", Quiet: c.quiet}, long, c.env, letIn)
		if strings.ContainsAny(shown, "\a\x1b\r") {
			t.Errorf("%s: %q", c.name, shown)
		}
	}
}

// TestProgress: it is over on every way out, and before anything else is said.
func TestProgress(t *testing.T) {
	known := map[string]string{"WT_SESSION": "1"}
	for name, end := range map[string]func(r *run, free func()){
		"obtained":  letIn,
		"a signal":  func(r *run, _ func()) { r.cancel(errSignal) },
		"the limit": func(r *run, _ func()) { r.cancel(lease.ErrWaitOver) },
		"a failure": func(r *run, _ func()) { r.cancel(errors.New("x")) },
	} {
		shown, _ := waitOn(t, Command{Notify: "auto"}, time.Second, known, end)
		if !strings.HasPrefix(shown, progressOn+"\rwithlease: ") || !strings.HasSuffix(shown, progressOver+"\r\x1b[K") {
			t.Errorf("%s: %q", name, shown)
		}
	}
	for _, c := range []struct {
		how  string
		env  map[string]string
		want bool
	}{
		{"auto", nil, false},
		{"auto", map[string]string{"ConEmuANSI": "ON"}, true},
		{"auto", map[string]string{"ConEmuANSI": "OFF"}, false},
		{"off", known, false},
		{"auto", map[string]string{"WT_SESSION": "1", "TMUX": "x"}, false},
		{"auto", map[string]string{"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.1.3"}, false},
		{"auto", map[string]string{"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "1.2.0"}, true},
		{"auto", map[string]string{"TERM_PROGRAM": "ghostty", "TERM_PROGRAM_VERSION": "2.0"}, true},
		{"auto", map[string]string{"TERM_PROGRAM": "ghostty"}, false},
		{"auto", map[string]string{"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5"}, false},
	} {
		shown, _ := waitOn(t, Command{Notify: c.how}, 0, c.env, letIn)
		if got := strings.Contains(shown, "\x1b]9;4;"); got != c.want {
			t.Errorf("%s, %v: %q", c.how, c.env, shown)
		}
	}
}

// On a pipe there is nothing but lines.
func TestNotifyOnAPipe(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Session: &Session{Stderr: f, Getenv: func(string) string { return "x" }, Now: time.Now}, Command: Command{Notify: "bell"}}
	tell := newTeller(r)
	tell.since = time.Now().Add(-time.Hour)
	tell.wipe()
	tell.obtained()
	if st, _ := f.Stat(); st.Size() > 0 {
		t.Errorf("%d bytes", st.Size())
	}
}
