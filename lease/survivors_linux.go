package lease

import (
	"bytes"
	"os"
	"strconv"
	"strings"

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
	names, _ := readNames("/proc")
	younger := youngerThan(p)
	self := os.Getpid()
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil || !younger(pid) || pid == self || p.Child != nil && pid == p.Child.PID {
			continue
		}
		env, err := readFile("/proc/"+n+"/environ", unix.O_RDONLY, 8<<20) // the kernel takes 6 MB
		if err != nil || !hasToken(env, p.Token) {
			continue
		}
		if start := startTime(pid); start > 0 {
			found = append(found, Member{PID{pid, start}, commandOf(pid)})
		}
	}
	return found
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
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
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
			if start := startTime(pid); err == nil && start > 0 && opensBothEnds(info) {
				found = append(found, Member{PID{pid, start}, commandOf(pid)})
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
