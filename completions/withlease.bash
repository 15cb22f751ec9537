# bash completion for withlease(1)                           -*- shell-script -*-
# shellcheck shell=bash
# shellcheck disable=SC2207  # the word lists of compgen hold no spaces

# The names come from `withlease __complete`, which reads files only. What
# follows -- is completed as without withlease. It runs in bash 4 and 5, with
# and without the package bash-completion; in any bash of that age
# nothing here may fail, expand what is unset, or write to a terminal.

# _withlease_names KIND PREFIX [RESOURCE,...] lists names, a TAB and a
# description each.
_withlease_names() {
    command withlease __complete ${given[@]+"${given[@]}"} "$@" 2>/dev/null || :
}

# _withlease_reply offers the lines of standard input up to the first TAB, each
# behind $before, quoted as the word at the cursor is.
_withlease_reply() {
    local name word
    while IFS=$'\t' read -r name _; do
        case $name in
        '' | *[[:cntrl:]]*) continue ;;
        esac
        case $quote in
        '') printf -v word %q "$name" ;;
        "'") case $name in *\'*) continue ;; *) word=$name ;; esac ;;
        *) case $name in *[\"\$\`\\]*) continue ;; *) word=$name ;; esac ;;
        esac
        word=$before$word
        COMPREPLY+=("${word#"$cut"}")
    done
}

