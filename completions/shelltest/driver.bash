# bash --norc driver.bash BASH_COMPLETION|- SCRIPT
#
# Asks bash's completion functions as readline would, a line of standard input
# at a time, with the cursor at its end. Each answer is the candidates, a line
# each, then a line "== STATUS".
# shellcheck shell=bash
if [[ $1 != - ]]; then
    # shellcheck source=/dev/null
    source "$1"
fi
# shellcheck source=/dev/null
source "$2"
compopt() { :; } # legal only while readline completes

while IFS= read -r line; do
    # Words as readline has them: it also cuts at those of : = @ that
    # COMP_WORDBREAKS has, each run of them a word.
    breaks=${COMP_WORDBREAKS//[!:=@]/}
    rest=$line COMP_WORDS=() word='' quote='' inside=
    for ((at = 0; at < ${#rest}; at++)); do
        c=${rest:at:1}
        if [[ -n $quote ]]; then
            word+=$c
            if [[ $c == "$quote" ]]; then quote=; fi
        elif [[ $c == \\ ]]; then
            word+=$c${rest:at+1:1}
            at=$((at + 1))
        elif [[ $c == [\'\"] ]]; then
            word+=$c quote=$c
        elif [[ $c == ' ' ]]; then
            if [[ -n $word ]]; then COMP_WORDS+=("$word"); fi
            word='' inside=
            continue
        elif [[ -n $breaks && $c == ["$breaks"] ]]; then
            if [[ -z $inside && -n $word ]]; then
                COMP_WORDS+=("$word")
                word=
            fi
            word+=$c inside=1
            continue
        else
            if [[ -n $inside ]]; then
                COMP_WORDS+=("$word")
                word='' inside=
            fi
            word+=$c
        fi
    done
    COMP_WORDS+=("$word")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
    command=${COMP_WORDS[0]} COMPREPLY=()
    if ! spec=$(complete -p -- "$command" 2>/dev/null) && [[ $1 != - ]]; then
        _completion_loader "$command"
        spec=$(complete -p -- "$command" 2>/dev/null)
    fi
    spec=${spec#* -F }
    "${spec%% *}" "$command" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    status=$?
    for word in "${COMPREPLY[@]}"; do
        printf '%s\n' "$word"
    done
    printf '== %s\n' "$status"
done
