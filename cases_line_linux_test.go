package main

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestB64_NoInotify: where the user has no inotify instance left, who waits for
// the shell lock looks again every two seconds, and the order stays.
func TestB64_NoInotify(t *testing.T) {
	l := newLab(t)
	if a := l.run("unshare", "-Ur", "sh", "-c", "echo 0 >/proc/sys/user/max_inotify_instances"); a.status != "0" {
		t.Skipf("no user namespace of our own: %s", a.err)
	}
	a := l.run("unshare", "-Ur", "sh", "-c", `
		echo 0 >/proc/sys/user/max_inotify_instances
		mkdir -p "$BASE/leases/gpu"
		echo '{"env":"gpu","holder":"eve@vm","session":"s"}' >"$BASE/leases/gpu/holder.json"
		for i in 1 2 3 4 5; do
			withlease -q gpu -- sh -c "echo $i >>order" &
			until [ "$(ls "$BASE/leases/.queue/gpu" 2>/dev/null | grep -c '^[0-9]*$')" = "$i" ]; do :; done
		done
		rm -r "$BASE/leases/gpu"
		wait`)
	a.ends("0").silent()
	if got := l.read("order"); got != "1\n2\n3\n4\n5\n" {
		t.Errorf("they ran in the order %q", got)
	}
}

// TestB64_FewDescriptors: with ten descriptors a run, a run in a terminal, a wait
// and a look go well, or say what is missing and leave nothing.
func TestB64_FewDescriptors(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"gpu -- echo ran": "ran\nit ended with 0\n", "--pty=always gpu -- echo ran": "ran\nit ended with 0\n",
		"--wait 20ms net -- echo ran": "it ended with 75\n", "status net": "it ended with 1\n", "claim gpu": "it ended with 0\n", "list": "it ended with 0\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			last := ""
			for n := 5; n <= 32; n++ {
				l := newLab(t)
				l.withlease("--session", "other", "claim", "net").ends("0")
				a := l.run("sh", "-c", "ulimit -n "+strconv.Itoa(n)+"; withlease "+args+"; echo it ended with $?")
				last = strings.ReplaceAll(a.out, "\r", "")
				ours := strings.Count(a.err, "\n") == strings.Count("\n"+a.err, "\nwithlease: ") // every line
				switch {
				case strings.HasSuffix(last, want) && ours:
				case last == "it ended with 125\n" && ours && (strings.Contains(a.err, "ulimit -n") || strings.Contains(a.err, "too many open files (run it with --pty=never)")):
				case n < 10 && !strings.Contains(a.out, "ran\n"): // the C library, or Go's start
				default:
					t.Errorf("ulimit -n %d: %q, %q", n, a.out, a.err)
				}
				if l.withlease("status", "gpu").status == "1" {
					l.withlease("release", "gpu").ends("0").silent() // of claim, that succeeded
				}
				l.withlease("-n", "gpu", "--", "true").ends("0")
			}
			if !strings.HasSuffix(last, want) {
				t.Errorf("with 32 it ends with %q", last)
			}
		})
	}
}

// TestB65_ManyWaiters: 150 who wait use no processor time, and run one after the other.
func TestB65_ManyWaiters(t *testing.T) {
	const waiters = 150
	l := newLab(t)
	l.env = append(l.env, "N="+strconv.Itoa(waiters))
	a := l.run("bash", "-c", `
		mkfifo gate
		withlease gpu -- sh -c 'touch held; read -r _ <gate' &
		until [ -e held ]; do :; done
		for i in $(seq $N); do
			withlease -q gpu -- sh -c 'echo $WITHLEASE_FENCE >>order' &
			pids+=($!)
		done
		until [ "$(ls "$BASE/leases/.queue/gpu" | grep -c '^[0-9]*$')" = $N ]; do :; done
		ticks() { for p in "${pids[@]}"; do read -r -a s <"/proc/$p/stat"; echo "${s[13]} ${s[14]}"; done | awk '{n += $1 + $2} END {print n}'; }
		sleep 1 # in line is not yet asleep
		before=$(ticks)
		sleep 2 # what is measured is time in which nothing happens
		echo $(($(ticks) - before))
		echo go >gate
		for p in "${pids[@]}"; do wait $p || echo "$p ended with $?"; done`)
	a.ends("0").silent()
	used, err := strconv.Atoi(strings.TrimSpace(a.out))
	if err != nil {
		t.Fatalf("%q, %v", a.out, err)
	}
	if used > waiters*2/2 { // a hundredth of a processor each is one tick a second
		t.Errorf("%d who wait used %v of processor time in 2 s", waiters, time.Duration(used)*10*time.Millisecond)
	}
	last := 0
	order := strings.Fields(l.read("order"))
	for _, fence := range order {
		n, err := strconv.Atoi(fence)
		if err != nil || n <= last {
			t.Errorf("after fence %d came %q", last, fence)
		}
		last = n
	}
	if len(order) != waiters {
		t.Errorf("%d of %d ran", len(order), waiters)
	}
}
