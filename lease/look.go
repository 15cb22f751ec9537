package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// ClaimGrace is how long a directory without record and witness counts as a
// claim of the shell lock that is being made.
const ClaimGrace = 10 * time.Second

var (
	errNotOurs = errors.New("neither a FIFO nor a regular file: not of this program's making")
	errNoFile  = errors.New("not a regular file")
)

// Kind is how a lease is held.
type Kind int

const (
	Free      Kind = iota
	Running        // its witness is held: a run, alive
	Orphaned       // the wrapper is gone, and processes of its run live
	Recorded       // a record without a witness: the shell lock, or a claim without a command
	Claiming       // no record yet: the shell lock is making one
	Foreign        // of another machine, renewed within its ttl
	Odd            // not a lease of ours; held, as far as anybody can tell
	Crashed        // the last process of its run is gone: it may be taken over
	Abandoned      // no record came: it may be taken over
	Ended          // a claim whose time is over: it may be taken over
)

// Sight is what a look at a lease saw.
type Sight struct {
	Resource string
	Kind     Kind
	Held     bool
	Holder   Holder // what is known of it when the record is missing or unreadable
	Process  *Process
	Terms    *Terms    // of a claim without a command
	Renewed  time.Time // the record's last renewal
	Asks     []Ask     // who has asked for it, the newest last
	Orphans  []Member  // the processes that hold an orphaned lease
	Problem  string    // what is wrong with its files

	witness string // its path
	owner   int    // whose processes its process.json may name; -1: nobody's
}

// Member is a process of a run.
type Member struct {
	PID
	Command string
}

// sight is a look with what a change or a wait needs besides.
type sight struct {
	base    *Base
	res     string
	kind    Kind
	exists  bool // there is something at the lease's path
	watch   int  // the witness, open for its hang-up; -1: nothing will tell
	ino     uint64
	dirIno  uint64
	mtime   time.Time
	orphans []Member
	problem error
	late    bool // a claim whose time is over, and that a run under it keeps
	proc    *Process
	owner   int // see Sight
	terms   *Terms
}

func (s *sight) held() bool { return s.exists && !s.dead() }
func (s *sight) dead() bool { return s.kind == Crashed || s.kind == Abandoned || s.kind == Ended }

func (s *sight) close() {
	if s != nil && s.watch >= 0 {
		unix.Close(s.watch)
		s.watch = -1
	}
}

// look sees who has res. Under the lock what it says stays true, but for the
// deaths that the witness tells and the shell lock's comings and goings. The
// error is a *NameError or an *fs.PathError.
func (b *Base) look(res string, now time.Time) (*sight, error) {
	if err := CheckName(res); err != nil {
		return nil, err
	}
	s := &sight{base: b, res: res, watch: -1, owner: -1}
	dir := b.path(res)
	var st unix.Stat_t
	switch err := unix.Lstat(dir, &st); err {
	case nil:
	case unix.ENOENT:
		return s, nil
	default:
		return nil, &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	s.exists, s.dirIno = true, st.Ino
	s.mtime = time.Unix(st.Mtim.Unix())
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR {
		s.kind, s.problem = Odd, errors.New("is not a directory")
		if kind == unix.S_IFLNK {
			s.problem = errors.New("is a symbolic link")
		}
		return s, nil
	}
	if s.terms = s.readTerms(); s.terms != nil {
		// Of a run whose command failed, the witness may live still.
		if s.kind = Recorded; s.terms.over(now) {
			s.kind = Ended
			if fd, yes := s.runsUnder(); yes {
				s.kind, s.watch, s.late = Recorded, fd, true
			}
		}
		return s, nil
	}
	fd, alive, fifo, err := probe(filepath.Join(dir, "witness"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.withoutWitness(now)
		return s, nil
	case err != nil:
		s.kind, s.problem = Odd, err
		return s, nil
	}
	if unix.Fstat(fd, &st) == nil {
		s.ino = st.Ino
	}
	if alive {
		s.kind = Running
		if fifo {
			s.watch = fd
		} else {
			unix.Close(fd)
		}
		return s, nil
	}
	unix.Close(fd)
	s.withoutHolder(now)
	return s, nil
}

// withoutWitness is a lease that some other tool made, or a person's claim.
func (s *sight) withoutWitness(now time.Time) {
	dir := s.base.path(s.res)
	for _, name := range []string{"holder.json", "process.json"} {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, name), &st) == nil {
			s.kind = Recorded
			return
		}
	}
	// What has anything in it was no lease, and taking over deletes.
	if names, err := readNames(dir); err != nil || len(names) > 0 {
		s.kind, s.problem = Odd, errors.New("has files in it, and no record: no lease of ours")
		return
	}
	// By its mtime, whose clock is ours: a time in the future is no sign of
	// life either.
	if age := now.Sub(s.mtime); age < ClaimGrace && age > -ClaimGrace {
		s.kind = Claiming
		return
	}
	s.kind = Abandoned
}

