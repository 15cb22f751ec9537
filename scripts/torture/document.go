//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// What the other tool adds must come back to it unchanged, a number included that no float64 holds.
const big = "9007199254740993123"

// otherTool replaces the state document now and then, under its lock, and adds members that withlease doesn't know.
func (t *torture) otherTool(r *rand.Rand) {
	for !t.isOver() {
		t.pause(time.Duration(50+r.IntN(400)) * time.Millisecond)
		if err := t.rewrite(); err != nil {
			t.violation("the other tool: %v", err)
		}
	}
}

func (t *torture) rewrite() error {
	lock, err := os.OpenFile(filepath.Join(t.base, "state.lock"), os.O_RDWR, 0)
	if err != nil {
		return nil // nobody has made it yet
	}
	defer lock.Close()
	for {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err == nil {
			break
		} else if err != unix.EINTR {
			return err
		}
	}
	doc, err := t.readDocument()
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.document++
	n := t.document
	t.mu.Unlock()
	doc["torture"] = map[string]any{"n": n, "big": json.Number(big)}
	for _, list := range []string{"grants", "holds"} {
		entries, _ := doc[list].([]any)
		for _, e := range entries {
			e.(map[string]any)["torture"] = json.Number(big)
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	path := filepath.Join(t.base, "state.json")
	if err := os.WriteFile(path+".other", text, 0o600); err != nil {
		return err
	}
	t.count("another tool's write")
	return os.Rename(path+".other", path)
}

// readDocument reads the document, and checks what the other tool wrote there.
func (t *torture) readDocument() (map[string]any, error) {
	doc := map[string]any{}
	text, err := os.ReadFile(filepath.Join(t.base, "state.json"))
	if err != nil {
		return doc, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || d.More() {
		return nil, fmt.Errorf("the document is none: %v: %q", err, text)
	}
	t.mu.Lock()
	last := t.document
	t.mu.Unlock()
	ours, _ := doc["torture"].(map[string]any)
	if last > 0 && (fmt.Sprint(ours["n"]) != fmt.Sprint(last) || fmt.Sprint(ours["big"]) != big) {
		return nil, fmt.Errorf("write %d of another tool is lost: the document has %v", last, doc["torture"])
	}
	return doc, nil
}

func (t *torture) mustBeJSON(what, text string) {
	if !json.Valid([]byte(text)) {
		t.violation("%s --json printed %q", what, text)
	}
}
