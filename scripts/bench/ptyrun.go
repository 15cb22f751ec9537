package main

import (
	"fmt"
	"time"
)

// ptyRun is a run in a pseudo-terminal beside script(1), which does nothing else. Each has a new terminal to start from.
func ptyRun(b *bench) ([]row, error) {
	ours, d, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	always := []string{b.bin, "--pty=always", "r", "--", "true"}
	t, err := takeTurns(b.rounds(60, 20),
		b.terminalTurn(command{argv: always, env: d.env}),
		b.terminalTurn(command{argv: []string{"script", "-qec", "true", "/dev/null"}}),
		b.terminalTurn(command{argv: append(ours.wrap, "true"), env: d.env}))
	if err != nil {
		return nil, err
	}
	const peer = "script -qec true"
	return []row{
		compared("withlease --pty=always r -- true", "ms", t[0].wall, peer, t[1].wall, ratioAtMost(0.35)),
		compared("  its processor time", "ms", t[0].cpu, peer, t[1].cpu, goal{}),
		compared("  --pty=auto in the same terminal", "ms", t[2].wall, peer, t[1].wall, goal{}),
	}, nil
}

// terminalTurn runs the command on a terminal of its own, opened outside of the timing.
func (b *bench) terminalTurn(c command) turn {
	var t *terminal
	return turn{
		before: func(int) (err error) {
			t, err = openTerminal()
			return err
		},
		run: func(int) (usage, error) {
			defer t.close()
			t.drain()
			c.tty, c.limit = t.tty, 10*time.Second
			used, err := b.run(c)
			if err != nil {
				err = fmt.Errorf("%w; on the terminal: %q", err, t.last)
			}
			return used, err
		},
	}
}
