package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Faults of the machine around withlease: something is full, missing, forbidden, or somebody else's. After each a fresh
// process finds no second holder, no stuck lease, no lost grant and no damaged document, and was told what to do.

// tries is the start of a script: `try ARG...` runs withlease and shows what it says and how it ends.
const tries = `try() { echo "\$ $*"; s=0; withlease "$@" 2>&1 || s=$?; echo "-> $s"; }; until_file() { until test -e "$1"; do sleep .02; done; }; `

// showsAll checks that the output of a script has these texts in this order. In them .* stays on its line.
func (a *answer) showsAll(want ...string) {
	a.lab.Helper()
	rest := a.out
	for _, w := range want {
		at := regexp.MustCompile(`(?m)` + w).FindStringIndex(rest)
		if at == nil {
			a.lab.Errorf("%s: no %q in what follows: %q", a.what, w, rest)
			return
		}
		rest = rest[at[1]:]
	}
}

// Without /proc, as in a chroot, everything but the look for processes works as ever: the witness needs none.
func TestNoProc(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector warns of a /proc that isn't there")
	}
	t.Parallel()
	l := newLab(t)
	inNamespace(l, tries+`
		mount -t tmpfs none /proc
		mkfifo gate
		try gpu -- sh -c 'exit 7'
		try --pty=never gpu -- sh -c 'kill -TERM $$'
		try --pty=always gpu -- touch barged

		withlease gpu -- sh -c 'echo >held; read _ <gate' &
		until_file held
		try -n --session other gpu -- touch barged
		withlease gpu -- echo has waited 2>waits &
		until grep -qs 'place 1 in line' waits; do sleep .02; done
		try list
		echo go >gate
		wait

		# The wrapper is killed, its command lives.
		withlease gpu -- sh -c 'trap "" TERM; kill -9 $PPID; echo >alone; read _ <gate' &
		until_file alone
		try -n gpu -- touch barged
		try status gpu
		try release gpu
		try --wait 100ms gpu -- touch barged
		echo go >gate
		wait || true
		try list
		try -n gpu -- echo has taken over
		try list

		try --session boss supervisor start --pid=-1
		try --session boss grant gpu s1
		try -n --session s2 gpu -- touch barged
		try -n --session s1 gpu -- echo was granted
		try --session boss supervisor stop
		try doctor
		test ! -e barged
	`).showsAll(
		`exit 7\n-> 7$`, `kill -TERM .*\n(Terminated\n)?-> 143$`,
		`^withlease: no terminal is to be had: lstat /proc/self/exe: .* \(run it with --pty=never\)\n-> 125$`,
		`^withlease: not run: gpu is held by .*\n-> 75$`,
		`^gpu  held by ann`, `^has waited$`,
		`^withlease: not run: gpu is held by .*\n-> 75$`, `^gpu  held by ann .*`, `-> 1$`, `^withlease: gpu is held by .*\n-> 1$`, `-> 75$`,
		`^gpu  crashed: free for the next claim; `, `^has taken over\n-> 0$`, `nothing is held`,
		`^withlease: not run: .*\n-> 75$`, `^was granted\n-> 0$`, `supervisor stop\n.*\n-> 0$`,
		`^wrong +machine +/proc/self/stat, .* can't be read: .*\n +fix: +sudo mount -t proc proc /proc$`, `-> 1$`)
	// And with /proc again.
	l.withlease("list").ends("0").says("nothing is held")
	l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent()
}

