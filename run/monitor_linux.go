package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const socketKind = unix.SOCK_SEQPACKET

// adoptOrphans makes the kernel give us what loses its parent in our tree
// (PR_SET_CHILD_SUBREAPER, prctl(2)): what forks twice or calls setsid too.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// monitorAttr starts the command in a group of its own, in the foreground or
// not, and ends it when the monitor is killed.
func monitorAttr(ctty int, front bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: front, Ctty: ctty, Pdeathsig: unix.SIGTERM}
}

// signalTree signals every process below this one.
func (m *monitor) signalTree(s syscall.Signal) {
	todo := []int{os.Getpid()}
	for i := 0; i < len(todo); i++ {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", todo[i]))
		if err != nil {
			continue
		}
		for _, t := range tasks {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", todo[i], t.Name()))
			if err != nil {
				continue
			}
			for f := range strings.FieldsSeq(string(b)) {
				if pid, err := strconv.Atoi(f); err == nil {
					todo = append(todo, pid)
				}
			}
		}
	}
	for _, pid := range todo[1:] {
		// A child of this tree was there a moment ago, and only we reap our own.
		unix.Kill(pid, s)
	}
}
