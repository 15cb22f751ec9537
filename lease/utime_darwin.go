package lease

// utimeNow asks utimensat(2) for the file system's own time (UTIME_NOW of
// <sys/stat.h>).
const utimeNow = -1
