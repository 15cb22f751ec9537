package run

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// heapBytes is what a run touches of its heap, and what lies between.
const heapBytes = 1 << 20

var fresh *[8 << 10]byte // a span of its own

// Prefault has the kernel make the memory that a short run touches in one call:
// page by page, each first touch is a fault, which costs some twenty times what
// the page does. A kernel that can't (MADV_POPULATE_WRITE, madvise(2), is of
// Linux 5.14) leaves all as it was; so does the end of the heap.
func Prefault() {
	// The heap is filled from its low addresses, so this is where it has got to;
	// what is asked for is mapped already, by the runtime.
	fresh = new([8 << 10]byte)
	syscall.RawSyscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(fresh)), heapBytes, unix.MADV_POPULATE_WRITE)
}
