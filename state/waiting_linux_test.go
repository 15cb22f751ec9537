package state_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// waiting returns a function that returns once somebody more waits for the lock
// on a file, as the kernel's list of locks has it ("-> FLOCK").
func waiting(t *testing.T, path string) func(*testing.T) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	inode := fmt.Sprintf(":%d ", st.Ino)
	count := func() (n int) {
		locks, err := os.ReadFile("/proc/locks")
		must(t, err)
		for l := range strings.Lines(string(locks)) {
			if strings.Contains(l, "-> FLOCK") && strings.Contains(l, inode) {
				n++
			}
		}
		return n
	}
	before := count()
	return func(t *testing.T) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); count() <= before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody waits")
			}
		}
	}
}
