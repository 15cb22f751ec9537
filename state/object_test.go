package state_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"withlease/state"
)

// What an Object writes by hand is what encoding/json reads.
func TestObject(t *testing.T) {
	o := state.NewObject()
	if got := string(o.Line()); got != "{}\n" {
		t.Errorf("an empty object is %q", got)
	}
	o = state.NewObject()
	o.StringIf("none", "")
	o.Strings("none", nil)
	o.String("empty", "")
	o.StringIf("text", hostile)
	o.Int("zero", 0)
	o.Int("int", -1<<63)
	o.Float("float", 1e-9)
	o.Float("whole", 60)
	o.Strings("list", []string{"", hostile})
	o.Object("empty object", state.NewObject())
	in := state.NewObject()
	in.Int("a", 1)
	in.String(hostile, "b")
	o.Object("object", in)
	o.Int("last", 1<<63-1)
	line := o.Line()
	text := string(line)
	if text[len(text)-1] != '\n' || len(text) < 2 {
		t.Errorf("%q is no line", text)
	}
	for _, r := range text[:len(text)-1] {
		if r < ' ' || 0x7f <= r && r <= 0x9f {
			t.Errorf("U+%04X in %q", r, text)
		}
	}
	var got map[string]any
	d := json.Unmarshal(line, &got)
	if d != nil {
		t.Fatalf("%v in %s", d, line)
	}
	h := toUTF8(hostile)
	want := map[string]any{"empty": "", "text": h, "zero": 0.0, "int": -0x1p63, "float": 1e-9, "whole": 60.0, "list": []any{"", h},
		"empty object": map[string]any{}, "object": map[string]any{"a": 1.0, h: "b"}, "last": 0x1p63}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
