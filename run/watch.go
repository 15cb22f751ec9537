package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"withlease/lease"
)

const (
	calm   = 250 * time.Millisecond // what is shown stays at least so long
	ticked = time.Second            // how often a screen is redrawn for its times
)

// WatchList shows what List shows again whenever it changes.
func (s *Session) WatchList() Exit { return s.watch("list", (*Session).list) }

// WatchQueue shows what Queue shows again whenever it changes.
func (s *Session) WatchQueue(res string) Exit {
	return s.watch(strings.TrimSpace("queue "+show(res)), func(s *Session) Exit { return s.queue(res) })
}

// watcher shows an answer again and again: on a terminal it is redrawn, and its
// times go on; elsewhere what has changed is written below what was.
type watcher struct {
	*Session
	ask    func(*Session) Exit
	watch  *lease.Watch
	out    *os.File
	screen *fullScreen // nil: no terminal
	calls  [2]int      // a pipe with the signals that a screen must hear of
	key    string      // what was shown last, without what always changes
	said   string      // what was said last on standard error
	shown  time.Time
}

func (s *Session) watch(title string, ask func(*Session) Exit) Exit {
	b, err := s.base()
	if err != nil {
		return s.failed(err)
	}
	w := &watcher{Session: s, ask: ask, watch: b.Watch(), calls: [2]int{-1, -1}}
	defer w.watch.Close()
	w.out, _ = s.Stdout.(*os.File)
	if w.out != nil && !s.JSON && s.capable(w.out) {
		if err := w.openScreen(title); err != nil {
			return s.failed(err)
		}
		defer w.screen.leave()
	}
	if w.watch.Blind() {
		say(s.Stderr, "changes are not told here (no inotify instance is free: fs.inotify.max_user_instances): looking every 2 s")
	}
	return w.run()
}

func (w *watcher) run() Exit {
	for changed := true; ; {
		if changed {
			w.watch.Arm()
		}
		began := w.Now()
		if exit, over := w.look(); over {
			return exit
		}
		w.shown = w.Now()
		// A long log makes a look expensive: then the times go on less often.
		exit, news, over := w.wait(max(ticked, 10*w.shown.Sub(began)))
		if over {
			return exit
		}
		changed = news == lease.Changed
	}
}

// look shows what is there now, where it has changed or its times go on.
func (w *watcher) look() (exit Exit, over bool) {
	// The document first: what happens between the two looks is shown too early
	// then, and not missed.
	doc, said, exit := w.answered(true)
	if w.key == "" && exit.Code == ExitUsage {
		fmt.Fprint(w.Stderr, said)
		return exit, true
	}
	key := unchanging(doc) + said
	changed := key != w.key
	w.key = key
	var err error
	switch {
	case w.screen != nil:
		text, said, _ := w.answered(false)
		err = w.screen.draw(text+said, w.Now())
	case !changed:
	case w.JSON:
		w.saying(said)
		var line bytes.Buffer
		if json.Compact(&line, []byte(doc)) == nil && line.Len() > 0 {
			line.WriteByte('\n')
			_, err = w.Stdout.Write(line.Bytes())
		}
	default:
		text, said, _ := w.answered(false)
		w.saying(said)
		_, err = fmt.Fprintf(w.Stdout, "%s\n%s", w.Now().Format(time.RFC3339), text)
	}
	if err != nil {
		return w.failed(err), true
	}
	return Exit{}, false
}

// saying passes on what is new of what an answer says on standard error.
func (w *watcher) saying(said string) {
	if said != w.said {
		w.said = said
		fmt.Fprint(w.Stderr, said)
	}
}

// answered is the answer of a look, and what it says on standard error.
func (w *watcher) answered(asJSON bool) (text, said string, exit Exit) {
	var out, errs bytes.Buffer
	s := *w.Session
	s.Stdout, s.Stderr, s.JSON = &out, &errs, asJSON
	exit = w.ask(&s)
	return out.String(), errs.String(), exit
}

// unchanging is a document without the members that change with the time alone.
// Each member has a line of its own, and a string has no end of line in it.
func unchanging(doc string) string {
	var kept strings.Builder
	for line := range strings.Lines(doc) {
		switch name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case `"heldSeconds"`, `"renewed"`, `"lowSeconds"`, `"highSeconds"`, `"restartUntil"`:
		default:
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// wait waits for a reason to look again.
func (w *watcher) wait(tick time.Duration) (exit Exit, news lease.News, over bool) {
	out := -1
	if w.out != nil {
		out = int(w.out.Fd())
	}
	rest := w.shown.Add(calm)
	for {
		until := rest
		deaf := time.Now().Before(rest)
		if !deaf {
			until = time.Time{}
			if w.screen != nil {
				until = w.shown.Add(tick)
			}
		}
		news, err := w.watch.Wait(w.calls[0], out, until, deaf)
		switch {
		case err != nil:
			return w.failed(err), news, true
		case news == lease.Gone:
			return Exit{}, news, true
		case news == lease.Called:
			exit, redraw, over := w.called()
			if redraw || over {
				return exit, news, over
			}
		case news == lease.Changed, !deaf:
			return Exit{}, news, false
		}
	}
}
