#!/bin/bash
# check.sh: every run of README.md's table. It ends with 0 when each run of the protocol has no error and each mutation has
# one. It needs spin and a C compiler, takes about three minutes on two cores, and leaves nothing behind.
# --long adds the runs that take longer, --quick leaves out those of more than three million states, which is what CI
# makes: each property and each mutation is still in it. With names as arguments it makes these runs only.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 2
for tool in spin gcc; do
	command -v "$tool" >/dev/null || { echo "check.sh needs $tool" >&2; exit 2; }
done
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# run WANT MODEL NAME FLAG...: one verification, one line. WANT is pass or fail.
run() {
	local want=$1 model=$2 name=$3 dir verdict=WRONG status=1 states depth errors
	shift 3
	dir=$(mktemp -d "$tmp/run.XXXXXX") || return 1
	SECONDS=0
	if (cd "$dir" && cp "$here/$model" m.pml && spin "$@" -a m.pml >log 2>&1 &&
		gcc -O1 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM=6000 -o pan pan.c >>log 2>&1 &&
		./pan -m20000 -E >log 2>&1); then
		states=$(awk '/states, stored/ { print $1; exit }' "$dir/log")
		depth=$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' "$dir/log" | head -n1)
		errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$dir/log" | head -n1)
		case $want:$errors in
		pass:0) grep -qE 'not completed|too small|out of memory|max search depth' "$dir/log" || { verdict=ok status=0; } ;;
		fail:[1-9]*) grep -q 'assertion violated' "$dir/log" && { verdict='ok: fails' status=0; } ;;
		esac
		printf '%-20s %-10s states %-9s depth %-4s %3ss  %s\n' "$name" "$verdict" "$states" "$depth" "$SECONDS" "$*"
	else
		printf '%-20s %s\n' "$name" 'did not run:'
		tail -n3 "$dir/log"
	fi
	((status == 0)) || echo "$name" >>"$tmp/wrong"
	rm -rf "$dir"
}

