package run

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The picture is drawn for a width that isn't known: along the time in percent,
// so that a page can make it as wide as it is with the text at its size, and
// down it in pixels. A file of its own is made to be 960 pixels wide, and shrinks.
const (
	svgWidth   = 960
	svgAssumed = 660 // the width at which a label must fit
	svgTop     = 56.0
	svgLane    = 5.0  // of a wait
	svgBar     = 24.0 // of a use
	svgName    = 20.0 // of a resource's name
	svgGap     = 16.0
	svgAxis    = 44.0
	svgLegend  = 22.0
	svgSide    = 2.0 // percent, left and right
)

// svgStyle has each colour twice: the plain one for what knows no variables.
const svgStyle = `
.wl{--ink:#1f2328;--mute:#59636e;--grid:#d8dee4;--lane:#f3f5f7;--wait:#6e7781;--bad:#c4230b;--other:#c9d1d9;--c0:#a9d3f5;--c1:#f8cf93;--c2:#b4e0b0;--c3:#e3c2f2;--c4:#f6bcc4;--c5:#a5e0db;background:#fff;background:light-dark(#fff,#0d1117);font:13px system-ui,sans-serif;color-scheme:light dark}
@media (prefers-color-scheme:dark){.wl{--ink:#e6edf3;--mute:#9ba4ae;--grid:#30363d;--lane:#161b22;--wait:#8b949e;--bad:#ff7b6b;--other:#484f58;--c0:#1f5c94;--c1:#84560f;--c2:#2b6a33;--c3:#6a3f86;--c4:#8b3747;--c5:#1d6661;background:#0d1117}}
.wl text{fill:#1f2328;fill:var(--ink)}.wl .m{fill:#59636e;fill:var(--mute);font-size:12px}.wl .h{font-size:15px;font-weight:600}.wl .n{font-weight:600}.wl .l{font-size:12px;pointer-events:none}
.wl .g{stroke:#d8dee4;stroke:var(--grid)}.wl .r{fill:#f3f5f7;fill:var(--lane)}.wl .w{fill:#6e7781;fill:var(--wait)}
.wl-x{stroke:#c4230b;stroke:var(--bad);stroke-width:2.5;fill:none}.wl-f{fill:#c4230b;fill:var(--bad)}.wl-o{stroke:#1f2328;stroke:var(--ink);stroke-width:2;fill:none}
.wl .c{fill:#c9d1d9;fill:var(--other)}.wl .c0{fill:#a9d3f5;fill:var(--c0)}.wl .c1{fill:#f8cf93;fill:var(--c1)}.wl .c2{fill:#b4e0b0;fill:var(--c2)}.wl .c3{fill:#e3c2f2;fill:var(--c3)}.wl .c4{fill:#f6bcc4;fill:var(--c4)}.wl .c5{fill:#a5e0db;fill:var(--c5)}
`

// svgMarks are told apart by their shapes: a cross, a triangle, an arrow, a dashed
// line. Where they are used no class of an element around them counts.
const svgMarks = `<defs><path id="wl-crash" class="wl-x" d="M-4-4 4 4M-4 4 4-4"/><path id="wl-force" class="wl-f" d="M-6-5H6L0 6Z"/><path id="wl-held" class="wl-o" d="M-4-5 2 0-4 5"/><path id="wl-lost" class="wl-o" stroke-dasharray="3 3" d="M0-10V10"/></defs>
`

