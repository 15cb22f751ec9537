package run

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// wantsPTY says whether the command gets a terminal of its own. "auto" is shy:
// only for a job that an interactive shell started in the foreground. In a
// Makefile or a script a terminal does harm: ^C would reach only the inner
// one, and make would go on with the next target.
func (r *run) wantsPTY() bool {
	if r.PTY != "auto" {
		return r.PTY == "always"
	}
	if term := r.Getenv("TERM"); term == "" || term == "dumb" || inPipeline() {
		return false
	}
	if r.Getenv(insidePTY) != "" && ttyName(0) == r.Getenv(insidePTY) {
		return false // one terminal more would only cost
	}
	t := openTerminal()
	if t == nil {
		return false
	}
	defer t.Close()
	var in, out unix.Stat_t
	if unix.Fstat(0, &in) != nil || unix.Fstat(1, &out) != nil || in.Rdev != out.Rdev {
		return false
	}
	// /dev/tty has a number of its own. That stdin is the same terminal shows in
	// that its foreground group can be asked for: of another it can't (tty_ioctl(4)).
	group := foregroundGroup(0)
	return group > 0 && group == foregroundGroup(int(t.Fd())) && group == unix.Getpgrp() && group == unix.Getpid()
}

// insidePTY names the terminal that withlease made, for a withlease inside.
const insidePTY = "WITHLEASE_TTY"

// ttyName is the path of a terminal; empty when there is none.
func ttyName(fd int) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !isTerminal(fd) {
		return ""
	}
	return name
}

// terminal is the user's terminal, and the one that the command gets.
type terminal struct {
	user *os.File // nil when there is none
	in   int      // what is read for the command: the user's terminal, or -1
	out  int      // where the command's terminal is shown
	settings

	mu      sync.Mutex
	isRaw   bool
	adopted bool // the command's terminal has had the user's settings

	slaveFile     *os.File
	master, slave int        // their descriptors: each call of Fd would change the blocking mode
	files         [3]uintptr // the command's 0, 1 and 2
}

// newTerminal opens a terminal for the command, with the user's settings and
// size. Each of 0, 1 and 2 that is a terminal becomes it; a redirected one is
// passed through untouched. Where none is a terminal, the output becomes it
// (as unbuffer(1) does) and the input is passed through all the same: a line
// discipline would lose data of it.
func newTerminal() (t *terminal, err error) {
	if err := canOpen(terminalFiles); err != nil {
		return nil, err
	}
	t = &terminal{in: -1, out: 1, master: -1, user: openTerminal()}
	any := false
	for fd := range 3 {
		if isTerminal(fd) {
			any = true
			if t.user == nil {
				t.user = os.NewFile(uintptr(dupHigh(fd)), "terminal")
			}
		}
	}
	if !any && t.user != nil {
		t.user.Close()
		t.user = nil
	}
	var master *os.File
	if master, t.slaveFile, err = pty.Open(); err != nil {
		t.close()
		return nil, err
	}
	// A descriptor of our own: os.File hands it to Go's poller, which every write
	// of the command would wake beside the one that reads it.
	t.master, t.slave = dupHigh(int(master.Fd())), int(t.slaveFile.Fd())
	master.Close()
	if t.master < 0 {
		t.close()
		return nil, &fs.PathError{Op: "dup", Path: "/dev/ptmx", Err: unix.EMFILE}
	}
	unix.SetNonblock(t.master, true) // a write must not wait for a command that doesn't read
	for fd := range 3 {
		t.files[fd] = uintptr(fd)
		if isTerminal(fd) || !any && fd > 0 {
			t.files[fd] = uintptr(t.slave)
		}
	}
	if t.user != nil {
		t.in, t.out = int(t.user.Fd()), int(t.user.Fd())
		saved, err := unix.IoctlGetTermios(t.in, getTermios)
		if err != nil {
			t.close()
			return nil, err
		}
		t.settings = settings{*saved, rawSettings(*saved)}
		if t.inFront() {
			t.adopt()
		}
		t.copySize()
	}
	return t, nil
}

// terminalFiles is how many more descriptors a run in a terminal of its own needs than one without, and some to spare.
const terminalFiles = 16

// canOpen says whether so many descriptors more are to be had. Without one for its poller Go ends the program in the
// middle of the first os.OpenFile, so that must not be how it is found out.
func canOpen(n int) error {
	fds := make([]int, 0, n)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for range n {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
		}
		fds = append(fds, fd)
	}
	return nil
}

// adopt gives the command's terminal the user's settings, once. Only from the
// foreground: while we are in the background they are those of a shell that
// edits its line.
func (t *terminal) adopt() {
	if !t.adopted {
		t.adopted = true
		s := t.saved
		if inPipeline() {
			s.Oflag &^= unix.OPOST // the user's does it, raw or not
		}
		unix.IoctlSetTermios(t.master, setTermios, &s)
	}
}

