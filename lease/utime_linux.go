package lease

import "golang.org/x/sys/unix"

// utimeNow asks utimensat(2) for the file system's own time.
const utimeNow = unix.UTIME_NOW
