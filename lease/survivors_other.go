//go:build !linux

package lease

// survivors needs /proc: elsewhere the witness alone decides.
func survivors(p *Process) []Member { return nil }

func holders(witness string) []Member { return nil }

func userOf(pid int) int { return -1 }

func commandOf(pid int) string { return "" }

func forks() uint64 { return 0 }
