package run

import "strings"

// The guard needs to know which programs a shell command starts, not what they
// will do: a splitter, no parser. It never fails. What it takes for a command
// and is none (a word of an array) costs a refusal at worst; what it doesn't see
// (a program named by a variable) passes.

// simple is a simple command of a shell. raw are its words as they are written,
// words the same without their quotes; redirections are not among them.
type simple struct {
	words, raw []string
}

// deepest is how deep substitutions and subshells are looked into: a stack that
// overflows can't be recovered from.
const deepest = 50

// splitShell finds the simple commands of a script, those in substitutions
// before the ones around them.
func splitShell(script string) []simple {
	p := &splitter{text: script}
	for p.pos < len(p.text) {
		p.list(false)
	}
	return p.found
}

type splitter struct {
	text  string
	pos   int
	depth int
	found []simple

	here       []hereDoc
	arithmetic int // in $((...)), where << shifts
}

// hereDoc is a here-document whose body begins behind the next newline.
type hereDoc struct {
	end    string
	tabs   bool // <<- drops those in front
	quoted bool
}

// line is the command that is being read.
type line struct {
	simple
	word   strings.Builder
	begin  int // where the word begins
	at     int // where the character is that is looked at
	inWord bool
	skip   bool     // the next word is a redirection's
	here   *hereDoc // or the end of this here-document
}

// list reads commands up to the end of the text, or to the parenthesis that
// closes them.
func (p *splitter) list(nested bool) {
	if p.depth++; p.depth > deepest {
		p.pos = len(p.text)
	}
	defer func() { p.depth-- }()
	l := &line{}
	for p.pos < len(p.text) {
		if l.at = p.pos; !l.inWord {
			l.begin = p.pos
		}
		c := p.text[p.pos]
		p.pos++
		switch c {
		case ' ', '\t', '\r':
			p.endWord(l)
		case '\n':
			p.end(l)
			p.bodies()
		case ';', '|':
			p.end(l)
		case '&':
			if p.next() == '>' {
				p.endWord(l)
				continue
			}
			p.end(l)
		case '(':
			p.end(l)
			p.group()
		case ')':
			p.end(l)
			if nested {
				return
			}
		case '<', '>':
			p.redirect(l, c)
		case '#':
			if !l.inWord {
				p.comment()
				continue
			}
			l.word.WriteByte(c)
		default:
			if c == '\\' && p.next() == '\n' && !l.inWord {
				p.pos++ // the line goes on
				continue
			}
			l.inWord = true
			p.char(&l.word, c)
		}
	}
	l.at = p.pos
	p.end(l)
}

