package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// startError is a command that can't be started, with the exit status for it.
type startError struct {
	code int
	text string
}

func (e *startError) Error() string { return e.text }

// lookUp finds the executable as execvp(3) does: before the wait, because 127
// must not cost one. Not os/exec's LookPath, which refuses what a relative
// entry of PATH finds and can't tell 126 from 127.
func lookUp(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", &startError{codeOf(err), fmt.Sprintf("%s: %v", show(name), reason(err))}
		}
		return name, nil
	}
	denied, why := "", ""
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if dir == "" || dir == "." {
			file = "./" + name
		}
		switch err := executable(file); {
		case err == nil:
			return file, nil
		case codeOf(err) == ExitNotExec && denied == "":
			if denied = file; errors.Is(err, errNoExec) {
				why = ": " + errNoExec.Error()
			}
		}
	}
	if denied != "" {
		return "", &startError{ExitNotExec, fmt.Sprintf("%s: found as %s, which can't be executed%s", show(name), show(denied), why)}
	}
	return "", &startError{ExitNotFound, fmt.Sprintf("%s: command not found; nothing was claimed", show(name))}
}

// errNoExec is said in place of EACCES, which looks like wrong modes.
var errNoExec = errors.New("its file system is mounted noexec; copy it to another one, or run it through its interpreter")

func executable(file string) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return &fs.PathError{Op: "exec", Path: file, Err: syscall.EISDIR}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		if err == unix.EACCES && st.Mode()&0o111 != 0 && onNoExec(file) {
			err = errNoExec
		}
		return &fs.PathError{Op: "exec", Path: file, Err: err}
	}
	return nil
}

// codeOf is 127 when there is no such file, 126 when there is one.
func codeOf(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return ExitNotFound
	}
	return ExitNotExec
}

func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// execFailed is the start of a command that the kernel refused.
func execFailed(name string, err error) error {
	code, step := codeOf(err), ""
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		step = hint(&fs.PathError{Err: err})
		fallthrough
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		code = ExitFailed // no process or descriptor to be had: nothing is wrong with the file
	}
	return &startError{code, fmt.Sprintf("%s: %v%s", show(name), err, step)}
}

// shell is what runs a file that is no program and names no interpreter, as
// execvp(3) and every shell do.
const shell = "/bin/sh"

// execute replaces this process by the command.
func execute(path string, argv, env []string) error {
	err := syscall.Exec(path, argv, env)
	if errors.Is(err, syscall.ENOEXEC) {
		err = syscall.Exec(shell, append([]string{shell, path}, argv[1:]...), env)
	}
	return execFailed(argv[0], err)
}

// forkExec starts the command. The caller's thread is its parent.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		pid, err = syscall.ForkExec(shell, append([]string{shell, path}, argv[1:]...), attr)
	}
	if err != nil {
		return 0, execFailed(argv[0], err)
	}
	return pid, nil
}
