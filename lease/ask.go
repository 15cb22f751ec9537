package lease

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// An ask is a word to the holder, before any force: it changes nothing.

// MaxAsks is how many are kept of a lease, the newest; MaxMessage is how long
// the text of one may be, in characters.
const (
	MaxAsks    = 10
	MaxMessage = 500
)

// Ask is one of asked.json.
type Ask struct {
	By      state.Party
	At      time.Time
	Message string
}

// askText is an Ask as asked.json has it.
type askText struct {
	By      party     `json:"by"`
	At      time.Time `json:"at"`
	Message string    `json:"message,omitempty"`
}

type asksText struct {
	Asks []askText `json:"asks"`
}

// ErrYours is an ask for what is the caller's own.
var ErrYours = errors.New("it is yours")

// ErrBusy is an ask for what is being claimed, or is no lease of ours.
var ErrBusy = errors.New("it can't be told anything now; try again")

// Ask asks the holder of res to give it back [ask]: it is noted beside the
// record, in place of an earlier one of the same party, and a run is told
// through its witness. What is held is returned. The error is a *NameError, an
// *fs.PathError, or a *DirError that wraps ErrNotHeld, ErrYours or ErrBusy.
func (b *Base) Ask(ctx context.Context, res string, by state.Party, message string) (asked Sight, err error) {
	if err := CheckName(res); err != nil {
		return asked, err
	}
	l, err := b.lockThere(ctx, res)
	if err != nil {
		return asked, err
	}
	defer l.Unlock()
	c := b.change(l)
	s, err := c.settle(res)
	if err != nil {
		return asked, err
	}
	defer s.close()
	asked = s.Sight()
	refuse := func(err error) (Sight, error) {
		return asked, &DirError{Resource: res, Path: b.path(res), Err: err}
	}
	switch {
	case !s.held():
		return refuse(ErrNotHeld)
	case s.kind == Claiming || s.kind == Odd: // a file more would make the one seem younger
		return refuse(ErrBusy)
	case asked.Party().Same(by):
		return refuse(ErrYours)
	}
	message = strings.ToValidUTF8(message, "\ufffd") // as it is read back
	asks := slices.DeleteFunc(b.asks(res), func(a Ask) bool { return a.By.Same(by) })
	asks = append(asks, Ask{by, c.now.UTC(), message})
	asks = asks[max(0, len(asks)-MaxAsks):]
	line, err := encodeAsks(asks)
	for err == nil && len(line) > maxRecord && len(asks) > 1 { // of others' making: nobody would read any
		asks = asks[1:]
		line, err = encodeAsks(asks)
	}
	if err != nil {
		return asked, err
	}
	step("ask.1")
	if err := b.replace(b.path(res), "asked.json", line); err != nil {
		return asked, err
	}
	step("ask.2")
	poke(filepath.Join(b.path(res), "witness"), 'a')
	h := asked.Holder
	c.log(by.Label(), "ask", state.Detail{
		Resource: res, Session: h.Session, To: asked.Party().Label(), Purpose: h.Purpose, Reason: message, Token: s.mark().Token, Fence: s.mark().Fence,
	})
	asked.Asks = asks
	return asked, nil
}

func encodeAsks(asks []Ask) ([]byte, error) {
	var text asksText
	for _, a := range asks {
		text.Asks = append(text.Asks, askText{partyOf(a.By), a.At, a.Message})
	}
	line, err := json.Marshal(text)
	return append(line, '\n'), err
}

// asks reads asked.json: nothing, when there is none that can be read.
func (b *Base) asks(res string) []Ask {
	text, err := readFile(filepath.Join(b.path(res), "asked.json"), unix.O_RDONLY, maxRecord)
	if err != nil {
		return nil
	}
	var t asksText
	if json.Unmarshal(text, &t) != nil {
		return nil
	}
	var asks []Ask
	for _, a := range t.Asks[max(0, len(t.Asks)-MaxAsks):] {
		asks = append(asks, Ask{a.By.state(), state.Writable(a.At), a.Message})
	}
	return asks
}
