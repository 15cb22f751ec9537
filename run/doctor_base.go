package run

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"withlease/lease"
	"withlease/state"
)

// place says where everything lies, and why there.
func (d *doctor) place() {
	b, from, err := d.Session.place()
	if err != nil {
		d.add(resultWrong, "base", fixes("export HOME=~"+d.login()), "%s", Explain(err))
		return
	}
	d.base = b
	text := fmt.Sprintf("%s (%s)", show(b.Store.Dir), from)
	if string(b.Leases) != filepath.Join(b.Store.Dir, "leases") {
		text += fmt.Sprintf(", leases in %s", show(string(b.Leases)))
	}
	if st, err := os.Stat(machineDir); err == nil && st.IsDir() && (from == "$HOME" || from == "$XDG_STATE_HOME") {
		d.add(resultWarning, "base", fixes(command("sudo", "usermod", "-aG", groupOf(st), d.login())),
			"%s; the others' is %s, where you may not write", text, machineDir)
		return
	}
	d.ok("base", "%s", text)
}

// caller says as whom withlease sees who calls.
func (d *doctor) caller() {
	id, from := d.session()
	name, nameFrom := d.name()
	if id == "" {
		text := "a person, named by " + cmp.Or(nameFrom, "the login")
		d.ok("caller", "%s: %s", show(cmp.Or(name, d.login())), text)
		return
	}
	text := fmt.Sprintf("session %s (%s)", showAt(id, 40), from)
	if name != "" {
		text += fmt.Sprintf(", %s (%s)", showAt(name, 40), nameFrom)
	}
	d.ok("caller", "%s", text)
}

// modes says whether all who share the base can work in it, and whether the
// caller can. It is false where there is nothing to be looked at.
func (d *doctor) modes() bool {
	dir := d.base.Store.Dir
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.unmade(dir)
		return false
	case err != nil:
		d.add(resultWrong, "modes", nil, "%s", Explain(err))
		return false
	case !st.IsDir():
		d.add(resultWrong, "modes", fixes(command("mv", dir, dir+".old")), "%s is not a directory", show(dir))
		return false
	}
	before := len(d.findings)
	d.baseMode(dir, st)
	if access(dir, unix.R_OK|unix.X_OK) != nil {
		return false
	}
	for _, path := range d.shared() {
		d.mode(path, st)
	}
	if len(d.findings) == before {
		d.ok("modes", "%s, and all in it agrees", modeText(st))
	}
	return true
}

// unmade is a base that nobody has claimed in yet.
func (d *doctor) unmade(dir string) {
	up := parent(dir)
	for up != parent(up) {
		if _, err := os.Stat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		up = parent(up)
	}
	if err := writable(up); err != nil {
		d.add(resultWrong, "modes", fixes(command("sudo", "install", "-d", "-o", d.login(), dir)),
			"the base is not made yet, and can't be: %s: %s%s", show(up), err, ownership(up))
		return
	}
	d.ok("modes", "not made yet: the first claim makes it")
}

// baseMode judges the base directory itself.
func (d *doctor) baseMode(dir string, st fs.FileInfo) {
	sys := st.Sys().(*syscall.Stat_t)
	shared := state.ModesOf(st) == state.Shared
	switch err := writable(dir); {
	case errors.Is(err, unix.EROFS):
		d.add(resultWrong, "modes", fixes("export WITHLEASE_DIR=~/withlease"), "%s is mounted read-only: nothing can be claimed", show(dir))
	case err != nil:
		fix := fixes("export WITHLEASE_DIR=~/withlease")
		if shared {
			fix = fixes(command("sudo", "usermod", "-aG", groupOf(st), d.login()))
		}
		can := "you can look and not claim"
		if access(dir, unix.R_OK|unix.X_OK) != nil {
			can = "you can neither look nor claim"
		}
		d.add(resultWrong, "modes", fix, "%s: %s: %s%s", can, show(dir), err, ownership(dir))
	case !shared && int(sys.Uid) != os.Geteuid():
		d.add(resultWarning, "modes", fixes(command("sudo", "-u", ownerOf(st), "withlease", "list")),
			"%s is %s's alone, and what you make in it %s can't change", show(dir), ownerOf(st), ownerOf(st))
	}
	if shared && st.Mode()&os.ModeSetgid == 0 {
		d.add(resultWarning, "modes", fixes(command("sudo", "chmod", "g+s", dir)),
			"%s is its group's (%s) without setgid: what is made in it may be another group's", show(dir), groupOf(st))
	}
	if st.Mode().Perm()&0o002 != 0 {
		d.add(resultWarning, "modes", fixes(command("sudo", "chmod", "o-w", dir)), "%s can be written by everybody", show(dir))
	}
}

// shared are the files that everybody who claims must be able to change.
func (d *doctor) shared() []string {
	s := d.base.Store
	leases := string(d.base.Leases)
	paths := []string{leases, filepath.Join(leases, ".queue"), s.Path(), s.LockPath(), s.Events()}
	lines, _ := d.base.Lines()
	for _, res := range lines {
		paths = append(paths, filepath.Join(leases, ".queue", res), filepath.Join(leases, ".queue", res, "last"))
	}
	return paths
}

