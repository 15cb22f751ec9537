package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The stamper is the command that both sides run: it writes its name and the monotonic time to standard output.
// It must start faster than what is measured, so it is a small static C program where there is a C compiler;
// elsewhere bench runs itself as `bench stamp NAME [FIFO]`, for both sides.
const stampVerb = "stamp"

func (b *bench) buildStamper() ([]string, error) {
	source, err := b.unpack("stamp.c")
	if err != nil {
		return nil, err
	}
	out := b.path("stamp")
	for _, link := range []string{"-static", "-O2"} {
		if exec.Command("cc", "-O2", link, "-o", out, source).Run() == nil {
			return []string{out}, nil
		}
	}
	b.notes = append(b.notes, "no C compiler: the commands of both sides are slow Go programs, so the ratios of hand-overs are too near to 1")
	self, err := os.Executable()
	return []string{self, stampVerb}, err
}

func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// stampAndExit does in Go what stamp.c does.
func stampAndExit(args []string) {
	if len(args) == 2 {
		gate, err := os.OpenFile(args[1], os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			os.Exit(2)
		}
		fmt.Printf("%s-ready %d\n", args[0], monotonic())
		if _, err := gate.Read(make([]byte, 1)); err != nil {
			os.Exit(3)
		}
	}
	fmt.Printf("%s %d\n", args[0], monotonic())
	os.Exit(0)
}

// stamps is a file that stampers append to.
type stamps struct{ file *os.File }

func (b *bench) newStamps() (stamps, error) {
	f, err := os.OpenFile(b.fresh("stamps"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return stamps{f}, err
}

func (s stamps) close() {
	s.file.Close()
	os.Remove(s.file.Name())
}

// read answers when each name was stamped.
func (s stamps) read() (map[string]int64, error) {
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		return nil, err
	}
	at := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		name, when, _ := strings.Cut(strings.TrimSpace(line), " ")
		ns, err := strconv.ParseInt(when, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a torn stamp: %q", line)
		}
		if _, again := at[name]; again {
			return nil, fmt.Errorf("%s ran twice", name)
		}
		at[name] = ns
	}
	return at, nil
}

// await waits until name has stamped, which p is to do.
func (s stamps) await(name string, p *process) error {
	return p.eventually("a stamp of "+name, func() (bool, error) {
		at, err := s.read()
		_, there := at[name]
		return there, err
	})
}

// A gate is a FIFO at which a stamper waits. Bench holds both ends open, so that opening can't hang; when bench dies,
// even by SIGKILL, the stampers see the end of file and end, one after another, and so does what wraps them.
type gate struct{ file *os.File }

func (b *bench) newGate() (gate, error) {
	path := b.fresh("gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return gate{}, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	return gate{f}, err
}

func (g gate) open() error {
	_, err := g.file.Write([]byte{'.'})
	return err
}

func (g gate) close() {
	g.file.Close()
	os.Remove(g.file.Name())
}
