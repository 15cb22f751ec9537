package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What the kernel says about a process in /proc. A process that has ended says nothing.

// ticks answers the user and system time of a process in clock ticks.
func ticks(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is short", pid)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return user + system, errors.Join(err1, err2)
}

// hasEnded tells whether a process that nobody has waited for yet has ended.
func hasEnded(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}

// busy answers the nanoseconds that all threads of a process have run.
func busy(pid int) (int64, error) {
	var sum int64
	err := eachThread(pid, "schedstat", func(text string) error {
		ran, _, _ := strings.Cut(text, " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		sum += ns
		return err
	})
	return sum, err
}

// sleeps answers how often the threads of a process have gone to sleep. The number grows by what woke it.
func sleeps(pid int) (int64, error) {
	var sum int64
	err := eachThread(pid, "status", func(text string) error {
		n, err := statusField(text, "voluntary_ctxt_switches")
		sum += n
		return err
	})
	return sum, err
}

// size answers the resident memory in KiB and the number of threads.
func size(pid int) (kib, threads int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	kib, err1 := statusField(string(text), "VmRSS")
	threads, err2 := statusField(string(text), "Threads")
	return kib, threads, errors.Join(err1, err2)
}

func eachThread(pid int, file string, read func(text string) error) error {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, file))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("process %d has no threads: it has ended", pid)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // this thread has ended
		}
		if err != nil {
			return err
		}
		if err := read(string(text)); err != nil {
			return err
		}
	}
	return nil
}

func statusField(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc", name)
}

// children answers the children of a process, the adopted ones included.
func children(pid int) []int {
	var pids []int
	eachThread(pid, "children", func(text string) error {
		for _, field := range strings.Fields(text) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
		return nil
	})
	return pids
}

func ticksOf(waiters []*process) (int, error) {
	sum := 0
	for _, w := range waiters {
		n, err := ticks(w.Pid)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func sleepsOf(waiters []*process) ([]int64, error) {
	all := make([]int64, len(waiters))
	for i, w := range waiters {
		var err error
		if all[i], err = sleeps(w.Pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func differences(before, after []int64) int {
	n := 0
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}
