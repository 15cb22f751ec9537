// Withlease runs a command while it holds a named, exclusive lease on something
// that a machine has only one of.
package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"withlease/completions"
	"withlease/lease"
	"withlease/run"
	"withlease/signals"
)

// cli is the grammar, in the order of the manual page. Variables of the
// environment are read where they are used: a bad one must not break `list`.
type cli struct {
	Dir         string `help:"Keep leases and state here (default: $$WITHLEASE_DIR, /var/lib/withlease, ~/.local/state/withlease)." placeholder:"DIR"`
	JSON        bool   `name:"json" help:"Answer in JSON: list, status, queue, supervisor status; a run's refusal."`
	Session     string `help:"The caller's session (default: $$WITHLEASE_SESSION, the coding agent's)." placeholder:"ID"`
	HostSession string `help:"The session around it, which survives a restart." placeholder:"ID"`
	Name        string `help:"The caller's name." placeholder:"NAME"`
	Person      string `help:"The person behind the session." placeholder:"NAME"`
	Team        string `help:"The person's team." placeholder:"NAME"`

	Run        runCmd        `cmd:"" help:"Run a command while holding resources (the word run may be left out)."`
	List       listCmd       `cmd:"" help:"Show what is held, by whom, for what."`
	Status     statusCmd     `cmd:"" help:"Show one resource; exit 1 when it is held."`
	Queue      queueCmd      `cmd:"" help:"Show who waits, and what is granted to whom."`
	History    historyCmd    `cmd:"" help:"Show what happened: who claimed, gave back, crashed, took away."`
	Stats      statsCmd      `cmd:"" help:"Show how much resources were used, by whom, for what, and waited for."`
	Timeline   timelineCmd   `cmd:"" help:"Draw who held what, and who waited, into a file."`
	Claim      claimCmd      `cmd:"" help:"Hold a resource without a command, until it is released."`
	Extend     extendCmd     `cmd:"" help:"Move the end of a claim that has one."`
	Release    releaseCmd    `cmd:"" help:"Give back a claim; with --force take anybody's lease away."`
	Ask        askCmd        `cmd:"" help:"Ask the holder of a resource to give it back."`
	Verify     verifyCmd     `cmd:"" help:"Say whether a token or fence is of a live lease; exit 1 when not."`
	Grant      grantCmd      `cmd:"" help:"As the supervisor, let a party claim resources."`
	Revoke     revokeCmd     `cmd:"" help:"As the supervisor, take a grant back."`
	Supervisor supervisorCmd `cmd:"" help:"Decide who may claim: start, stop, status."`
	Upgrade    upgradeCmd    `cmd:"" help:"Hold an installation back while it is upgraded: begin, end."`
	Guard      guardCmd      `cmd:"" help:"As a coding agent's hook, refuse a shell command that lacks its lease: exit 2."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell: bash, zsh, fish."`
	Init       initCmd       `cmd:"" help:"Print what a shell evaluates as it starts: completion, and the prompt that shows what is held."`
	Doctor     doctorCmd     `cmd:"" help:"Look whether all is well, and say what would mend it."`
	Version    versionCmd    `cmd:"" help:"Show the version."`
}

type runCmd struct {
	Resource     []string       `arg:"" optional:"" help:"What to hold."`
	NoWait       bool           `short:"n" help:"Don't wait: exit 75 when it is held."`
	Wait         *time.Duration `short:"w" help:"Wait at most this long, then exit 75." placeholder:"DURATION"`
	KeepPlace    time.Duration  `help:"Keep the place in line this long when the wait runs out." placeholder:"DURATION"`
	KeepOnFail   time.Duration  `help:"When the command fails, keep the lease this long." placeholder:"DURATION"`
	Ticket       string         `help:"Take a kept place again." placeholder:"ID"`
	Purpose      string         `short:"p" help:"What it is for (default: the command)." placeholder:"TEXT"`
	PTY          string         `name:"pty" help:"Give the command a terminal of its own: auto, always or never (default: $$WITHLEASE_PTY, auto)." placeholder:"WHEN"`
	Notify       string         `help:"How a terminal tells that a wait of 10 s is over: auto, bell, osc or off (default: $$WITHLEASE_NOTIFY, auto)." placeholder:"HOW"`
	TTL          time.Duration  `name:"ttl" default:"60s" help:"Renew the record three times in this time (${default})." placeholder:"DURATION"`
	Grace        time.Duration  `default:"10s" help:"How long the command has to end when the lease is lost (${default})." placeholder:"DURATION"`
	OnLost       string         `enum:"kill,warn" default:"kill" help:"When the lease is lost: kill the command, or only warn (${default})." placeholder:"WHAT"`
	ConflictExit int            `short:"E" name:"conflict-exit-code" default:"75" help:"Exit status when the resource can't be had (${default})." placeholder:"N"`
	StatusFile   string         `help:"Write the outcome there, as JSON." placeholder:"FILE"`
	BudgetGiB    int            `name:"budget-gib" help:"What the command may hold of the model server, in GiB." placeholder:"N"`
	Quiet        bool           `short:"q" help:"Say nothing but errors."`
	Verbose      bool           `short:"v" help:"Say what is claimed and released."`

	Command []string `kong:"-"`
}

