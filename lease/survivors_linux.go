package lease

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// survivors are the processes that live on of a run whose witness is free: the
// command itself, and whatever has the run's token in its environment. A child
// of Python's subprocess, of sudo, or of any daemon that closes its
// descriptors has dropped the witness and works on all the same (R9).
//
// What is left over: a process that both closed its descriptors and was started
// with a clean environment, or whose environment this user may not read.
func survivors(p *Process) []Member {
	var found []Member
	if p.Child != nil && p.here() && p.Child.Alive() { // of another boot or namespace its pid says nothing
		found = append(found, Member{*p.Child, commandOf(p.Child.PID)})
	}
	if len(p.Token) < 16 {
		return found // not of our making; a short text would be found anywhere
	}
	self := os.Getpid()
	seen := make(map[int]bool)
	buf := make([]byte, 32<<10)
	for look := 0; ; look++ {
		names, _ := readNames("/proc")
		younger := youngerThan(p)
		var last []int // of which nothing is known yet, when all the others are seen
		gone := false
		for _, n := range names {
			pid, err := strconv.Atoi(n)
			if err != nil || seen[pid] || !younger(pid) || pid == self || p.Child != nil && pid == p.Child.PID {
				continue
			}
			env, now := environment(pid, &buf)
			if now == starting {
				last = append(last, pid)
				continue
			}
			seen[pid] = true
			if hasToken(env, p.Token) {
				n := len(found)
				if found = appendMember(found, pid); len(found) == n {
					now = ended
				}
			}
			gone = gone || now == ended
		}
		switch {
		case len(last) > 0 && look >= maxLooks && len(found) == 0:
			for _, pid := range last { // it may be the run's: who waits looks again
				found = appendMember(found, pid)
			}
			return found
		case len(last) > 0 && look < maxLooks:
			time.Sleep(min(time.Duration(look)*10*time.Microsecond, time.Millisecond))
		case !gone || look >= maxLooks || look >= 10 && len(found) > 0:
			return found // of a storm of processes the list is never at rest
		}
	}
}

// appendMember adds a process, unless it has ended.
func appendMember(all []Member, pid int) []Member {
	if start := startTime(pid); start > 0 {
		all = append(all, Member{PID{pid, start}, commandOf(pid)})
	}
	return all
}

// maxLooks is how often a process in the middle of execve is looked at, and a list
// that isn't at rest: 200 looks are 150 ms.
const maxLooks = 200

// What a process that has no environment to read is doing.
const (
	running  = iota
	starting // in execve: the new program's memory has no environment yet
	ended    // its children may be younger than the list of processes
)

