package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The document is shared with other tools, so what this program doesn't know
// must come through a rewrite unchanged, at every level and to the last digit
// of a number. encoding/json can't do that (it drops unknown members, and it
// takes "GRANTS" for "grants"), so objects are cut into members here; the
// syntax is encoding/json's business, and values are decoded by it wherever
// they are more than a plain string or number.

// member is one member of an object. raw is a part of the document.
type member struct {
	key  string
	name []byte // key as the document spells it
	raw  []byte
}

// unknown keeps the members that this program doesn't know, ready to be
// written back: `,"a":1,"b":{}`. A string, so that what holds it can be
// compared.
type unknown string

// extra gathers the unknown members of one object.
type extra []byte

func (x *extra) keep(m member) {
	*x = append(append(append(append(*x, ','), m.name...), ':'), m.raw...)
}

// A decoder reads one document. It knows where it is by how much of the
// document lies behind a value, so a value must be an unmodified slice of it.
type decoder struct {
	doc []byte
}

// SyntaxError says what is wrong in a document, and at which byte.
type SyntaxError struct {
	Offset int64 // from 0
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason)
}

func (d *decoder) fail(raw []byte, format string, args ...any) error {
	return &SyntaxError{Offset: int64(cap(d.doc) - cap(raw)), Reason: fmt.Sprintf(format, args...)}
}

// newDecoder checks the syntax of a whole document.
func newDecoder(doc []byte) (*decoder, error) {
	doc = doc[:len(doc):len(doc)]
	if !json.Valid(doc) {
		e := &SyntaxError{Reason: "not a JSON document"}
		// A NUL is JSON nowhere: with one behind it, a document that ends too
		// early is wrong at a byte like any other. encoding/json counts from 1.
		if err, ok := json.Unmarshal(append(doc, 0), new(json.RawMessage)).(*json.SyntaxError); ok {
			e.Offset, e.Reason = err.Offset-1, err.Error()
			if e.Offset == int64(len(doc)) {
				e.Reason = "unexpected end of JSON input"
			}
		}
		return nil, e
	}
	if !utf8.Valid(doc) { // encoding/json would read U+FFFD, and we write that
		at := 0
		for r, n := utf8.DecodeRune(doc); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(doc[at:]) {
			at += n
		}
		return nil, &SyntaxError{int64(at), "not UTF-8"}
	}
	return &decoder{doc}, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// value cuts the first value off valid JSON.
func value(b []byte) (raw, rest []byte) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
				if depth == 0 {
					return b[:i+1], b[i+1:]
				}
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return b[:i], b[i:] // a number or word ends at its parent's bracket
			}
			if depth--; depth == 0 {
				return b[:i+1], b[i+1:]
			}
		case depth == 0 && (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// object cuts an object into its members, in order.
func (d *decoder) object(raw []byte, what string) ([]member, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, d.fail(raw, "%s is not an object", what)
	}
	var ms []member
	for b := skipSpace(raw[1:]); b[0] != '}'; {
		k, rest := value(b)
		key, err := d.string(k, "a member's name")
		if err != nil {
			return nil, err
		}
		v, rest := value(skipSpace(skipSpace(rest)[1:]))
		ms = append(ms, member{key, k, v})
		if b = skipSpace(rest); b[0] == ',' {
			b = skipSpace(b[1:])
		}
	}
	return ms, nil
}

// array cuts an array into its elements.
func (d *decoder) array(raw []byte, what string) ([][]byte, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '[' {
		return nil, d.fail(raw, "%s is not a list", what)
	}
	var es [][]byte
	for b := skipSpace(raw[1:]); b[0] != ']'; {
		v, rest := value(b)
		es = append(es, v)
		if b = skipSpace(rest); b[0] == ',' {
			b = skipSpace(b[1:])
		}
	}
	return es, nil
}

// string reads a string; null is an empty one.
func (d *decoder) string(raw []byte, what string) (string, error) {
	if string(raw) == "null" {
		return "", nil
	}
	if len(raw) == 0 || raw[0] != '"' {
		return "", d.fail(raw, "%s is not a string", what)
	}
	if bytes.IndexByte(raw, '\\') < 0 && ascii(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", d.fail(raw, "%s: %v", what, err)
	}
	return s, nil
}

