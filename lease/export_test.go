package lease

// The tests are outside the package; this is what they see of its inside.

// AtStep has f called at each step of the protocol.
func AtStep(f func(name string)) { atStep = f }

func (h Holder) Encode() []byte   { return h.encode() }
func (p *Process) Encode() []byte { return p.encode() }

func StartTime(pid int) uint64 { return startTime(pid) }
func BootID() string           { return thisMachine().bootID }
func MachineID() string        { return thisMachine().machineID }
