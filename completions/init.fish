
# The prompt of a shell under a lease: [kind-1] > (what it holds doesn't change while it runs).
function __withlease_status
    return $argv[1]
end
set -g __withlease_held (string split , -- "$WITHLEASE_HELD" | string replace -r '=.*' '' | string match -r '^[A-Za-z0-9._@:+-]+$')
if set -q __withlease_held[1]; and functions -q fish_prompt; and not functions fish_prompt | string match -q '*__withlease_fish_prompt*'
    functions -e __withlease_fish_prompt
    functions -c fish_prompt __withlease_fish_prompt
    function fish_prompt
        set -l last $status
        echo -n "[$__withlease_held] "
        __withlease_status $last
        __withlease_fish_prompt
    end
end
