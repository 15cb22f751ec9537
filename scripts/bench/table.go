package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The verdicts. A goal missed by no more than the slack counts as noise.
const (
	met    = "met"
	near   = "near"
	missed = "MISSED"
	failed = "FAILED"
	none   = "-"
	slack  = 0.15
)

// A row is one measurement beside its peer. Figures that don't apply are absent.
type row struct {
	What       string   `json:"what"`
	Unit       string   `json:"unit"`
	N          int      `json:"n"`
	Min        *float64 `json:"min,omitempty"`
	Median     *float64 `json:"median,omitempty"`
	P95        *float64 `json:"p95,omitempty"`
	Peer       string   `json:"peer,omitempty"`
	PeerMedian *float64 `json:"peerMedian,omitempty"`
	Ratio      *float64 `json:"ratio,omitempty"`
	Goal       string   `json:"goal,omitempty"`
	Verdict    string   `json:"verdict"`
}

type table struct {
	Machine string   `json:"machine"`
	Quick   bool     `json:"quick"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// A goal bounds one figure of a row. The zero goal is none: the row is there to be read.
type goal struct {
	figure  func(row) *float64
	name    string
	bound   float64
	atLeast bool
}

func ratioAtMost(x float64) goal {
	return goal{figure: func(r row) *float64 { return r.Ratio }, bound: x}
}

func ratioAtLeast(x float64) goal {
	return goal{figure: func(r row) *float64 { return r.Ratio }, bound: x, atLeast: true}
}

func medianAtMost(x float64) goal {
	return goal{figure: func(r row) *float64 { return r.Median }, name: "median ", bound: x}
}

func p95AtMost(x float64) goal {
	return goal{figure: func(r row) *float64 { return r.P95 }, name: "p95 ", bound: x}
}

// measured makes a row of a series that has no peer.
func measured(what, unit string, s series, g goal) row {
	r := row{What: what, Unit: unit, N: len(s), Min: known(s.min()), Median: known(s.median()), P95: known(s.p95())}
	return r.judged(g)
}

// compared makes a row of two series that were measured in turns.
func compared(what, unit string, s series, peer string, peers series, g goal) row {
	r := measured(what, unit, s, goal{})
	r.Peer, r.PeerMedian, r.Ratio = peer, known(peers.median()), known(s.over(peers).median())
	return r.judged(g)
}

// beside makes a row of counts: the peer's median stands there to be read, a ratio of counts says nothing.
func beside(what, unit string, s series, peer string, peers series, g goal) row {
	r := measured(what, unit, s, g)
	r.Peer, r.PeerMedian = peer, known(peers.median())
	return r
}

func (r row) judged(g goal) row {
	r.Verdict = none
	if g.figure == nil {
		return r
	}
	sign := "<="
	if g.atLeast {
		sign = ">="
	}
	r.Goal = g.name + sign + " " + figure(&g.bound)
	r.Verdict = g.verdict(g.figure(r))
	return r
}

func (g goal) verdict(value *float64) string {
	if value == nil {
		return failed
	}
	excess := *value - g.bound
	if g.atLeast {
		excess = -excess
	}
	switch {
	case excess <= 0:
		return met
	case excess <= slack*g.bound:
		return near
	default:
		return missed
	}
}

// missed tells whether --check fails.
func (t table) missed() bool {
	for _, r := range t.Rows {
		if r.Verdict == missed || r.Verdict == failed {
			return true
		}
	}
	return false
}

func (t table) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(t)
}

func (t table) print(w io.Writer) error {
	cells := [][]string{{"what", "n", "min", "median", "p95", "unit", "peer", "its median", "ratio", "goal", "verdict"}}
	for _, r := range t.Rows {
		cells = append(cells, []string{r.What, count(r.N), figure(r.Min), figure(r.Median), figure(r.P95), r.Unit,
			r.Peer, figure(r.PeerMedian), figure(r.Ratio), r.Goal, r.Verdict})
	}
	var out strings.Builder
	fmt.Fprintln(&out, t.Machine)
	if t.Quick {
		fmt.Fprintln(&out, "quick: fewer rounds, smaller sizes")
	}
	fmt.Fprintln(&out)
	writeAligned(&out, cells)
	for _, note := range t.Notes {
		fmt.Fprintf(&out, "\n%s\n", note)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// writeAligned puts words to the left of their column and figures to the right.
func writeAligned(out *strings.Builder, cells [][]string) {
	left := map[int]bool{0: true, 5: true, 6: true, 9: true, 10: true}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range cells {
		var text strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left[i] {
				text.WriteString(cell + pad + "  ")
			} else {
				text.WriteString(pad + cell + "  ")
			}
		}
		fmt.Fprintln(out, strings.TrimRight(text.String(), " "))
	}
}
