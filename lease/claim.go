package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// WitnessFD is the lowest number of a descriptor that a run hands to its
// command on purpose. High, so that it is no jobserver's, no script's `exec 3>`
// and not what a test harness counts.
const WitnessFD = 200

// change is what is done under one hold of the lock.
type change struct {
	*Base
	lock *state.Locked
	now  time.Time
	warn []error // what went wrong without stopping the change

	ready func() // see Options.Ready
}

// step marks a place of the protocol, by the name that testdata/model gives it:
// between any two steps a process may be killed or stopped, and tests do that.
func step(name string) {
	if atStep != nil {
		atStep(name)
	}
}

var atStep func(name string)

func (b *Base) change(l *state.Locked) *change {
	return &change{Base: b, lock: l, now: time.Now()}
}

func (c *change) look(res string) (*sight, error) { return c.Base.look(res, c.now) }

func (c *change) getReady() {
	if c.ready != nil {
		c.ready()
	}
}

// log appends to the event log. A log that can't be written stops nothing.
func (c *change) log(by, verb string, d state.Detail) {
	if err := c.lock.Log(state.Event{At: c.now, By: by, Verb: verb, Detail: d}); err != nil {
		c.warn = append(c.warn, err)
	}
}

// Request is what somebody wants to hold.
type Request struct {
	Resources []string
	// Holder is the record; Env, Since and UpgradeUnblock are filled in.
	Holder  Holder
	Command []string
	TTL     time.Duration
	self    Process // what a waiter found out about itself while it had time
}

func (r *Request) party() state.Party { return r.Holder.Party() }

// held is one resource of a lease.
type held struct {
	res     string
	fence   int64
	ino     uint64
	witness int // close-on-exec; the same open file as inherited
	shared  int // the command's, at WitnessFD or above
	dir     int
	record  int
	process int
}

// Lease is what a run holds. It is given back with Release.
type Lease struct {
	base    *Base
	request Request
	Token   string
	held    []*held
	tickets []*ticket // unlinked, open until the release: the next in line watches them
	byLine  bool      // nobody was ahead in any line when it was claimed
	since   time.Time
	waited  time.Duration
	process Process
	Warned  []error // what went wrong on the way without stopping it
}

// NewToken is the text by which a run's processes are known: 128 random bits.
func NewToken() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

// try claims all of a request's resources or none [try]. blocked says why not
// and carries what to watch. The caller holds the lock.
func (c *change) try(rq *Request, mine []*ticket, byTimer bool) (*Lease, *Blocked, error) {
	// [look] first: a dead lease is retired whoever looks, and whether
	// or not it may claim (R4). A lease that nobody may break would stay.
	sights := make([]*sight, len(rq.Resources))
	defer func() {
		for _, s := range sights {
			s.close()
		}
	}()
	st, err := c.lock.State()
	if err != nil {
		return nil, nil, err
	}
	c.watchSupervisor(st)
	for i, res := range rq.Resources {
		if sights[i], err = c.settle(res); err != nil {
			return nil, nil, err
		}
	}
	if st, err = c.lock.State(); err != nil {
		return nil, nil, err
	}

	// [gate] The gate: grants or tickets, for every resource
	grants := make([]int, len(rq.Resources))
	for i, s := range sights {
		var blocked *Blocked
		if grants[i], blocked, err = c.gate(st, rq, s, placeOf(mine, s.res), byTimer); err != nil || blocked != nil {
			return nil, blocked, err
		}
	}

	// [claim] Take all or none.
	l := &Lease{base: c.Base, request: *rq, Token: NewToken(), since: c.now}
	l.byLine = st.Supervisor == nil && !slices.ContainsFunc(grants, func(g int) bool { return g >= 0 })
	if err := c.takeAll(l, st, grants); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return nil, nil, err
		}
		for _, s := range sights {
			if b, err := c.arrived(st, rq, s, placeOf(mine, s.res)); err != nil || b != nil {
				return nil, b, err
			}
		}
		return nil, &Blocked{Resource: rq.Resources[0], recheck: c.now, watch: -1}, nil
	}

	// [claim.5] The document without the grants: a failure gives the lease
	// back, so that a grant is used by exactly one successful claim.
	if err := c.useGrants(st, grants); err != nil {
		for _, h := range l.held {
			c.giveBack(h)
		}
		return nil, nil, err
	}
	// [claim.6] Only then the places in line, by name: they stay open.
	step("claim.6")
	for _, t := range mine {
		t.unlink()
	}
	l.tickets = mine
	return l, nil, nil
}

