package main

import (
	"fmt"
	"strings"
)

// list shows many leases of living holders, so that each witness is asked. A few runs hold many resources each.
func list(b *bench) ([]row, error) {
	const holders, each = 10, 100
	d, err := b.newBase()
	if err != nil {
		return nil, err
	}
	out, err := b.newStamps()
	if err != nil {
		return nil, err
	}
	defer out.close()
	defer b.endAll()
	g, err := b.newGate()
	if err != nil {
		return nil, err
	}
	defer g.close()
	for i := range holders {
		argv := []string{b.bin}
		for j := range each {
			argv = append(argv, fmt.Sprintf("r-%d-%d", i, j))
		}
		name := fmt.Sprintf("holder-%d", i)
		argv = append(append(append(argv, "--"), b.stamp...), name, g.file.Name())
		holder, err := b.start(command{argv: argv, env: d.env, out: out.file})
		if err != nil {
			return nil, err
		}
		if err := out.await(name+"-ready", holder); err != nil {
			return nil, fmt.Errorf("a run of %d resources: %w", each, err)
		}
	}
	if err := b.listShows(d, "r-", holders*each); err != nil {
		return nil, err
	}
	t, err := takeTurns(b.rounds(30, 10), b.plainTurn(b.withleaseIn(d, "list")), b.plainTurn(b.withleaseIn(d, "version")))
	if err != nil {
		return nil, err
	}
	return []row{
		measured("list of 1000 leases, witnesses probed", "ms", t[0].wall, medianAtMost(100)),
		measured("  the start alone", "ms", t[1].wall, goal{}),
	}, nil
}

// listShows makes sure that list names all n leases, whose names start so.
func (b *bench) listShows(d base, prefix string, n int) error {
	shown, err := b.output(b.withleaseIn(d, "list"))
	if err != nil {
		return err
	}
	named := 0
	for line := range strings.Lines(shown) {
		if strings.Contains(line, prefix) {
			named++
		}
	}
	if named != n {
		return fmt.Errorf("list shows %d of %d leases", named, n)
	}
	return nil
}
