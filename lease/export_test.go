package lease

import "withlease/state"

// The tests are outside the package; this is what they see of its inside.

// AtStep has f called at each step of the protocol.
func AtStep(f func(name string)) { atStep = f }

func (h Holder) Encode() []byte   { return h.encode() }
func (p *Process) Encode() []byte { return p.encode() }

func WholeMembers(b []byte) []byte { return wholeMembers(b) }
func StartTime(pid int) uint64     { return startTime(pid) }
func BootID() string               { return thisMachine().bootID }
func MachineID() string            { return thisMachine().machineID }

func IndexLine(n int64, p state.Party) string { return indexLine(n, p) }

func (b *Base) Parties(res string) map[int64]state.Party {
	index := map[int64]state.Party{}
	for n, line := range b.indexLines(res) {
		if _, who, ok := parseIndexLine(line); ok {
			index[n] = who
		}
	}
	return index
}

// Survivors are the processes that a run with that token leaves.
func Survivors(token string) []Member { return survivors(&Process{Token: token}) }