// Who can't name its own boot, without /proc, takes no lease over that another machine renews on a shared file system. One
// of this machine the witness decides.
func TestNoProcAndAnotherMachine(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]string{
		"a record with all": `"bootId":"other-boot","machineId":"other-machine",`,
		"of no /proc, too":  `"machineId":"other-machine",`,
		"no machine id":     `"bootId":"other-boot",`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write("base/leases/gpu/holder.json", `{"env":"gpu","holder":"far@far","name":"Far","host":"far","purpose":"away","since":"2026-01-02T03:04:05Z"}`)
			l.write("base/leases/gpu/process.json", `{"pid":1,"start":1,`+known+`"host":"far","token":"0123456789abcdef0123456789abcdef","fence":1,"ttl":60,"command":["x"]}`)
			inNamespace(l, tries+`
				mkfifo "$BASE/leases/gpu/witness"
				mount -t tmpfs none /proc
				test -s /etc/machine-id || { echo some-machine >id; mount --bind id /etc/machine-id || true; }
				try -n gpu -- touch barged
				test ! -e barged
				try list
				touch -d '61 seconds ago' "$BASE/leases/gpu/holder.json"
				try -n gpu -- echo ran
			`).showsAll(`^withlease: not run: gpu is held by Far .*\n-> 75$`, `^gpu  held by Far`, `^ran\n-> 0$`)
		})
	}
}

// killedInside are the ways in which a holder and a waiter don't see each other's processes.
var killedInside = []struct{ name, holder, waiter string }{
	{"holder inside", inPIDs, ""},
	{"waiter inside", "", inPIDs},
	{"each in its own", inPIDs, inPIDs},
}

const inPIDs = "unshare -Urpf --mount-proc --kill-child "

// B27: SIGKILL to a wrapper that its waiter can't see, and to its command: while one lives the lease is held, then the
// waiter has it at once.
func TestKilledInOtherPIDNamespace(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("sh", "-c", inPIDs+"true").CombinedOutput(); err != nil {
		t.Skipf("no PID namespaces here: %v %s", err, out)
	}
	for _, k := range killedInside {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.run("sh", "-euc", tries+`
				mkfifo gate
				`+k.holder+`sh -c 'withlease gpu -- sh -c "trap \"\" TERM; kill -9 \$PPID; echo >alone; read _ <gate; kill -9 \$\$"; echo "the wrapper: $?"; while test -e gate -a ! -e over; do sleep .02; done' 2>/dev/null &
				until_file alone
				`+k.waiter+`withlease -n gpu -- touch barged || echo "refused: $?"
				`+k.waiter+`withlease release gpu || echo "not released: $?"
				`+k.waiter+`withlease gpu -- sh -c 'test ! -e over; echo has waited; withlease list' 2>waits &
				waiter=$!
				until grep -qs 'place 1 in line' waits; do sleep .02; done
				test ! -e barged
				echo go >gate
				wait $waiter
				echo >over
				wait
				try list
				try -n gpu -- echo free`)
			l.Logf("%s%s", a.out, a.err)
			a.ends("0").showsAll(`^the wrapper: 137$`, `^refused: 75$`, `^not released: 1$`, `^has waited$`, `^gpu  held by ann`, `nothing is held`, `^free$`)
		})
	}
}

// B27: an orphan of another PID namespace, seen from outside and from inside: no pid is taken for one of ours, so that none
// is ended, the lease stays held, and the words say what is left to do.
func TestOrphanOfOtherPIDNamespace(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("sh", "-c", inPIDs+"true").CombinedOutput(); err != nil {
		t.Skipf("no PID namespaces here: %v %s", err, out)
	}
	for _, k := range killedInside[:2] {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.run("sh", "-euc", tries+`
				mkfifo gate
				`+k.holder+`sh -c 'withlease gpu -- sh -c "trap \"\" TERM; kill -9 \$PPID; echo >alone; read _ <gate"; while test -e gate -a ! -e over; do sleep .02; done' 2>/dev/null &
				until_file alone
				for args in "release --kill gpu" "release --kill --force --reason test gpu" "-n gpu -- touch barged"; do
					s=0; `+k.waiter+`withlease $args 2>&1 || s=$?; echo "-> $s"
				done
				test ! -e barged
				s=0; `+k.waiter+`withlease release --force --reason test gpu || s=$?; echo "-> $s"
				try -n gpu -- echo free
				echo go >gate
				echo >over
				wait
				try list`)
			l.Logf("%s%s", a.out, a.err)
			a.ends("0").showsAll(`^withlease: gpu is held by .*\n-> 1$`, `^withlease: gpu: no process that holds it can be seen from here; free it with: withlease release --force --reason WHY gpu\n-> 1$`,
				`^withlease: not run: gpu is held by .*\n-> 75$`, `^freed gpu.*\n-> 0$`, `^free\n-> 0$`, `nothing is held`)
		})
	}
}

