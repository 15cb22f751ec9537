package main

import (
	"fmt"
	"os/exec"
)

// plainRun is the wrapper's own cost: nobody else there, no supervisor, a command that does nothing.
func plainRun(b *bench) ([]row, error) {
	ours, _, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	flock, err := b.flockLock()
	if err != nil {
		return nil, err
	}
	contenders := []turn{
		b.plainTurn(command{argv: append(ours.wrap, "true"), env: ours.env}),
		b.plainTurn(command{argv: append(flock.wrap, "true")}),
	}
	if path, err := exec.LookPath("true"); err == nil && b.limit != "" {
		contenders = append(contenders, b.plainTurn(command{argv: []string{b.limit, path}}))
	}
	t, err := takeTurns(b.rounds(120, 40), contenders...)
	if err != nil {
		return nil, err
	}
	rows := []row{
		compared("withlease r -- true", "ms", t[0].wall, "flock f true", t[1].wall, ratioAtMost(2.0)),
		compared("  its processor time", "ms", t[0].cpu, "flock f true", t[1].cpu, goal{}),
	}
	if len(t) > 2 {
		rows = append(rows, compared("  a bare Go program that forks and waits", "ms", t[2].wall, "flock f true", t[1].wall, goal{}))
	}
	sem, err := besideSem(b, ours)
	return append(rows, sem...), err
}

// besideSem compares with GNU parallel's sem, where that is installed.
func besideSem(b *bench, ours lock) ([]row, error) {
	if out, err := exec.Command("sem", "--version").Output(); err != nil || len(out) == 0 {
		b.notes = append(b.notes, "sem isn't installed here: no row for it")
		return nil, nil
	}
	t, err := takeTurns(b.rounds(10, 3),
		b.plainTurn(command{argv: append(ours.wrap, "true"), env: ours.env}),
		b.plainTurn(command{argv: []string{"sem", "--fg", "--id", "withlease-bench", "true"}, env: []string{"HOME=" + b.scratch}}))
	if err != nil {
		return nil, fmt.Errorf("sem: %w", err)
	}
	return []row{compared("withlease r -- true", "ms", t[0].wall, "sem --fg true", t[1].wall, ratioAtMost(0.05))}, nil
}
