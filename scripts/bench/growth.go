package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pastRuns asks whether a claim costs more after many runs: the same run in a new base directory and in one whose log is long.
func pastRuns(b *bench) ([]row, error) {
	const past = 100_000
	young, old, err := b.twoBases()
	if err != nil {
		return nil, err
	}
	if err := b.age(old, past); err != nil {
		return nil, err
	}
	t, err := takeTurns(b.rounds(80, 25),
		b.plainTurn(b.withleaseIn(old, "r", "--", "true")), b.plainTurn(b.withleaseIn(young, "r", "--", "true")))
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("withlease r -- true after %d past runs", past)
	return []row{compared(what, "ms", t[0].wall, "after none", t[1].wall, ratioAtMost(1.2))}, nil
}

func (b *bench) twoBases() (x, y base, err error) {
	x, err1 := b.newBase()
	y, err2 := b.newBase()
	return x, y, errors.Join(err1, err2)
}

// age makes a log of many past runs out of the lines that a few real ones leave.
func (b *bench) age(d base, runs int) error {
	for _, args := range [][]string{{"r", "--", "true"}, {"claim", "r"}, {"release", "r"}} {
		if _, err := b.run(b.withleaseIn(d, args...)); err != nil {
			return err
		}
	}
	path := filepath.Join(d.dir, "events.jsonl")
	lines, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	for range runs {
		if _, err := log.Write(lines); err != nil {
			return err
		}
	}
	return nil
}

// otherLeases asks whether a claim costs more beside leases of other resources.
func otherLeases(b *bench) ([]row, error) {
	empty, full, err := b.twoBases()
	if err != nil {
		return nil, err
	}
	var rows []row
	claimed := 0
	for _, others := range []int{1, 100, 1000} {
		for ; claimed < others; claimed++ {
			c := b.withleaseIn(full, "claim", fmt.Sprintf("other-%d", claimed))
			c.env = full.session("other")
			if _, err := b.run(c); err != nil {
				return rows, err
			}
		}
		t, err := takeTurns(b.rounds(60, 20),
			b.plainTurn(b.withleaseIn(full, "r", "--", "true")), b.plainTurn(b.withleaseIn(empty, "r", "--", "true")))
		if err != nil {
			return rows, err
		}
		what := fmt.Sprintf("withlease r -- true beside %d leases", others)
		rows = append(rows, compared(what, "ms", t[0].wall, "beside none", t[1].wall, ratioAtMost(1.2)))
	}
	if err := b.listShows(full, "other-", claimed); err != nil {
		return rows, err
	}
	t, err := takeTurns(b.rounds(30, 10), b.plainTurn(b.withleaseIn(full, "list")))
	if err != nil {
		return rows, err
	}
	return append(rows, measured("list of 1000 leases, no witnesses", "ms", t[0].wall, medianAtMost(100))), nil
}

// manyGrants is one read and write of a state document with many grants: `grant` less what starting withlease costs.
func manyGrants(b *bench) ([]row, error) {
	few, many, err := b.twoBases()
	if err != nil {
		return nil, err
	}
	for _, d := range []base{few, many} {
		stop, err := b.startSupervisor(d)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	if err := b.grant(many, "r-0", "worker-0"); err != nil {
		return nil, err
	}
	if err := multiplyGrants(many, 1000); err != nil {
		return nil, err
	}
	grantTurn := func(d base) turn {
		return turn{run: func(round int) (usage, error) {
			c := b.withleaseIn(d, "grant", fmt.Sprintf("new-%d", round), "worker")
			c.env = d.session(supervisorSession)
			return b.run(c)
		}}
	}
	t, err := takeTurns(b.rounds(40, 15), grantTurn(many), grantTurn(few), b.plainTurn(b.withleaseIn(few, "version")))
	if err != nil {
		return nil, err
	}
	if err := stillThere(many, 1000); err != nil {
		return nil, err
	}
	start := t[2].wall
	return []row{
		compared("grant beside 1000 grants, less the start", "ms", t[0].wall.minus(start),
			"beside a few", t[1].wall.minus(start), medianAtMost(15)),
	}, nil
}

// multiplyGrants writes the document's one grant n times, each for another resource and party.
func multiplyGrants(d base, n int) error {
	doc, grants, err := readGrants(d)
	if err != nil {
		return err
	}
	if len(grants) != 1 {
		return fmt.Errorf("%d grants in the document after one was given", len(grants))
	}
	first, err := json.Marshal(grants[0])
	if err != nil {
		return err
	}
	var all []any
	for i := range n {
		var g map[string]any
		if err := json.Unmarshal(first, &g); err != nil {
			return err
		}
		g["resource"], g["at"] = fmt.Sprintf("r-%d", i), time.Now().UTC().Format(time.RFC3339)
		if to, ok := g["to"].(map[string]any); ok {
			to["session"] = fmt.Sprintf("worker-%d", i)
		}
		all = append(all, g)
	}
	doc["grants"] = all
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, "state.json"), text, 0o600)
}

func readGrants(d base) (doc map[string]any, grants []any, err error) {
	text, err := os.ReadFile(filepath.Join(d.dir, "state.json"))
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, nil, err
	}
	grants, _ = doc["grants"].([]any)
	return doc, grants, nil
}

// stillThere makes sure that the document was as big as it should be until the end.
func stillThere(d base, n int) error {
	_, grants, err := readGrants(d)
	if err == nil && len(grants) < n {
		err = fmt.Errorf("only %d of %d grants were left after the rounds", len(grants), n)
	}
	return err
}
