package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Leftover is what a killed process left, and nobody has swept yet.
type Leftover struct {
	Path string
	What string
	// Sweeper is who does it without being told.
	Sweeper string
}

// Leftovers finds them. Under the lock nobody is making a lease or a ticket; a
// retired lease may just be being deleted all the same, and a look of somebody
// else's at dead tickets removes them: what Gone says later is none. The error
// is an *fs.PathError.
func (b *Base) Leftovers(now time.Time) ([]Leftover, error) {
	names, err := readNames(string(b.Leases) + "/.")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []Leftover
	add := func(dir, name, what, sweeper string) {
		found = append(found, Leftover{filepath.Join(dir, name), what, sweeper})
	}
	slices.Sort(names)
	for _, n := range names {
		res, trash := strings.CutPrefix(n, ".trash.")
		switch {
		case trash:
			add(string(b.Leases), n, "a retired lease", "the next claim of "+res)
		case strings.HasPrefix(n, ".staging."):
			add(string(b.Leases), n, "a half-made lease", "the next claim of a resource that is new")
		}
	}
	lines, err := b.Lines()
	if err != nil {
		return nil, err
	}
	for _, res := range lines {
		names, ns, err := b.entries(res)
		if err != nil {
			return nil, err
		}
		for _, n := range ns {
			p, ok := b.seePlace(res, n, now)
			if p.watch >= 0 {
				unix.Close(p.watch)
			}
			if !ok {
				add(b.queue(res), strconv.FormatInt(n, 10), "a dead ticket", "the next wait for "+res)
			}
		}
		for _, name := range names {
			if halfMade(name, ns) {
				add(b.queue(res), name, "a half-made ticket", "the next wait for "+res)
			}
		}
	}
	if names, err = readNames(b.Store.Dir + "/."); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, n := range names {
		switch {
		case strings.HasPrefix(n, TrialPrefix):
			add(b.Store.Dir, n, "a trial of withlease doctor", "")
		case n == ".state.json.new":
			add(b.Store.Dir, n, "a half-written state document", "the next grant")
		}
	}
	return found, nil
}

// halfMade says whether a name in the directory of a line is of a ticket that
// was never finished; ns are the tickets.
func halfMade(name string, ns []int64) bool {
	text, json := strings.CutSuffix(name, ".json")
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "."), 10, 64)
	_, there := slices.BinarySearch(ns, n)
	return name == ".new.json" || err == nil && (name[0] == '.' || json && !there)
}

// Gone says whether it has been swept meanwhile.
func (l Leftover) Gone() bool {
	_, err := os.Lstat(l.Path)
	return errors.Is(err, fs.ErrNotExist)
}
