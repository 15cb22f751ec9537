package main

import (
	"fmt"
	"strings"
)

// history looks back over a long log: a day of 100,000 events, all of which are shown, counted or drawn.
func history(b *bench) ([]row, error) {
	const events, lines = 100_000, 4 // what age makes of one round
	d, err := b.newBase()
	if err != nil {
		return nil, err
	}
	if err := b.age(d, events/lines); err != nil {
		return nil, err
	}
	shown, err := b.output(b.withleaseIn(d, "history"))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(shown, "\n"); n != events {
		return nil, fmt.Errorf("history shows %d of %d events", n, events)
	}
	t, err := takeTurns(b.rounds(15, 5),
		b.plainTurn(b.withleaseIn(d, "history")), b.plainTurn(b.withleaseIn(d, "history", "--json")),
		b.plainTurn(b.withleaseIn(d, "stats")), b.plainTurn(b.withleaseIn(d, "timeline", "--svg=-")))
	if err != nil {
		return nil, err
	}
	return []row{
		measured("history of a day of 100000 events", "ms", t[0].wall, medianAtMost(500)),
		measured("  as JSON", "ms", t[1].wall, medianAtMost(1000)),
		measured("stats of them", "ms", t[2].wall, medianAtMost(500)),
		measured("timeline of them", "ms", t[3].wall, medianAtMost(500)),
	}, nil
}
