# fish completion for withlease(1). The names come from `withlease __complete`,
# which reads files only. What follows -- is completed as without withlease.

# The words before the cursor, cut in three: the verb ("run" where it is left
# out, nothing where none is there yet, "--" behind it), its arguments, and the
# flags that the names depend on.
function __withlease_parse --no-scope-shadowing
    set -l __withlease_flag
    set verb
    set args
    set given
    for word in (commandline -opc)[2..-1]
        if set -q __withlease_flag[1]
            set word $__withlease_flag=$word
            set -e __withlease_flag
        end
        switch $word
            case --
                set verb --
                return
            case '--dir=*' '--session=*' '--host-session=*' '--name=*' '--person=*' '--team=*'
                set -a given (string replace -r -- '^--dir=~/' "--dir=$HOME/" $word)
            case '--*=*'
            case --dir --session --host-session --name --person --team --wait --keep-place --keep-on-fail --for --if --message --ticket --purpose --pty --notify --ttl --grace --on-lost --conflict-exit-code --status-file --budget-gib --reason --unblock --pid --to --until --since --last --svg --html --rules
                set __withlease_flag $word
            case '--*'
            case '-*w' '-*p' '-*E'
                set __withlease_flag $word
            case '-*'
            case '*'
                switch "$verb:$word"
                    case :run :list :status :queue :history :stats :timeline :claim :extend :release :ask :verify :grant :revoke :supervisor :upgrade :guard :completion :init :doctor :version
                        set verb $word
                    case supervisor:start supervisor:stop supervisor:status upgrade:begin upgrade:end
                        set verb "$verb $word"
                    case ':*'
                        set verb run
                        set args $word
                    case '*'
                        set -a args $word
                end
        end
    end
end

# __withlease_at VERB... is true where one of these verbs is, with the number of
# arguments before the cursor behind a comma, if that matters: "grant,1".
function __withlease_at
    set -l verb
    set -l args
    set -l given
    __withlease_parse
    contains -- "$verb" $argv; or contains -- "$verb,"(count $args) $argv
end

# __withlease_names KIND offers names. A list with commas is completed at its
# last name, and has the resources of the argument before for its context.
function __withlease_names
    set -l verb
    set -l args
    set -l given
    __withlease_parse
    set -l typed (commandline -ct)
    set -l prefix (string unescape -- $typed 2>/dev/null; or string trim -l -c '\'"' -- $typed)
    set -l before
    if contains -- $argv[1] tickets
        set prefix (string replace -r -- '^--ticket=' '' $prefix)
        set args (string join , $args)
    else if contains -- "$verb,"(count $args) grant,0 revoke,0
        set before (string replace -r -- '[^,]*$' '' $prefix)
        set prefix (string replace -r -- '.*,' '' $prefix)
    end
    set -l lines (command withlease __complete $given $argv[1] "$prefix" "$args[1]" 2>/dev/null)
    if not set -q lines[1]
        # fish may match them in another way.
        set lines (command withlease __complete $given $argv[1] '' "$args[1]" 2>/dev/null)
    end
    for line in $lines
        set -l name (string split -m 1 \t -- $line)
        if not string match -qr '[[:cntrl:]]' -- $name[1] $name[2]; and not contains -- $name[1] $args
            printf '%s%s\t%s\n' "$before" $name[1] "$name[2]"
        end
    end
end

# __withlease_command completes the command behind --: its words, quoted again,
# and the one at the cursor as it is.
function __withlease_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -l before
    if test $at -lt (count $words)
        set before (string escape -- $words[(math $at + 1)..-1])
    end
    set -l line (string join ' ' -- $before (commandline -ct))
    complete -C "$line"
end

complete -c withlease -f
complete -c withlease -n '__withlease_at --' -a '(__withlease_command)'

