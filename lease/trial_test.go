package lease_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"withlease/lease"
)

// A trial works on this machine's file system, and leaves nothing.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	b := lease.Open(dir, filepath.Join(dir, "leases"), dir)
	got, err := b.Try(dir)
	if err != nil || got.Lock != nil || got.FIFO != nil || got.Rename != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Forward.Abs() > 10*time.Second {
		t.Errorf("the clock of %s is %v off", dir, got.Forward)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	if _, err := b.Try(filepath.Join(dir, "missing")); err == nil {
		t.Error("tried where there is no directory")
	}
}