type listCmd struct {
	Watch bool `help:"Show it again at each change, until Ctrl-C."`
}

type statusCmd struct {
	Resource string `arg:"" help:"Which resource."`
}

type queueCmd struct {
	Resource string `arg:"" optional:"" help:"Which resource (default: all that have a line)."`
	Watch    bool   `help:"Show it again at each change, until Ctrl-C."`
}

type historyCmd struct {
	Resource string `arg:"" optional:"" help:"Which resource (default: all)."`
	Since    string `default:"24h" help:"How far back: a duration like 90m or 7d, or a time (${default})." placeholder:"WHEN"`
	Last     int    `help:"No more than the newest N." placeholder:"N"`
}

type statsCmd struct {
	Resource string `arg:"" optional:"" help:"Which resource (default: all)."`
	Since    string `default:"7d" help:"How far back: a duration like 90m or 7d, or a time (${default})." placeholder:"WHEN"`
}

type timelineCmd struct {
	Resource []string `arg:"" optional:"" help:"Which resources (default: all)."`
	SVG      string   `name:"svg" help:"Draw a picture there (-: standard output)." placeholder:"FILE"`
	HTML     string   `name:"html" help:"Make a page there, with the picture and a table." placeholder:"FILE"`
	Since    string   `default:"24h" help:"How far back: a duration like 90m or 7d, or a time (${default})." placeholder:"WHEN"`
}

type claimCmd struct {
	Resource  string         `arg:"" help:"What to hold."`
	For       *time.Duration `help:"Until that time has passed, or it is released." placeholder:"DURATION"`
	Purpose   string         `short:"p" help:"What it is for." placeholder:"TEXT"`
	BudgetGiB int            `name:"budget-gib" help:"What may be held of the model server, in GiB." placeholder:"N"`
}

type extendCmd struct {
	Resource string         `arg:"" help:"Whose end to move."`
	Duration *time.Duration `arg:"" optional:"" help:"To how long from now."`
	Until    string         `help:"To when: a duration, or a time." placeholder:"WHEN"`
}

type releaseCmd struct {
	Resource string        `arg:"" help:"What to give back."`
	If       string        `help:"Only while it is this lease: a token or a fence." placeholder:"MARK"`
	Force    bool          `help:"Take it away, whoever holds it; the command of its run is ended."`
	Kill     bool          `help:"End the processes that hold it although their wrapper is gone."`
	DryRun   bool          `help:"Show what --force or --kill would end, and end nothing."`
	Reason   string        `help:"Why, for the log; --force needs it." placeholder:"TEXT"`
	Grace    time.Duration `default:"10s" help:"How long they have to end before they are killed (${default})." placeholder:"DURATION"`
}

type askCmd struct {
	Resource string `arg:"" help:"What to ask for."`
	Message  string `help:"What the holder is told." placeholder:"TEXT"`
}

type verifyCmd struct {
	Mark     string `arg:"" help:"A token or a fence."`
	Resource string `arg:"" optional:"" help:"Of which resource (default: any, for a token; $$WITHLEASE_RESOURCE)."`
}

type grantCmd struct {
	Resources string `arg:"" help:"Resources, separated by commas."`
	Party     string `arg:"" help:"A session, or a name that withlease queue shows."`
	Unblock   string `help:"Let it through an upgrade, and why." placeholder:"WHY"`
	BudgetGiB int    `name:"budget-gib" help:"What it may hold of the model server, in GiB." placeholder:"N"`
	Force     bool   `help:"A person's word instead of the supervisor's."`
}

type revokeCmd struct {
	Resources string `arg:"" help:"Resources, separated by commas."`
	Party     string `arg:"" help:"A session, or a name that withlease queue shows."`
	Force     bool   `help:"A person's word instead of the supervisor's."`
}

type supervisorCmd struct {
	Start struct {
		PID   int  `name:"pid" help:"The process that shows that the supervisor is there (default: the caller's session; --pid=-1: none)." placeholder:"PID"`
		Force bool `help:"A person takes over from a supervisor that is there."`
	} `cmd:"" help:"Become the supervisor."`
	Stop struct {
		Force bool `help:"A person ends another's supervision."`
	} `cmd:"" help:"End the supervision: the line decides again."`
	Status struct{} `cmd:"" help:"Show who decides; exit 1 when nobody does."`
}