# Verbs and names
complete -c withlease -n '__withlease_at ""' -k -a '(__withlease_names resources)'
complete -c withlease -n '__withlease_at ""' -a run -d 'Run a command while holding resources'
complete -c withlease -n '__withlease_at ""' -a list -d 'Show what is held, by whom, for what'
complete -c withlease -n '__withlease_at ""' -a status -d 'Show one resource'
complete -c withlease -n '__withlease_at ""' -a queue -d 'Show who waits, and what is granted to whom'
complete -c withlease -n '__withlease_at ""' -a history -d 'Show what happened'
complete -c withlease -n '__withlease_at ""' -a stats -d 'Show how much resources were used'
complete -c withlease -n '__withlease_at ""' -a timeline -d 'Draw who held what'
complete -c withlease -n '__withlease_at ""' -a claim -d 'Hold a resource without a command'
complete -c withlease -n '__withlease_at ""' -a extend -d 'Move the end of a claim'
complete -c withlease -n '__withlease_at ""' -a release -d 'Give back a claim'
complete -c withlease -n '__withlease_at ""' -a ask -d 'Ask the holder to give it back'
complete -c withlease -n '__withlease_at ""' -a verify -d 'Say whether a token or fence is of a live lease'
complete -c withlease -n '__withlease_at ""' -a grant -d 'Let a party claim resources'
complete -c withlease -n '__withlease_at ""' -a revoke -d 'Take a grant back'
complete -c withlease -n '__withlease_at ""' -a supervisor -d 'Decide who may claim'
complete -c withlease -n '__withlease_at ""' -a upgrade -d 'Hold an installation back while it is upgraded'
complete -c withlease -n '__withlease_at ""' -a guard -d 'Refuse a shell command that lacks its lease'
complete -c withlease -n '__withlease_at ""' -a completion -d 'Print the completion script of a shell'
complete -c withlease -n '__withlease_at ""' -a init -d 'Print what a shell evaluates as it starts'
complete -c withlease -n '__withlease_at ""' -a doctor -d 'Look whether all is well'
complete -c withlease -n '__withlease_at ""' -a version -d 'Show the version'
complete -c withlease -n '__withlease_at run; and not __withlease_at run,0' -a '--' -d 'The command follows'
complete -c withlease -n '__withlease_at run timeline status,0 history,0 stats,0 claim,0 grant,0 "upgrade begin,0"' -k -a '(__withlease_names resources)'
complete -c withlease -n '__withlease_at queue,0' -k -a '(__withlease_names waiting)'
complete -c withlease -n '__withlease_at extend,0' -k -a '(__withlease_names mine)'
complete -c withlease -n '__withlease_at extend,1' -a '5m 30m 2h'
complete -c withlease -n '__withlease_at ask,0 verify,1' -k -a '(__withlease_names held)'
complete -c withlease -n '__withlease_at release,0; and not __fish_contains_opt force kill' -k -a '(__withlease_names mine)'
complete -c withlease -n '__withlease_at release,0; and __fish_contains_opt force kill' -k -a '(__withlease_names held)'
complete -c withlease -n '__withlease_at grant,1' -k -a '(__withlease_names parties)'
complete -c withlease -n '__withlease_at revoke,0' -k -a '(__withlease_names granted)'
complete -c withlease -n '__withlease_at revoke,1' -k -a '(__withlease_names grantees)'
complete -c withlease -n '__withlease_at supervisor' -a start -d 'Become the supervisor'
complete -c withlease -n '__withlease_at supervisor' -a stop -d 'End the supervision'
complete -c withlease -n '__withlease_at supervisor' -a status -d 'Show who decides'
complete -c withlease -n '__withlease_at upgrade' -a begin -d 'Hold an installation back'
complete -c withlease -n '__withlease_at upgrade' -a end -d 'Let it go'
complete -c withlease -n '__withlease_at "upgrade end,0"' -k -a '(__withlease_names upgrades)'
complete -c withlease -n '__withlease_at completion,0 init,0' -a 'bash zsh fish'

# Flags of every verb
complete -c withlease -n 'not __withlease_at --' -s h -l help -d 'Show help'
complete -c withlease -n 'not __withlease_at --' -l dir -x -a '(__fish_complete_directories)' -d 'Keep leases and state here'
complete -c withlease -n 'not __withlease_at --' -l json -d 'Answer in JSON'
complete -c withlease -n 'not __withlease_at --' -l session -x -d 'The caller\'s session'
complete -c withlease -n 'not __withlease_at --' -l host-session -x -d 'The session around it'
complete -c withlease -n 'not __withlease_at --' -l name -x -d 'The caller\'s name'
complete -c withlease -n 'not __withlease_at --' -l person -x -d 'The person behind the session'
complete -c withlease -n 'not __withlease_at --' -l team -x -d 'The person\'s team'

