//go:build !linux

package run

// fileSystem: what matters is tried.
func fileSystem(string) (name string, network bool) { return "the file system", false }

func (d *doctor) system() { d.openFiles() }
