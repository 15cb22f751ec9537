#!/bin/sh
# lab-lock.sh: the lab's shell lock. A lease is a directory (mkdir is atomic)
# with the holder's record in it; withlease reads and makes the same.
#
#   lab-lock.sh claim RESOURCE [PURPOSE]    1 when somebody holds it
#   lab-lock.sh release RESOURCE            1 when it is not ours
#   lab-lock.sh status [RESOURCE]           who holds what; 1 when it is free
#
# The directory is $WITHLEASE_LEASE_DIR, else $WITHLEASE_DIR/leases, else
# /var/lib/withlease/leases. The session is $WITHLEASE_SESSION.
set -eu

die() {
	printf 'lab-lock: %s\n' "$1" >&2
	exit "${2:-2}"
}

leases=${WITHLEASE_LEASE_DIR:-${WITHLEASE_DIR:-/var/lib/withlease}/leases}
session=${WITHLEASE_SESSION:-}
holder=${LOGNAME:-${USER:-$(id -un)}}@$(uname -n)

# A name is a letter or digit, then letters, digits and ._@:+-
checked() {
	case $1 in
	'' | [!A-Za-z0-9]* | *[!A-Za-z0-9._@:+-]*) die "'$1' is no resource name" ;;
	esac
	[ ${#1} -le 128 ] || die "'$1' is longer than 128"
	printf '%s' "$1"
}

# quoted prints a text as a JSON string. Control characters become spaces.
quoted() {
	printf '"%s"' "$(printf '%s' "$1" | tr '\000-\037' ' ' | sed 's/[\\"]/\\&/g')"
}

record() {
	printf '{"env":%s,"holder":%s,"session":%s,"purpose":%s,"since":"%s"}\n' \
		"$(quoted "$1")" "$(quoted "$holder")" "$(quoted "$session")" "$(quoted "$2")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

# member prints a string member of a record, as far as a shell can.
member() {
	sed -n 's/.*"'"$2"'": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$leases/$1/holder.json" 2>/dev/null | tr -d '\000-\037'
}

held_by() {
	printf '%s is held by %s since %s: %s\n' "$1" "$(member "$1" holder)" "$(member "$1" since)" "$(member "$1" purpose)"
}

claim() {
	mkdir -p "$leases"
	# Held at first and free when asked by whom: once more, the next may be faster.
	mkdir "$leases/$1" 2>/dev/null || { [ ! -d "$leases/$1" ] && mkdir "$leases/$1" 2>/dev/null; } || {
		[ -d "$leases/$1" ] || die "$leases/$1 can't be had"
		held_by "$1" >&2
		exit 1
	}
	# Without clobbering: after ten seconds without a record withlease takes
	# the directory for abandoned, and the record there may be another's.
	(
		set -C
		record "$1" "$2" >"$leases/$1/holder.json"
	) 2>/dev/null || die "$1: the record could not be written; is it still ours? see: lab-lock.sh status $1" 1
	printf 'claimed %s\n' "$1"
}

release() {
	[ -d "$leases/$1" ] || die "nobody holds $1" 1
	[ ! -e "$leases/$1/witness" ] || die "$1 is a run's of withlease: it gives it back itself" 1
	if [ "$(member "$1" holder)" != "$holder" ] || [ "$(member "$1" session)" != "$session" ]; then
		held_by "$1" >&2
		die "it is not ours" 1
	fi
	rm -r "${leases:?}/$1"
	printf 'released %s\n' "$1"
}

status() {
	if [ $# -gt 0 ]; then
		[ -d "$leases/$1" ] || {
			printf '%s is free\n' "$1"
			exit 1
		}
		held_by "$1"
		return
	fi
	for dir in "$leases"/*/; do
		[ -d "$dir" ] || continue
		dir=${dir%/}
		held_by "${dir##*/}"
	done
}

verb=${1:-}
name=
if [ $# -ge 2 ]; then name=$(checked "$2"); fi
case $verb in
claim)
	[ -n "$name" ] || die "usage: lab-lock.sh claim RESOURCE [PURPOSE]"
	claim "$name" "${3:-}"
	;;
release)
	[ -n "$name" ] || die "usage: lab-lock.sh release RESOURCE"
	release "$name"
	;;
status) status ${name:+"$name"} ;;
*) die "usage: lab-lock.sh claim|release|status [RESOURCE] [PURPOSE]" ;;
esac