// settle looks at res and puts right what time and others have done to it: a
// dead lease is retired, the shell lock's silent release is noted, and the
// grants of a free resource that ran out go. The sight is to be closed.
func (c *change) settle(res string) (*sight, error) {
	s, err := c.look(res)
	if err == nil && s.dead() {
		if err := c.retire(s); err != nil {
			return nil, err
		}
		s, err = c.look(res)
	}
	if err != nil {
		return nil, err
	}
	if err := c.noteShell(s); err != nil {
		s.close()
		return nil, err
	}
	if err := c.expire(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// expire drops the grants of a free resource whose time ran out: the next
// holder's release would bring them back to life. Those whose turn came nearer
// are told first.
func (c *change) expire(s *sight) error {
	st, err := c.lock.State()
	if err != nil || s.held() {
		return err
	}
	out := func(g state.Grant) bool {
		return g.Resource == s.res && !claimable(st, &g, s.res, false, c.now, GrantTTL)
	}
	if !slices.ContainsFunc(st.Grants, out) {
		return nil
	}
	st.Grants = slices.DeleteFunc(slices.Clone(st.Grants), out)
	c.wake(st, s.res, false)
	c.log("withlease", "grant.expire", state.Detail{Resource: s.res})
	return c.lock.Save(st)
}

// placeOf is our place in the line of res, nil when we have none.
func placeOf(mine []*ticket, res string) *ticket {
	for _, t := range mine {
		if t.res == res {
			return t
		}
	}
	return nil
}

// gate says whether the request may have s now.
func (c *change) gate(st *state.State, rq *Request, s *sight, mine *ticket, byTimer bool) (int, *Blocked, error) {
	g := c.gateOf(st, s, rq.party())
	grant, err := Check(st, g)
	var refused *Refusal
	if errors.As(err, &refused) {
		if byTimer && !s.held() {
			// Nobody announces that a grant ran out, or that another tool
			// changed the document: who finds it by the clock says it.
			c.wake(st, s.res, false)
		}
		b, err := c.blocked(st, rq, s, mine, refused)
		return -1, b, err
	}
	if grant < 0 {
		ahead, err := c.blockedByLine(st, rq, s, mine)
		if err != nil || ahead != nil {
			return -1, ahead, err
		}
	}
	if s.held() {
		b, err := c.blocked(st, rq, s, mine, nil)
		return -1, b, err
	}
	return grant, nil, nil
}

func (c *change) gateOf(st *state.State, s *sight, caller state.Party) Gate {
	g := Gate{
		Resource:   s.res,
		Caller:     caller,
		Supervisor: st.Supervisor,
		Held:       s.held(),
		Now:        c.now,
		TTL:        GrantTTL,
	}
	if cli := st.SupervisorCLI; cli != nil && !cli.Gone.IsZero() {
		if until := cli.Gone.Add(RestartGrace); c.now.Before(until) {
			g.RestartUntil = until
		} else {
			g.Gone = true
		}
	}
	return g
}

// watchSupervisor notes in the document that the supervisor's process has gone
// away or come back. That only changes what people are told, so a failure to
// write it stops nothing.
func (c *change) watchSupervisor(st *state.State) {
	if watchSupervisor(st, c.now) {
		if err := c.lock.Save(st); err != nil {
			c.warn = append(c.warn, err)
		}
	}
}

// noteShell keeps track of a lock that announces nothing: seen held, it is
// marked; found free again, its release is noted as of now, before the gate,
// so that the grants that waited for it have their time (R6).
func (c *change) noteShell(s *sight) error {
	st, err := c.lock.State()
	if err != nil {
		return err
	}
	_, marked := st.Seen[s.res]
	silent := s.exists && (s.kind == Recorded || s.kind == Claiming || s.kind == Odd)
	switch {
	case silent && !marked && st.HasGrants(s.res):
		if st.Seen == nil {
			st.Seen = map[string]time.Time{}
		}
		st.Seen[s.res] = c.now
	case marked && !silent:
		delete(st.Seen, s.res)
		if !s.exists {
			noteReleased(st, s.res, c.now)
		}
	default:
		return nil
	}
	return c.lock.Save(st)
}

// noteReleased starts the time of the grants that waited for res.
func noteReleased(st *state.State, res string, now time.Time) bool {
	if !st.HasGrants(res) {
		return false
	}
	if st.Released == nil {
		st.Released = map[string]time.Time{}
	}
	st.Released[res] = now.UTC()
	return true
}

// arrived looks at s once more when the rename met EEXIST: the shell lock's mkdir
// came between look and rename, and holds it. nil when it has gone again.
func (c *change) arrived(st *state.State, rq *Request, s *sight, mine *ticket) (*Blocked, error) {
	again, err := c.look(s.res)
	if err != nil {
		return nil, err
	}
	s.close()
	*s = *again
	if !s.held() {
		return nil, nil
	}
	if err := c.noteShell(s); err != nil {
		return nil, err
	}
	return c.blocked(st, rq, s, mine, nil)
}

// takeAll makes the leases. An error leaves none.
func (c *change) takeAll(l *Lease, st *state.State, grants []int) error {
	for i, res := range l.request.Resources {
		h := l.request.Holder
		h.Env = res
		h.Since = c.now.UTC().Format(time.RFC3339)
		h.UpgradeUnblock = ""
		if grants[i] >= 0 && st.Upgrade(res, c.now) != nil {
			h.UpgradeUnblock = st.Grants[grants[i]].UpgradeUnblock
		}
		fence, _, err := c.next(res, false)
		if err == nil {
			p := l.newProcess(fence)
			var one *held
			if one, err = c.take(res, h, &p, nil); err == nil {
				one.fence = fence
				l.held = append(l.held, one)
				l.process = p
				continue
			}
		}
		for _, h := range l.held {
			c.giveBack(h)
		}
		l.held = nil
		return err
	}
	return nil
}

// newProcess is what process.json says of this run.
func (l *Lease) newProcess(fence int64) Process {
	p := l.request.self
	if p.PID == 0 {
		p = thisProcess()
	}
	p.Token, p.TTL, p.Command, p.Fence = l.Token, l.request.TTL.Seconds(), shortened(l.request.Command), fence
	return p
}

// take makes one lease: a staging directory with all that belongs in it, then
// one rename, so that a lease never shows without its record [claim]. A taken
// name is fs.ErrExist. It is a run's, with a process, or a claim's, with terms.
func (c *change) take(res string, h Holder, p *Process, t *Terms) (*held, error) {
	step("claim.1")
	discard(c.trash(res))
	discard(c.staging()) // of any resource: the spare may save us from making one
	one := &held{res: res, witness: -1, shared: -1, dir: -1, record: -1, process: -1}
	made, ok := "", false
	if p != nil {
		made, ok = c.fromSpare(one, h, p)
	}
	var err error
	if !ok {
		made = c.staging()
		err = c.stage(one, made, h, p, t)
	}
	if err == nil {
		err = c.publish(made, res)
	}
	if err != nil {
		one.close()
		discard(made)
		return nil, err
	}
	return one, nil
}

// stage makes a new directory with all that belongs in a lease.
func (c *change) stage(one *held, dir string, h Holder, p *Process, t *Terms) (err error) {
	mode := uint32(c.Store.Modes.Dir.Perm())
	err = unix.Mkdir(dir, mode)
	if err == unix.EEXIST { // a killed process's
		discard(dir)
		err = unix.Mkdir(dir, mode)
	}
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: err}
	}
	if one.dir, err = openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return err
	}
	if c.Store.Modes == state.Shared {
		// S_ISGID by number: Fchmod knows no os.FileMode.
		if err := unix.Fchmod(one.dir, 0o2770); err != nil {
			return &fs.PathError{Op: "chmod", Path: dir, Err: err}
		}
	}
	step("claim.1 directory")
	if one.record, err = c.writeNew(filepath.Join(dir, "holder.json"), h.encode()); err != nil {
		return err
	}
	step("claim.1 record")
	if p == nil {
		one.process, err = c.writeNew(filepath.Join(dir, "claim.json"), t.encode())
		step("claim.1 terms")
		return err
	}
	if one.process, err = c.writeNewAs(filepath.Join(dir, "process.json"), p.encode(), c.processMode()); err != nil {
		return err
	}
	step("claim.1 process")
	return c.bear(one, filepath.Join(dir, "witness"))
}