// A base on a file system mounted noexec, nosuid and nodev does: nothing in it is executed, and a FIFO is no device. A
// command there is 126, with the reason, and claims nothing.
func TestNoExec(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	inNamespace(l, tries+`
		mount -t tmpfs -o noexec,nosuid,nodev,mode=700 none "$BASE"
		printf '#!/bin/sh\necho ran "$0"\n' >"$BASE/script"
		chmod +x "$BASE/script"
		cp "$BASE/script" "$BASE/modeless"; chmod -x "$BASE/modeless"
		try gpu -- echo well
		try --pty=always gpu -- echo well
		try claim net
		try release net
		for pty in never always; do
			try --pty=$pty gpu -- base/script
			try --pty=$pty gpu -- base/modeless
		done
		PATH=$BASE:$PATH
		try gpu -- script
		try gpu -- sh base/script
		try list
	`).showsAll(
		`^well\n-> 0$`, `^well\r?\n-> 0$`, `^claimed net`, `^released net`,
		`^withlease: base/script: its file system is mounted noexec; copy .*\n-> 126$`, `^withlease: base/modeless: permission denied\n-> 126$`,
		`^withlease: base/script: its file system is mounted noexec; copy .*\n-> 126$`, `^withlease: base/modeless: permission denied\n-> 126$`,
		`-> (126|0)$`, `^ran base/script\n-> 0$`, `nothing is held`)
}

// B64: without an inotify instance a list that is watched says that it looks every two seconds, and does.
func TestWatchWithoutInotify(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"list", "queue"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			if a := l.run("unshare", "-Ur", "sh", "-c", "echo 0 >/proc/sys/user/max_inotify_instances"); a.status != "0" {
				t.Skipf("no user namespace of our own: %s", a.err)
			}
			l.withlease("--session", "boss", "supervisor", "start", "--pid=-1").ends("0")
			a := l.run("unshare", "-Ur", "sh", "-euc", tries+`
				echo 0 >/proc/sys/user/max_inotify_instances
				withlease `+verb+` --watch >seen 2>said &
				watcher=$!
				until test -s said && test -s seen; do sleep .02; done
				withlease --session boss grant gpu s1 >/dev/null
				withlease --session s1 claim gpu >/dev/null
				withlease --session boss grant gpu s2 >/dev/null
				until grep -qs '`+map[string]string{"list": "held by s1", "queue": "s2"}[verb]+`' seen; do sleep .02; done
				kill $watcher
				wait $watcher || true
				cat said
				try doctor`)
			l.Logf("%s%s", a.out, a.err)
			a.ends("0").showsAll(`^withlease: changes are not told here \(no inotify instance is free: fs.inotify.max_user_instances\): looking every 2 s$`,
				`^warning +files +.*inotify.*: a shell lock's release is found within 2 s`)
		})
	}
}

