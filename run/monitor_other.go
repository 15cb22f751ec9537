//go:build !linux

package run

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// macOS has no SOCK_SEQPACKET; datagrams keep messages apart as well.
const socketKind = unix.SOCK_DGRAM

// There is no subreaper here: what leaves the command's group is not found.
func adoptOrphans() {}

func monitorAttr(ctty int, front bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: front, Ctty: ctty}
}

func (m *monitor) signalTree(s syscall.Signal) { m.signalGroup(s) }
