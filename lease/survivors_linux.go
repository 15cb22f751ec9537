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
	if p.Child != nil && p.Child.Alive() {
		found = append(found, Member{*p.Child, commandOf(p.Child.PID)})
	}
	if len(p.Token) < 16 {
		return found // not of our making; a short text would be found anywhere
	}
	names, _ := readNames("/proc")
	self := os.Getpid()
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil || pid == self || p.Child != nil && pid == p.Child.PID {
			continue
		}
		env, err := readFile("/proc/"+n+"/environ", unix.O_RDONLY, 1<<20)
		if err != nil || !hasToken(env, p.Token) {
			continue
		}
		if start := startTime(pid); start > 0 {
			found = append(found, Member{PID{pid, start}, commandOf(pid)})
		}
	}
	return found
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

// commandOf is a process's command line, for people.
func commandOf(pid int) string {
	b, err := readFile("/proc/"+strconv.Itoa(pid)+"/cmdline", unix.O_RDONLY, 4096)
	if err != nil || len(b) == 0 {
		return word("/proc/" + strconv.Itoa(pid) + "/comm")
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}
