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
	"unsafe"
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
//
// A process reads the document once or twice and is young: what costs it most
// is memory that it has not used before. So nothing is copied.
type decoder struct {
	doc  []byte
	text string // the same bytes, of which strings are cut
}

// SyntaxError says what is wrong in a document, and at which byte.
type SyntaxError struct {
	Offset int64 // from 0
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason)
}

// offset is where a value begins.
func (d *decoder) offset(raw []byte) int { return cap(d.doc) - cap(raw) }

func (d *decoder) fail(raw []byte, format string, args ...any) error {
	return &SyntaxError{Offset: int64(d.offset(raw)), Reason: fmt.Sprintf(format, args...)}
}

// newDecoder checks the syntax of a whole document, which must not change from
// then on: what is read of it lies in it.
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
	return &decoder{doc, unsafe.String(unsafe.SliceData(doc), len(doc))}, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// value cuts the first value off valid JSON.
func value(b []byte) (raw, rest []byte) {
	n := 0
	switch b[0] {
	case '"':
		n = stringLen(b)
	case '{', '[':
		n = bracketLen(b)
	default: // a number or word ends at a space, or at what belongs to its parent
		for n < len(b) && b[n] > ' ' && b[n] != ',' && b[n] != '}' && b[n] != ']' {
			n++
		}
	}
	return b[:n], b[n:]
}

// stringLen is how long the string is that b begins with.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// bracketLen is how long the object or array is that b begins with.
func bracketLen(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// An object is read member by member.
type object struct {
	d   *decoder
	raw []byte // from its first member on; nothing when there is none
}

func (d *decoder) object(raw []byte, what string) (object, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return object{}, d.fail(raw, "%s is not an object", what)
	}
	return object{d, skipSpace(raw[1:])}, nil
}

// members yields the members in order.
func (o object) members(yield func(member) bool) {
	for b := o.raw; len(b) > 0 && b[0] != '}'; {
		name, rest := value(b)
		key, err := o.d.string(name, "a member's name")
		if err != nil {
			panic(err) // the syntax has been checked, and every string can be read
		}
		v, rest := value(skipSpace(skipSpace(rest)[1:]))
		if !yield(member{key, name, v}) {
			return
		}
		b = nextElement(rest)
	}
}

// nextElement skips what separates an element from the next.
func nextElement(b []byte) []byte {
	if b = skipSpace(b); b[0] == ',' {
		b = skipSpace(b[1:])
	}
	return b
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
		b = nextElement(rest)
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
		at := d.offset(raw)
		return d.text[at+1 : at+len(raw)-1], nil
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
	written := Writable(t)
	if err != nil || !written.Equal(t) { // what is written must be read again
		return time.Time{}, d.fail(raw, "%s is not a time as RFC 3339 has it", what)
	}
	return written, nil
}

// Writable is a time that was read, as it can be written: in UTC, and in one of
// its years 0 to 9999, the nearest. Package time reads offsets of 24 hours and
// more, and encoding/json refuses to write what it has read.
func Writable(t time.Time) time.Time {
	switch t = t.UTC(); {
	case t.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case t.Year() > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// appendQuoted appends s as JSON.
func appendQuoted(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return appendEscaped(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

func appendEscaped(b []byte, s string) []byte {
	var q bytes.Buffer
	e := json.NewEncoder(&q)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return append(b, `""`...) // a string always encodes
	}
	// What encoding/json leaves as it is, and a terminal obeys.
	for _, r := range strings.TrimSuffix(q.String(), "\n") {
		if 0x7f <= r && r <= 0x9f || unicode.Is(unicode.Bidi_Control, r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
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
	o.b = appendQuoted(o.b, v)
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
	e.b = append(appendQuoted(e.b, key), ':')
}

func (e *encoder) string(key, v string) {
	if v != "" {
		e.name(key)
		e.b = appendQuoted(e.b, v)
	}
}

func (e *encoder) strings(key string, vs []string) {
	if len(vs) == 0 {
		return
	}
	e.name(key)
	for i, v := range vs {
		e.b = appendQuoted(append(e.b, "[,"[min(i, 1)]), v)
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
