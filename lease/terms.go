package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// Mark tells a lease from every other: by its token, or, among those of one
// resource, by its fence.
type Mark struct {
	Token string
	Fence int64
}

// ParseMark reads a token, or a fence: a number of at most 19 digits, which no
// token is. The error says what text is not.
func ParseMark(text string) (Mark, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && len(text) <= 19 {
		return Mark{Fence: n}, nil
	}
	if len(text) < 16 {
		return Mark{}, fmt.Errorf("%q is no token, which is 32 hexadecimal digits, and no fence, which is a number", text)
	}
	return Mark{Token: text}, nil
}

// Means says whether m, a token or a fence, is that of the lease with the mark
// of.
func (m Mark) Means(of Mark) bool {
	if m.Token != "" {
		return m.Token == of.Token
	}
	return m.Fence > 0 && m.Fence == of.Fence
}

// Terms are claim.json: what a claim without a command says of itself. Where it
// is, it alone decides what the lease is, whatever of a run lies beside it.
type Terms struct {
	Token string    `json:"token"`
	Fence int64     `json:"fence"`
	Until time.Time `json:"until,omitzero"` // when it ends; zero: when it is released
}

// over says whether the time that its holder asked for has passed. By the wall
// clock: it is the holder's word, and not a sign of life.
func (t *Terms) over(now time.Time) bool { return !t.Until.IsZero() && !now.Before(t.Until) }

func (t *Terms) encode() []byte {
	b, _ := json.Marshal(t) // a text, a number and a time of ours
	return append(b, '\n')
}

// inMilliseconds is d from now, as claim.json has it.
func inMilliseconds(now time.Time, d time.Duration) time.Time {
	return now.Add(d).UTC().Truncate(time.Millisecond)
}

// readTerms reads claim.json; nil when there is none that says anything.
func (s *sight) readTerms() *Terms {
	text, err := readFile(filepath.Join(s.base.path(s.res), "claim.json"), unix.O_RDONLY, maxRecord)
	if err != nil {
		return nil
	}
	t := &Terms{}
	if json.Unmarshal(text, t) != nil || t.Token == "" {
		return nil
	}
	t.Until = state.Writable(t.Until)
	return t
}

// mark is that of the lease, as far as it is known.
func (s *sight) mark() Mark {
	if s.terms != nil {
		return Mark{s.terms.Token, s.terms.Fence}
	}
	if p := s.process(); p != nil {
		return Mark{p.Token, p.Fence}
	}
	return Mark{}
}

// Mark is that of the lease, the zero value when it has none: a shell lock.
func (s Sight) Mark() Mark {
	if s.Terms != nil {
		return Mark{s.Terms.Token, s.Terms.Fence}
	}
	if s.Process != nil {
		return Mark{s.Process.Token, s.Process.Fence}
	}
	return Mark{}
}

// Until is when the lease ends on its own; zero for one that doesn't.
func (s Sight) Until() time.Time {
	if s.Terms != nil {
		return s.Terms.Until
	}
	return time.Time{}
}

// until is when s ends on its own.
func (s *sight) until() time.Time {
	if s.terms != nil {
		return s.terms.Until
	}
	return time.Time{}
}

// TermError is a lease whose end nobody can move.
type TermError struct {
	Sight  Sight
	Reason string
}

func (e *TermError) Error() string { return e.Sight.Resource + ": " + e.Reason }

// Extend moves the end of a claim of who [extend]: to that time, sooner or
// later. It returns the new terms. Nobody's lease is a *DirError that wraps
// ErrNotHeld, another party's a *HeldError; a run's, and a claim that has no
// end, is a *TermError.
func (b *Base) Extend(ctx context.Context, res string, who state.Party, until time.Time) (t Terms, err error) {
	if err := CheckName(res); err != nil {
		return t, err
	}
	l, err := b.lockThere(ctx, res)
	if err != nil {
		return t, err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.settle(res)
	if err != nil {
		return t, err
	}
	defer s.close()
	switch {
	case !s.held():
		return t, &DirError{Resource: res, Path: b.path(res), Err: ErrNotHeld}
	case !s.record().Party().Same(who):
		return t, &HeldError{s.Sight()}
	case s.kind != Recorded:
		return t, &TermError{s.Sight(), "a run has no end in time: it is given back when its command ends"}
	case s.until().IsZero():
		return t, &TermError{s.Sight(), "this claim has no end in time: it stays until it is released"}
	}
	t = *s.terms
	t.Until = inMilliseconds(until, 0)
	if t.Until.Before(s.until()) {
		// Who waits has a timer at the old end. A later one they find then.
		st, err := l.State()
		if err != nil {
			c.warn, st = append(c.warn, err), nil
		}
		step("extend.1")
		c.wake(st, res, true)
	}
	step("extend.2")
	if err := b.replace(b.path(res), "claim.json", t.encode()); err != nil {
		return t, err
	}
	step("extend.3")
	h := s.record()
	c.log(who.Label(), "extend", state.Detail{Resource: res, Session: h.Session, Purpose: h.Purpose, Token: t.Token, Fence: t.Fence, Until: t.Until})
	return t, nil
}

// replace replaces a file of a lease, so that readers see the old one or the
// new one. The caller holds the lock: there is one writer at a time.
func (b *Base) replace(dir, name string, text []byte) error {
	tmp := filepath.Join(dir, "."+name)
	unix.Unlink(tmp) // a killed process's
	fd, err := b.writeNew(tmp, text)
	if err != nil {
		unix.Unlink(tmp)
		return err
	}
	unix.Close(fd)
	step("replace")
	if err := unix.Rename(tmp, filepath.Join(dir, name)); err != nil {
		unix.Unlink(tmp)
		return &os.PathError{Op: "rename", Path: filepath.Join(dir, name), Err: err}
	}
	return nil
}
