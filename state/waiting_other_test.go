//go:build !linux

package state_test

import (
	"testing"
	"time"
)

// waiting returns a function that gives somebody the time to wait for a lock:
// here nobody tells.
func waiting(t *testing.T, path string) func(*testing.T) {
	return func(*testing.T) { time.Sleep(200 * time.Millisecond) }
}
