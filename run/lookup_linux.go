package run

import "golang.org/x/sys/unix"

// onNoExec says whether a file lies where nothing may be executed (mount(8), noexec).
func onNoExec(file string) bool {
	const noExec = 8 // ST_NOEXEC (statfs(2)); x/sys doesn't have it
	var st unix.Statfs_t
	return unix.Statfs(file, &st) == nil && st.Flags&noExec != 0
}