// svgText makes others' text fit for XML, and for a reader.
func svgText(s string, most int) string {
	var b strings.Builder
	for _, r := range showAt(s, most) {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '"':
			b.WriteString("&#34;")
		case r == '\'':
			b.WriteString("&#39;")
		case r == 0xfffe, r == 0xffff: // no characters of XML
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// canvas is a picture in the making.
type canvas struct {
	bytes.Buffer
	*timeline
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.Buffer, format+"\n", args...) }

// x is where a place in the span lies.
func x(at float64) string {
	return fmt.Sprintf("%.3f%%", svgSide+at*(100-2*svgSide))
}

func width(of float64) string { return fmt.Sprintf("%.3f%%", of*(100-2*svgSide)) }

// svg is the picture as a file of its own.
func (t *timeline) svg() []byte {
	c := &canvas{timeline: t}
	c.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	c.draw(fmt.Sprintf(`width="%d" viewBox="0 0 %d %.0f" style="max-width:100%%;height:auto"`, svgWidth, svgWidth, t.height()))
	return c.Bytes()
}

func (t *timeline) height() float64 {
	h := svgTop + svgAxis + svgLegend*float64(2+(min(len(t.parties), mostColour+1)+2)/3)
	for _, r := range t.rows {
		h += r.height()
	}
	if len(t.rows) == 0 {
		h += svgBar
	}
	return h
}

func (r *timelineRow) height() float64 {
	return svgName + float64(r.lanes)*(svgLane+1) + svgBar + svgGap
}

// draw draws all of it, with the root's own attributes.
func (c *canvas) draw(size string) {
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" class="wl" role="img" aria-labelledby="wl-title wl-desc" height="%.0f" %s>`, c.height(), size)
	c.add(`<title id="wl-title">%s</title>`, svgText(c.title(), 200))
	c.add(`<desc id="wl-desc">%s</desc>`, svgText(c.description(), 4000))
	c.add("<style>%s</style>", svgStyle)
	c.WriteString(svgMarks)
	c.add(`<text class="h" x="%s" y="26">%s</text>`, x(0), "Who held what")
	c.add(`<text class="m" x="%s" y="44">%s</text>`, x(0), svgText(c.span(), 100))
	y, bottom := svgTop, c.height()-svgAxis-svgLegend*float64(2+(min(len(c.parties), mostColour+1)+2)/3)
	c.axis(bottom)
	for i := range c.rows {
		c.row(&c.rows[i], y)
		y += c.rows[i].height()
	}
	if len(c.rows) == 0 {
		c.add(`<text class="m" x="%s" y="%.0f">Nothing was held.</text>`, x(0), y+svgBar/2)
	}
	c.legend(bottom + svgAxis)
	c.add("</svg>")
}

func (c *canvas) title() string { return "Who held what: " + c.span() }

func (t *timeline) span() string {
	return t.from.Local().Format("2 Jan 2006 15:04") + " to " + t.to.Local().Format("2 Jan 2006 15:04 MST")
}

func (c *canvas) description() string {
	var parts []string
	for _, r := range c.rows {
		parts = append(parts, fmt.Sprintf("%s: held %.1f%% of the time, %s.", r.resource, r.figures.Utilisation*100, r.figures.counts()))
	}
	return strings.Join(append(parts, "A row is a resource, a bar is a time that somebody held it, and a thin bar above it is the wait for it."), " ")
}

// axis draws the time, and a line at each tick through the rows.
func (c *canvas) axis(bottom float64) {
	var day string
	for _, t := range ticks(c.from, c.to) {
		at := c.at(t)
		c.add(`<line class="g" x1="%[1]s" x2="%[1]s" y1="%[2]g" y2="%[3]g"/>`, x(at), svgTop, bottom+4)
		anchor := "middle"
		if at < 0.02 {
			anchor = "start"
		} else if at > 0.98 {
			anchor = "end"
		}
		d := t.Local().Format("2 Jan")
		label := t.Local().Format("15:04")
		if label == "00:00" {
			label, day = d, d
		}
		c.add(`<text class="m" text-anchor="%s" x="%s" y="%g">%s</text>`, anchor, x(at), bottom+18, label)
		if d != day {
			c.add(`<text class="m" text-anchor="%s" x="%s" y="%g">%s</text>`, anchor, x(at), bottom+33, d)
		}
		day = d
	}
}

// ticks are round local times in a span, no more than nine.
func ticks(from, to time.Time) (ts []time.Time) {
	const most = 9
	minutes := []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720}
	whole := to.Sub(from).Minutes()
	l := from.Local()
	for _, step := range minutes {
		if whole/float64(step) < most {
			for m := 0; len(ts) < 2*most; m += step { // by the local clock, whatever summer time does
				first := (l.Hour()*60 + l.Minute()) / step * step
				t := time.Date(l.Year(), l.Month(), l.Day(), 0, first+m, 0, 0, time.Local)
				if t.After(to) {
					break
				}
				if !t.Before(from) && (len(ts) == 0 || t.After(ts[len(ts)-1])) {
					ts = append(ts, t)
				}
			}
			return ts
		}
	}
	step := max(int(math.Ceil(whole/60/24/most)), 1) // days
	for d := 0; ; d += step {
		t := time.Date(l.Year(), l.Month(), l.Day()+d, 0, 0, 0, 0, time.Local)
		if t.After(to) {
			return ts
		}
		if !t.Before(from) {
			ts = append(ts, t)
		}
	}
}

