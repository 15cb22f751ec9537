package run

import "golang.org/x/sys/unix"

// tcsetattr's requests: TCSADRAIN, which keeps what is typed ahead (FLUSH
// would throw it away).
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETSW
)