type upgradeCmd struct {
	Begin struct {
		Target string `arg:"" help:"INSTALLATION or INSTALLATION/CLUSTER."`
		To     string `help:"The version that it is upgraded to." placeholder:"VERSION"`
		Reason string `help:"Why." placeholder:"TEXT"`
		Until  string `help:"When it is over at the latest: a duration, or a time." placeholder:"WHEN"`
	} `cmd:"" help:"Hold it back."`
	End struct {
		Target string `arg:"" help:"INSTALLATION or INSTALLATION/CLUSTER."`
	} `cmd:"" help:"Let it go."`
}

type guardCmd struct {
	Rules string `help:"The file of rules (default: $$WITHLEASE_GUARD, guard.json beside the leases)." placeholder:"FILE"`
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Whose: bash, zsh or fish."`
}

type initCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Whose: bash, zsh or fish."`
}
type doctorCmd struct{}

type versionCmd struct{}

func main() {
	run.Prefault()
	exit(Main(os.Args[1:]))
}

// exit is the one way out.
func exit(code int) { os.Exit(code) }

// Main is the program: it returns the exit status, or ends the process by the
// signal that its command died of.
func Main(args []string) int {
	if len(args) > 0 && args[0] == run.MonitorVerb {
		return run.Monitor(args[1:])
	}
	if len(args) > 0 && args[0] == run.CompleteVerb {
		run.Complete(args[1:], os.Stdout)
		return 0
	}
	left, command, split := cut(args)
	if split && plain(left) {
		// The common form needs no grammar, and a third less time.
		return runCommand(run.Flags{}, defaultRun(left), command)
	}
	return parse(left, command, split, os.Stdout, os.Stderr)
}

// cut cuts the arguments at the first --: the right half is the command's, byte
// for byte, and no parser sees it.
func cut(args []string) (left, command []string, split bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:], true
	}
	return args, nil, false
}

// plain says whether the left half is nothing but resources.
func plain(left []string) bool {
	for _, a := range left {
		if lease.CheckName(a) != nil || slices.Contains(verbs, a) {
			return false
		}
	}
	return len(left) > 0
}

// verbs are the subcommands, and the words kept for later ones: bare, they are
// no resources, so that a new verb changes no Makefile.
var verbs = []string{"run", "list", "status", "queue", "claim", "release", "grant", "revoke", "supervisor", "upgrade", "version",
	"history", "stats", "timeline", "completion", "doctor", "guard", "init", "help", "ask", "verify", "extend"}

// defaultRun is what kong makes of a run without flags; a test compares.
func defaultRun(resources []string) runCmd {
	return runCmd{Resource: resources, TTL: run.DefaultTTL, Grace: run.DefaultGrace, OnLost: "kill", ConflictExit: run.ExitBusy}
}

func runCommand(f run.Flags, c runCmd, command []string) int {
	rc := run.Command{
		Resources: c.Resource, Argv: command, NoWait: c.NoWait, KeepPlace: c.KeepPlace, KeepOnFail: c.KeepOnFail, Ticket: c.Ticket,
		Purpose: c.Purpose, PTY: c.PTY, Notify: c.Notify, TTL: c.TTL, Grace: c.Grace, OnLost: c.OnLost, ConflictExit: c.ConflictExit,
		StatusFile: c.StatusFile, BudgetGiB: c.BudgetGiB, Quiet: c.Quiet, Verbose: c.Verbose,
	}
	rc.Spelled = len(c.Resource) > 0 && slices.Contains(verbs, c.Resource[0])
	if c.Wait != nil {
		rc.Wait, rc.NoWait = *c.Wait, rc.NoWait || *c.Wait == 0
	}
	// It leaves from where it ran: to hand the status back to this thread, which
	// waits for signals, would cost a short run more than it costs to leave.
	return signals.Main(func(sigs <-chan signals.Signal, ready func()) int {
		exit(run.NewSession(f).Run(rc, sigs, ready).Leave())
		return 0
	})
}

// exited is how kong says that --help has been answered.
type exited int

func parse(left, command []string, split bool, stdout, stderr io.Writer) (code int) {
	usageCode := run.ExitUsage
	if split {
		usageCode = run.ExitFailed
	}
	if meansGuard(left, split) {
		usageCode = run.ExitRefused
	}
	if words, code, ok := route(left, split, stderr); ok {
		left = words
	} else {
		return max(code, usageCode)
	}
	var c cli
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exited:
			code = int(p)
		default: // no trace is of use to a user
			fmt.Fprintf(stderr, "withlease: a fault of withlease itself: %v; please report it with the command line\n", p)
			code = run.ExitFailed
		}
	}()
	if verb, ok := c.parseVerb(left); ok {
		return dispatch(&c, verb, command)
	}
	parser, err := kong.New(&c,
		kong.Name("withlease"),
		kong.Description("Run a command while holding a lease on something that this machine has only one of."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(n int) { panic(exited(n)) }),
		kong.Help(help),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
	)
	if err != nil {
		panic(err) // the grammar itself is wrong: a test finds it
	}
	ctx, err := parser.Parse(left)
	if err != nil {
		fmt.Fprintf(stderr, "withlease: %s\n", rephrase(err.Error(), left, split))
		return usageCode
	}
	return dispatch(&c, ctx.Command(), command)
}

