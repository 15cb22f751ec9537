package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A command is a process to be: standard input and output are the null device unless said otherwise.
type command struct {
	argv    []string
	env     []string // besides the clean environment
	in, out *os.File
	tty     *os.File // lead a session on this terminal; it is standard input, output and error
	limit   time.Duration
}

// A process leads a group of its own and is killed with it when its limit is over. It must be waited for.
type process struct {
	*os.Process
	bench *bench
	argv  []string
	began time.Time
	timer *time.Timer
}

// usage is what a process used, its waited-for children included.
type usage struct{ wall, cpu time.Duration }

type processes struct {
	sync.Mutex
	live map[int]*process
}

const usualLimit = 60 * time.Second

func (b *bench) start(c command) (*process, error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{
		Dir:   b.scratch,
		Env:   append(b.env[:len(b.env):len(b.env)], c.env...),
		Files: []*os.File{b.null, b.null, b.errors},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if c.tty != nil {
		attr.Files = []*os.File{c.tty, c.tty, c.tty}
		attr.Sys = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	if c.in != nil {
		attr.Files[0] = c.in
	}
	if c.out != nil {
		attr.Files[1] = c.out
	}
	if c.limit == 0 {
		c.limit = usualLimit
	}
	b.started.Lock()
	defer b.started.Unlock()
	p := &process{bench: b, argv: c.argv, began: time.Now()}
	if p.Process, err = os.StartProcess(path, c.argv, attr); err != nil {
		return nil, err
	}
	p.timer = time.AfterFunc(c.limit, p.killGroup)
	if b.started.live == nil {
		b.started.live = map[int]*process{}
	}
	b.started.live[p.Pid] = p
	return p, nil
}

// wait answers what the process used, and an error unless it ended with status 0.
func (p *process) wait() (usage, error) {
	state, err := p.Wait()
	wall := time.Since(p.began)
	p.timer.Stop()
	p.bench.started.Lock()
	delete(p.bench.started.live, p.Pid)
	p.bench.started.Unlock()
	if err != nil {
		return usage{}, err
	}
	used := usage{wall, state.UserTime() + state.SystemTime()}
	if !state.Success() {
		return used, fmt.Errorf("%s: %v after %.1f s%s", shorten(p.argv), state, wall.Seconds(), p.bench.lastWords())
	}
	return used, nil
}

// eventually asks again and again whether p has done something, for 20 seconds or until p has ended.
func (p *process) eventually(what string, is func() (bool, error)) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(300 * time.Microsecond) {
		ended := hasEnded(p.Pid)
		yes, err := is()
		if yes || err != nil {
			return err
		}
		if ended || time.Now().After(deadline) {
			return fmt.Errorf("%s: waited for %s (ended: %v)%s", shorten(p.argv), what, ended, p.bench.lastWords())
		}
	}
}

func (p *process) killGroup() {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
}

// end kills the process, if it still runs, and waits for it.
func (p *process) end() {
	p.bench.started.Lock()
	_, live := p.bench.started.live[p.Pid]
	p.bench.started.Unlock()
	if live {
		p.killGroup()
		p.wait()
	}
}

// run starts a command and waits for it.
func (b *bench) run(c command) (usage, error) {
	p, err := b.start(c)
	if err != nil {
		return usage{}, err
	}
	return p.wait()
}

// output runs a command and answers what it wrote to standard output.
func (b *bench) output(c command) (string, error) {
	f, err := os.Create(b.fresh("output"))
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	c.out = f
	_, err = b.run(c)
	text, readErr := os.ReadFile(f.Name())
	return string(text), errors.Join(err, readErr)
}

// endAll ends every process that was started, and whatever they left behind.
func (b *bench) endAll() {
	b.started.Lock()
	var live []*process
	for _, p := range b.started.live {
		live = append(live, p)
	}
	b.started.Unlock()
	for _, p := range live {
		p.end()
	}
	for range 100 {
		if orphans := children(os.Getpid()); len(orphans) > 0 {
			endOrphans(orphans)
			continue
		}
		return
	}
}

// endOrphans kills the adopted and reaps them. An orphan of an orphan is adopted in turn.
func endOrphans(pids []int) {
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	}
}

// lastWords answers the end of what the processes wrote to standard error.
func (b *bench) lastWords() string {
	text, err := os.ReadFile(b.errors.Name())
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "; last on standard error: " + strings.Join(lines[max(0, len(lines)-2):], " / ")
}

func shorten(argv []string) string {
	text := []rune(strings.Join(argv, " "))
	if len(text) > 120 {
		return string(text[:120]) + "…"
	}
	return string(text)
}
