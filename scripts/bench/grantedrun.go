package main

import "fmt"

const supervisorSession = "bench-supervisor"

// grantedRun is the plain run with a supervisor: each run uses up a grant, which was given before, outside of the timing.
func grantedRun(b *bench) ([]row, error) {
	ours, d, err := b.withleaseLock()
	if err != nil {
		return nil, err
	}
	flock, err := b.flockLock()
	if err != nil {
		return nil, err
	}
	stop, err := b.startSupervisor(d)
	if err != nil {
		return nil, err
	}
	defer stop()
	granted := b.plainTurn(command{argv: append(ours.wrap, "true"), env: d.session("worker")})
	granted.before = func(int) error { return b.grant(d, "r", "worker") }
	t, err := takeTurns(b.rounds(120, 30), granted, b.plainTurn(command{argv: append(flock.wrap, "true")}))
	if err != nil {
		return nil, err
	}
	if err := b.mustRefuse(command{argv: append(ours.wrap, "true"), env: d.session("stranger")}); err != nil {
		return nil, err
	}
	return []row{
		compared("the same, supervised, with a grant", "ms", t[0].wall, "flock f true", t[1].wall, ratioAtMost(2.4)),
		compared("  its processor time", "ms", t[0].cpu, "flock f true", t[1].cpu, goal{}),
	}, nil
}

// startSupervisor makes bench's child the supervisor of a base directory, and answers what ends that.
func (b *bench) startSupervisor(d base) (stop func(), err error) {
	as := func(verb string) error {
		c := b.withleaseIn(d, "supervisor", verb)
		c.env = d.session(supervisorSession)
		_, err := b.run(c)
		return err
	}
	return func() { as("stop") }, as("start")
}

func (b *bench) grant(d base, resource, party string) error {
	c := b.withleaseIn(d, "grant", resource, party)
	c.env = d.session(supervisorSession)
	_, err := b.run(c)
	return err
}

// mustRefuse makes sure that the gate which is measured is really shut.
func (b *bench) mustRefuse(c command) error {
	c.argv = append([]string{c.argv[0], "--no-wait"}, c.argv[1:]...)
	if _, err := b.run(c); err == nil {
		return fmt.Errorf("%s ran without a grant", shorten(c.argv))
	}
	return nil
}
