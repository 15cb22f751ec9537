package run

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"withlease/lease"
)

// Schema is the version of every JSON shape that withlease writes. It grows
// when a member changes its meaning or goes away.
const Schema = 1

// Status is the outcome of a run, for --status-file.
type Status struct {
	Schema      int      `json:"schema"`
	Outcome     string   `json:"outcome"` // exit, signal, busy, lost, nested, failed
	Code        int      `json:"code"`    // withlease's own exit status
	Signal      int      `json:"signal,omitempty"`
	WaitSeconds float64  `json:"waitSeconds"`
	HeldSeconds float64  `json:"heldSeconds"`
	Resources   []string `json:"resources,omitempty"`
	Token       string   `json:"token,omitempty"`
	Fences      []int64  `json:"fences,omitempty"`
	Error       string   `json:"error,omitempty"`
	// HeldUntil is how long the lease stays since the command failed.
	HeldUntil *time.Time `json:"heldUntil,omitempty"`

	// Of a run that didn't get the lease.
	Resource string        `json:"resource,omitempty"`
	Holder   *HeldView     `json:"holder,omitempty"`
	Expected *ExpectedView `json:"expected,omitempty"`
	Place    int           `json:"place,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Ticket   string        `json:"ticket,omitempty"`
	Kept     *time.Time    `json:"keptUntil,omitempty"`
	Next     string        `json:"next,omitempty"`

	began time.Time
}

func (s *Status) start(now time.Time) { s.Schema, s.began = Schema, now }

func (s *Status) hold(l *lease.Lease, now time.Time) {
	s.WaitSeconds = l.Waited().Seconds()
	s.HeldSeconds = now.Sub(l.Since()).Seconds()
	s.Resources, s.Token, s.Fences = l.Resources(), l.Token, l.Fences()
}

func (s *Status) blocked(b *lease.Blocked) {
	s.Resource, s.Place, s.Reason = b.Resource, b.Place, b.Error()
	if b.Sight.Held {
		v := heldView(b.Sight)
		s.Holder = &v
	}
	if !b.Kept.IsZero() {
		s.Ticket, s.Kept = b.ID, &b.Kept
	}
}

// finish writes the status where that was asked for, also when withlease itself
// failed.
func (r *run) finish(exit Exit) Exit {
	s := &r.status
	s.Code, s.Signal = exit.Code, int(exit.Signal)
	if s.Outcome == "" {
		switch {
		case s.Error != "":
			s.Outcome = "failed"
		case exit.Signal != 0:
			s.Outcome = "signal"
		default:
			s.Outcome = "exit"
		}
	}
	if r.lease == nil {
		s.WaitSeconds = r.Now().Sub(s.began).Seconds()
	}
	if s.Outcome == "busy" && r.JSON {
		text, err := json.Marshal(s)
		if err == nil {
			fmt.Fprintf(r.Stderr, "%s\n", text)
		}
	}
	if r.StatusFile != "" {
		if err := s.write(r.StatusFile); err != nil {
			say(r.Stderr, "the status file could not be written: %s", Explain(err))
		}
	}
	return exit
}

// write replaces the file: a reader sees all of the outcome or none. A device or
// a FIFO is written to: root's /dev/null must not become a file.
func (s *Status) write(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, append(text, '\n')); err != nil {
			return &os.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}
	return replaceFile(path, append(text, '\n'), 0o600)
}
