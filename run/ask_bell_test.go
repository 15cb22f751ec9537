package run_test

import (
	"fmt"
	"strings"
	"testing"
)

// Who asks for a lease rings the bell of the terminal in which its run has one
// of its own, once an ask, and nothing else is shown; in a shared one nothing is.
func TestAskRingsTheBell(t *testing.T) {
	t.Parallel()
	for pty, bells := range map[string]int{"--pty=always": 2, "--pty=never": 0} {
		t.Run(pty, func(t *testing.T) {
			s := newScene(t)
			x := s.open(bin, pty, "gpu", "--", "sh", "-c", "echo up; until test -e end; do sleep .01; done; echo END")
			x.expect("up\r\n")
			for i := range bells {
				s.run(s.withlease("--name", fmt.Sprint("bob", i), "ask", "gpu", "--message", "please")).exits(0)
				x.expect("\a")
			}
			if bells == 0 {
				s.run(s.withlease("--name", "bob", "ask", "gpu")).exits(0)
			}
			s.write("end", "")
			x.expect("END")
			if code := x.wait(); code != 0 {
				t.Errorf("exit status %d", code)
			}
			if got, want := x.text(), "up\r\n"+strings.Repeat("\a", bells)+"END\r\n"; got != want {
				t.Errorf("the terminal showed %q, want %q", got, want)
			}
		})
	}
}
