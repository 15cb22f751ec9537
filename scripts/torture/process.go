//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ending is how a process ended, and what it said.
type ending struct {
	code     int // -1: by a signal
	signal   syscall.Signal
	out, err string
}

func (e ending) String() string {
	how := fmt.Sprintf("exit %d", e.code)
	if e.signal != 0 {
		how = fmt.Sprintf("signal %d", e.signal)
	}
	return fmt.Sprintf("%s, err %q", how, e.err)
}

// start starts a process that end is to be called for.
func (t *torture) start(cmd *exec.Cmd) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	t.started[cmd.Process.Pid] = cmd.Process
	return nil
}

func (t *torture) end(cmd *exec.Cmd) ending {
	cmd.Wait()
	if cmd.ProcessState == nil {
		select {} // killAll was first: the program ends
	}
	t.mu.Lock()
	delete(t.started, cmd.Process.Pid)
	t.moved++
	t.mu.Unlock()
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	e := ending{code: ws.ExitStatus()}
	if ws.Signaled() {
		e.signal = ws.Signal()
	}
	return e
}

// do runs a process to its end.
func (t *torture) do(env []string, name string, args ...string) ending {
	cmd := exec.Command(name, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(t.env[:len(t.env):len(t.env)], env...), t.dir, &out, &errs
	if err := t.start(cmd); err != nil {
		t.violation("%s %q: %v", name, args, err)
		return ending{code: 125}
	}
	e := t.end(cmd)
	e.out, e.err = out.String(), errs.String()
	return e
}

// verb runs one of withlease's verbs, which must end in one of the ways that are given.
func (t *torture) verb(what string, codes []int, args ...string) ending {
	e := t.do(nil, t.bin, args...)
	t.count(fmt.Sprintf("%s: %d", what, e.code))
	ok := false
	for _, c := range codes {
		ok = ok || e.signal == 0 && e.code == c
	}
	if !ok || !ownLines(e.err) {
		t.violation("withlease %q ended with %v", args, e)
	}
	return e
}

// ownLines says whether a text is nothing but withlease's lines: no panic, no goroutines.
func ownLines(text string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "withlease: ") {
			return false
		}
	}
	return true
}

// signalTo signals a process that is known by its pid, if it is still the one with op in its command line: its
// descriptor is opened first.
func signalTo(pid int, op string, s syscall.Signal) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(line), op+"\x00") {
		return false
	}
	return unix.PidfdSendSignal(fd, s, nil, 0) == nil
}

// processEnded says whether a child of ours has, which somebody else waits for.
func processEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != nil && err != unix.EINTR || info.Signo != 0
}

// childrenOf are the pids of a process's children, of all its threads.
func childrenOf(pid int) []int {
	var pids []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// reapOrphans waits for the ended children that nobody else does.
func (t *torture) reapOrphans() {
	for _, pid := range childrenOf(os.Getpid()) {
		t.mu.Lock()
		if t.started[pid] == nil {
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		t.mu.Unlock()
	}
}

// killAll ends everything that descends from us. What a killed process leaves is ours then.
func (t *torture) killAll() {
	for range 100 {
		pids := childrenOf(os.Getpid())
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
			syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

// awaitCommands waits until no command has a second lock any more.
func (t *torture) awaitCommands() {
	for _, res := range everything() {
		fd, err := unix.Open(filepath.Join(t.dir, "oracle", res), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.violation("%v", err)
			continue
		}
		l := unix.Flock_t{Type: unix.F_WRLCK}
		for unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &l) == unix.EINTR {
		}
		unix.Close(fd)
	}
	for deadline := time.Now().Add(stuckAfter); ; time.Sleep(10 * time.Millisecond) {
		t.reapOrphans()
		pids := childrenOf(os.Getpid())
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.violation("processes are left: %v", pids)
			return
		}
	}
}
