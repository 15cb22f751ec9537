package lease

import "golang.org/x/sys/unix"

// renameNew renames a directory to a name that must be free: an existing
// directory, even an empty one of the shell lock, is EEXIST (rename(2) would
// replace it). EINVAL says that the file system can't.
func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}
