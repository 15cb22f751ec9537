package run

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fullScreen is a terminal's other screen, on which an answer is redrawn. What
// was on the terminal before is there again when it is left. It touches no
// settings: the keys mean what they always do.
type fullScreen struct {
	*Session
	tty     *os.File
	title   string
	entered bool
	stopped bool // by ^Z: until it is continued nothing is drawn
}

// openScreen makes a screen of standard output, and catches what would end or
// stop the program with the screen left behind.
func (w *watcher) openScreen(title string) error {
	if err := unix.Pipe(w.calls[:]); err != nil {
		return os.NewSyscallError("pipe", err)
	}
	for _, fd := range w.calls {
		unix.CloseOnExec(fd)
	}
	w.screen = &fullScreen{Session: w.Session, tty: w.out, title: title}
	came := make(chan os.Signal, 16)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH} {
		if !signal.Ignored(s) {
			signal.Notify(came, s)
		}
	}
	to := w.calls[1]
	go func() {
		for s := range came {
			unix.Write(to, []byte{byte(s.(syscall.Signal))})
		}
	}()
	return nil
}

// called takes the signals that have come, and says whether to redraw or to end.
func (w *watcher) called() (exit Exit, redraw, over bool) {
	var buf [64]byte
	n, _ := unix.Read(w.calls[0], buf[:])
	for _, b := range buf[:max(n, 0)] {
		switch s := syscall.Signal(b); s {
		case unix.SIGWINCH:
			redraw = true
		case unix.SIGTSTP:
			w.screen.leave()
			w.screen.stopped = true
			unix.Kill(unix.Getpid(), unix.SIGSTOP)
		case unix.SIGCONT:
			w.screen.stopped, redraw = false, true
		default:
			return dying(s), false, true
		}
	}
	return Exit{}, redraw, false
}

// draw draws a text in place of the last one. In the background of its terminal
// it draws nothing: the screen is somebody else's.
func (f *fullScreen) draw(text string, now time.Time) error {
	if f.stopped || inBackground(int(f.tty.Fd())) {
		return nil
	}
	var b strings.Builder
	if !f.entered {
		f.entered = true
		b.WriteString("\x1b[?1049h\x1b[?25l")
	}
	b.WriteString("\x1b[H")
	lines := append([]string{now.Format("15:04:05") + "  withlease " + f.title + "; Ctrl-C ends"}, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	for i, line := range visible(lines, f.height()) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cutTo(line, f.width(int(f.tty.Fd()))-1) + "\x1b[K") // in the last column some terminals wrap
	}
	b.WriteString("\x1b[J")
	_, err := f.tty.WriteString(b.String())
	return err
}

// visible are the lines that there is room for; the last one says how many there
// is none for.
func visible(lines []string, room int) []string {
	if room = max(room, 1); len(lines) <= room {
		return lines
	}
	return append(lines[:room-1:room-1], fmt.Sprintf("… %d more", len(lines)-room+1))
}

func (f *fullScreen) height() int {
	if ws, err := unix.IoctlGetWinsize(int(f.tty.Fd()), unix.TIOCGWINSZ); err == nil && ws.Row > 0 {
		return int(ws.Row)
	}
	return 24
}

// leave gives the terminal back as it was.
func (f *fullScreen) leave() {
	if f.entered {
		f.entered = false
		f.tty.WriteString("\x1b[?25h\x1b[?1049l")
	}
}