# _withlease_given FLAG VALUE hands a flag on to the names, its value as the shell
# will have it. Where that can't be told without running something, names of
# another place must not be offered either.
_withlease_given() {
    local value=$2
    case $value in
    \'*\') value=${value#\'} value=${value%\'} ;;
    \"*\") value=${value#\"} value=${value%\"} ;;
    \~/*) value=$HOME${value#\~} ;;
    esac
    case $value in *[\'\"\\\$\`]* | \~*) value=/dev/null ;; esac
    given+=("$1=$value")
}

# _withlease_files -f|-d offers files or directories.
_withlease_files() {
    local name
    compopt -o filenames 2>/dev/null || :
    while IFS= read -r name; do
        name=$before$name
        COMPREPLY+=("${name#"$cut"}")
    done < <(compgen "$1" -- "$plain")
}

# _withlease_words WORD... offers what is said here.
_withlease_words() {
    COMPREPLY+=($(compgen -W "$*" -- "$plain" || :))
    local i
    if [[ -n $before ]]; then
        for i in ${COMPREPLY[@]+"${!COMPREPLY[@]}"}; do
            COMPREPLY[i]=$before${COMPREPLY[i]}
            COMPREPLY[i]=${COMPREPLY[i]#"$cut"}
        done
    fi
}

# _withlease_value FLAG offers values of a flag.
_withlease_value() {
    case $1 in
    --dir) _withlease_files -d ;;
    --status-file | --svg | --html | --rules) _withlease_files -f ;;
    --pty) _withlease_words auto always never ;;
    --notify) _withlease_words auto bell osc off ;;
    --on-lost) _withlease_words kill warn ;;
    --wait | -*w | --keep-place | --keep-on-fail | --for) _withlease_words 30s 90s 5m 30m 2h ;;
    --until) _withlease_words 30m 2h 8h 24h ;;
    --since) _withlease_words 1h 24h 7d 30d ;;
    --ttl) _withlease_words 15s 60s 5m ;;
    --grace) _withlease_words 0s 5s 10s 60s ;;
    --ticket) _withlease_reply < <(_withlease_names tickets "$plain" "$(IFS=,; echo "${args[*]-}")") ;;
    esac
}

# _withlease_flags offers the flags of the verb.
_withlease_flags() {
    local all='-h --help --dir --json --session --host-session --name --person --team'
    case $verb in
    '' | run)
        all+=' -n --no-wait -w --wait --keep-place --keep-on-fail --ticket -p --purpose --pty --notify --ttl --grace --on-lost
            -E --conflict-exit-code --status-file --budget-gib -q --quiet -v --verbose'
        ;;
    list | queue) all+=' --watch' ;;
    history) all+=' --since --last' ;;
    stats) all+=' --since' ;;
    guard) all+=' --rules' ;;
    timeline) all+=' --svg --html --since' ;;
    claim) all+=' --for -p --purpose --budget-gib' ;;
    extend) all+=' --until' ;;
    release) all+=' --if --force --kill --dry-run --reason --grace' ;;
    ask) all+=' --message' ;;
    grant) all+=' --unblock --budget-gib --force' ;;
    revoke | 'supervisor stop') all+=' --force' ;;
    'supervisor start') all+=' --pid --force' ;;
    'upgrade begin') all+=' --to --reason --until' ;;
    esac
    # shellcheck disable=SC2086  # words
    _withlease_words $all
}

# _withlease_arg offers what can be named at the cursor.
_withlease_arg() {
    local n=${#args[@]}
    case $verb in
    '')
        _withlease_words run list status queue history stats timeline claim extend release ask verify grant revoke supervisor upgrade guard completion init doctor version
        _withlease_reply < <(_withlease_names resources "$plain")
        ;;
    run | timeline)
        _withlease_reply < <(_withlease_names resources "$plain" | while IFS= read -r line; do
            case " ${args[*]-} " in *" ${line%%$'\t'*} "*) ;; *) printf '%s\n' "$line" ;; esac
        done)
        if [[ n -gt 0 && $verb == run ]]; then _withlease_words --; fi
        ;;
    status | history | stats | claim) if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names resources "$plain"); fi ;;
    queue) if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names waiting "$plain"); fi ;;
    extend)
        case $n in
        0) _withlease_reply < <(_withlease_names mine "$plain") ;;
        1) _withlease_words 5m 30m 2h ;;
        esac
        ;;
    ask) if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names held "$plain"); fi ;;
    verify) if [[ n -eq 1 ]]; then _withlease_reply < <(_withlease_names held "$plain"); fi ;;
    release)
        local kind=mine
        case " ${typed[*]} " in *' --force '* | *' --kill '*) kind=held ;; esac
        if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names "$kind" "$plain"); fi
        ;;
    grant | revoke)
        local kinds='resources parties'
        if [[ $verb == revoke ]]; then kinds='granted grantees'; fi
        case $n in
        0)
            before=${plain%"${plain##*,}"}
            _withlease_reply < <(_withlease_names "${kinds% *}" "${plain##*,}")
            ;;
        1) _withlease_reply < <(_withlease_names "${kinds#* }" "$plain" "${args[0]}") ;;
        esac
        ;;
    supervisor) _withlease_words start stop status ;;
    upgrade) _withlease_words begin end ;;
    'upgrade begin') if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names resources "$plain"); fi ;;
    'upgrade end') if [[ n -eq 0 ]]; then _withlease_reply < <(_withlease_names upgrades "$plain"); fi ;;
    completion | init) if [[ n -eq 0 ]]; then _withlease_words bash zsh fish; fi ;;
    esac
}

# _withlease_command N offers what the command that begins at COMP_WORDS[N] does,
# as sudo's and timeout's completion do.
_withlease_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    else
        _withlease_bare "$1"
    fi
}

# _withlease_bare is that without the package: the commands, the functions that
# somebody has registered, and files.
_withlease_bare() {
    local name fn
    compopt -o filenames 2>/dev/null || :
    if [[ COMP_CWORD -eq $1 ]]; then
        while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -c -- "$cur")
    elif fn=$(complete -p -- "${COMP_WORDS[$1]##*/}" 2>/dev/null) && [[ $fn == *' -F '* ]]; then
        fn=${fn#* -F }
        compopt +o filenames 2>/dev/null || :
        local COMP_LINE=${COMP_LINE:start[$1]} COMP_POINT=$((COMP_POINT - start[$1])) COMP_CWORD=$((COMP_CWORD - $1))
        local COMP_WORDS=("${COMP_WORDS[@]:$1}")
        "${fn%% *}" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        return
    fi
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$cur")
    fi
}