// Paths up to the kernel's limit of 4096 bytes: at each length all of a claim works, or none of it and the path is named.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	works, fails := 0, 0
	for n := 3930; n < 4110; n += 12 {
		base := dir
		for len(base)+201 < n-1 {
			base += "/" + strings.Repeat("d", 200)
		}
		base += "/" + strings.Repeat("e", n-len(base)-1)
		for _, res := range []string{"gpu", strings.Repeat("r", 128)} {
			l := newLab(t)
			l.base, l.env = base, append(l.env, "WITHLEASE_DIR="+base)
			tooLong := `file name too long: name a place with a shorter path with --dir or \$WITHLEASE_DIR$`
			claim := l.withlease("claim", res)
			run := l.withlease("--session", "other", "--wait", "100ms", res, "--", "argv", "ran")
			switch claim.status {
			case "0":
				works++
				l.withlease("status", res).ends("1").silent().shows("^" + res + "  held by ann")
				if run.shows(""); run.status != "75" {
					run.ends("125").says(tooLong)
				}
				l.withlease("release", res).ends("0").silent()
				l.withlease("status", res).ends("0").silent()
			default:
				fails++
				claim.ends("125").shows("").says(tooLong)
				if run.shows(""); run.status != "75" || n < 4096 {
					run.ends("125").says(tooLong)
				}
				if a := l.withlease("list"); a.status != "0" {
					a.ends("125").says(tooLong)
				}
			}
			// And a run alone: what it begins it ends.
			if a := l.withlease("-n", res, "--", "argv", "ran"); a.status == "0" {
				a.silent().shows("ran")
			} else {
				a.ends("125").shows("").says(tooLong)
			}
			ents, _ := os.ReadDir(filepath.Join(base, "leases"))
			if slices.ContainsFunc(ents, func(e fs.DirEntry) bool { return e.Name() != ".queue" }) {
				t.Errorf("a base of %d bytes: %v is left", n, ents)
			}
		}
	}
	t.Logf("%d work, %d fail", works, fails)
	if works < 5 || fails < 5 {
		t.Error("the limit is not among them")
	}

	l := newLab(t)
	a := l.withlease("--dir", filepath.Join(dir, strings.Repeat("f", 256)), "gpu", "--", "argv", "ran").ends("125").shows("")
	a.says(`file name too long: name a place with a shorter path`)
	l.withlease("--dir", filepath.Join(dir, strings.Repeat("f", 255)), "gpu", "--", "argv", "ran").ends("0").silent().shows("ran")
	l.withlease("gpu", "--", strings.Repeat("c", 256)).ends("126").shows("").says("file name too long|can't be executed")
}

// A limit on the size of files stops a change before it is made, says how it is raised, and keeps no lease.
func TestFileSizeLimitOfEachVerb(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("--session", "boss", "supervisor", "start", "--pid=-1").ends("0")
	l.withlease("--session", "boss", "grant", "gpu", "s1").ends("0")
	l.withlease("claim", "net").ends("0")
	document := l.read("base/state.json")
	a := l.run("sh", "-euc", tries+`
		{
		ulimit -f 0
		try --pty=never -n --session s1 gpu -- touch ran
		try --pty=always -n --session s1 gpu -- touch ran
		try --session s1 claim gpu
		try --session boss grant gpu s2
		try --session boss supervisor stop
		try list
		try release net
		} | cat`)
	l.Logf("%s%s", a.out, a.err)
	tooLarge := `^withlease: .*: file too large: raise the limit of the size of files \(ulimit -f\)\n-> 125$`
	a.ends("0").silent().showsAll(tooLarge, tooLarge, tooLarge, tooLarge, tooLarge, `^net  held by ann .*\n-> 0$`, `^released net$`)
	if now := l.read("base/state.json"); now != document {
		t.Errorf("the document is %q, was %q", now, document)
	}
	l.withlease("-n", "--session", "s1", "gpu", "--", "argv", "granted").ends("0").silent().shows("granted")
	l.withlease("--session", "boss", "supervisor", "stop").ends("0")
	l.withlease("list").ends("0").says("nothing is held")
	// A limit that comes in the middle of a run: its end can't be logged, and frees all the same.
	l.run("withlease", "gpu", "--", "sh", "-c", `prlimit --pid $PPID --fsize=0; exit 3`).ends("3").says("events.jsonl: file too large: raise the limit")
	l.withlease("-n", "gpu", "--", "argv", "ran").ends("0").silent()
}

