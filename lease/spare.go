package lease

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A run that ends puts its lease's directory aside, beside the resource's
// tickets, and the next claim writes its own record over the old one and moves
// it back. To make and to delete a directory and two files costs a short run a
// fifth of its time on a journalling file system. What is there is never
// believed: it is written over as a whole, under the lock, before it shows, and
// the witness is always new.
//
// Only a run's own release does so: after a crash or a force another process
// may still have the old files open, and write to them.

func (b *Base) spare(res string) string { return filepath.Join(b.queue(res), "spare") }

// fromSpare makes a lease of the spare directory, if there is one that is ours
// alone. Otherwise nothing is left of it, and ok is false.
func (c *change) fromSpare(one *held, h Holder, p *Process) (dir string, ok bool) {
	dir = c.spare(one.res)
	var err error
	if one.dir, err = openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return dir, false
	}
	var st unix.Stat_t
	ok = unix.Fstat(one.dir, &st) == nil && int(st.Uid) == unix.Geteuid()
	for _, n := range [...]string{"asked.json", "claim.json"} { // the last lease's, or nobody's
		err := unix.Unlink(filepath.Join(dir, n))
		ok = ok && (err == nil || err == unix.ENOENT)
	}
	if ok {
		one.record, ok = overwrite(filepath.Join(dir, "holder.json"), h.encode(), uint32(c.Store.Modes.File))
	}
	if ok {
		one.process, ok = overwrite(filepath.Join(dir, "process.json"), p.encode(), c.processMode())
	}
	if ok {
		witness := filepath.Join(dir, "witness")
		unix.Unlink(witness)
		ok = c.bear(one, witness) == nil
	}
	if !ok {
		one.close()
		discard(dir)
	}
	return dir, ok
}

// overwrite replaces what is in a file of ours that has no other name and no
// more permissions than it should have. (With fewer its claim was made under a
// stricter umask; a shared base's files have theirs whatever the umask.)
func overwrite(path string, text []byte, mode uint32) (fd int, ok bool) {
	fd, err := openFile(path, unix.O_RDWR, 0)
	if err != nil {
		return -1, false
	}
	var st unix.Stat_t
	if alone(fd) && unix.Fstat(fd, &st) == nil && int(st.Uid) == unix.Geteuid() && fits(uint32(st.Mode), mode) {
		if n, err := unix.Pwrite(fd, text, 0); err == nil && n == len(text) && unix.Ftruncate(fd, int64(n)) == nil {
			return fd, true
		}
	}
	unix.Close(fd)
	return -1, false
}

// fits says whether a file's permissions are those wanted: exactly, where a group
// shares the base.
func fits(have, want uint32) bool {
	have &= 0o7777
	return have == want || want&0o040 == 0 && have&^want == 0
}

// putAside says where the lease of a run that ends goes: to be the spare, unless
// there is one.
func (b *Base) putAside(res string) string {
	var st unix.Stat_t
	if unix.Lstat(b.spare(res), &st) == unix.ENOENT {
		return b.spare(res)
	}
	return b.trash(res)
}