// bear makes the witness and the descriptor that the command inherits.
func (c *change) bear(one *held, path string) (err error) {
	if one.witness, err = c.lockFIFO(path); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(one.witness, &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	one.ino = st.Ino
	one.shared, err = unix.FcntlInt(uintptr(one.witness), unix.F_DUPFD_CLOEXEC, WitnessFD)
	if err == unix.EINVAL || err == unix.EMFILE {
		// ulimit -n leaves no number that high: any other is better than none.
		one.shared, err = unix.FcntlInt(uintptr(one.witness), unix.F_DUPFD_CLOEXEC, 3)
	}
	if err == unix.EINVAL {
		err = unix.EMFILE // not even that: the limit is lower
	}
	if err != nil {
		return &fs.PathError{Op: "dup", Path: path, Err: err}
	}
	return nil
}

// publish renames a finished lease to its place, which must be free. Where the
// file system can't rename so, mkdir keeps others out while the files move.
func (c *change) publish(staging, res string) error {
	to := c.path(res)
	c.getReady()
	step("claim.2")
	err := renameNew(staging, to)
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP {
		if err = unix.Mkdir(to, uint32(c.Store.Modes.Dir.Perm())); err == nil {
			for _, n := range [...]string{"witness", "process.json", "claim.json", "holder.json"} {
				if e := unix.Rename(filepath.Join(staging, n), filepath.Join(to, n)); e != nil && e != unix.ENOENT {
					err = e
				}
			}
			unix.Rmdir(staging)
			if err != nil {
				discard(to)
			}
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: err}
	}
	return nil
}

// useGrants writes the document without the grants that a claim used up, and
// tells those whose turn has come nearer.
func (c *change) useGrants(st *state.State, grants []int) error {
	var used []state.Grant
	left := st.Grants[:0:0]
	for i, g := range st.Grants {
		mine := false
		for _, at := range grants {
			mine = mine || at == i
		}
		if mine {
			used = append(used, g)
		} else {
			left = append(left, g)
		}
	}
	if len(used) == 0 {
		return nil
	}
	st.Grants = left
	for _, g := range used {
		if !st.HasGrants(g.Resource) {
			delete(st.Released, g.Resource)
		}
	}
	// [claim.4] Woken before the write: a crash in between loses nothing.
	step("claim.4")
	for _, g := range used {
		c.wake(st, g.Resource, true)
	}
	step("claim.5")
	return c.lock.Save(st)
}

// giveBack takes away a lease that this very change made.
func (c *change) giveBack(one *held) {
	if unix.Rename(c.path(one.res), c.trash(one.res)) == nil {
		discard(c.trash(one.res))
	}
	one.close()
}

func (one *held) close() {
	for _, fd := range [...]*int{&one.shared, &one.dir, &one.record, &one.process, &one.witness} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}
