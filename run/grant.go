package run

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"withlease/lease"
	"withlease/state"
)

// Grant is the supervisor's word for a party.
type Grant struct {
	Resources string // comma-separated
	Party     string
	Unblock   string
	BudgetGiB int
	Force     bool
}

func resourceList(text string) ([]string, error) {
	names := strings.Split(text, ",")
	for i, n := range names {
		if err := lease.CheckName(n); err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], n) {
			return nil, usage("%s is named twice", n)
		}
	}
	return names, nil
}

// Grant records that a party may claim resources.
func (s *Session) Grant(g Grant) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	names, err := resourceList(g.Resources)
	if err != nil {
		return s.failed(err)
	}
	if g.BudgetGiB < 0 {
		return s.failed(usage("--budget-gib=%d: a number of GiB greater than 0 is needed", g.BudgetGiB))
	}
	for _, n := range names {
		if g.BudgetGiB > 0 && !slices.Contains(s.modelServers(), n) {
			return s.failed(usage("--budget-gib is for a model server (%s), and %s is none", strings.Join(s.modelServers(), ", "), n))
		}
	}
	to, err := s.resolve(b, names, g.Party)
	if err != nil {
		return s.failed(err)
	}
	if err := b.Grant(soon(), lease.Grant{Resources: names, To: to, By: s.Party(), Unblock: g.Unblock, BudgetGiB: g.BudgetGiB, Force: g.Force}); err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "granted %s to %s\n", strings.Join(names, " and "), who(to, 0))
	return Exit{}
}

// Revoke takes back the grants of a party.
func (s *Session) Revoke(g Grant) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	names, err := resourceList(g.Resources)
	if err != nil {
		return s.failed(err)
	}
	to, err := s.resolve(b, names, g.Party)
	if err != nil {
		return s.failed(err)
	}
	n, err := b.Revoke(soon(), names, to, s.Party(), g.Force)
	if err != nil {
		return s.failed(err)
	}
	if n == 0 {
		say(s.Stderr, "%s has no grant of %s; see: withlease queue", show(to.Label()), strings.Join(names, " or "))
		return Exit{Code: ExitRefused}
	}
	fmt.Fprintf(s.Stdout, "revoked %s of %s to %s\n", plural(n, "grant", "grants"), strings.Join(names, " and "), who(to, 0))
	return Exit{}
}

// resolve finds the party that a text names: the session, host session or name
// of somebody who waits, holds or is granted. The resources' own lines come
// first. A text that names nobody is taken for a session that is still to come.
func (s *Session) resolve(b *lease.Base, resources []string, text string) (state.Party, error) {
	if text == "" {
		return state.Party{}, usage("no party: name a session, or somebody that withlease queue shows")
	}
	v, done, err := s.look()
	if err != nil {
		return state.Party{}, err
	}
	defer done()
	if v.bad != nil {
		return state.Party{}, v.bad
	}
	var found []state.Party
	add := func(p state.Party) {
		if (p.Session == text || p.HostSession == text || p.Name == text) && !slices.ContainsFunc(found, p.Same) {
			found = append(found, p)
		}
	}
	lines, err := b.Lines()
	if err != nil {
		return state.Party{}, err
	}
	for _, group := range [][]string{resources, lines} {
		for _, res := range group {
			line, err := b.Line(res)
			if err != nil {
				return state.Party{}, err
			}
			for _, w := range line {
				add(w.Who())
			}
		}
		for _, g := range v.st.Grants {
			if slices.Contains(group, g.Resource) {
				add(g.To)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		held, err := b.List()
		if err != nil {
			return state.Party{}, err
		}
		for _, h := range held {
			add(h.Party())
		}
	}
	if len(found) == 0 {
		add(s.Party())
	}
	switch len(found) {
	case 0:
		if _, err := user.Lookup(text); err == nil {
			return state.Party{Name: text}, nil // a person, by the login
		}
		return state.Party{Session: text}, nil
	case 1:
		return found[0], nil
	}
	var names []string
	for _, p := range found {
		names = append(names, who(p, 0))
	}
	return state.Party{}, usage("%s names %d parties: %s; say which by its session", show(text), len(found), strings.Join(names, ", "))
}

// SupervisorStart makes the caller the supervisor. pid is the process by which
// it is seen to live: 0 finds the caller's session, -1 watches none.
func (s *Session) SupervisorStart(pid int, force bool) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	switch {
	case pid == 0:
		pid = sessionProcess()
	case pid < 0:
		pid = 0
	}
	took, err := b.Supervise(soon(), s.Party(), pid, force)
	if err != nil {
		return s.failed(err)
	}
	line := fmt.Sprintf("%s supervises %s", show(s.Party().Label()), show(string(b.Leases)))
	if took != nil {
		line += ", after " + show(took.Label())
	}
	if pid > 0 {
		line += fmt.Sprintf(", while process %d runs", pid)
	}
	fmt.Fprintln(s.Stdout, line)
	return Exit{}
}

// SupervisorStop ends the supervision.
func (s *Session) SupervisorStop(force bool) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	if err := b.Unsupervise(soon(), s.Party(), force); err != nil {
		return s.failed(err)
	}
	fmt.Fprintln(s.Stdout, "no supervisor any more: whoever waits is served in the order of the line")
	return Exit{}
}