// environment reads /proc/PID/environ. It has nothing of a kernel thread, of a
// zombie, of a program with a clean environment, and while execve(2) makes the new
// program's stack, after the old one's memory is gone: endcode in /proc/PID/stat is
// set when that is done, and not by env_end, which is equal to env_start meanwhile
// (proc(5); create_elf_tables in the kernel's fs/binfmt_elf.c).
//
// It is read into buf, which grows: what a process that takes over a lease has to
// touch anew for each of a dozen others costs more than the reading.
func environment(pid int, buf *[]byte) (env []byte, now int) {
	fd, err := openFile("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY, 0)
	if err == nil {
		defer unix.Close(fd)
		if env, err = readInto(buf, fd); err == nil && len(env) > 0 {
			// Of a memory that goes while it is read, the rest looks empty.
			var first [1]byte
			if n, _ := retry(func() (int, error) { return unix.Pread(fd, first[:], 0) }); n > 0 {
				return env, running
			}
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, running
	}
	const kernelThread = 0x200000 // PF_KTHREAD
	f := statOf(pid)
	switch {
	case f == nil:
		return nil, ended
	case number(f[6])&kernelThread != 0, number(f[24]) > 1 && number(f[47]) != 0 && f[47] == f[48]:
		return nil, running
	}
	if own := statOf(os.Getpid()); own == nil || number(own[48]) == 0 {
		return nil, running // a kernel that doesn't say, as gVisor's
	}
	return nil, starting
}

// readInto reads a file to its end into buf, as much of it as the kernel takes for
// an environment (6 MB, execve(2)).
func readInto(buf *[]byte, fd int) ([]byte, error) {
	for n := 0; ; {
		more, err := retry(func() (int, error) { return unix.Read(fd, (*buf)[n:]) })
		if err != nil || more == 0 || n+more >= 8<<20 {
			return (*buf)[:n+max(more, 0)], err
		}
		if n += more; n == len(*buf) {
			*buf = append(*buf, make([]byte, n)...)
		}
	}
}

// youngerThan says which pids may be of processes that are younger than a run's
// wrapper: the kernel gives pids out in a circle, so while fewer tasks than half
// the circle were made since, the older ones are those up to the wrapper's. Each
// process that need not be looked at saves twenty microseconds of the next
// holder's.
func youngerThan(p *Process) func(pid int) bool {
	all := func(int) bool { return true }
	most, err := strconv.Atoi(word("/proc/sys/kernel/pid_max"))
	now := forks()
	if err != nil || p.Forks == 0 || now < p.Forks || now-p.Forks > uint64(most/2) || p.PIDNS == 0 || p.PIDNS != pidNamespace() {
		return all
	}
	f := strings.Fields(word("/proc/loadavg")) // its last field is the last pid
	if len(f) != 5 {
		return all
	}
	last, err := strconv.Atoi(f[4])
	switch {
	case err != nil:
		return all
	case last >= p.PID:
		return func(pid int) bool { return pid > p.PID }
	}
	return func(pid int) bool { return pid > p.PID || pid <= last }
}

// forks is how many tasks the kernel has made since the boot; 0 when it doesn't
// say (proc(5), /proc/stat).
func forks() uint64 {
	b, err := readFile("/proc/stat", unix.O_RDONLY, maxRecord)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "\nprocesses ")
	text, _, _ := strings.Cut(rest, "\n")
	return number(text)
}

// hasToken says whether an environment is of a run with that token, or of a
// run inside one.
func hasToken(env []byte, token string) bool {
	for rest := env; ; {
		i := bytes.Index(rest, []byte(token))
		if i < 0 {
			return false
		}
		at := len(env) - len(rest) + i
		name := env[bytes.LastIndexByte(env[:at], 0)+1 : at]
		if bytes.HasPrefix(name, []byte("WITHLEASE_TOKEN=")) || bytes.HasPrefix(name, []byte("WITHLEASE_HELD=")) {
			return true
		}
		rest = rest[i+len(token):]
	}
}

// holders are the processes that have a witness open as its owners do, for
// both ends: who waits for it reads only. It is for people, and for ending what
// holds an orphaned lease.
func holders(witness string) []Member {
	var st unix.Stat_t
	if unix.Lstat(witness, &st) != nil {
		return nil
	}
	var found []Member
	pids, _ := readNames("/proc")
	for _, n := range pids {
		pid, err := strconv.Atoi(n)
		if err != nil || pid == os.Getpid() {
			continue
		}
		fds, _ := readNames("/proc/" + n + "/fd")
		for _, fd := range fds {
			var f unix.Stat_t
			if unix.Stat("/proc/"+n+"/fd/"+fd, &f) != nil || f.Ino != st.Ino || f.Dev != st.Dev {
				continue
			}
			info, err := readSmall("/proc/" + n + "/fdinfo/" + fd)
			if err == nil && opensBothEnds(info) {
				found = appendMember(found, pid)
				break
			}
		}
	}
	return found
}

// userOf is the user of a process, the real one: who may send it signals (kill(2)).
// -1 when it is gone.
func userOf(pid int) int {
	b, err := readSmall("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return -1
	}
	_, rest, _ := strings.Cut(string(b), "\nUid:")
	line, _, _ := strings.Cut(rest, "\n")
	if f := strings.Fields(line); len(f) > 0 {
		if uid, err := strconv.Atoi(f[0]); err == nil {
			return uid
		}
	}
	return -1
}

// opensBothEnds reads the octal flags of /proc/PID/fdinfo/FD (proc(5)).
func opensBothEnds(info []byte) bool {
	for line := range strings.SplitSeq(string(info), "\n") {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(text), 8, 64)
			return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
		}
	}
	return false
}

// commandOf is a process's command line, for people.
func commandOf(pid int) string {
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/cmdline", unix.O_RDONLY, 4096)
	if err != nil || len(b) == 0 {
		return word("/proc/" + strconv.Itoa(pid) + "/comm")
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}
