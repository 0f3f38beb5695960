#!/bin/sh
# As root: tests drained nodes, reserved for it. `retest.sh NODE...` after a repair; without names, from cron,
# every node that is drained because it had no verdict. A node that is not accepted is drained again.
[ $# -gt 0 ] || set -- $(sinfo -h -N -t drained -o '%N %E' | awk '$2 $3 == "rigproof:none" { print $1 }' | sort -u)
for node; do
    scontrol create reservation ReservationName="rigproof-$node" Nodes="$node" Users=rigproof \
        StartTime=now Duration=60 Flags=MAINT || continue
    scontrol update NodeName="$node" State=RESUME
    (
        sbatch --wait --uid=rigproof --reservation="rigproof-$node" --nodelist="$node" /etc/slurm/rigproof/accept.sbatch
        scontrol delete ReservationName="rigproof-$node"
    ) &
done
wait
