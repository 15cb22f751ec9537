package run_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

const (
	otherScreen = `\x1b\[\?1049h\x1b\[\?25l`
	firstScreen = `\x1b\[\?25h\x1b\[\?1049l`
)

// However it ends, the terminal is as it was, and who waits for it sees the
// signal.
func TestWatchLeavesTheTerminal(t *testing.T) {
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(end.String(), func(t *testing.T) {
			s := newScene(t)
			x := s.open(bin, "list", "--watch")
			before := x.settings()
			x.expect(otherScreen)
			x.expect("nothing is held")
			if end == syscall.SIGINT {
				x.keys(ctrlC)
			} else {
				x.cmd.Process.Signal(end)
			}
			if rc := x.wait(); rc != 128+int(end) {
				t.Errorf("it ended with %d", rc)
			}
			x.expect(firstScreen + "$")
			if after := x.settings(); after != before {
				t.Errorf("the settings were %+v and are %+v", before, after)
			}
		})
	}
}

// The screen is redrawn at a change, each second for its times, and at another
// size, in which what there is no room for is counted.
func TestWatchRedraws(t *testing.T) {
	s := newScene(t)
	x := s.open(bin, "list", "--watch")
	x.expect("nothing is held")
	for _, r := range []string{"r1", "r2", "r3", "r4", "r5"} {
		s.run(s.withlease("claim", r))
	}
	x.expect("r5  held by .* for [0-9]+s")
	x.expect("r5  held by .* for [1-9][0-9]*s")
	x.resize(4, 30)
	x.expect(`\x1b\[H[0-9:]+  withlease list.*\x1b\[K\r+\nr1 .*…\x1b\[K\r+\nr2 .*…\x1b\[K\r+\n… 3 more\x1b\[K\x1b\[J`)
	s.run(s.withlease("release", "r1"))
	x.expect(`list.*\x1b\[K\r+\nr2 .*\x1b\[K\r+\nr3 .*\x1b\[K\r+\n… 2 more`)
	x.keys(ctrlC)
	x.wait()
}

// Stopped and continued it leaves the screen and comes back to it.
func TestWatchStops(t *testing.T) {
	x := newScene(t).bash()
	x.line("withlease list --watch")
	x.expect("nothing is held")
	x.keys(ctrlZ)
	x.expect(firstScreen)
	x.ready()
	x.line("fg")
	x.expect(otherScreen)
	x.expect("nothing is held")
	x.keys(ctrlC)
	x.expect(firstScreen)
	x.ready()
	if rc := x.rc(); rc != "130" {
		t.Errorf("it ended with %s", rc)
	}
}

// A terminal that can't be redrawn gets what a file gets.
func TestWatchDumbTerminal(t *testing.T) {
	s := newScene(t)
	x := s.openWith([]string{"TERM=dumb"}, bin, "list", "--watch")
	x.expect("nothing is held")
	s.run(s.withlease("claim", "gpu"))
	x.expect("(?m)^20[-0-9T:.Z+]+\r\ngpu  held by ")
	x.keys(ctrlC)
	x.wait()
	if text := x.text(); strings.Contains(text, "\x1b") || regexp.MustCompile(`\r[^\n]`).MatchString(text) {
		t.Errorf("it wrote %q", text)
	}
}