// mode judges one of them by the base's own mode.
func (d *doctor) mode(path string, base fs.FileInfo) {
	st, err := os.Lstat(path)
	if err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return // not made yet; or the look at it has said what it is
	}
	sys, top := st.Sys().(*syscall.Stat_t), base.Sys().(*syscall.Stat_t)
	shared := state.ModesOf(base) == state.Shared
	want := fs.FileMode(0o600)
	if st.IsDir() {
		want = 0o700
	}
	var whose, change string
	if shared {
		want |= want >> 3
		if sys.Gid != top.Gid {
			whose, change = fmt.Sprintf("is group %s's, the base %s's", groupOf(st), groupOf(base)), command("sudo", "chgrp", groupOf(base), path)
		}
	} else if sys.Uid != top.Uid {
		whose, change = fmt.Sprintf("is %s's, the base %s's", ownerOf(st), ownerOf(base)), command("sudo", "chown", ownerOf(base), path)
	}
	var fix []string
	var wrong []string
	if change != "" {
		fix, wrong = append(fix, change), append(wrong, whose)
	}
	if st.Mode().Perm()&want != want {
		digits := fmt.Sprintf("%o", want)
		if st.IsDir() && shared {
			digits = "2" + digits
		}
		fix = append(fix, command("sudo", "chmod", digits, path))
		wrong = append(wrong, fmt.Sprintf("has mode %04o and needs %s", st.Mode().Perm(), digits))
	}
	if len(wrong) > 0 {
		d.add(resultWrong, "modes", fix, "%s %s", show(d.short(path)), strings.Join(wrong, ", and "))
	}
}

// short is a path as seen from the base.
func (d *doctor) short(path string) string {
	if rel, err := filepath.Rel(d.base.Store.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// writable says why this process can't make anything in a directory.
func writable(dir string) error { return access(dir, unix.W_OK|unix.X_OK) }

func access(dir string, how uint32) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, how, unix.AT_EACCESS)
}

func modeText(st fs.FileInfo) string {
	mode := fmt.Sprintf("%04o", st.Mode().Perm())
	kind := "private"
	if state.ModesOf(st) == state.Shared {
		kind = "shared"
		if st.Mode()&os.ModeSetgid != 0 {
			mode = "2" + mode[1:]
		}
	}
	return fmt.Sprintf("%s, %s %s:%s", kind, mode, ownerOf(st), groupOf(st))
}

func ownerOf(st fs.FileInfo) string {
	id := strconv.Itoa(int(st.Sys().(*syscall.Stat_t).Uid))
	if u, err := user.LookupId(id); err == nil {
		return show(u.Username)
	}
	return id
}

func groupOf(st fs.FileInfo) string {
	id := strconv.Itoa(int(st.Sys().(*syscall.Stat_t).Gid))
	if g, err := user.LookupGroupId(id); err == nil {
		return show(g.Name)
	}
	return id
}

// supervisor says who decides.
func (d *doctor) supervisor(v *snapshot) {
	sv := supervisorView(v.base, v.st, v.now)
	switch {
	case sv == nil && v.bad != nil:
		return // the document says nothing
	case sv == nil:
		d.ok("supervisor", "none: who comes first claims first")
	case sv.State == "gone":
		d.add(resultWarning, "supervisor", fixes("withlease supervisor start", "withlease supervisor stop --force"),
			"%s is gone: its grants still claim, nothing new does", who(v.st.Supervisor.Party, sv.PID))
	case sv.State == "away":
		d.add(resultWarning, "supervisor", nil, "%s is away, may restart until %s", who(v.st.Supervisor.Party, sv.PID), sv.RestartUntil.Local().Format("15:04:05"))
	default:
		d.ok("supervisor", "%s, running", who(v.st.Supervisor.Party, sv.PID))
	}
}

// document says whether the state document can be read.
func (d *doctor) document(v *snapshot) {
	path := v.base.Store.Path()
	st, err := os.Lstat(path)
	switch {
	case v.bad != nil:
		fix := fixes(command("mv", path, path+".broken"))
		if errors.Is(v.bad, fs.ErrPermission) {
			fix = nil // what its mode must be comes with the modes
		}
		d.add(resultWrong, "document", fix, "%s", Explain(v.bad))
	case err != nil:
		d.ok("document", "none yet: no supervisor, no grants, no upgrades")
	default:
		upgrades := 0
		for _, h := range v.st.Holds {
			if h.Active(v.now) {
				upgrades++
			}
		}
		d.ok("document", "state.json, %s: %s, %s", size(st.Size()), plural(len(v.st.Grants), "grant", "grants"), plural(upgrades, "upgrade", "upgrades"))
		d.future(path, st, "the state document")
	}
}

// future warns of a file that claims to be of tomorrow.
func (d *doctor) future(path string, st fs.FileInfo, what string) {
	if ahead := st.ModTime().Sub(d.Now()); ahead > clockSlack {
		d.add(resultWarning, "clock", fixes(command("touch", path)), "%s was changed %s from now: was the clock set back?", what, ago(ahead))
	}
}

// grants says whether grants block each other.
func (d *doctor) grants(v *snapshot) {
	names, err := v.queued()
	if err != nil {
		d.add(resultWrong, "grants", nil, "%s", Explain(err))
		return
	}
	var doc queues
	waiting := 0
	for _, n := range names {
		q, _, _, err := v.queueOf(n)
		if err != nil {
			d.add(resultWrong, "grants", nil, "%s", Explain(err))
			return
		}
		waiting += len(q.Waiting)
		doc.Queues = append(doc.Queues, q)
	}
	crosses := lease.Crossed(v.st, v.now, doc.needsBoth)
	for _, c := range crosses {
		both := c.First + "," + c.Second
		a := cmp.Or(c.A.Session, c.A.Label())
		d.add(resultWrong, "grants", fixes(command("withlease", "revoke", both, a), command("withlease", "grant", both, a)), "%s", crossed(c))
	}
	if len(crosses) == 0 {
		d.ok("line", "%d waiting; no grants block each other", waiting)
	}
}

// size is a number of bytes as a person says it.
func size(n int64) string {
	switch {
	case n < 10<<10:
		return plural(int(n), "byte", "bytes")
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