// int reads a whole number; null is 0.
func (d *decoder) int(raw []byte, what string) (int, error) {
	if string(raw) == "null" {
		return 0, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0, d.fail(raw, "%s is not a whole number", what)
	}
	return n, nil
}

// time reads RFC 3339; an empty string and null are no time.
func (d *decoder) time(raw []byte, what string) (time.Time, error) {
	if string(raw) == "null" || string(raw) == `""` {
		return time.Time{}, nil
	}
	s, err := d.string(raw, what)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, s)
	if y := t.UTC().Year(); err != nil || y < 0 || y > 9999 { // what is written must be read again
		return time.Time{}, d.fail(raw, "%s is not a time as RFC 3339 has it", what)
	}
	return t, nil
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// quote is s as JSON.
func quote(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return `"` + s + `"`
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	// What encoding/json leaves as it is, and a terminal obeys.
	var q strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if 0x7f <= r && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&q, `\u%04x`, r)
		} else {
			q.WriteRune(r)
		}
	}
	return q.String()
}

// An Object writes the members of a JSON object by hand, as a record is written
// in every run: reflection costs a short run more than the write. Empty values
// are left out.
type Object struct {
	encoder
}

// NewObject begins an object.
func NewObject() *Object { return &Object{encoder{append(make([]byte, 0, 512), '{')}} }

// String writes a member that may not be left out.
func (o *Object) String(key, v string) {
	o.name(key)
	o.b = append(o.b, quote(v)...)
}

// StringIf writes a member unless it is empty.
func (o *Object) StringIf(key, v string) { o.string(key, v) }

// Int writes a whole number that may not be left out.
func (o *Object) Int(key string, v int64) {
	o.name(key)
	o.b = strconv.AppendInt(o.b, v, 10)
}

// Float writes a number that may not be left out.
func (o *Object) Float(key string, v float64) {
	o.name(key)
	o.b = strconv.AppendFloat(o.b, v, 'f', -1, 64)
}

// Strings writes a list unless it is empty.
func (o *Object) Strings(key string, vs []string) { o.strings(key, vs) }

// Object writes an object as a member.
func (o *Object) Object(key string, v *Object) {
	o.name(key)
	o.b = append(append(o.b, v.b...), '}')
}

// Line ends the object: it is one line of text.
func (o *Object) Line() []byte { return append(o.b, "}\n"...) }

// An encoder writes the members of an object. Empty values are left out.
type encoder struct {
	b []byte
}

func (e *encoder) name(key string) {
	if n := len(e.b); n > 0 && e.b[n-1] != '{' && e.b[n-1] != '\n' {
		e.b = append(e.b, ',')
	}
	e.b = append(append(e.b, quote(key)...), ':')
}

func (e *encoder) string(key, v string) {
	if v != "" {
		e.name(key)
		e.b = append(e.b, quote(v)...)
	}
}

func (e *encoder) strings(key string, vs []string) {
	if len(vs) == 0 {
		return
	}
	e.name(key)
	for i, v := range vs {
		e.b = append(append(e.b, "[,"[min(i, 1)]), quote(v)...)
	}
	e.b = append(e.b, ']')
}

func (e *encoder) int(key string, v int) {
	if v != 0 {
		e.name(key)
		e.b = strconv.AppendInt(e.b, int64(v), 10)
	}
}

func (e *encoder) time(key string, v time.Time) {
	if !v.IsZero() {
		e.name(key)
		e.b = append(v.UTC().AppendFormat(append(e.b, '"'), time.RFC3339Nano), '"')
	}
}

func (e *encoder) rest(u unknown) {
	if u == "" {
		return
	}
	if n := len(e.b); n > 0 && (e.b[n-1] == '{' || e.b[n-1] == '\n') {
		u = u[1:]
	}
	e.b = append(e.b, u...)
}
