package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"withlease/lease"
	"withlease/signals"
	"withlease/state"
)

// The exit statuses that are withlease's own (design: a run's is the
// command's). README, man page and --help name the same numbers; a test
// compares them.
const (
	ExitRefused  = 1   // other verbs: refused, not held, busy
	ExitUsage    = 2   // other verbs: not understood
	ExitGuarded  = 2   // guard: the call is refused; no failure of it exits so
	ExitBusy     = 75  // a run: held, refused, or the wait ran out (EX_TEMPFAIL)
	ExitLost     = 123 // a run: the lease was lost and the command ended for it
	ExitFailed   = 125 // withlease itself failed; a run's usage errors too
	ExitNotExec  = 126 // a run: found, and can't be executed
	ExitNotFound = 127 // a run: not found
)

// Exit is how withlease ends: with a status, or by a signal.
type Exit struct {
	Code   int
	Signal syscall.Signal // 0: none
}

// Leave ends the process as e says: the one way out of main. It returns the
// status when a signal was asked for and didn't end us.
func (e Exit) Leave() int {
	if e.Signal != 0 {
		signals.Die(e.Signal)
		return 128 + int(e.Signal)
	}
	return e.Code
}

// exitOf is the exit of a command that ended.
func exitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() {
		return Exit{Code: 128 + int(ws.Signal()), Signal: ws.Signal()}
	}
	return Exit{Code: ws.ExitStatus()}
}

// UsageError is a command line that is understood and can't be meant.
type UsageError struct {
	Message string
}

func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Explain is an error as a person is told: the thing, the cause, the next step,
// on one line.
func Explain(err error) string {
	var broken *state.BrokenError
	var path *fs.PathError
	var name *lease.NameError
	var dir *lease.DirError
	switch {
	case errors.As(err, &broken):
		return fmt.Sprintf("%s: it is left as it is; repair it or move it away (without it nobody supervises and nothing is granted)", show(broken.Path)+": "+show(broken.Err.Error()))
	case errors.As(err, &name):
		return name.Error()
	case errors.As(err, &dir):
		return fmt.Sprintf("%s: %s: %s", show(dir.Resource), show(dir.Path), show(dir.Err.Error()))
	case errors.As(err, &path):
		return fmt.Sprintf("%s %s: %s", show(path.Op), show(path.Path), show(path.Err.Error())) + hint(path)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // of a pipe or a socket
		return show(err.Error()) + hint(&fs.PathError{Err: err})
	}
	return show(err.Error())
}

// hint is what to do about a file error.
func hint(e *fs.PathError) string {
	switch {
	case errors.Is(e, syscall.ENOSPC), errors.Is(e, syscall.EDQUOT):
		return ": make room on that file system, nothing was claimed or changed"
	case errors.Is(e, syscall.EROFS):
		return ": name a writable place with --dir or $WITHLEASE_DIR"
	case errors.Is(e, fs.ErrPermission):
		return ownership(e.Path) + ": ask its owner for group write, or name another place with --dir or $WITHLEASE_DIR"
	case errors.Is(e, syscall.ENOTDIR):
		return ": " + show(notDirectory(e.Path)) + " is a file where a directory should be; move it away, or name another place with --dir or $WITHLEASE_DIR"
	case errors.Is(e, syscall.EISDIR):
		return ": a directory is where a file should be; remove it"
	case errors.Is(e, syscall.ELOOP):
		return ": it is a symbolic link, and links are not followed here; remove it"
	case errors.Is(e, syscall.EMFILE), errors.Is(e, syscall.ENFILE):
		return ": raise the limit of open files (ulimit -n)"
	case errors.Is(e, syscall.EFBIG):
		return ": raise the limit of the size of files (ulimit -f)"
	case errors.Is(e, syscall.ENAMETOOLONG):
		return ": name a place with a shorter path with --dir or $WITHLEASE_DIR"
	case errors.Is(e, syscall.EXDEV):
		return ": that directory can't be renamed (a lower layer of an overlay?); remove it by hand"
	}
	return ""
}

// notDirectory is the part of a path that is there and is no directory.
func notDirectory(path string) string {
	for p := path; p != parent(p); p = parent(p) {
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			return p
		}
	}
	return path
}

// ownership says whose a file is, as far as that can be seen.
func ownership(path string) string {
	for p := path; ; {
		if st, err := os.Lstat(p); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				return fmt.Sprintf(" (%s belongs to uid %d, gid %d, mode %v)", show(p), sys.Uid, sys.Gid, st.Mode())
			}
			return ""
		}
		up := parent(p)
		if up == p {
			return ""
		}
		p = up
	}
}
