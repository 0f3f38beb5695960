#!/bin/sh
# HealthCheckProgram: drains a node on which no accepting verdict holds. It never resumes one: retest.sh does.
export PATH=/opt/rigproof/bin:/usr/sbin:/usr/bin:/sbin:/bin
said=$(timeout 20 rigproof verdict --report-dir /var/lib/rigproof/reports --max-age 26h 2>&1) && exit 0
said=$(echo "${said:-rigproof verdict failed}" | head -n 1)
timeout 10 scontrol show reservation "rigproof-$SLURMD_NODENAME" >/dev/null 2>&1 && exit 0 # it is being tested
case $(timeout 10 sinfo --noheader --nodes="$SLURMD_NODENAME" --format='%T %E') in
drain*\ Prolog\ error*) ;; # that was prolog.sh: say why
drain*) exit 0 ;; # somebody's own reason stays
esac
timeout 10 scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="rigproof: $said"
exit 0 # newer versions of slurmd do not start without it
