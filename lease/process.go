package lease

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"withlease/state"
)

// Process is process.json: which run a lease belongs to. Pids are for people
// and for `release --kill`, never for the question whether a holder lives.
type Process struct {
	PID       int      `json:"pid"`
	Start     uint64   `json:"start,omitempty"` // clock ticks since boot, as /proc/PID/stat has it
	BootID    string   `json:"bootId,omitempty"`
	MachineID string   `json:"machineId,omitempty"`
	PIDNS     uint64   `json:"pidNS,omitempty"` // the inode of the PID namespace that PID is of
	Host      string   `json:"host,omitempty"`
	Token     string   `json:"token"`
	Fence     int64    `json:"fence"`
	TTL       float64  `json:"ttl"` // seconds
	Command   []string `json:"command,omitempty"`
	// Child is the command's process, noted once it runs.
	Child *PID `json:"child,omitempty"`
	// Forks is how many tasks this boot had made when the run began: it says
	// whether pids have come round since.
	Forks uint64 `json:"forks,omitempty"`
}

// shortened is as much of a command line as a record can keep: the kernel takes
// some megabytes, and more than maxRecord is not read.
func shortened(argv []string) []string {
	left := maxRecord / 16 // as JSON a byte may take six
	for i, arg := range argv {
		if left -= len(arg) + 3; left < 0 {
			return append(argv[:i:i], "...")
		}
	}
	return argv
}

// thisProcess is what a record says of this process.
func thisProcess() Process {
	here := thisMachine()
	pid := unix.Getpid()
	return Process{
		PID: pid, Start: startTime(pid), PIDNS: pidNamespace(),
		BootID: here.bootID, MachineID: here.machineID, Host: here.host,
	}
}

// PID is one process of this boot, by pid and start time.
type PID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start,omitempty"`
}

// Reused says whether the wrapper's pid is another process's now.
func (p *Process) Reused() bool {
	start := startTime(p.PID)
	return p.here() && p.Start > 0 && start > 0 && start != p.Start
}

// maxRecord is how much of a record is read, in bytes: more is nobody's
// record.
const maxRecord = 1 << 20

// encode is p as encoding/json has it; a test compares.
func (p *Process) encode() []byte {
	o := state.NewObject()
	o.Int("pid", int64(p.PID))
	if p.Start != 0 {
		o.Int("start", int64(p.Start))
	}
	o.StringIf("bootId", p.BootID)
	o.StringIf("machineId", p.MachineID)
	if p.PIDNS != 0 {
		o.Int("pidNS", int64(p.PIDNS))
	}
	o.StringIf("host", p.Host)
	o.String("token", p.Token)
	o.Int("fence", p.Fence)
	o.Float("ttl", p.TTL)
	o.Strings("command", p.Command)
	if p.Child != nil {
		c := state.NewObject()
		c.Int("pid", int64(p.Child.PID))
		if p.Child.Start != 0 {
			c.Int("start", int64(p.Child.Start))
		}
		o.Object("child", c)
	}
	if p.Forks != 0 {
		o.Int("forks", int64(p.Forks))
	}
	return o.Line()
}

// ttl is how long the lease lives without a renewal. What can't be meant is a
// minute: odd content loses nobody's lease.
func (p *Process) ttl() time.Duration {
	if p.TTL <= 0 {
		return time.Minute
	}
	return time.Duration(min(p.TTL, 1e9) * float64(time.Second))
}

// machine is what tells this boot of this machine from others. What can't
// be read is empty, and compares with nothing.
type machine struct {
	bootID, machineID, host string
}

// pidNamespace is the inode of this process's PID namespace; 0 where there is
// no such thing.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

var known atomic.Pointer[machine] // once all of it could be read

func thisMachine() machine {
	if m := known.Load(); m != nil {
		return *m
	}
	var m machine
	m.bootID = word("/proc/sys/kernel/random/boot_id")
	m.machineID = word("/etc/machine-id")
	m.host, _ = os.Hostname()
	if m.bootID != "" && m.machineID != "" && m.host != "" {
		known.Store(&m)
	}
	return m
}

// word is the one word in a small system file.
func word(path string) string {
	b, err := readSmall(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// startTime is the start time of a process of this kernel in clock ticks since
// boot, field 22 of /proc/PID/stat (proc(5)); 0 when it is gone or unknown.
func startTime(pid int) uint64 {
	if f := statOf(pid); f != nil {
		return number(f[19])
	}
	return 0
}

// statOf is what /proc/PID/stat says from field 3 on, the state (proc(5)); nil
// when the process is gone, or a zombie, which runs no more.
func statOf(pid int) []string {
	b, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	// The name in field 2 may hold spaces and brackets: count from its end.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 49 || f[0] == "Z" || f[0] == "X" { // the last is env_end, of Linux 3.5
		return nil
	}
	return f
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// Alive says whether p, a process of this boot, still runs.
func (p PID) Alive() bool {
	return p.PID > 0 && p.Start > 0 && startTime(p.PID) == p.Start
}
