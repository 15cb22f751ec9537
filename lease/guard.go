package lease

import (
	"encoding/json"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// GuardRule says which commands need a resource's lease: those of its programs
// and, where it has args, with one of them somewhere in their words.
type GuardRule struct {
	Resource string   `json:"resource"`
	Programs []string `json:"programs"`
	Args     []string `json:"args,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

// maxGuard is how large a file of rules may be, in bytes.
const maxGuard = 1 << 20

// ReadGuard reads a file of rules. It follows no link. The error is an
// *fs.PathError: fs.ErrNotExist when there is no file, and otherwise also of a
// file that is no regular one, is too large, or has no rules that make sense.
func ReadGuard(path string) ([]GuardRule, error) {
	text, err := readFile(path, unix.O_RDONLY, maxGuard+1)
	if err != nil {
		return nil, err
	}
	broken := func(format string, args ...any) ([]GuardRule, error) {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf(format, args...)}
	}
	if len(text) > maxGuard {
		return broken("it has more than the %d bytes that rules may have", maxGuard)
	}
	var file struct {
		Rules []GuardRule `json:"rules"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return broken("no rules: %w", err)
	}
	for i, r := range file.Rules {
		if err := CheckName(r.Resource); err != nil {
			return broken("rule %d: %v", i+1, err)
		}
		if len(r.Programs) == 0 {
			return broken("rule %d names no programs", i+1)
		}
	}
	return file.Rules, nil
}
