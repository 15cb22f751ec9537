package run

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"withlease/lease"
)

// The line on a terminal must not wrap: a wrapped line can't be redrawn. So it
// is made of pieces, and where the terminal is narrow the ones that matter less
// are shortened, or go.

// piece is a part of the line, and the least that stays of it.
type piece struct {
	text, least string
	short       string // what may stand for it
	rank        int    // who gets room first: the lowest
	keep        int    // it may be cut to this many columns; 0: it is all there or its least
}

// fit makes a line of at most width columns.
func fit(pieces []piece, width int) string {
	words := make([]string, len(pieces))
	left := width
	order := make([]int, len(pieces))
	for i, p := range pieces {
		words[i], order[i] = p.least, i
		left -= columns(p.least)
	}
	slices.SortStableFunc(order, func(a, b int) int { return pieces[a].rank - pieces[b].rank })
	for _, i := range order {
		p := pieces[i]
		room := left + columns(p.least)
		text := p.text
		if p.short != "" && columns(text) > room {
			text = p.short
		}
		if columns(text) > room {
			if p.keep == 0 || room < p.keep {
				continue
			}
			text = cutTo(text, room)
		}
		words[i], left = text, room-columns(text)
	}
	return cutTo(strings.Join(words, ""), width)
}

// columns is how wide a terminal shows a text: two columns for what may be wide
// (East Asian, emoji), so that it is never wider than that.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r < 0x1100:
		return 1
	case r <= 0x115f, r >= 0x2600 && r <= 0x27bf, r >= 0x2b00 && r <= 0x2bff, r >= 0x2e80 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97f,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe10 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x16fe0 && r <= 0x1b2ff, r >= 0x1f000 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd, r == 0x231a, r == 0x231b, r >= 0x23e9 && r <= 0x23f3:
		return 2
	}
	return 1
}

// cutTo makes a text at most width columns wide.
func cutTo(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	left := width - 1
	for i, r := range s {
		if left -= columnsOf(r); left < 0 {
			return s[:i] + "…"[:min(len("…"), max(0, width)*len("…"))]
		}
	}
	return s
}

// liveLine is a wait on a terminal that is width columns wide: who has it, for
// how long, and our place, whatever else there is room for. usually is when it
// is given back as a rule, where that is known.
func liveLine(b *lease.Blocked, path, next, usually string, waited time.Duration, now time.Time, width int) string {
	pieces := []piece{
		{text: "withlease: ", rank: 5},
		{text: "waiting " + ago(waited) + " for ", rank: 9},
		{text: b.Resource, least: cutTo(b.Resource, 12), rank: 1},
		{text: ": ", least: ": "},
	}
	pieces = append(pieces, holderPieces(b.Sight, now)...)
	if usually != "" {
		pieces = append(pieces, piece{text: "; " + usually, rank: 8})
	}
	if b.Refused != nil {
		word := brieflyAsked(b)
		if b.Sight.Held {
			word = "; " + word
		}
		reason := show(b.Refused.Reason)
		if w := supervised(b); w != "" {
			reason += "; " + w
		}
		if b.Sight.Held {
			reason = "; " + reason
		}
		pieces = append(pieces, piece{text: reason, least: word, rank: 6, keep: columns(word) + 20})
	}
	pieces = append(pieces, placePieces(b, now)...)
	pathRank := 14
	if b.Sight.Problem != "" {
		pathRank = 7 // it is where to look
	}
	pieces = append(pieces,
		piece{text: "; " + next, rank: 13},
		piece{text: " [" + show(path) + "]", rank: pathRank})
	line := fit(pieces, width)
	if !b.Sight.Held && b.Refused == nil && b.Place <= 1 {
		line = fit(append(pieces[:4:4], piece{text: "being handed over"}), width)
	}
	return line
}

// holderPieces are heldBy in pieces.
func holderPieces(s lease.Sight, now time.Time) []piece {
	if !s.Held {
		return nil
	}
	p := partsOf(s, now)
	details := p.details
	if session := s.Holder.Session; len(session) > 12 {
		details = strings.Replace(details, showAt(session, 40), showAt(session, 8), 1)
	}
	return []piece{
		{text: p.by, rank: 5},
		{text: p.label, least: cutTo(p.label, 8), rank: 2, keep: 8},
		{text: p.details, short: details, rank: 10},
		{text: p.since, least: strings.TrimPrefix(p.since, " for"), rank: 3},
		{text: p.until, rank: 6},
		{text: p.purpose, rank: 11, keep: 14},
		{text: p.problem, rank: 6, keep: 14},
		{text: p.orphaned, rank: 6, keep: 20},
	}
}

func placePieces(b *lease.Blocked, now time.Time) []piece {
	if b.Place <= 1 && (b.Refused != nil || b.Place == 0) {
		return nil
	}
	place := fmt.Sprintf("place %d", b.Place)
	if b.Sight.Held || b.Refused != nil {
		place = "; " + place
	}
	pieces := []piece{{text: place + " in line", least: place, rank: 4}}
	if b.Place > 1 && b.Behind.Number > 0 {
		pieces = append(pieces, piece{text: ", behind " + behind(b, now), rank: 12, keep: 16})
	}
	return pieces
}

// brieflyAsked is a refusal in a few words.
func brieflyAsked(b *lease.Blocked) string {
	switch {
	case b.Refused.Position > 0:
		return fmt.Sprintf("grant %d, after %s", b.Refused.Position, showAt(b.Refused.Ahead, 12))
	case b.Supervisor == nil:
		return "an upgrade"
	case b.Gone:
		return "needs a grant, supervisor gone"
	case !b.RestartUntil.IsZero():
		return "needs a grant, supervisor away"
	}
	return "needs a grant from " + showAt(b.Supervisor.Label(), 12)
}