_withlease() {
    COMPREPLY=()
    # The words up to the cursor, as the shell will have them: readline cuts at
    # : and = as well. start is where each of COMP_WORDS begins. None of them is
    # called words: bash-completion 2.12 would count in it.
    local typed=() start=() rest=$COMP_LINE word gap at=0 from=0 i offset=0
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        gap=${rest%%"$word"*}
        if [[ -z $word ]]; then gap=${rest:0:COMP_POINT-at}; fi
        at=$((at + ${#gap}))
        start[i]=$at
        if [[ i -eq 0 || -n $gap || -z $word ]]; then
            typed+=("$word")
            from=$at
        else
            typed[${#typed[@]} - 1]+=$word
        fi
        at=$((at + ${#word}))
        rest=${COMP_LINE:at}
        if [[ offset -eq 0 && i -lt COMP_CWORD && i -gt 0 && $word == -- && ${typed[${#typed[@]} - 1]} == -- && ${rest:0:1} != [:=] ]]; then
            offset=$((i + 1))
        fi
    done
    local cur=${COMP_LINE:from:COMP_POINT-from}
    if [[ offset -gt 0 ]]; then
        _withlease_command "$offset"
        return 0
    fi

    # plain is the word at the cursor without its quoting, quote what it is in,
    # cut what readline won't replace.
    local plain quote='' cut='' before='' breaks=${COMP_WORDBREAKS//[!:=@]/}
    case $cur in
    \"* | \'*) quote=${cur:0:1} plain=${cur:1} ;;
    *)
        plain=${cur//\\/}
        if [[ -n $breaks ]]; then cut=${cur%"${cur##*["$breaks"]}"}; fi
        ;;
    esac

    # What stands before the cursor: the verb, its arguments, the flags that the
    # names depend on, and the flag whose value the cursor is at.
    local verb='' args=() given=() flag=''
    for word in "${typed[@]:1:${#typed[@]}-2}"; do
        if [[ -n $flag ]]; then
            word=$flag=$word flag=''
        fi
        case $word in
        --dir=* | --session=* | --host-session=* | --name=* | --person=* | --team=*)
            _withlease_given "${word%%=*}" "${word#*=}"
            ;;
        --*=*) ;;
        --dir | --session | --host-session | --name | --person | --team | \
            --wait | --keep-place | --keep-on-fail | --for | --if | --message | --ticket | --purpose | --pty | --notify | --ttl | --grace | --on-lost | \
            --conflict-exit-code | --status-file | --budget-gib | \
            --reason | --unblock | --pid | --to | --until | --since | --last | --svg | --html | --rules) flag=$word ;;
        --*) ;;
        -*[wpE]) flag=$word ;;
        -*) ;;
        *)
            case $verb,$word in
            ,run | ,list | ,status | ,queue | ,history | ,stats | ,timeline | ,claim | ,extend | ,release | ,ask | ,verify | ,grant | ,revoke | ,supervisor | ,upgrade | ,guard | ,completion | ,init | ,doctor | ,version) verb=$word ;;
            supervisor,start | supervisor,stop | supervisor,status | upgrade,begin | upgrade,end) verb+=" $word" ;;
            ,*) verb=run args=("$word") ;;
            *) args+=("$word") ;;
            esac
            ;;
        esac
    done

    compopt -o nosort 2>/dev/null || :
    if [[ -n $flag ]]; then
        _withlease_value "$flag"
    elif [[ -z $quote && $plain == --*=* ]]; then
        before=${plain%%=*}=
        plain=${plain#*=}
        _withlease_value "${before%=}"
    elif [[ -z $quote && $plain == -* ]]; then
        _withlease_flags
        if [[ ${#args[@]} -gt 0 && $verb == run ]]; then _withlease_words --; fi
    else
        _withlease_arg
    fi
    return 0
}

complete -F _withlease withlease