// parseVerb reads a command line by the grammar of its verb alone: to build
// that of all verbs costs a run with a flag a fifth of its page faults, and `list`
// a third. Whatever isn't right is left to the whole grammar, which knows what to
// say.
func (c *cli) parseVerb(left []string) (command string, ok bool) {
	verb, known := firstWord(left)
	if !known {
		return "", false
	}
	var fields []reflect.StructField
	for f := range reflect.TypeFor[cli]().Fields() {
		if _, isVerb := f.Tag.Lookup("cmd"); !isVerb || strings.EqualFold(f.Name, verb) {
			fields = append(fields, f)
		}
	}
	grammar := reflect.New(reflect.StructOf(fields))
	parser, err := kong.New(grammar.Interface(), kong.Name("withlease"), kong.NoDefaultHelp(), kong.Writers(io.Discard, io.Discard))
	if err != nil {
		panic(err)
	}
	ctx, err := parser.Parse(left)
	if err != nil {
		return "", false
	}
	all := reflect.ValueOf(c).Elem()
	for i, f := range fields {
		all.FieldByIndex(f.Index).Set(grammar.Elem().Field(i))
	}
	return ctx.Command(), true
}

func dispatch(c *cli, verb string, command []string) int {
	f := run.Flags{Dir: c.Dir, JSON: c.JSON, Session: c.Session, HostSession: c.HostSession, Name: c.Name, Person: c.Person, Team: c.Team}
	s := run.NewSession(f)
	words := strings.Fields(verb)
	switch words[0] {
	case "run":
		return runCommand(f, c.Run, command)
	case "list":
		if c.List.Watch {
			return s.WatchList().Leave()
		}
		return s.List().Code
	case "status":
		return s.Status(c.Status.Resource).Code
	case "queue":
		if c.Queue.Watch {
			return s.WatchQueue(c.Queue.Resource).Leave()
		}
		return s.Queue(c.Queue.Resource).Code
	case "history":
		return s.History(c.History.Resource, c.History.Since, c.History.Last).Code
	case "stats":
		return s.Stats(c.Stats.Resource, c.Stats.Since).Code
	case "timeline":
		t := c.Timeline
		return s.Timeline(t.Resource, t.SVG, t.HTML, t.Since).Code
	case "claim":
		return s.Claim(c.Claim.Resource, c.Claim.Purpose, c.Claim.BudgetGiB, c.Claim.For).Code
	case "extend":
		return s.Extend(c.Extend.Resource, c.Extend.Duration, c.Extend.Until).Code
	case "release":
		r := c.Release
		return s.Release(run.Release{Resource: r.Resource, If: r.If, Force: r.Force, Kill: r.Kill, DryRun: r.DryRun, Reason: r.Reason, Grace: r.Grace}).Code
	case "ask":
		return s.Ask(c.Ask.Resource, c.Ask.Message).Code
	case "verify":
		return s.Verify(c.Verify.Mark, c.Verify.Resource).Code
	case "grant":
		g := c.Grant
		return s.Grant(run.Grant{Resources: g.Resources, Party: g.Party, Unblock: g.Unblock, BudgetGiB: g.BudgetGiB, Force: g.Force}).Code
	case "revoke":
		return s.Revoke(run.Grant{Resources: c.Revoke.Resources, Party: c.Revoke.Party, Force: c.Revoke.Force}).Code
	case "supervisor":
		switch words[1] {
		case "start":
			return s.SupervisorStart(c.Supervisor.Start.PID, c.Supervisor.Start.Force).Code
		case "stop":
			return s.SupervisorStop(c.Supervisor.Stop.Force).Code
		}
		return s.SupervisorStatus().Code
	case "upgrade":
		if words[1] == "begin" {
			u := c.Upgrade.Begin
			return s.UpgradeBegin(u.Target, u.To, u.Reason, u.Until).Code
		}
		return s.UpgradeEnd(c.Upgrade.End.Target).Code
	case "guard":
		return s.Guard(os.Stdin, c.Guard.Rules, claims).Code
	case "completion":
		return s.Print(completions.Script(c.Completion.Shell)).Code
	case "init":
		return s.Print(completions.Init(c.Init.Shell)).Code
	case "doctor":
		return s.Doctor(completions.Script).Code
	case "version":
		fmt.Println(run.Version())
	}
	return 0
}
