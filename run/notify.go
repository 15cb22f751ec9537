package run

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// What a terminal is told besides the line: that a long wait is over, for a
// person who looks elsewhere, and, where that is known to show, that a wait goes
// on. All of it before the command starts: the terminal is its own then.

// notifyAfter is how long a wait is that a person turned away from.
const notifyAfter = 10 * time.Second

const (
	bell         = "\a"
	progressOn   = "\x1b]9;4;3\x1b\\"
	progressOver = "\x1b]9;4;0\x1b\\"
)

// obtained tells that the wait is over, if it was long.
func (t *teller) obtained() {
	how := t.Notify
	if how == "auto" && t.Quiet {
		how = "off"
	}
	waited := t.Now().Sub(t.since)
	if t.fd < 0 || how == "off" || waited < notifyAfter || inBackground(t.fd) && stopsWriters(t.fd) {
		return
	}
	text := bell
	if how == "osc" {
		text = t.notice(fmt.Sprintf("%s: obtained after %s", strings.Join(t.Resources, " "), ago(waited)))
	}
	io.WriteString(t.Stderr, text)
}

// notice is a desktop notification, in the terminal's own words, or the bell.
// Inside a multiplexer it is the bell: tmux drops what it may not pass through
// (allow-passthrough), and the variables name the terminal that it was started
// in.
func (s *Session) notice(text string) string {
	text = strings.ReplaceAll(show(text), ";", ",")
	program, term := s.Getenv("TERM_PROGRAM"), s.Getenv("TERM")
	switch {
	case s.multiplexed():
		return bell
	case s.Getenv("KITTY_WINDOW_ID") != "":
		return "\x1b]99;;withlease: " + text + "\x1b\\"
	case program == "ghostty", program == "WezTerm", s.Getenv("VTE_VERSION") != "", strings.HasPrefix(term, "rxvt"), strings.HasPrefix(term, "foot"):
		return "\x1b]777;notify;withlease;" + text + "\x1b\\"
	case program == "iTerm.app":
		return "\x1b]9;withlease: " + text + "\x1b\\"
	}
	return bell
}

func (s *Session) multiplexed() bool { return s.Getenv("TMUX") != "" || s.Getenv("STY") != "" }

// showsProgress says whether the terminal takes OSC 9;4 for progress. To others
// OSC 9 is a notification, and they would pop up "4;3".
func (s *Session) showsProgress() bool {
	if s.multiplexed() {
		return false
	}
	if s.Getenv("WT_SESSION") != "" || s.Getenv("ConEmuANSI") == "ON" {
		return true
	}
	var major, minor int
	fmt.Sscanf(s.Getenv("TERM_PROGRAM_VERSION"), "%d.%d", &major, &minor)
	return s.Getenv("TERM_PROGRAM") == "ghostty" && (major > 1 || major == 1 && minor >= 2)
}

// progress is what goes before the line, each time: ghostty takes silence for
// the end.
func (t *teller) progress() string {
	if t.Notify == "off" || !t.showsProgress() {
		return ""
	}
	t.working = true
	return progressOn
}

// idle takes the progress back, from the background too, where a plain write
// may stop us.
func (t *teller) idle() {
	if t.working {
		t.working = false
		unstopped(func() { io.WriteString(t.Stderr, progressOver) })
	}
}
