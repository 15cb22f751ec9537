package run

import "fmt"

// mostListed is how many uses the page's table has.
const mostListed = 1000

const pageStyle = `body{margin:0;padding:1em;font:14px system-ui,sans-serif;background:#fff;color:#1f2328}
table{border-collapse:collapse;margin:1.5em 2%;width:96%}th,td{text-align:left;padding:.3em .8em .3em 0;border-bottom:1px solid #d8dee4;vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;white-space:nowrap}td.t{white-space:nowrap;font-variant-numeric:tabular-nums}p{margin:1em 2%}div{overflow-x:auto}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,td{border-color:#30363d}}`

// page is the picture in a page of its own, as wide as that is, with the uses in
// a table. It is well-formed XML too.
func (t *timeline) page() []byte {
	c := &canvas{timeline: t}
	c.add(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width,initial-scale=1"/><meta name="color-scheme" content="light dark"/>
<title>%s</title>
<style>%s</style></head><body>`, svgText(c.title(), 200), pageStyle)
	c.draw(`width="100%"`)
	c.add(`<div><table><thead><tr><th>Resource</th><th>Who</th><th>Purpose</th><th>When</th><th>Waited</th><th>Held</th><th>Outcome</th></tr></thead><tbody>`)
	for _, u := range t.uses[:min(len(t.uses), mostListed)] {
		held := ""
		switch {
		case u.Ending == StillHeld:
			held = span(t.to.Sub(u.Claimed))
		case u.Held > 0:
			held = span(u.Held)
		}
		waited := ""
		if u.Waited > 0 {
			waited = span(u.Waited)
		}
		who := showAt(u.By, 60)
		if u.Session != "" && u.Session != u.By {
			who += " (" + showAt(u.Session, 40) + ")"
		}
		c.add(`<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td class="t">%s</td><td class="t">%s</td><td>%s</td></tr>`,
			svgText(u.Resource, 128), svgText(who, 120), svgText(u.Purpose, 200), svgText(u.when(), 60), waited, held, svgText(u.outcome(), 200))
	}
	c.add("</tbody></table></div>")
	if n := len(t.uses); n > mostListed {
		c.add("<p>%s</p>", fmt.Sprintf("The newest %d of %d uses.", mostListed, n))
	}
	c.add("</body></html>")
	return c.Bytes()
}
