package run

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"withlease/signals"
)

// stopGroup stops our whole process group, ourselves included, by a stop signal
// of the terminal, and says, when we run again, whether that happened: the
// kernel discards these signals in a group that nobody could continue.
//
// The stop comes a moment after the call in a program with several threads, so
// SIGCONT is waited for, for twenty ticks of a running program: however long we
// are stopped, that is one tick.
func stopGroup(s unix.Signal) bool {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, unix.SIGCONT)
	defer signal.Stop(cont)
	if restore := signals.Default(s); restore != nil {
		defer restore()
	} else {
		s = unix.SIGSTOP
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	unix.Kill(0, s)
	for range 20 {
		select {
		case <-cont:
			return true
		case <-tick.C:
		}
	}
	return false
}
