# zsh -f driver.zsh COMPLETIONS
#
# Asks zsh's completion as its line editor does, a line of standard input at a
# time, with the cursor at its end. Each answer is the candidates with a TAB and
# their descriptions, a line each, then a line "== STATUS".

zmodload zsh/zpty zsh/zselect
out=$(mktemp) || exit 1
trap 'zpty -d child 2>/dev/null; rm -f $out $out.setup' EXIT

zpty -b child zsh -f -i

# tell hands the child a line and waits for the mark that its answer ends with.
tell() {
  local text
  : >|$out
  zpty -w -n child "$1"
  integer n
  for (( n = 0; n < 6000; n++ )); do
    while zpty -r -t child text 2>/dev/null; do :; done # so that it can write
    text=$(<$out)
    [[ ${text##*$'\n'} == '== '* ]] && return 0
    zselect -t 1
  done
  print -u2 "no answer to: $1"
  exit 1
}

# The child reads this from a file: of what its terminal echoes nothing matters.
cat >$out.setup <<'EOF'
PS1= PS2= RPS1=
unsetopt beep
fpath=($COMPLETIONS $fpath)
autoload -Uz compinit
compinit -u -D
zstyle ':completion:*' verbose yes
zstyle ':completion:*' list-grouped false # else descriptions are apart from their names

# Every candidate is added by compadd, in the end.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  typeset -a hits about
  typeset -A apre hpre
  if (( $@[(I)-d] )); then
    about=("${(@P)${@[$(( ${@[(i)-d]} + 1 ))]}}")
  fi
  builtin compadd -A hits -D about "$@"
  zparseopts -E P:=apre p:=hpre
  integer i
  for (( i = 1; i <= $#hits; i++ )); do
    print -r -- "$IPREFIX$apre[-P]$hpre[-p]$hits[i]"$'\t'"$about[i]" >>|$OUT
  done
  builtin compadd "$@"
}
mark() { print -r -- "== $?" >>|$OUT }
ask() {
  comppostfuncs=(mark)
  _main_complete "$@"
}
zle -C ask list-choices ask
bindkey '^I' ask
bindkey '^U' kill-whole-line
print -r -- '== ready' >>|$OUT
EOF
tell "COMPLETIONS=${(q)1} OUT=${(q)out}; source ${(q)out}.setup"$'\n'
while IFS= read -r line; do
  tell $'\x15'"$line"$'\t'
  cat $out
done
