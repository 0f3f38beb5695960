"""The `sh` scripts that run on a rig's machines over ssh. They touch nothing without the cluster's mark."""

# Process ids with the environment entry $1, one a line.
MARKED = r"""
marked() { grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3; }
"""

# Prints `process PID` for each process with the mark $1 in its environment, `token HASH` for the token file,
# and `ray` where $2 can be called in a login shell, as `ray up` calls it.
LOOK = (
    MARKED
    + r"""
for pid in $(marked "$1"); do echo "process $pid"; done
if [ -s ~/.ray/auth_token ]; then
    echo "token $(tr -d '[:space:]' < ~/.ray/auth_token | sha256sum | cut -d ' ' -f 1)"
fi
if bash -l -i -c 'command -v "$0" > /dev/null' "$2" 2>/dev/null < /dev/null; then echo ray; fi
"""
)

# Keeps the token on stdin, for its owner alone. A token that is there already stays.
SAVE_IT = r"""
umask 077
mkdir -p ~/.ray
if [ -s ~/.ray/auth_token ]; then exit 0; fi
cat > ~/.ray/auth_token
"""

# Ends every process with the mark $1, and what those started (a title can hide its environment), within
# $2 s; forgets what `ray up` noted about the cluster $3. Prints how many ended, and `left PID` for each
# that did not. A process is known by its id and its start time (fields 1 and 22 of stat): ids are reused.
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
noted=${RAY_TMPDIR:-/tmp}/ray/cluster-$3
rm -f "$noted.state" "$noted.lock"
roots=$(marked "$1" | tr '\n' ' ')
if [ -z "$roots" ]; then echo "ended 0"; exit 0; fi
all=$(family $roots)
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