// A base that is mounted read-only under a run and a waiter: the command goes on and its status is kept, nobody barges in,
// and what was held is free once it can be written to.
func TestReadOnlyDuringRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	inNamespace(l, tries+`
		withlease --ttl 300ms gpu -- sh -c 'echo >held; until test -e go; do sleep .02; done; exit 5' 2>said || echo "the run -> $?" >>said &
		until_file held
		withlease gpu -- echo has waited 2>waits || echo "the waiter -> $?" >>waits &
		until grep -qs 'place 1 in line' waits; do sleep .02; done
		mount --bind "$BASE" "$BASE"
		mount -o remount,ro,bind "$BASE"
		sleep 1 # some renewals fail
		try -n --session other gpu -- touch barged
		try list
		echo >go
		wait
		umount "$BASE"
		try -n net -- echo ran
		cat said waits
		test ! -e barged
		try -n gpu -- echo then it ran
		try list
	`).showsAll(`^withlease: .*state.lock: read-only file system: name a writable place .*\n-> 125$`, `^gpu  held by ann`, `^ran\n-> 0$`,
		`^withlease: the lease could not be given back: .*: read-only file system: .*; the next who claims it takes it over\nthe run -> 5$`,
		`^withlease: .*: read-only file system: name a writable place .*\nthe waiter -> 125$`, `^then it ran\n-> 0$`, `nothing is held`)
}

// asUser runs a program as root of this machine makes it any user: in the group of a shared base, or in none.
func asUser(l *lab, program string, uid, groups string) func(args ...string) *answer {
	return func(args ...string) *answer {
		l.Helper()
		own := *l
		own.env = append(slices.Clone(l.env), "LOGNAME=u"+uid, "HOME=/nonexistent")
		a := own.run("setpriv", append([]string{"--reuid=" + uid, "--regid=" + uid, groups, program}, args...)...)
		for line := range strings.Lines(a.err) {
			if !strings.HasPrefix(line, "withlease: ") {
				l.Errorf("%s says %q, not one of its lines", a.what, line)
			}
		}
		return a
	}
}

// needUsers skips a test that has to be several users. The program is copied to where all of them may execute it.
func needUsers(l *lab) (program string) {
	if os.Getuid() != 0 {
		l.Skip("only root can be several users")
	}
	unprivileged(l)
	return filepath.Join(l.dir, "withlease")
}

// sharedGroup is a group that this machine need not know.
const sharedGroup = 54321

