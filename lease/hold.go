package lease

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// Since is when the lease was claimed, Waited how long that took.
func (l *Lease) Since() time.Time      { return l.since }
func (l *Lease) Waited() time.Duration { return l.waited }

// Resources are what the lease holds, in the order of the claim.
func (l *Lease) Resources() []string {
	var rs []string
	for _, h := range l.held {
		rs = append(rs, h.res)
	}
	return rs
}

// Fences are the fences of Resources, in their order.
func (l *Lease) Fences() []int64 {
	var fs []int64
	for _, h := range l.held {
		fs = append(fs, h.fence)
	}
	return fs
}

// Inherit makes the witness pass to the command that is started next, or keeps
// it from doing so. Its number is WitnessFD or above.
func (l *Lease) Inherit(yes bool) {
	flags := unix.FD_CLOEXEC
	if yes {
		flags = 0
	}
	for _, h := range l.held {
		unix.FcntlInt(uintptr(h.shared), unix.F_SETFD, flags)
	}
}

// NoteChild records the command's process, so that it can be named, and is
// seen to live, when the wrapper is gone and the witness with it. It is for
// reports and for the rare orphan, so a failure to write it is none.
func (l *Lease) NoteChild(pid int) {
	l.process.Child = &PID{pid, startTime(pid)}
	l.writeProcess()
}

// NoteForks records how many tasks the system has made, so that whoever finds
// this run crashed need not look at the processes that are older. It is for
// runs that last.
func (l *Lease) NoteForks() {
	l.process.Forks = forks()
	l.writeProcess()
}

func (l *Lease) writeProcess() {
	p := l.process
	if p.Child == nil {
		p.Forks = 0 // comes behind it
	}
	for _, h := range l.held {
		p.Fence = h.fence
		text := p.encode()
		// In place, without a lock and in one write. A reader may see the half of it
		// (no file system promises more), which is the old text, and a part of what
		// is added to it: see (*sight).process.
		if n, err := unix.Pwrite(h.process, text, 0); err == nil {
			unix.Ftruncate(h.process, int64(n))
		}
	}
}

// Watch calls lost, once, when somebody takes the lease away, and asked for each
// that asks for it. Who does writes a byte into the witness, who forces before it
// renames, who asks after it; a byte that lies there already is found too,
// however early it came (R7). Check takes the lock shared, so it sees what they
// have done.
func (l *Lease) Watch(lost func(error), asked func(Ask)) {
	all := l.held
	for _, h := range all {
		fd, err := unix.FcntlInt(uintptr(h.witness), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			continue // renewal finds it
		}
		f := os.NewFile(uintptr(fd), "witness")
		go func() {
			defer f.Close()
			buf := make([]byte, 16)
			var known []Ask
			for {
				if _, err := f.Read(buf); err != nil {
					return
				}
				if err := l.checkAll(all); err != nil {
					lost(err)
					return
				}
				asks := l.base.asks(h.res)
				for _, a := range asks {
					if !slices.ContainsFunc(known, func(k Ask) bool { return k.At.Equal(a.At) && k.By.Same(a.By) }) {
						asked(a)
					}
				}
				known = asks
			}
		}()
	}
}

// Forced says whether somebody has written to the witness [start.1].
func (l *Lease) Forced() bool {
	fds := make([]unix.PollFd, len(l.held))
	for i, h := range l.held {
		fds[i] = unix.PollFd{Fd: int32(h.witness), Events: unix.POLLIN}
	}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

func (c *change) logClaim(l *Lease) {
	h := l.request.Holder
	for _, one := range l.held {
		c.log(h.Party().Label(), "claim", state.Detail{
			Resource: one.res, Session: h.Session, Purpose: h.Purpose, Token: l.Token, Fence: one.fence, WaitSeconds: l.waited.Seconds(),
		})
	}
}

// record takes res with a record and no witness, for a time unless d is 0.
func (c *change) record(res string, h Holder, d time.Duration) (t Terms, err error) {
	t.Token = NewToken()
	if d > 0 {
		t.Until = inMilliseconds(c.now, d)
	}
	if t.Fence, _, err = c.next(res, false); err != nil {
		return t, err
	}
	one, err := c.take(res, h, nil, &t)
	if err != nil {
		return t, err
	}
	one.close()
	return t, nil
}

// HeldEnv is the value of $WITHLEASE_HELD: what a run's tree holds, each with
// the token of the run that claimed it.
func HeldEnv(outer string, l *Lease) string {
	var parts []string
	if outer != "" {
		parts = strings.Split(outer, ",")
	}
	for _, h := range l.held {
		parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, h.res+"=") })
		parts = append(parts, h.res+"="+l.Token)
	}
	return strings.Join(parts, ",")
}

// Nested says which of resources an outer run of this process tree holds: its
// token, from $WITHLEASE_HELD, is the live lease's. The environment alone
// proves nothing. A record without a witness (`withlease claim`) of the same
// party counts too; where that has an end, this process and the command that it
// starts hold it open beyond that.
func (b *Base) Nested(ctx context.Context, resources []string, heldEnv string, who state.Party) (nested []string, err error) {
	for _, res := range resources {
		mine := outer(res, heldEnv, who)
		s, err := b.look(res, time.Now())
		if err != nil {
			return nil, err
		}
		s.close()
		ok := mine(s)
		if ok && !s.until().IsZero() {
			if ok, err = b.goUnder(ctx, res, mine); err != nil {
				return nil, err
			}
		}
		if ok {
			nested = append(nested, res)
		}
	}
	return nested, nil
}

// Covers says whether a run of res would be nested, and takes part in nothing.
func (b *Base) Covers(res, heldEnv string, who state.Party) (bool, error) {
	s, err := b.look(res, time.Now())
	if err != nil {
		return false, err
	}
	s.close()
	return outer(res, heldEnv, who)(s), nil
}

// outer says of a sight of res whether it is held by an outer run, or by a claim
// of who; not by one whose time is over, or those who wait might for ever.
func outer(res, heldEnv string, who state.Party) func(*sight) bool {
	token := ""
	for part := range strings.SplitSeq(heldEnv, ",") {
		if name, value, ok := strings.Cut(part, "="); ok && name == res {
			token = value
		}
	}
	return func(s *sight) bool {
		return s.held() && (token != "" && s.mark().Token == token || s.kind == Recorded && !s.late && s.record().Party().Same(who))
	}
}

// Members are the processes that run with the lease's token, this one not
// among them: the command and what it started.
func (l *Lease) Members() []Member {
	p := l.process
	return survivors(&p)
}
