//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// abandoned is how long a directory without a record is somebody's.
const abandoned = 10 * time.Second

// shellLock holds a resource as the lab's script does. Nobody forces it meanwhile.
func (w *worker) shellLock() {
	o := w.newOp("lab-lock", longWait, w.resource())
	held := w.shells[o.res[0]]
	held.RLock()
	defer held.RUnlock()
	env := []string{"WITHLEASE_SESSION=" + o.id}
	e := w.do(env, "sh", w.shell, "claim", o.res[0], o.id)
	w.count(fmt.Sprintf("lab-lock claim: %d", e.code))
	if e.code == 1 && strings.Contains(e.err, "could not be written") && time.Since(o.began) < abandoned {
		w.violation("%s: its directory was taken from the shell lock: %v", o.id, e)
	}
	if e.code == 1 || e.code == 2 && strings.Contains(e.err, "be had") { // busy, or others were faster twice
		return
	}
	command := w.commandLine(o, 60*time.Millisecond)
	w.do(nil, command[0], command[1:]...)
	if e2 := w.do(env, "sh", w.shell, "release", o.res[0]); e.code != 0 || e2.code != 0 {
		w.violation("%s: lab-lock.sh claim %v, release %v", o.id, e, e2)
	}
}

// shellInstants makes the directory of a shell lock again and again, and no record: a claim that looked before and renames
// after must leave it alone. The script itself is too slow to come in between.
func (t *torture) shellInstants(r *rand.Rand) {
	for !t.isOver() {
		t.pause(time.Duration(r.IntN(10000)) * time.Microsecond)
		res := resources[r.IntN(len(resources))]
		t.shells[res].RLock()
		t.shellInstant(filepath.Join(t.leases, res), time.Duration(r.IntN(2000))*time.Microsecond)
		t.shells[res].RUnlock()
	}
}

func (t *torture) shellInstant(dir string, length time.Duration) {
	began := time.Now()
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // it is held, or nobody has made the base yet
		return
	}
	made, err2 := os.Lstat(dir)
	time.Sleep(length)
	now, err3 := os.Lstat(dir)
	switch {
	case time.Since(began) > abandoned:
		return
	case err != nil || err2 != nil || err3 != nil || !os.SameFile(made, now):
		t.violation("the shell lock's directory was replaced: %v", errors.Join(err, err2, err3))
		return
	}
	if err := os.Remove(dir); err != nil { // another's, with files in it
		t.violation("the shell lock's directory was replaced: %v", err)
	}
	t.count("lab-lock, an instant of it")
}
