# fish --no-config driver.fish COMPLETIONS
#
# Asks fish for what completes a line, a line of standard input at a time, with
# the cursor at its end. Each answer is the candidates with a TAB and their
# descriptions, a line each, then a line "== ".
set fish_complete_path $argv[1] $__fish_data_dir/completions
while read -l line
    complete -C "$line"
    printf '== %s\n' $status
end
