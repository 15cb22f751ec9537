//go:build !linux

package run

import "syscall"

// shareAttr: there is no parent-death signal here. The command outlives a
// killed wrapper, and the lease with it.
func shareAttr(*int) *syscall.SysProcAttr { return nil }

func (c *child) signal(s syscall.Signal) { syscall.Kill(c.pid, s) }

// started is not asked here: no sender is known.
func (c *child) started(int) bool { return false }

// catches can't be told here.
func (c *child) catches(syscall.Signal) bool { return true }
