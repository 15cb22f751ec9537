//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// launch starts withlease, in a session of its own, with a terminal or without. finish waits for its end.
func (w *worker) launch(args []string, terminal bool) (cmd *exec.Cmd, finish func() ending, err error) {
	if terminal {
		i := slices.Index(args, "--")
		args = slices.Insert(slices.Clone(args), i, "--pty=always")
	}
	cmd = exec.Command(w.bin, args...)
	cmd.Env, cmd.Dir = w.env, w.dir
	var errs bytes.Buffer
	if !terminal {
		cmd.Stderr = &errs
		cmd.WaitDelay = 200 * time.Millisecond // an orphan has it too
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = w.start(cmd)
		return cmd, func() ending { e := w.end(cmd); e.err = errs.String(); return e }, err
	}
	master, slave, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := w.start(cmd); err != nil {
		return nil, nil, err
	}
	slave.Close()
	drained := make(chan struct{})
	go func() {
		io.Copy(io.Discard, master)
		close(drained)
	}()
	return cmd, func() ending {
		e := w.end(cmd)
		master.Close()
		<-drained
		return e
	}, nil
}

// torment does something bad to a run while it is on its way, or doesn't, and notes how it ended.
func (w *worker) torment(o *op, args []string, terminal bool) ending {
	cmd, finish, err := w.launch(args, terminal)
	if err != nil {
		w.violation("%s: %v", o.id, err)
		return ending{code: 125}
	}
	kind := ""
	if terminal {
		kind = ", in a terminal"
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	// Chosen here: a worker's choices are its seed's, whoever is faster.
	what, after, length, mark := w.rand.IntN(100), w.between(0, 150*time.Millisecond), w.between(20*time.Millisecond, 300*time.Millisecond), w.chance(50)
	go func() {
		defer close(stopped)
		began := true
		if mark { // on the way to its command, or after that has begun
			began = w.awaitBeginUntil(o, done)
		}
		select {
		case <-done:
			return
		case <-time.After(after):
		}
		if began {
			w.hurt(o, cmd, what, length, terminal)
		}
	}()
	e := finish()
	close(done)
	<-stopped
	w.ended(o, e)
	w.count(fmt.Sprintf("%s%s: %s", o.kind, kind, endName(e)))
	return e
}

func endName(e ending) string {
	switch {
	case e.signal != 0:
		return fmt.Sprintf("signal %d", e.signal)
	case e.code < 4:
		return "ran"
	}
	return fmt.Sprint(e.code)
}

// hurt is one bad thing.
func (w *worker) hurt(o *op, cmd *exec.Cmd, what int, length time.Duration, terminal bool) {
	command := func() (int, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return o.pid, o.id
	}
	pid, id := command()
	switch {
	case what < 9:
		w.count("SIGKILL of a wrapper")
		w.done(&o.killed)
		cmd.Process.Kill()
	case what < 16 && pid > 0:
		w.count("SIGKILL of a command")
		w.done(&o.commandKilled)
		signalTo(pid, id, syscall.SIGKILL)
	case what < 22 && pid > 0:
		w.count("SIGKILL of both")
		w.done(&o.killed)
		w.done(&o.commandKilled)
		cmd.Process.Kill()
		signalTo(pid, id, syscall.SIGKILL)
	case what < 30:
		w.count("SIGSTOP of a wrapper")
		if cmd.Process.Signal(syscall.SIGSTOP) == nil {
			time.Sleep(length)
			cmd.Process.Signal(syscall.SIGCONT)
		}
	case what < 36 && pid > 0:
		w.count("SIGSTOP of a command")
		if signalTo(pid, id, syscall.SIGSTOP) {
			time.Sleep(length)
			signalTo(pid, id, syscall.SIGCONT)
		}
	case what < 42:
		w.count("SIGTERM to a wrapper")
		w.done(&o.asked)
		cmd.Process.Signal(syscall.SIGTERM)
	case what < 46 && terminal:
		for _, monitor := range childrenOf(cmd.Process.Pid) {
			w.count("SIGKILL of a monitor")
			w.done(&o.killed)
			signalTo(monitor, id, syscall.SIGKILL)
		}
	}
}

// done notes, before it is done, what is done to an op.
func (t *torture) done(what *bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*what = true
}

func (t *torture) ended(o *op, e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.end = &e
}

// awaitBegin waits until an op's command has begun; false when its wrapper has ended before.
func (w *worker) awaitBegin(o *op, cmd *exec.Cmd) bool {
	for {
		if w.hasBegun(o) {
			return true
		}
		if processEnded(cmd.Process.Pid) {
			return w.hasBegun(o)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *worker) awaitBeginUntil(o *op, done <-chan struct{}) bool {
	for !w.hasBegun(o) {
		select {
		case <-done:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

func (t *torture) hasBegun(o *op) bool {
	t.readStamps()
	t.mu.Lock()
	defer t.mu.Unlock()
	return o.begin > 0
}
