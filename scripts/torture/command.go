//go:build linux

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The command that runs under a lease: `torture command OPTIONS RESOURCE...`.
const commandVerb = "command"

// stamp is one line that a command writes down about itself.
type stamp struct {
	What   string           `json:"what"` // begin, conflict, got, stuck, end
	Op     string           `json:"op"`
	PID    int              `json:"pid"`
	At     int64            `json:"at"` // CLOCK_MONOTONIC, nanoseconds
	Fences map[string]int64 `json:"fences,omitempty"`
	Token  string           `json:"token,omitempty"`
	// Of a conflict: on what, and who has the second lock.
	Resource string `json:"resource,omitempty"`
	Other    int    `json:"other,omitempty"`
	OtherOp  string `json:"otherOp,omitempty"`
}

// daemonTime is how many seconds a daemon lives: longer than the two after which a waiter looks by itself.
const daemonTime = "3"

// stuckAfter is how long a command waits for another one that should be gone: longer than any grace here on a machine
// that does much else.
const stuckAfter = 60 * time.Second

func command(args []string) {
	f := flag.NewFlagSet(commandVerb, flag.ExitOnError)
	dir := f.String("dir", "", "")
	op := f.String("op", "", "")
	length := f.Duration("for", 0, "")
	status := f.Int("status", 0, "")
	stubborn := f.Bool("stubborn", false, "")
	daemon := f.Bool("daemon", false, "")
	until := f.String("until", "", "")
	f.Parse(args)
	if *stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	file, err := os.OpenFile(filepath.Join(*dir, "stamps"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		panic(err)
	}
	write := func(s stamp) {
		s.Op, s.PID, s.At = *op, os.Getpid(), monotonic()
		text, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		if _, err := file.Write(append(text, '\n')); err != nil { // in one: lines of others don't mix with it
			panic(err)
		}
	}
	write(stamp{What: "begin", Fences: fences(), Token: os.Getenv("WITHLEASE_TOKEN")})
	for _, res := range f.Args() {
		guard(filepath.Join(*dir, "oracle", res), func(what string, other int) {
			write(stamp{What: what, Resource: res, Other: other})
		})
	}
	write(stamp{What: "got"})
	time.Sleep(*length)
	for *until != "" && unix.Access(*until, unix.F_OK) != nil {
		time.Sleep(time.Millisecond)
	}
	if *daemon { // it has what we have, the witness too
		if err := exec.Command("sleep", daemonTime).Start(); err != nil {
			panic(err)
		}
	}
	write(stamp{What: "end"})
	os.Exit(*status)
}

// fences are what withlease told the command that it holds.
func fences() map[string]int64 {
	all := map[string]int64{}
	numbers := strings.Fields(os.Getenv("WITHLEASE_FENCE"))
	for i, res := range strings.Fields(os.Getenv("WITHLEASE_RESOURCE")) {
		n, err := strconv.ParseInt(numbers[i], 10, 64)
		if err != nil {
			panic(err)
		}
		all[res] = n
	}
	return all
}

// guard takes the second lock, which no two commands may want at once: a record lock, because the kernel says which
// process has it and drops it with that process alone, whatever that one started. It is kept until the process ends.
func guard(path string, tell func(what string, other int)) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		panic(err)
	}
	lock := func() unix.Flock_t { return unix.Flock_t{Type: unix.F_WRLCK} }
	for {
		l := lock()
		if err := unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &l); err == nil {
			return
		}
		l = lock()
		if err := unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &l); err != nil {
			panic(err)
		}
		if l.Type == unix.F_UNLCK {
			continue // it has just ended
		}
		tell("conflict", int(l.Pid))
		late := time.AfterFunc(stuckAfter, func() { tell("stuck", int(l.Pid)) })
		l = lock()
		for unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &l) == unix.EINTR {
		}
		late.Stop()
		return
	}
}

func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(fmt.Sprint("no monotonic clock: ", err))
	}
	return now.Nano()
}