// withoutHolder is a lease whose witness nobody holds.
func (s *sight) withoutHolder(now time.Time) {
	p := s.process()
	here := thisMachine()
	switch {
	case p == nil, p.BootID != "" && p.BootID == here.bootID:
	case p.MachineID != "" && p.MachineID == here.machineID:
		if p.BootID != "" && here.bootID != "" {
			s.kind = Crashed // this machine has booted since
			return
		}
	case p.BootID != "" || p.MachineID != "":
		// Another machine's, on a shared file system, or, without /proc, nobody can
		// tell: the lock may not be seen here, so its renewals must do, by the file
		// system's own clock.
		if s.renewedWithin(p.ttl()) {
			s.kind = Foreign
			return
		}
		s.kind = Crashed
		return
	}
	if p != nil {
		if s.orphans = survivors(p); len(s.orphans) > 0 {
			s.kind = Orphaned
			return
		}
	}
	s.kind = Crashed
}

// renewedWithin compares the record's mtime with that of a file touched now in
// the same file system: the clocks of two machines may differ, the server's
// agrees with itself.
func (s *sight) renewedWithin(ttl time.Duration) bool {
	var rec, mark unix.Stat_t
	if unix.Lstat(filepath.Join(s.base.path(s.res), "holder.json"), &rec) != nil {
		return false
	}
	path := filepath.Join(string(s.base.Leases), ".clock")
	fd, err := s.base.writeNew(path, []byte("\n"))
	for range 3 { // another's of the same moment, or a dead one's
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		unix.Unlink(path)
		fd, err = s.base.writeNew(path, []byte("\n"))
	}
	if err != nil {
		return true // when in doubt it is alive
	}
	defer unix.Close(fd)
	unix.Unlink(path)
	if unix.Fstat(fd, &mark) != nil {
		return true
	}
	return time.Unix(mark.Mtim.Unix()).Sub(time.Unix(rec.Mtim.Unix())) <= ttl
}

// process reads process.json; nil when it can't be read, or is a run's that has
// become a claim.
func (s *sight) process() *Process {
	if s.proc == nil && s.exists && s.terms == nil {
		b, st, err := readWithStat(filepath.Join(s.base.path(s.res), "process.json"), unix.O_RDONLY, maxRecord)
		if err != nil {
			return nil
		}
		if s.owner = -1; st.Mode&0o022 == 0 && st.Nlink == 1 {
			s.owner = int(st.Uid)
		}
		p := &Process{}
		if json.Unmarshal(b, p) != nil {
			// The run adds to it in place and takes no lock for that: it may be
			// half-written. What is added comes last.
			p = &Process{}
			if json.Unmarshal(wholeMembers(b), p) != nil {
				return nil
			}
		}
		s.proc = p
	}
	return s.proc
}

