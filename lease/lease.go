// Package lease holds a machine's shared resources, one holder at a time: kind
// labs, a shared installation, the browser, a model server.
//
// A lease is a directory with the holder's record in it, as the lab's shell
// lock makes it too; whoever made the directory holds the resource. A lease of
// this package has a witness beside the record: a FIFO whose flock(2) lives as
// long as any process of the run does, so that the kernel says whether a
// holder is alive, and tells who waits when it isn't any more.
//
// While a supervisor is recorded a free lease is not permission: a session
// claims what the supervisor granted, in the order of the grants, from its
// start to a deliberate stop, whether it runs or has crashed.
//
// The steps of the protocol carry their names in testdata/model: [claim.1] and
// so on.
package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"withlease/state"
)

// MaxName is the length of the longest resource name, in bytes.
const MaxName = 128

// NameError is a text that can't name a resource.
type NameError struct {
	Name string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("%q is no resource name: a name begins with a letter or digit and has at most %d letters, digits and ._@:+-", e.Name, MaxName)
}

// CheckName says whether name can name a resource:
// [A-Za-z0-9][A-Za-z0-9._@:+-]{0,127}. The error is a *NameError. It is
// written out because a regular expression with that bound costs a short run a
// quarter of its time.
func CheckName(name string) error {
	ok := len(name) >= 1 && len(name) <= MaxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '@', c == ':', c == '+', c == '-':
			ok = i > 0
		default:
			ok = false
		}
	}
	if !ok {
		return &NameError{name}
	}
	return nil
}

// Dir is the lease directory.
type Dir string

// base is the lease directory with the state directory that the layout puts
// round it.
func (d Dir) base() *Base {
	parent := filepath.Dir(filepath.Clean(string(d)))
	modes := state.Private
	if st, err := os.Stat(parent); err == nil {
		modes = state.ModesOf(st)
	}
	return &Base{Leases: d, Store: &state.Store{Dir: parent, Modes: modes}}
}

// Claim takes res for h, with a record and no witness: it is held until it is
// released, whoever dies. It returns nil, nil when it was claimed, and the
// holder when somebody has it already. The error is a *NameError, a *DirError
// or an *fs.PathError.
//
// The lock is state.lock beside the directory, as the layout has it; a program
// that keeps its state elsewhere uses Base.
func (d Dir) Claim(res string, h Holder) (*Holder, error) {
	if err := CheckName(res); err != nil {
		return nil, err
	}
	b := d.base()
	if err := b.Make(); err != nil {
		return nil, err
	}
	l, err := b.Store.Lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.look(res)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.dead() {
		if err := c.retire(s); err != nil {
			return nil, err
		}
	} else if s.held() {
		h := s.record()
		return &h, nil
	}
	h.Env = res
	if h.Since == "" {
		h.Since = c.now.UTC().Format(time.RFC3339)
	}
	_, err = c.record(res, h, 0)
	if errors.Is(err, fs.ErrExist) {
		s, err := c.look(res)
		if err != nil {
			return nil, err
		}
		defer s.close()
		h := s.record()
		return &h, nil
	}
	return nil, err
}

// Get returns who holds res, nil when it is free. A crashed holder, whose last
// process is gone, holds nothing. The error is a *NameError, a *DirError or an
// *fs.PathError.
func (d Dir) Get(res string) (*Holder, error) {
	s, err := d.base().Look(res)
	if err != nil || !s.Held {
		return nil, err
	}
	return &s.Holder, nil
}

// List returns every held lease, oldest first. The error is an *fs.PathError.
func (d Dir) List() ([]Holder, error) {
	held, err := d.base().List()
	if err != nil {
		return nil, err
	}
	var hs []Holder
	for _, s := range held {
		if s.Held {
			hs = append(hs, s.Holder)
		}
	}
	return hs, nil
}

// Release frees res, whoever holds it. A resource that nobody holds is a
// *DirError that wraps ErrNotHeld.
func (d Dir) Release(res string) error {
	b := d.base()
	if err := CheckName(res); err != nil {
		return err
	}
	l, err := b.Store.Lock(context.Background())
	if err != nil {
		return err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.look(res)
	if err != nil {
		return err
	}
	defer s.close()
	if !s.exists {
		return &DirError{Resource: res, Path: b.path(res), Err: ErrNotHeld}
	}
	if err := c.away(s, c.trash(res), 0, func() {}); err != nil {
		return err
	}
	discard(c.trash(res))
	return nil
}

// DirError is a lease directory that is not as one should be, or not there.
type DirError struct {
	Resource string
	Path     string
	Err      error
}

func (e *DirError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Resource, e.Path, e.Err) }
func (e *DirError) Unwrap() error { return e.Err }

var (
	// ErrNotHeld is the release of a resource that nobody holds.
	ErrNotHeld = errors.New("nobody holds it")
	// ErrLost is a lease that somebody forced away, or that vanished.
	ErrLost = errors.New("the lease was lost")
)

// sortOldest puts leases in the order in which they were claimed.
func sortOldest(held []Sight) {
	slices.SortStableFunc(held, func(a, b Sight) int {
		if c := a.Holder.SinceTime().Compare(b.Holder.SinceTime()); c != 0 {
			return c
		}
		return compare(a.Resource, b.Resource)
	})
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
