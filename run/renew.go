package run

import (
	"errors"
	"sync"
	"time"

	"withlease/lease"
)

// keeper renews the lease while the command runs, a third of its ttl apart, and
// has the command ended when the lease is lost. A force is heard of at once,
// through the witness, and so is an ask.
type keeper struct {
	*run
	end    func() // ends the command
	timer  *time.Timer
	warned bool

	renewing sync.Mutex // held while it renews

	mu      sync.Mutex
	stopped bool
	loss    error
}

func (r *run) keepLease(end func(), asked func()) *keeper {
	k := &keeper{run: r, end: end}
	r.lease.NoteForks()
	k.mu.Lock()
	k.timer = time.AfterFunc(r.TTL/3, k.renew)
	k.mu.Unlock()
	r.lease.Watch(k.lost, func(lease.Ask) { asked() })
	return k
}

// lost is told that the lease isn't ours any more.
func (k *keeper) lost(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped || k.loss != nil {
		return
	}
	k.reportLoss(err)
	if k.OnLost == "warn" {
		return
	}
	k.loss = err
	k.status.Outcome = "lost"
	k.end()
}

func (k *keeper) renew() {
	k.renewing.Lock()
	defer k.renewing.Unlock()
	if k.over() {
		return
	}
	var gone *lease.LostError
	switch err := k.lease.Renew(); {
	case errors.As(err, &gone):
		k.lost(err)
		return
	case err != nil && !k.warned:
		k.warned = true
		say(k.Stderr, "the lease could not be renewed: %s; it stays yours, and the command goes on", Explain(err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer.Reset(k.TTL / 3)
	}
}

func (k *keeper) over() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stopped
}

// stop ends the renewal, one under way included, whose descriptors the release
// closes. It says whether the command was ended for a loss.
func (k *keeper) stop() error {
	k.mu.Lock()
	k.stopped = true
	k.timer.Stop()
	k.mu.Unlock()
	k.renewing.Lock()
	defer k.renewing.Unlock()
	return k.loss
}