// wholeMembers is an object that is cut off, or overwritten from some byte on, up to
// its last whole member.
func wholeMembers(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	end := 0
	for d.More() {
		if _, err := d.Token(); err != nil { // a name
			break
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		after := int(d.InputOffset())
		if after == len(text) || text[after] != ',' && text[after] != '}' {
			break // perhaps the beginning of a number
		}
		end = after
	}
	if end == 0 {
		return nil
	}
	return append(text[:end:end], '}')
}

// LookMembers is Look with the processes of whoever has res (Sight.Members), all
// under the lock: a look without it may see the lease of one and the witness of
// the next, and what ends those processes would end somebody else's. The error is
// a *NameError, an *fs.PathError or the context's.
func (b *Base) LookMembers(ctx context.Context, res string) (Sight, []Member, error) {
	none := Sight{Resource: res}
	l, err := b.Store.Look(ctx)
	if err != nil {
		return none, nil, err
	}
	defer l.Unlock()
	sight, err := b.Look(res)
	if err != nil {
		return none, nil, err
	}
	return sight, sight.Members(), nil
}

// record reads holder.json. One that is missing or unreadable leaves a holder
// that says no more than the resource.
func (s *sight) record() Holder {
	h, _, _ := s.readRecord()
	return h
}

func (s *sight) readRecord() (Holder, time.Time, string) {
	unknown := Holder{Env: s.res}
	if s.problem != nil {
		return unknown, time.Time{}, s.problem.Error()
	}
	if s.kind == Claiming {
		return unknown, time.Time{}, "a claim is being made"
	}
	path := filepath.Join(s.base.path(s.res), "holder.json")
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return unknown, time.Time{}, "its record is missing"
	}
	renewed := time.Unix(st.Mtim.Unix())
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unknown, renewed, "its record is not a regular file"
	}
	b, err := readFile(path, unix.O_RDONLY, maxRecord)
	if err != nil {
		return unknown, renewed, "its record can't be read: " + err.(*fs.PathError).Err.Error()
	}
	h := Holder{}
	if err := json.Unmarshal(b, &h); err != nil || len(b) == maxRecord || h == (Holder{}) {
		return unknown, renewed, "its record is unreadable"
	}
	h.Env = s.res // whatever a record says, the directory is what is held
	if s.late {
		return h, renewed, "its time is over, and a run under it goes on"
	}
	return h, renewed, ""
}

// Sight is s for people.
func (s *sight) Sight() Sight {
	v := Sight{Resource: s.res, Kind: s.kind, Held: s.held(), Orphans: s.orphans, witness: filepath.Join(s.base.path(s.res), "witness")}
	if s.exists {
		v.Holder, v.Renewed, v.Problem = s.readRecord()
		v.Process, v.Terms = s.process(), s.terms
		v.owner = s.owner
		if s.held() {
			v.Asks = s.base.asks(s.res)
		}
	} else {
		v.Holder.Env = s.res
	}
	return v
}

// Look sees who has res, without changing anything. The error is a *NameError
// or an *fs.PathError.
func (b *Base) Look(res string) (Sight, error) {
	s, err := b.look(res, time.Now())
	if err != nil {
		return Sight{Resource: res}, err
	}
	defer s.close()
	return s.Sight(), nil
}

// List sees every lease, oldest first, the dead ones included (they are not
// Held). The error is an *fs.PathError.
func (b *Base) List() ([]Sight, error) {
	names, err := readNames(string(b.Leases) + "/.")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	held := make([]Sight, 0, len(names))
	now := time.Now()
	for _, n := range names {
		if CheckName(n) != nil {
			continue // a name with a dot first is no lease; others are nobody's
		}
		s, err := b.look(n, now)
		if err != nil {
			return nil, err
		}
		if s.exists {
			held = append(held, s.Sight())
		}
		s.close()
	}
	sortOldest(held)
	return held, nil
}

// Party is the party that holds s.
func (s Sight) Party() state.Party { return s.Holder.Party() }
