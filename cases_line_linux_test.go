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

// TestB64_FewDescriptors: with ten descriptors a run goes well, or says what is
// missing and leaves nothing.
func TestB64_FewDescriptors(t *testing.T) {
	for n := 5; n <= 24; n++ {
		l := newLab(t)
		a := l.run("sh", "-c", "ulimit -n "+strconv.Itoa(n)+"; withlease gpu -- echo ran; echo it ended with $?")
		switch {
		case strings.HasPrefix(a.out, "ran\nit ended with 0"):
		case strings.HasPrefix(a.out, "it ended with 125") && strings.Contains(a.err, "ulimit -n"):
		case n < 10 && !strings.Contains(a.out, "ran"): // the C library, or Go's start
		default:
			t.Errorf("ulimit -n %d: %q, %q", n, a.out, a.err)
		}
		l.withlease("-n", "gpu", "--", "true").ends("0")
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