// next is the character that comes, 0 at the end.
func (p *splitter) next() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// skipped passes over a character, if it comes.
func (p *splitter) skipped(c byte) bool {
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// endWord ends the word that is being read, if one is.
func (p *splitter) endWord(l *line) {
	if !l.inWord {
		return
	}
	raw, word := p.text[l.begin:l.at], l.word.String()
	switch {
	case l.here != nil:
		l.here.end, l.here.quoted = word, raw != word
		p.here = append(p.here, *l.here)
	case !l.skip:
		l.words, l.raw = append(l.words, word), append(l.raw, raw)
	}
	l.word.Reset()
	l.inWord, l.skip, l.here = false, false, nil
}

func (p *splitter) end(l *line) {
	p.endWord(l)
	if len(l.words) > 0 {
		p.found = append(p.found, l.simple)
	}
	*l = line{}
}

func (p *splitter) comment() {
	for p.pos < len(p.text) && p.text[p.pos] != '\n' {
		p.pos++
	}
}

// group reads on behind the parenthesis that opens a subshell or a substitution.
func (p *splitter) group() {
	if p.next() == '(' {
		p.arithmetic++
		defer func() { p.arithmetic-- }()
	}
	p.list(true)
}

// redirect reads a redirection's operator. The word behind it is no argument,
// and a number before it is no word.
func (p *splitter) redirect(l *line, c byte) {
	if strings.Trim(l.word.String(), "0123456789") == "" {
		l.word.Reset()
		l.inWord = false
	}
	p.endWord(l)
	switch {
	case p.skipped('('): // <(...)
		p.group()
		l.skip = false
		return
	case c == '<' && p.arithmetic == 0 && p.skipped('<'):
		if !p.skipped('<') { // <<< takes a word
			l.here = &hereDoc{tabs: p.skipped('-')}
			return
		}
	default:
		for strings.IndexByte("<>&|", p.next()) >= 0 && p.pos < len(p.text) {
			p.pos++
		}
	}
	l.skip = true
}

// bodies passes over the here-documents that begin here. What they substitute
// is run all the same.
func (p *splitter) bodies() {
	here := p.here
	p.here = nil
	for _, h := range here {
		begin := p.pos
		for p.pos < len(p.text) {
			at := p.pos
			text, _, whole := strings.Cut(p.text[p.pos:], "\n")
			if p.pos += len(text); whole {
				p.pos++
			}
			if h.tabs {
				text = strings.TrimLeft(text, "\t")
			}
			if text == h.end {
				p.body(p.text[begin:at], h)
				begin = -1
				break
			}
		}
		if begin >= 0 {
			p.body(p.text[begin:], h)
		}
	}
}

func (p *splitter) body(text string, h hereDoc) {
	if h.quoted {
		return
	}
	in := &splitter{text: text, depth: p.depth}
	var word strings.Builder
	for in.pos < len(in.text) {
		in.double(&word, "")
	}
	p.found = append(p.found, in.found...)
}

// char adds what a character of a word stands for.
func (p *splitter) char(word *strings.Builder, c byte) {
	switch c {
	case '\\':
		if p.pos < len(p.text) && !p.skipped('\n') {
			word.WriteByte(p.next())
			p.pos++
		}
	case '\'':
		text, _, whole := strings.Cut(p.text[p.pos:], "'")
		word.WriteString(text)
		if p.pos += len(text); whole {
			p.pos++
		}
	case '"':
		p.double(word, `"`)
	case '$':
		p.dollar(word, false)
	case '`':
		p.backquoted(word)
	default:
		word.WriteByte(c)
	}
}

// double reads what stands in double quotes, to its end.
func (p *splitter) double(word *strings.Builder, end string) {
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		switch {
		case end != "" && c == end[0]:
			return
		case c == '\\':
			if p.skipped('\n') {
				continue
			}
			if strings.IndexByte("$`\"\\", p.next()) < 0 || p.pos == len(p.text) {
				word.WriteByte(c)
				continue
			}
			word.WriteByte(p.next())
			p.pos++
		case c == '$':
			p.dollar(word, true)
		case c == '`':
			p.backquoted(word)
		default:
			word.WriteByte(c)
		}
	}
}

// dollar reads an expansion. The commands in it count; what it gives isn't
// known, so the word has it as it is written.
func (p *splitter) dollar(word *strings.Builder, quoted bool) {
	begin := p.pos - 1
	switch c := p.next(); {
	case c == '(':
		p.pos++
		p.group()
	case c == '{':
		p.pos++
		p.braces(quoted)
	case c == '\'' && !quoted:
		p.pos++
		p.ansi(word)
		return
	case c == '"' && !quoted:
		return // $"..." is translated
	}
	word.WriteString(p.text[begin:p.pos])
}

// braces reads ${...} behind its brace.
func (p *splitter) braces(quoted bool) {
	if p.depth++; p.depth > deepest {
		p.pos = len(p.text)
	}
	defer func() { p.depth-- }()
	var dropped strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		switch {
		case c == '}':
			return
		case c == '\'' && quoted: // no quote there
		case c == '$':
			p.dollar(&dropped, quoted)
		default:
			p.char(&dropped, c)
		}
	}
}

// ansi reads $'...' behind its quote. Of the escapes only those of quotes and
// backslashes are understood.
func (p *splitter) ansi(word *strings.Builder) {
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		if c == '\'' {
			return
		}
		if c == '\\' && p.pos < len(p.text) {
			c = p.text[p.pos]
			p.pos++
		}
		word.WriteByte(c)
	}
}

// backquoted reads a substitution behind its first backquote.
func (p *splitter) backquoted(word *strings.Builder) {
	begin := p.pos - 1
	var script strings.Builder
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		if c == '`' {
			break
		}
		if c == '\\' && p.pos < len(p.text) && strings.IndexByte("$`\\", p.text[p.pos]) >= 0 {
			c = p.text[p.pos]
			p.pos++
		}
		script.WriteByte(c)
	}
	word.WriteString(p.text[begin:p.pos])
	in := &splitter{text: script.String(), depth: p.depth}
	in.list(false)
	p.found = append(p.found, in.found...)
}
