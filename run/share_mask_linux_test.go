package run_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Before any init: that of the harness runs the helper.
var _ = addHelper("blocked", blocked)

// blocked becomes the command args with SIGUSR2 blocked.
func blocked(args []string) int {
	runtime.LockOSThread()
	var set unix.Sigset_t
	set.Val[0] = 1 << (uint(unix.SIGUSR2) - 1)
	unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	path, _ := exec.LookPath(args[0])
	fmt.Fprintln(os.Stderr, unix.Exec(path, args, os.Environ()))
	return 99
}

func TestC57_BlockedSignals(t *testing.T) {
	t.Parallel()
	inModes(t, func(s *scene, pty string) {
		without := s.run(s.helper("blocked", "grep", "Sig[BI]", "/proc/self/status")).exits(0).stdout()
		with := s.run(s.helper("blocked", bin, pty, "r", "--", "grep", "Sig[BI]", "/proc/self/status")).exits(0).plain()
		if with != without || sigMask(t, with, "SigBlk") != bit(unix.SIGUSR2) {
			t.Errorf("with %q, without %q", with, without)
		}
	})
}
