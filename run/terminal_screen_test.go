package run_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestC68_FullScreen: vim and less look and leave the same with us as without,
// and give the terminal back.
func TestC68_FullScreen(t *testing.T) {
	for _, row := range []struct{ name, command, keys string }{
		{"vim", "vim -u NONE -i NONE -n f", ":q"},
		{"less", "less -M f", "q"},
	} {
		for _, pty := range []string{"auto", "never", "always"} {
			t.Run(row.name+"/"+pty, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				var text strings.Builder
				for i := range 100 {
					fmt.Fprintf(&text, "line %d\tof the file\n", i)
				}
				s.write("f", text.String())
				var inside, after, settings [2]string
				for i, w := range []string{"", "withlease --pty=" + pty + " r -- "} {
					m := s.bashInTmux()
					m.line("view() { " + w + row.command + "; }; clear; echo cle''ared")
					m.shows(`\Acleared\n\[ready\]$`)
					m.line("echo before; view")
					m.shows(`line 20`)
					for range 3 {
						m.do("send-keys", "C-f")
					}
					m.do("send-keys", "g", "g")
					m.do("send-keys", "C-d")
					inside[i] = m.shows(`(?s)\A\s*line 1[45]`)
					if row.keys == ":q" {
						m.do("send-keys", "-l", ":q")
						m.do("send-keys", "Enter")
					} else {
						m.do("send-keys", row.keys)
					}
					after[i] = m.shows(`before\n\[ready\]$`)
					m.line("clear; stty -a")
					settings[i] = m.shows(`(?s)speed.*\[ready\]$`)
					m.do("kill-server")
				}
				if inside[0] != inside[1] {
					t.Errorf("with:\n%s\nwithout:\n%s", inside[1], inside[0])
				}
				if after[0] != after[1] {
					t.Errorf("afterwards with:\n%s\nwithout:\n%s", after[1], after[0])
				}
				if settings[0] != settings[1] {
					t.Errorf("settings with:\n%s\nwithout:\n%s", settings[1], settings[0])
				}
			})
		}
	}
}
