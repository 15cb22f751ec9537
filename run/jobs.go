package run

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// stopGroup stops our whole process group, ourselves included, and returns when
// we were continued. A stop of one's own group comes a moment after the call in
// a program with several threads, so SIGCONT is waited for; not for ever, since
// the kernel discards SIGTSTP in a group that nobody could continue.
func stopGroup(s unix.Signal) {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, unix.SIGCONT)
	defer signal.Stop(cont)
	unix.Kill(0, s)
	select {
	case <-cont:
	case <-time.After(200 * time.Millisecond):
	}
}
