package main

import "fmt"

// Times are the wall and processor time of each round of one command, in milliseconds.
type times struct{ wall, cpu series }

func (t *times) add(u usage) {
	t.wall = append(t.wall, milliseconds(u.wall))
	t.cpu = append(t.cpu, milliseconds(u.cpu))
}

// A turn is one contender: before runs outside of the timing.
type turn struct {
	before func(round int) error
	run    func(round int) (usage, error)
}

// plainTurn runs the same command in every round.
func (b *bench) plainTurn(c command) turn {
	return turn{run: func(int) (usage, error) { return b.run(c) }}
}

// takeTurns lets the contenders run A B A B. Up to two rounds before the first warm up, unless the rounds are few and long.
func takeTurns(n int, contenders ...turn) ([]times, error) {
	warmUp := min(2, n/5)
	all := make([]times, len(contenders))
	for round := range n + warmUp {
		for i, c := range contenders {
			if c.before != nil {
				if err := c.before(round); err != nil {
					return nil, fmt.Errorf("round %d: %w", round, err)
				}
			}
			used, err := c.run(round)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", round, err)
			}
			if round >= warmUp {
				all[i].add(used)
			}
		}
	}
	return all, nil
}
