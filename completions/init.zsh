
# The prompt of a shell under a lease: [kind-1] % (what it holds doesn't change while it runs).
_withlease_prompt() {
  local held=${WITHLEASE_HELD-}, one names=
  while [[ -n $held ]]; do
    one=${held%%,*} held=${held#*,}
    one=${one%%=*}
    case $one in (''|*[^A-Za-z0-9._@:+-]*) continue ;; esac
    names+=${names:+ }$one
  done
  names=${names:+[$names] }
  case ${PS1-} in ("$names"*) ;; (*) PS1=$names${PS1-} ;; esac
}
case $- in (*i*) _withlease_prompt ;; esac