# Flags of a run
complete -c withlease -n '__withlease_at "" run' -s n -l no-wait -d 'Don\'t wait'
complete -c withlease -n '__withlease_at "" run' -s w -l wait -x -a '30s 90s 5m 30m 2h' -d 'Wait at most this long'
complete -c withlease -n '__withlease_at "" run' -l keep-place -x -a '30s 90s 5m 30m 2h' -d 'Keep the place in line this long'
complete -c withlease -n '__withlease_at "" run' -l keep-on-fail -x -a '30s 90s 5m 30m 2h' -d 'When the command fails, keep the lease this long'
complete -c withlease -n '__withlease_at "" run' -l ticket -x -k -a '(__withlease_names tickets)' -d 'Take a kept place again'
complete -c withlease -n '__withlease_at "" run claim claim,0 claim,1' -s p -l purpose -x -d 'What it is for'
complete -c withlease -n '__withlease_at "" run' -l pty -x -a 'auto always never' -d 'Give the command a terminal of its own'
complete -c withlease -n '__withlease_at "" run' -l notify -x -a 'auto bell osc off' -d 'How a terminal tells that a long wait is over'
complete -c withlease -n '__withlease_at "" run' -l ttl -x -a '15s 60s 5m' -d 'Renew the record three times in this time'
complete -c withlease -n '__withlease_at "" run release' -l grace -x -a '0s 5s 10s 60s' -d 'How long the command has to end'
complete -c withlease -n '__withlease_at "" run' -l on-lost -x -a 'kill warn' -d 'When the lease is lost'
complete -c withlease -n '__withlease_at "" run' -s E -l conflict-exit-code -x -d 'Exit status when the resource can\'t be had'
complete -c withlease -n '__withlease_at "" run' -l status-file -r -F -d 'Write the outcome there'
complete -c withlease -n '__withlease_at "" run claim grant' -l budget-gib -x -d 'What may be held of the model server, in GiB'
complete -c withlease -n '__withlease_at "" run' -s q -l quiet -d 'Say nothing but errors'
complete -c withlease -n '__withlease_at "" run' -s v -l verbose -d 'Say what is claimed and released'

# Flags of the other verbs
complete -c withlease -n '__withlease_at release grant revoke "supervisor start" "supervisor stop"' -l force -d 'Whoever holds or decides'
complete -c withlease -n '__withlease_at claim claim,0 claim,1' -l for -x -a '30s 90s 5m 30m 2h' -d 'Until that time has passed'
complete -c withlease -n '__withlease_at ask' -l message -x -d 'What the holder is told'
complete -c withlease -n '__withlease_at release' -l if -x -d 'Only while it is this lease: a token or a fence'
complete -c withlease -n '__withlease_at release' -l dry-run -d 'Show what would be ended, and end nothing'
complete -c withlease -n '__withlease_at release' -l kill -d 'End the processes that hold it although their wrapper is gone'
complete -c withlease -n '__withlease_at release "upgrade begin"' -l reason -x -d 'Why'
complete -c withlease -n '__withlease_at grant' -l unblock -x -d 'Let it through an upgrade, and why'
complete -c withlease -n '__withlease_at "supervisor start"' -l pid -x -d 'The process that shows that the supervisor is there'
complete -c withlease -n '__withlease_at "upgrade begin"' -l to -x -d 'The version that it is upgraded to'
complete -c withlease -n '__withlease_at extend "upgrade begin"' -l until -x -a '30m 2h 8h 24h' -d 'When it is over at the latest'
complete -c withlease -n '__withlease_at history stats timeline' -l since -x -a '1h 24h 7d 30d' -d 'How far back'
complete -c withlease -n '__withlease_at list queue' -l watch -d 'Show it again at each change'
complete -c withlease -n '__withlease_at history' -l last -x -d 'No more than the newest N'
complete -c withlease -n '__withlease_at guard' -l rules -r -F -d 'The file of rules'
complete -c withlease -n '__withlease_at timeline' -l svg -r -F -d 'Draw a picture there'
complete -c withlease -n '__withlease_at timeline' -l html -r -F -d 'Make a page there'
