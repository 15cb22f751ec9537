package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// Flags are what every verb takes.
type Flags struct {
	Dir         string
	JSON        bool
	Session     string
	HostSession string
	Name        string
	Person      string
	Team        string
}

// Session is one invocation: its flags, environment and streams.
type Session struct {
	Flags
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Now            func() time.Time

	host string
}

// NewSession is the process's own.
func NewSession(f Flags) *Session {
	return &Session{Flags: f, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Now: time.Now}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func (s *Session) hostname() string {
	if s.host == "" {
		s.host, _ = os.Hostname()
	}
	return s.host
}

// login is the name of who runs this.
func (s *Session) login() string {
	if n := first(s.Getenv("LOGNAME"), s.Getenv("USER")); n != "" {
		return n
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid-%d", os.Getuid())
}

// Party is who calls: the flags, then withlease's variables, then those of the
// coding agent whose session this is. Without a session it is a person, named
// by the login.
func (s *Session) Party() state.Party {
	session, _ := s.session()
	name, _ := s.name()
	p := state.Party{
		Session:     session,
		HostSession: first(s.HostSession, s.Getenv("WITHLEASE_HOST_SESSION"), s.Getenv("CLAUDE_CODE_HOST_SESSION_ID")),
		Name:        name,
		Person:      first(s.Person, s.Getenv("WITHLEASE_PERSON")),
		Team:        first(s.Team, s.Getenv("WITHLEASE_TEAM")),
		Host:        s.hostname(),
	}
	if p.Session == "" && p.Name == "" {
		p.Name = s.login()
	}
	return p
}

// session is the caller's session, and what names it.
func (s *Session) session() (id, from string) {
	return s.said(s.Flags.Session, "--session", "WITHLEASE_SESSION", "CLAUDE_CODE_SESSION_ID")
}

// name is the caller's name, where it has another than its login.
func (s *Session) name() (name, from string) {
	return s.said(s.Flags.Name, "--name", "WITHLEASE_NAME", "CLAUDE_CODE_SESSION_NAME")
}

// said is what a flag says, or the first variable that says something.
func (s *Session) said(value, flag string, variables ...string) (said, from string) {
	if value != "" {
		return value, flag
	}
	for _, v := range variables {
		if value = s.Getenv(v); value != "" {
			return value, "$" + v
		}
	}
	return "", ""
}

// Holder is the caller as a record names it.
func (s *Session) Holder(purpose string) lease.Holder {
	p := s.Party()
	return lease.Holder{
		Holder:      s.login() + "@" + s.hostname(),
		Session:     p.Session,
		HostSession: p.HostSession,
		Name:        p.Name,
		Person:      p.Person,
		Team:        p.Team,
		Host:        p.Host,
		Purpose:     purpose,
	}
}

// machineDir is the base directory that an administrator makes for everybody.
const machineDir = "/var/lib/withlease"

// Base finds the directories: --dir, $WITHLEASE_DIR, the machine's, the user's.
// It warns of one in which everybody may do anything.
func (s *Session) Base() (*lease.Base, error) {
	b, err := s.base()
	if err == nil {
		s.warnPublic(b)
	}
	return b, err
}

func (s *Session) warnPublic(b *lease.Base) {
	if b.Public != "" {
		say(s.Stderr, "%s can be written by every user of this machine, who can take away what is held there: chmod o-w %s",
			show(b.Public), show(lease.ShellWord(b.Public)))
	}
}

func (s *Session) base() (*lease.Base, error) {
	b, _, err := s.place()
	return b, err
}

// place is Base, and what says so.
func (s *Session) place() (b *lease.Base, from string, err error) {
	dir, from := s.said(s.Dir, "--dir", "WITHLEASE_DIR")
	leases, stateDir := s.Getenv("WITHLEASE_LEASE_DIR"), s.Getenv("WITHLEASE_STATE_DIR")
	if dir == "" && (leases == "" || stateDir == "") {
		if dir, from, err = s.defaultDir(); err != nil {
			return nil, "", err
		}
	}
	if dir == "" {
		dir, from = stateDir, "$WITHLEASE_STATE_DIR"
	}
	leases, stateDir = first(leases, filepath.Join(dir, "leases")), first(stateDir, dir)
	for _, d := range []*string{&dir, &leases, &stateDir} {
		abs, err := filepath.Abs(*d)
		if err != nil {
			return nil, "", err
		}
		*d = abs
	}
	return lease.Open(dir, leases, stateDir), from, nil
}

func (s *Session) defaultDir() (dir, from string, err error) {
	if st, err := os.Stat(machineDir); err == nil && st.IsDir() && unix.Access(machineDir, unix.W_OK) == nil {
		return machineDir, "the machine's", nil
	}
	if x := s.Getenv("XDG_STATE_HOME"); filepath.IsAbs(x) { // a relative one is ignored, as the XDG specification says
		return filepath.Join(x, "withlease"), "$XDG_STATE_HOME", nil
	}
	h := s.Getenv("HOME")
	if filepath.IsAbs(h) {
		return filepath.Join(h, ".local", "state", "withlease"), "$HOME", nil
	}
	wrong := "is not set"
	if h != "" { // it would be another place in every directory
		wrong = fmt.Sprintf("is %s, no absolute path", show(h))
	}
	return "", "", usage("no place for the leases: $HOME %s; set it, or name a directory with --dir or $WITHLEASE_DIR", wrong)
}

// lockPatience is how long a verb waits for the lock, which is held for
// microseconds unless its owner is stopped.
const lockPatience = 10 * time.Second

// soon is a context that ends lockPatience after somebody first waits for its
// end: the lock is nearly always free, and a timer costs a short run a thread.
func soon() context.Context { return &patience{} }

type patience struct {
	once   sync.Once
	inner  context.Context
	cancel context.CancelFunc
}

func (p *patience) wait() context.Context {
	p.once.Do(func() {
		p.inner, p.cancel = context.WithTimeoutCause(context.Background(), lockPatience, errLockBusy)
	})
	return p.inner
}

func (p *patience) Deadline() (time.Time, bool) { return time.Time{}, false }
func (p *patience) Done() <-chan struct{}       { return p.wait().Done() }
func (p *patience) Err() error                  { return p.wait().Err() }
func (p *patience) Value(key any) any           { return p.wait().Value(key) }

// modelServers are the resources that take a memory budget.
func (s *Session) modelServers() []string {
	if v := s.Getenv("WITHLEASE_MODEL_SERVERS"); v != "" {
		return strings.Split(v, ":")
	}
	return []string{"model-server"}
}
