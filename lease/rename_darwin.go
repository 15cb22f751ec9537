package lease

import "golang.org/x/sys/unix"

// renameNew renames a directory to a name that must be free: an existing
// directory, even an empty one of the shell lock, is EEXIST. ENOTSUP says that
// the file system can't (renamex_np(2)).
func renameNew(from, to string) error {
	return unix.RenamexNp(from, to, unix.RENAME_EXCL)
}