// SupervisorStatus shows who decides: 0 when somebody does, 1 when nobody.
func (s *Session) SupervisorStatus() Exit { return s.answer(s.supervisorStatus) }

func (s *Session) supervisorStatus() Exit {
	v, done, err := s.look()
	if err != nil {
		return s.failed(err)
	}
	defer done()
	if v.bad != nil {
		return s.failed(v.bad)
	}
	code := Exit{}
	if v.st.Supervisor == nil {
		code.Code = ExitRefused
	}
	switch {
	case s.JSON:
		if e := s.wrote(writeJSON(s.Stdout, struct {
			Schema     int             `json:"schema"`
			Supervisor *SupervisorView `json:"supervisor"`
		}{Schema, supervisorView(v.base, v.st, v.now)}), nil); e.Code != 0 {
			return e
		}
	case v.st.Supervisor == nil:
		fmt.Fprintln(s.Stdout, "no supervisor: whoever waits is served in the order of the line")
	default:
		s.printSupervisor(v)
	}
	return code
}

// sessionProcess finds the process that lives as long as the caller's session:
// the nearest ancestor that is not a shell at work on one command. An
// interactive shell is it for a person, the agent's own process for an agent,
// whose tool calls are shells that end at once.
func sessionProcess() int {
	pid := os.Getppid()
	for range 16 {
		argv, up := processArgs(pid)
		if pid <= 1 {
			return 0
		}
		if !transientShell(argv) || up <= 1 {
			return pid
		}
		pid = up
	}
	return 0
}

// transientShell says whether argv is a shell that runs a script or -c.
func transientShell(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	name := strings.TrimPrefix(argv[0][strings.LastIndexByte(argv[0], '/')+1:], "-")
	if !slices.Contains([]string{"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "env", "timeout", "make"}, name) {
		return false
	}
	for _, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") || strings.Contains(strings.TrimLeft(a, "-"), "c") && !strings.HasPrefix(a, "--") {
			return true
		}
	}
	return false
}

func processArgs(pid int) (argv []string, up int) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil, 0
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), parentOf(pid)
}

// parentOf is the parent of a process, field 4 of /proc/PID/stat (proc(5));
// 0 when it is gone.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in field 2 may hold spaces and brackets: count from its end.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(f[1])
	return ppid
}

// UpgradeBegin holds an installation back while it is upgraded.
func (s *Session) UpgradeBegin(target, to, reason, until string) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	if to != "" {
		reason = strings.TrimSuffix("to "+to+": "+reason, ": ")
	}
	end, err := s.moment(until)
	if err != nil {
		return s.failed(err)
	}
	if err := b.Upgrade(soon(), target, reason, end, s.Party()); err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "%s is held back for its upgrade; end it with: withlease upgrade end %s\n", target, target)
	return Exit{}
}

// UpgradeEnd lifts the hold of an upgrade.
func (s *Session) UpgradeEnd(target string) Exit {
	b, err := s.Base()
	if err != nil {
		return s.failed(err)
	}
	if err := b.EndUpgrade(soon(), target, s.Party()); err != nil {
		return s.failed(err)
	}
	fmt.Fprintf(s.Stdout, "the upgrade of %s is over\n", target)
	return Exit{}
}

// moment reads a duration from now, or a time as RFC 3339 has it. Empty is no
// moment.
func (s *Session) moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return s.Now().Add(d).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(s.Now()) {
		return t.UTC(), nil
	}
	return time.Time{}, usage("--until=%s: a duration like 2h, or a time to come like 2026-01-31T18:00:00Z", show(text))
}
