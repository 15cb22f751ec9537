//go:build !linux

package run

// Prefault does nothing where the kernel offers nothing for it.
func Prefault() {}