// B52, B82: root and two users in the administrator's setgid directory, in every order: each claims, waits for, and takes
// over from the others, and all files stay the group's. A user outside the group is told whose it is.
func TestUsersOfASharedDirectory(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	program := needUsers(l)
	for _, d := range []string{l.base, filepath.Join(l.dir, "open")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(l.base, 0, sharedGroup); err != nil {
		t.Fatal(err)
	}
	for d, mode := range map[string]fs.FileMode{l.base: fs.ModeSetgid | 0o770, filepath.Join(l.dir, "open"): 0o777} {
		if err := os.Chmod(d, mode); err != nil {
			t.Fatal(err)
		}
	}
	root := l.withlease
	ann, bob := asUser(l, program, "60001", "--groups=54321"), asUser(l, program, "60002", "--groups=54321")
	outsider := asUser(l, program, "60003", "--clear-groups")

	users := []func(args ...string) *answer{root, ann, bob}
	for i, first := range users {
		for j, next := range users {
			if i == j {
				continue
			}
			open := filepath.Join(l.dir, "open")
			first("-n", "gpu", "--", "echo", "first").ends("0").silent().shows("^first$")
			first("--session", "s1", "claim", "gpu").ends("0").silent()
			next("-n", "gpu", "--", "touch", open+"/barged").ends("75").says("gpu is held by s1")
			next("release", "gpu").ends("1").says("gpu is held by s1")
			next("release", "--force", "--reason", "test", "gpu").ends("0").silent()
			// A run that was killed with its command.
			first("gpu", "--", "sh", "-c", "kill -9 $PPID $$")
			next("status", "gpu").silent().shows("crashed")
			next("-n", "gpu", "--", "echo", "took over").ends("0").silent().shows("^took over$")
			// Grants of the one, claims of the other.
			first("--session", "boss", "supervisor", "start", "--pid=-1").ends("0")
			next("--session", "boss", "grant", "gpu", "s2").ends("0").silent()
			next("-n", "--session", "s2", "gpu", "--", "echo", "granted").ends("0").silent().shows("^granted$")
			next("--session", "boss", "supervisor", "stop").ends("0")
			first("list").ends("0").says("nothing is held")
		}
	}
	if _, err := os.Lstat(filepath.Join(l.dir, "open", "barged")); err == nil {
		t.Error("a second holder")
	}
	says := `permission denied .*belongs to uid 0, gid 54321, .*: ask its owner for group write, or name another place`
	outsider("list").ends("125").shows("").says(says)
	outsider("-n", "gpu", "--", "echo", "ran").ends("125").shows("").says(says)
	outsider("claim", "gpu").ends("125").shows("").says(says)
	err := filepath.WalkDir(l.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if gid := st.Sys().(*syscall.Stat_t).Gid; gid != sharedGroup {
			t.Errorf("%s is group %d's", path, gid)
		}
		if d.IsDir() && st.Mode()&0o070 != 0o070 {
			t.Errorf("%s has %v: the group can't write to it", path, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Root first, then the user. Root's private base is not the user's, and says whose it is. In a user's own one, what root
// made first is named as root's, also by doctor with the way out; what root does later harms nothing.
func TestRootFirstThenUser(t *testing.T) {
	t.Parallel()
	own := func(l *lab) {
		if err := os.Mkdir(l.base, 0o755); err != nil {
			l.Fatal(err)
		}
		if err := os.Chown(l.base, 60001, 60001); err != nil {
			l.Fatal(err)
		}
	}
	refused := func(user func(args ...string) *answer, says string) {
		for _, args := range [][]string{{"list"}, {"-n", "gpu", "--", "echo", "ran"}, {"claim", "gpu"}, {"queue", "gpu"}} {
			user(args...).ends("125").shows("").says(`^withlease: .*permission denied .*` + says + `.*: ask its owner for group write, or name another place with --dir or \$WITHLEASE_DIR$`)
		}
	}
	t.Run("root's base", func(t *testing.T) {
		l := newLab(t)
		program := needUsers(l)
		l.withlease("-n", "gpu", "--", "true").ends("0").silent()
		before := tree(t, l.base)
		refused(asUser(l, program, "60001", "--clear-groups"), "/base belongs to uid 0, gid 0, mode drwx------")
		same(t, "root's base", before, tree(t, l.base))
		l.withlease("-n", "gpu", "--", "true").ends("0").silent()
	})
	t.Run("root first in the user's", func(t *testing.T) {
		l := newLab(t)
		program := needUsers(l)
		own(l)
		user := asUser(l, program, "60001", "--clear-groups")
		l.withlease("-n", "gpu", "--", "true").ends("0").silent()
		refused(user, "belongs to uid 0, gid 0")
		fixes := regexp.MustCompile(`(?m)^ +fix: +sudo (chown 60001 .*)$`).FindAllStringSubmatch(user("doctor").ends("1").out, -1)
		if len(fixes) != 3 {
			t.Errorf("doctor has %d ways out, not one each for leases, state.lock and events.jsonl: %q", len(fixes), fixes)
		}
		for _, f := range fixes {
			l.run("sh", "-c", f[1]).ends("0")
		}
		if text := user("doctor").out; !strings.Contains(text, " is root's") {
			user("-n", "gpu", "--", "echo", "ran").ends("0").silent().shows("^ran$")
		}
	})
	t.Run("the user first", func(t *testing.T) {
		l := newLab(t)
		program := needUsers(l)
		own(l)
		user := asUser(l, program, "60001", "--clear-groups")
		user("-n", "gpu", "--", "true").ends("0").silent()
		for range 2 {
			l.withlease("-n", "gpu", "--", "echo", "root").ends("0").silent().shows("^root$")
			l.withlease("claim", "gpu").ends("0")
			user("-n", "gpu", "--", "echo", "ran").ends("75").shows("").says("gpu is held by ")
			l.withlease("release", "gpu").ends("0")
			// Whether root's killed run lives can't be seen: it counts as held, with the reason, till root looks or
			// the user, whose directory it is, takes it away.
			l.withlease("gpu", "--", "sh", "-c", "kill -9 $PPID $$")
			user("-n", "gpu", "--", "echo", "ran").ends("75").shows("").says("gpu is held by somebody .*/gpu/witness: permission denied")
			l.withlease("-n", "gpu", "--", "true").ends("0").silent()
			user("-n", "gpu", "--", "echo", "ran").ends("0").silent().shows("^ran$")
			l.withlease("gpu", "--", "sh", "-c", "kill -9 $PPID $$")
			user("release", "--force", "--reason", "test", "gpu").ends("0")
			user("-n", "gpu", "--", "echo", "ran").ends("0").silent().shows("^ran$")
		}
	})
}

// The clock set back by an hour, as far as files show it: all that was written is an hour ahead. Nobody becomes a second
// holder, nothing dead stays held, no grant is lost, and no time is shown as negative.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.withlease("--session", "s1", "claim", "-p", "nightly", "net").ends("0")
	l.withlease("disk", "--", "sh", "-c", "kill -9 $PPID $$")
	l.withlease("--session", "boss", "supervisor", "start", "--pid=-1").ends("0")
	l.withlease("--session", "boss", "grant", "gpu", "s1").ends("0")
	l.withlease("--session", "boss", "grant", "gpu", "s2").ends("0")
	if err := os.MkdirAll(filepath.Join(l.leases, "empty"), 0o700); err != nil { // a shell claim that came to nothing
		t.Fatal(err)
	}
	anHourAhead(t, l.base)
	l.withlease("list").ends("0").silent().shows("^net  held by s1 .* for 0s").shows("^disk  crashed: free for the next claim").shows("^empty  an abandoned claim: free for the next$")
	l.withlease("status", "net").ends("1").silent().shows("^net  held by s1")
	l.withlease("queue").ends("0").silent().shows("s1").shows("s2")
	l.withlease("-n", "net", "--", "argv", "barged").ends("75").shows("")
	l.withlease("-n", "--session", "s2", "gpu", "--", "argv", "barged").ends("75").shows("").says("s1 claims first|behind s1|s1")
	l.withlease("-n", "--session", "s1", "gpu", "--", "argv", "granted").ends("0").silent().shows("granted")
	l.withlease("-n", "--session", "s2", "gpu", "--", "argv", "granted").ends("0").silent().shows("granted")
	l.withlease("--session", "boss", "supervisor", "stop").ends("0")
	l.withlease("-n", "empty", "disk", "--", "argv", "ran").ends("0").silent().shows("ran")
	l.withlease("history").ends("0").silent().shows("net")
	l.withlease("--session", "s1", "release", "net").ends("0").silent()
	l.withlease("list").ends("0").says("nothing is held")

	// Under a run, and a waiter behind it.
	a := l.run("sh", "-euc", tries+`
		mkfifo gate
		withlease --ttl 300ms gpu -- sh -c 'echo >held; read _ <gate; exit 3' || echo "the run -> $?" &
		until_file held
		withlease gpu -- echo has waited 2>waits &
		until grep -qs 'place 1 in line' waits; do sleep .02; done
		find "$BASE" -exec touch -d '1 hour' {} +
		try -n --session other gpu -- touch barged
		renewed() { test "$(stat -c %Y "$BASE/leases/gpu/holder.json")" -le "$(date +%s)"; }
		until renewed; do sleep .02; done # by the file system's clock, as it is now
		try list
		echo go >gate
		wait
		test ! -e barged
		try list`)
	a.ends("0").silent().showsAll(`not run: gpu is held .*\n-> 75$`, `^gpu  held by ann`, `nothing is held`)
	for _, said := range []string{`the run -> 3$`, `^has waited$`} { // who is first is the machine's
		a.showsAll(said)
	}
}

// anHourAhead moves every time in the files of a directory, and theirs.
func anHourAhead(t *testing.T, dir string) {
	t.Helper()
	stamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	ahead := time.Now().Add(time.Hour)
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if all = append(all, path); err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, stamp.ReplaceAllFunc(text, func(b []byte) []byte {
			at, err := time.Parse(time.RFC3339, string(b))
			if err != nil {
				return b
			}
			return []byte(at.Add(time.Hour).Format(time.RFC3339Nano))
		}), 0o600)
	})
	for _, path := range slices.Backward(all) {
		if err == nil {
			err = os.Chtimes(path, ahead, ahead)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
