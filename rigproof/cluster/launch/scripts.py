"""The `sh` scripts that run on a rig's machines. They touch nothing without the cluster's mark."""

# Process ids with the environment entry $1, one a line. A machine where this finds nothing that is certainly
# there cannot be looked at: another script says so, and ends.
MARKED = r"""
marked() { grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3; }
if [ -z "$(export RIGPROOF_LOOKING=$$; marked "RIGPROOF_LOOKING=$$")" ]; then
    echo "its processes cannot be looked at: it takes grep with -z, cut, and a /proc that can be read"
    exit 1
fi
"""

# Runs the `sh` command $1 with the environment of a terminal, which the user's own shell makes, whatever
# shell that is: `sh` itself reads none of its files. csh takes no option beside -l.
LOGIN = r"""
login() {
    case ${SHELL##*/} in bash | ksh* | zsh) interactive=-i ;; *) interactive= ;; esac
    echo "exec /bin/sh -c 'eval \"\$RIGPROOF_RUN\"'" |
        RIGPROOF_RUN="unset RIGPROOF_RUN; $1" "${SHELL:-/bin/sh}" -l $interactive > /dev/null 2>&1
}
"""

# Prints `process PID` for each process with the mark $1 in its environment, `token HASH` for the token file,
# and of the first Ray that there is of $2, $3 and so on: `ray PATH`, then what its Python has, as `has NAME
# VERSION`, or `lacks REASON`. A Ray is a path, one below the home (`~/…`), or a name that a terminal knows.
LOOK = (
    MARKED
    + LOGIN
    + r"""
for pid in $(marked "$1"); do echo "process $pid"; done
if [ -s ~/.ray/auth_token ]; then
    echo "token $(tr -d '[:space:]' < ~/.ray/auth_token | sha256sum | cut -d ' ' -f 1)"
fi
found_by_terminal() {
    answer=$(mktemp) || return
    export RIGPROOF_NAME="$1" RIGPROOF_ANSWER="$answer"
    login 'command -v "$RIGPROOF_NAME" > "$RIGPROOF_ANSWER"'
    cat "$answer"
    rm -f "$answer"
}
python_of() { # of the script $1, from its first line; an installer writes a long path into the second
    { IFS= read -r first; IFS= read -r second; } < "$1"
    case "$first $second" in
    "#!/bin/sh '''exec' "*) second=${second#"'''exec' "} second=${second%' "$0" "$@"'}; echo "$second" ;;
    '#!'*python*) echo "${first#'#!'}" ;;
    esac
}
shift
for one; do
    case $one in
    '~/'*) ray=$HOME/${one#'~/'} ;;
    */*) ray=$one ;;
    *) ray=$(found_by_terminal "$one") ;;
    esac
    [ -f "$ray" ] && [ -x "$ray" ] || continue
    echo "ray $ray"
    python=$(python_of "$ray" 2>/dev/null)
    [ -n "$python" ] || exit 0
    code='import platform; print("has Python", platform.python_version())
import rigproof; print("has rigproof", rigproof.__version__)
import importlib.metadata as known; print("has ray", known.version("ray"))'
    cd /
    if has=$(eval "$python"' -u -c "$code"' 2>&1); then
        echo "$has"
    else
        echo "lacks $(echo "$has" | tail -n 1)"
    fi
    exit 0
done
"""
)

# Keeps the token $1, for its owner alone. A token that is there already stays.
SAVE_IT = r"""
umask 077
mkdir -p ~/.ray && { [ -s ~/.ray/auth_token ] || printf %s "$1" > ~/.ray/auth_token; }
"""

# Starts Ray by the line $1, as in a terminal. Ray's processes keep its output open: it goes to a file.
START = (
    LOGIN
    + r"""
output=$(mktemp) && ended=$(mktemp) || exit 1
line="$1 > '$output' 2>&1 < /dev/null; echo \$? > '$ended'"
login "$line"
[ -s "$ended" ] || sh -c "$line" # the shell's own files led somewhere else
cat "$output"
read -r status < "$ended"
rm -f "$output" "$ended"
exit "$status"
"""
)

# Ends every process with the mark $1, and what those started (a title can hide its environment), within
# $2 s. Prints how many ended, and `left PID` for each that did not. A process is known by its id and its
# start time (fields 1 and 22 of stat): ids are reused.
END = (
    MARKED
    + r"""
fields='{ rest = $0; sub(/^.*\) /, "", rest); split(rest, f, " ") }'
family() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$*" "$fields"'
        { parent[$1] = f[2]; start[$1] = f[20] }
        END {
            n = split(roots, root, " ")
            for (i = 1; i <= n; i++) if (root[i] in parent) ours[root[i]]
            do {
                more = 0
                for (pid in parent) if (!(pid in ours) && (parent[pid] in ours)) { ours[pid]; more = 1 }
            } while (more)
            for (pid in ours) print pid ":" start[pid]
        }'
}
alive() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v asked="$*" "$fields"'
        f[1] != "Z" { now[$1 ":" f[20]] }
        END {
            n = split(asked, one, " ")
            for (i = 1; i <= n; i++) if (one[i] in now) { split(one[i], part, ":"); print part[1] }
        }'
}
roots=$(marked "$1" | tr '\n' ' ')
if [ -z "$roots" ]; then echo "ended 0"; exit 0; fi
all=$(family $roots)
if [ -z "$all" ]; then
    if [ -z "$(marked "$1")" ]; then echo "ended 0"; exit 0; fi
    echo "its processes cannot be ended: it takes awk"
    exit 1
fi
rest=$(alive $all)
[ -z "$rest" ] || kill -TERM $rest 2>/dev/null
tries=0
while rest=$(alive $all) && [ -n "$rest" ] && [ $tries -lt $(($2 * 2)) ]; do
    sleep 0.5
    tries=$((tries + 1))
done
[ -z "$rest" ] || { kill -KILL $rest 2>/dev/null; sleep 1; }
echo "ended $(echo $all | wc -w)"
for pid in $( (alive $all; marked "$1") | sort -u); do echo "left $pid"; done
"""
)
