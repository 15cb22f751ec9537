//go:build linux

// Command torture uses withlease as roughly as it can for a while, and proves from the outside that it kept its word.
//
// A number of workers do every verb at random on a few resources, and kill, stop and force each other's runs. Every
// command that runs under a lease is this program again (command.go): it writes down when it began and ended, and takes
// a second kernel lock of its own, so that two at once can't go unseen. What withlease logged, what the commands wrote
// down and how each run ended must fit together (check.go). Whatever doesn't is a violation, and the exit status is 1.
//
//	go run ./scripts/torture                 a minute
//	go run ./scripts/torture --for 1h --seed 7
//
// The seed gives the same choices, not the same run: the machine decides who comes first.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == commandVerb {
		command(os.Args[2:])
		return
	}
	length := flag.Duration("for", time.Minute, "how long")
	procs := flag.Int("procs", 8, "how many workers, each with a process or more")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()%1e6), "for the choices")
	bin := flag.String("bin", "", "the withlease to torture (default: build the module)")
	keep := flag.Bool("keep", false, "leave the directory behind")
	flag.Parse()
	if flag.NArg() > 0 || *procs < 1 {
		flag.Usage()
		os.Exit(2)
	}
	t, err := setUp(*bin, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
	fmt.Printf("torture: seed %d, %d workers, %v, in %s\n", *seed, *procs, *length, t.dir)
	endOnSignal(t)
	go t.watchdog()
	t.run(*length, *procs)
	t.finish()
	t.print()
	if t.failed() {
		fmt.Printf("torture: FAILED; again with: go run ./scripts/torture --for %v --procs %d --seed %d\nfiles: %s\n", *length, *procs, *seed, t.dir)
		os.Exit(1)
	}
	if !*keep {
		os.RemoveAll(t.dir)
	}
}

// run lets everybody loose, and waits until all have ended by themselves.
func (t *torture) run(length time.Duration, procs int) {
	var all sync.WaitGroup
	ended := make(chan struct{})
	time.AfterFunc(length, func() { close(t.over) })
	watchers := sync.WaitGroup{}
	for _, watch := range []func(){t.sampleLines, t.followLog, t.reapOrphans} {
		watchers.Go(func() {
			for {
				watch()
				select {
				case <-ended:
					watch()
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
	all.Go(func() { t.supervise(t.rand(1000)) })
	all.Go(func() { t.otherTool(t.rand(1001)) })
	all.Go(func() { t.shellInstants(t.rand(1002)) })
	all.Go(func() { t.handOvers(t.rand(1003)) })
	for n := range procs {
		all.Go(func() {
			w := &worker{torture: t, name: fmt.Sprintf("w%d", n), rand: t.rand(uint64(n))}
			for !t.isOver() {
				w.step()
			}
		})
	}
	all.Wait()
	t.awaitCommands()
	close(ended)
	watchers.Wait()
}

func (t *torture) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(t.seed, stream)) }

func (t *torture) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// pause sleeps, but not into the end.
func (t *torture) pause(d time.Duration) {
	select {
	case <-t.over:
	case <-time.After(d):
	}
}

// endOnSignal ends everything that was started before torture itself ends.
func endOnSignal(t *torture) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-signals
		t.killAll()
		os.Exit(128 + int(s.(syscall.Signal)))
	}()
}
