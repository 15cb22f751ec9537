//go:build !(linux && (amd64 || arm64 || riscv64 || loong64))

package signals

import (
	"os/signal"
	"syscall"
	"time"
)

// Die ends this process by the signal that its command died of. Here only
// through os/signal, which manages HUP, INT, KILL and TERM: for the others it
// returns, and the caller exits with 128+N.
func Die(s syscall.Signal) {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM:
		signal.Reset(s)
		if syscall.Kill(syscall.Getpid(), s) == nil {
			time.Sleep(time.Second) // until it is delivered
		}
	}
}

// Default is nil where the default action can't be set.
func Default(syscall.Signal) (restore func()) { return nil }

// Ignored says whether the caller ignored s, as far as os/signal knows.
func Ignored(s syscall.Signal) bool { return signal.Ignored(s) }
