// Command bench measures withlease beside its peers, flock(1) and script(1), and prints one table.
//
// The same command line drifts by a factor of two from run to run on a shared machine, so every goal that can be
// is a ratio: withlease and the peer take turns, A B A B, and the ratio is the median over the pairs. Times are
// those of whole processes. Nothing here looks inside withlease.
//
//	go run ./scripts/bench                 everything, some minutes
//	go run ./scripts/bench --quick --check what CI runs: under a minute, exit 1 when a goal is missed by more than 15 %
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A topic is what --only selects: a few rows that are measured together.
type topic struct {
	name string
	run  func(*bench) ([]row, error)
}

var topics = []topic{
	{"plain-run", plainRun},
	{"granted-run", grantedRun},
	{"pty-run", ptyRun},
	{"hand-over", handOver},
	{"crash", crash},
	{"line", line},
	{"granted-line", grantedLine},
	{"throughput", throughput},
	{"share", share},
	{"echo", echo},
	{"past-runs", pastRuns},
	{"other-leases", otherLeases},
	{"grants", manyGrants},
	{"list", list},
	{"history", history},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == stampVerb {
		stampAndExit(os.Args[2:])
	}
	check := flag.Bool("check", false, "exit 1 when a goal is missed by more than 15 %, or a row can't be measured")
	quick := flag.Bool("quick", false, "fewer rounds and smaller sizes: under a minute")
	only := flag.String("only", "", "measure the topics whose name matches this `regexp`")
	bin := flag.String("bin", "", "the withlease to measure (default: build the module)")
	asJSON := flag.Bool("json", false, "print the table as JSON")
	flag.Usage = printUsage
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 {
		printUsage()
		os.Exit(2)
	}

	b, err := setUp(*bin, *quick)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	endOnSignal(b)
	t := b.measure(wanted)
	b.tearDown()

	if *asJSON {
		err = t.printJSON(os.Stdout)
	} else {
		err = t.print(os.Stdout)
	}
	if err != nil || *check && t.missed() {
		os.Exit(1)
	}
}

func printUsage() {
	fmt.Fprintln(os.Stderr, "usage: bench [--check] [--quick] [--only REGEXP] [--bin PATH] [--json]")
	flag.PrintDefaults()
	var names []string
	for _, t := range topics {
		names = append(names, t.name)
	}
	fmt.Fprintln(os.Stderr, "topics:", strings.Join(names, " "))
}

// measure runs the wanted topics one after another. A topic that can't be measured becomes a row that says why.
func (b *bench) measure(wanted *regexp.Regexp) table {
	t := table{Machine: describeMachine(b.scratch), Quick: b.quick, Notes: busyNote()}
	for _, topic := range topics {
		if !wanted.MatchString(topic.name) {
			continue
		}
		began := time.Now()
		b.errors.Truncate(0) // what was said before is not about this topic
		rows, err := topic.run(b)
		b.endAll()
		fmt.Fprintf(os.Stderr, "bench: %s: %.1f s\n", topic.name, time.Since(began).Seconds())
		t.Rows = append(t.Rows, rows...)
		if err != nil {
			t.Rows = append(t.Rows, row{What: topic.name, Verdict: failed})
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %v", topic.name, err))
		}
	}
	t.Notes = append(t.Notes, b.notes...)
	return t
}

// endOnSignal ends every process and removes the scratch directory before bench itself dies.
func endOnSignal(b *bench) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s := <-signals
		b.tearDown()
		os.Exit(128 + int(s.(syscall.Signal)))
	}()
}