# each line: WANT MODEL NAME FLAG...
runs() {
	cat <<'END'
pass lease.pml three -DNP=3 -DCRASH=1 -DKILL=1
pass lease.pml keep -DNP=3 -DCRASH=1 -DKILL=4 -DFR=1 -DKEEP=0
pass lease.pml sup-on-off -DNP=2 -DCRASH=1 -DSUP
pass lease.pml sup-exempt -DNP=2 -DCRASH=1 -DSUP -DEARLY -DEXEMPT=0 -DNOSTOP
pass lease.pml sup-exempt-second -DNP=2 -DCRASH=1 -DSUP -DEARLY -DEXEMPT=1 -DNOSTOP
pass lease.pml sup-shell -DNP=2 -DCRASH=0 -DFR=1 -DSUP
pass lease.pml sup-revoke -DNP=2 -DCRASH=1 -DSUP -DREVOKE -DEARLY -DNOSTOP
pass lease.pml sup-commands-die -DNP=2 -DCRASH=0 -DSUP -DSUPCRASH
pass lease.pml sup-stopped -DNP=2 -DCRASH=1 -DSUP -DSTOP=0 -DEARLY -DNOSTOP
pass lease.pml sup-force -DNP=2 -DCRASH=0 -DFORCE -DSUP -DEARLY
pass lease.pml sup-daemon -DNP=2 -DCRASH=1 -DSUP -DEARLY -DDAEMON
pass lease.pml sup-write-fails -DNP=2 -DCRASH=0 -DSUP -DEARLY -DWRITEFAIL
pass lease.pml sup-together -DNP=2 -DCRASH=1 -DSUP -DEARLY -DNOSTOP -DTOGETHER
pass lease.pml sup-behind -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DKILL=2 -DSTOP=0 -DSTOPPED -DGIVE=123
pass lease.pml sup-first -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DKILL=4 -DSTOP=1 -DSTOPPED -DGIVE=231
pass lease.pml sup-three -DNP=3 -DCRASH=0 -DSUP -DEARLY -DNOSTOP -DNG=3 -DGIVE=231
pass lease.pml count -DNP=3 -DCRASH=0 -DCOUNT
pass lease.pml count-daemon -DNP=3 -DCRASH=0 -DCOUNT -DDAEMON
pass lease.pml shell -DNP=2 -DCRASH=2 -DFR=1
pass lease.pml look-first -DNP=2 -DCRASH=1 -DFR=1 -DLOOKALL
pass lease.pml daemon -DNP=2 -DCRASH=1 -DFR=1 -DDAEMON
pass lease.pml force -DNP=2 -DCRASH=1 -DFORCE
pass multi.pml all-crash -DALL -DCRASH=1 -DFR=0
pass multi.pml all-shell -DALL -DCRASH=0 -DFR=1
fail multi.pml line-by-line -DSEP -DCRASH=0 -DFR=0
fail multi.pml grants-apart -DGRANTS -DCRASH=0 -DFR=0
pass multi.pml grants-at-once -DGRANTS -DONELIST -DCRASH=0 -DFR=1
fail lease.pml no-inode-check -DNP=3 -DCRASH=0 -DNOINO -DCLOSEFIRST
fail lease.pml plain-rename -DNP=2 -DCRASH=0 -DFR=1 -DPLAINRENAME
fail lease.pml retire-without-m -DNP=3 -DCRASH=1 -DKILL=1 -DNOM -DLOOKALL
fail lease.pml close-first -DNP=3 -DCRASH=0 -DCLOSEFIRST
fail lease.pml unlink-first -DNP=2 -DCRASH=0 -DFR=1 -DUNLINKFIRST
fail lease.pml wake-after -DNP=2 -DCRASH=1 -DDAEMON -DWAKEAFTER
pass lease.pml wake-after-1 -DNP=2 -DCRASH=1 -DWAKEAFTER
fail lease.pml no-wake -DNP=3 -DCRASH=0 -DDAEMON -DNOWAKE
fail lease.pml ticket-leaks -DNP=2 -DCRASH=1 -DLEAK
fail lease.pml ticket-closed -DNP=3 -DCRASH=0 -DNOCLH -DCOUNT
fail lease.pml probe-first -DNP=2 -DCRASH=1 -DPROBEFIRST
fail lease.pml hang-up-first -DNP=2 -DCRASH=1 -DHUPFIRST
fail lease.pml no-force-byte -DNP=2 -DCRASH=0 -DFORCE -DNOBYTE
fail lease.pml back-unsaid -DNP=3 -DCRASH=1 -DKILL=4 -DFR=1 -DKEEP=0 -DNOBACKWAKE
fail lease.pml gate-first -DNP=2 -DCRASH=1 -DSUP -DGATEFIRST -DEARLY -DNOSTOP
fail lease.pml released-after -DNP=2 -DCRASH=1 -DSUP -DRELAFTER -DEARLY -DNOSTOP
fail lease.pml sentinel-only -DNP=2 -DCRASH=0 -DSUP -DSTOP=0 -DPLACES -DSENTINELONLY -DEARLY -DNOSTOP
fail lease.pml claim-unsaid -DNP=2 -DCRASH=1 -DSUP -DNOCLAIMWAKE -DEARLY -DNOSTOP
fail lease.pml claim-said-late -DNP=2 -DCRASH=1 -DSUP -DCLAIMWAKELATE -DEARLY -DNOSTOP
fail lease.pml grant-said-late -DNP=2 -DCRASH=0 -DSUP -DSUPCRASH -DSUPWAKELATE
fail lease.pml places -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DPLACES -DKILL=2 -DLATE -DSTOP=0 -DSTOPPED -DGIVE=123
fail lease.pml places-first -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DPLACES -DKILL=4 -DLATE -DSTOP=1 -DSTOPPED -DGIVE=231
pass lease.pml places-recheck -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DPLACES -DRECHECK -DKILL=2 -DSTOP=0 -DSTOPPED -DGIVE=123
pass lease.pml recheck-first -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DPLACES -DRECHECK -DKILL=4 -DSTOP=1 -DSTOPPED -DGIVE=231
END
	[[ $long ]] || return
	cat <<'END'
pass multi.pml all-both -DALL -DCRASH=1 -DFR=1
pass lease.pml keep-any -DNP=3 -DCRASH=1 -DFR=1 -DKEEP=0
pass lease.pml three-any -DNP=3 -DCRASH=1
pass lease.pml sup-exempt-off -DNP=2 -DCRASH=1 -DSUP -DEARLY -DEXEMPT=0
pass lease.pml sup-behind-any -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DSTOP=0 -DSTOPPED -DGIVE=123
pass lease.pml sup-first-any -DNP=3 -DCRASH=1 -DSUP -DNG=3 -DEARLY -DNOSTOP -DSTOP=1 -DSTOPPED -DGIVE=231
pass lease.pml sup-three-revoke -DNP=3 -DCRASH=0 -DSUP -DNG=3 -DNOSTOP -DEARLY -DREVOKE -DLATE
END
}

((BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 3)) || { echo "check.sh needs bash 4.3" >&2; exit 2; }
long=
skip=
case ${1-} in
--long) long=1 && shift ;;
--quick) skip=' three keep sup-on-off sup-exempt sup-exempt-second sup-shell grants-at-once ' && shift ;;
esac
only=" $* "
jobs=${JOBS:-2}
while read -r -a line; do
	[[ $only == "  " || $only == *" ${line[2]} "* ]] || continue
	[[ $skip != *" ${line[2]} "* ]] || continue
	while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
	run "${line[@]}" &
done < <(runs)
wait
[[ ! -s $tmp/wrong ]] || { echo "wrong: $(tr '\n' ' ' <"$tmp/wrong")"; exit 1; }