// wanted says whether the command begins in the foreground of its terminal. Not
// when we are in the background ourselves, and not in a pipeline: another
// program there may read the user's terminal (sudo x | less;
// trifectatechfoundation/sudo-rs#1260). When the command wants the terminal all
// the same, the kernel stops it, and we hear of that.
func (t *terminal) wanted() bool {
	return t.user == nil || t.inFront() && !inPipeline()
}

func inPipeline() bool { return !isTerminal(0) || !isTerminal(1) }

func (t *terminal) close() {
	for _, f := range []*os.File{t.user, t.slaveFile} {
		if f != nil {
			f.Close()
		}
	}
	if t.master >= 0 {
		unix.Close(t.master)
		t.master = -1
	}
}

// rawSettings are s with everything off that would touch a byte (cfmakeraw(3)).
// But in a pipeline what the user's terminal shows are lines, ours and those of
// the other programs: its output processing stays on (sudo-project/sudo#258).
func rawSettings(s unix.Termios) unix.Termios {
	s.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	if !inPipeline() {
		s.Oflag &^= unix.OPOST
	}
	s.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	s.Cflag &^= unix.CSIZE | unix.PARENB
	s.Cflag |= unix.CS8
	s.Cc[unix.VMIN], s.Cc[unix.VTIME] = 1, 0
	return s
}

// copySize gives the command's terminal the user's size. The kernel tells the
// command of a change (SIGWINCH).
func (t *terminal) copySize() {
	if t.user == nil {
		return
	}
	if ws, err := unix.IoctlGetWinsize(int(t.user.Fd()), unix.TIOCGWINSZ); err == nil {
		unix.IoctlSetWinsize(t.master, unix.TIOCSWINSZ, ws)
	}
}

// inFront says whether our group has the user's terminal: only then may it be
// read or set.
func (t *terminal) inFront() bool {
	return t.user != nil && foregroundGroup(int(t.user.Fd())) == unix.Getpgrp()
}

// hungUp says whether the user's terminal is gone: what is read from it then is
// its end.
func (t *terminal) hungUp() bool {
	if t.user == nil {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(t.in)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// enterRaw makes the user's terminal pass every key on. It does nothing from
// the background.
func (t *terminal) enterRaw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in < 0 || !t.inFront() {
		return
	}
	s, err := unix.IoctlGetTermios(t.in, getTermios)
	if err != nil || t.isRaw && *s == t.raw {
		return
	}
	t.settings = settings{*s, rawSettings(*s)} // the shell may have its own since
	t.adopt()
	t.isRaw = unix.IoctlSetTermios(t.in, setTermios, &t.raw) == nil
}

// typedAhead hands what was typed during the wait to the command's terminal,
// without a second echo: the user's has shown it. While that makes lines they
// are read as lines, so that an end of file stays one; the rest when it is raw.
// One write that fits one buffer of the kernel (TTY_BUFFER_PAGE) is processed as
// a whole, and poll(2) waits for that (n_tty_poll).
func (t *terminal) typedAhead() {
	buf := make([]byte, 1800)
	n := 0
	for n < len(buf) && t.saved.Lflag&unix.ICANON != 0 && readable(t.in) && !t.hungUp() {
		m, err := unix.Read(t.in, buf[n:])
		if err != nil {
			break
		}
		if m == 0 {
			buf[n], m = t.saved.Cc[unix.VEOF], 1
		}
		n += m
	}
	t.enterRaw()
	if n < len(buf) && t.isRaw && readable(t.in) {
		m, _ := unix.Read(t.in, buf[n:])
		n += max(m, 0)
	}
	if n == 0 {
		return
	}
	silent := t.saved
	silent.Lflag &^= unix.ECHO | unix.ECHONL
	unix.IoctlSetTermios(t.slave, setTermios, &silent)
	unix.Write(t.master, buf[:n])
	readable(t.slave)
	unix.IoctlSetTermios(t.slave, setTermios, &t.saved)
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 1
}

// restore gives the user's terminal its settings back, once, and only while
// they are still ours to change.
func (t *terminal) restore() (wasRaw bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wasRaw = t.isRaw; wasRaw {
		t.isRaw = false
		t.settings.restore(t.in)
	}
	return wasRaw
}

// restore sets what was saved where the settings are still raw: what somebody
// else set since is theirs (as sudo does).
func (s *settings) restore(fd int) {
	now, err := unix.IoctlGetTermios(fd, getTermios)
	if err == nil && *now == s.raw {
		unix.IoctlSetTermios(fd, setTermios, &s.saved)
	}
}