// row draws one resource.
func (c *canvas) row(r *timelineRow, y float64) {
	c.add(`<text class="n" x="%s" y="%g">%s <tspan class="m" font-weight="400">%s</tspan></text>`, x(0), y+13,
		svgText(r.resource, 40), svgText(fmt.Sprintf("held %.1f%% of the time, %s", r.figures.Utilisation*100, r.figures.counts()), 100))
	y += svgName
	for _, b := range r.waits {
		c.add(`<rect class="w" x="%s" width="%s" y="%g" height="%g"><title>%s</title></rect>`, x(b.begin), width(b.end-b.begin),
			y+float64(r.lanes-1-b.lane)*(svgLane+1), svgLane, svgText(fmt.Sprintf("%s waited for %s: %s", showAt(b.By, 60), span(b.Waited), showAt(b.Purpose, 100)), 250))
	}
	y += float64(r.lanes) * (svgLane + 1)
	c.add(`<rect class="r" x="%s" width="%s" y="%g" height="%g"/>`, x(0), width(1), y, svgBar)
	for _, b := range r.bars {
		c.add(`<rect class="c%s" x="%s" width="%s" y="%g" height="%g" rx="2"><title>%s</title></rect>`,
			c.colour(b.By), x(b.begin), width(max(b.end-b.begin, 1e-3)), y, svgBar, svgText(b.told(c.to), 500))
		c.label(&b, y)
	}
	for _, b := range r.marks { // above all bars
		mark := [...]string{StillHeld: "held", HasCrashed: "crash", WasForced: "force", EndUnknown: "lost"}[b.Ending]
		c.add(`<use href="#wl-%s" x="%s" y="%g"><title>%s</title></use>`, mark, x(b.end), y+svgBar/2, svgText(b.told(c.to), 500))
	}
}

// colour is the class of a party's colour.
func (c *canvas) colour(party string) string {
	if i := slices.Index(c.parties, party); i >= 0 && i < mostColour {
		return fmt.Sprint(i)
	}
	return ""
}

// label names a bar where there is room: the party and the purpose, or the party.
func (c *canvas) label(b *bar, y float64) {
	if b.n > 1 {
		return
	}
	room := int((b.end-b.begin)*svgAssumed*(1-2*svgSide/100)) - 20
	for _, text := range []string{showAt(b.By, 40) + ": " + showAt(b.Purpose, 60), showAt(b.By, 40)} {
		if textWidth(text) <= room {
			c.add(`<svg x="%s" y="%g" overflow="visible"><text class="l" x="5" y="16">%s</text></svg>`, x(b.begin), y, svgText(text, 110))
			return
		}
	}
}

// textWidth is about how wide a text is in pixels, rather too much than too
// little: the font isn't known.
func textWidth(s string) (w int) {
	for _, r := range s {
		if r >= 0x1100 {
			w += 13 // as wide as it is high
		} else {
			w += 7
		}
	}
	return w
}

// legend explains the marks, and whose the colours are.
func (c *canvas) legend(y float64) {
	at := func(i int) string { return fmt.Sprintf("%.2f%%", svgSide+float64(i)*(100-2*svgSide)/6) }
	item := func(i int, mark, text string) {
		c.add(`<svg x="%s" y="%g" overflow="visible">%s<text class="m" x="20" y="14">%s</text></svg>`, at(i), y, mark, text)
	}
	item(0, `<rect class="c" width="14" height="12" y="4" rx="2"/>`, "held")
	item(1, `<rect class="w" width="14" height="5" y="8"/>`, "waited")
	item(2, `<use href="#wl-crash" x="7" y="10"/>`, "crashed")
	item(3, `<use href="#wl-force" x="7" y="10"/>`, "taken away")
	item(4, `<use href="#wl-held" x="7" y="10"/>`, "still held")
	item(5, `<use href="#wl-lost" x="7" y="10"/>`, "end unknown")
	for i, p := range c.parties {
		name := p
		if i == mostColour {
			name = plural(len(c.parties)-mostColour, "other", "others")
		}
		if i > mostColour {
			break
		}
		c.add(`<svg x="%s" y="%g" overflow="visible"><rect class="c%s" width="14" height="12" y="4" rx="2"/><text class="m" x="20" y="14">%s</text></svg>`,
			at(i%3*2), y+svgLegend*float64(1+i/3), c.colour(p), svgText(name, 26))
	}
}
