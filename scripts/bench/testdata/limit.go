// Limit starts its arguments as a command and waits: what any Go program pays before it does anything else.
package main

import (
	"os"
	"syscall"
)

func main() {
	pid, err := syscall.ForkExec(os.Args[1], os.Args[1:], &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		os.Exit(127)
	}
	var status syscall.WaitStatus
	syscall.Wait4(pid, &status, 0, nil)
	os.Exit(status.ExitStatus())
}
