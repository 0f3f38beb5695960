"""A node without an accepting verdict takes no jobs, as examples/slurm promises: by a real slurmctld."""

import re
import socket
from collections.abc import Iterator

import pytest

from rigproof.records.verdict import Decision
from support.left_verdicts import leave_verdict
from support.slurm_cluster import Slurm, slurm, why_no_slurm
from support.waiting import wait_for

REASON = why_no_slurm()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
JOB = ("--wait", "--uid=nobody", "--chdir=/", "--output=/dev/null", "--wrap=true")


@pytest.fixture
def cluster() -> Iterator[Slurm]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    with slurm(ports) as found:
        yield found


def test_only_a_node_that_was_accepted_takes_jobs(cluster: Slurm) -> None:
    retest = cluster.folder / "etc" / "retest.sh"
    assert cluster.wait_for_node("drained").startswith("drained rigproof: none of this machine in ")

    cluster.accept_next("ACCEPTED")
    cluster.run(retest)
    cluster.wait_for_checks()
    assert cluster.node == "idle none"
    assert "No reservations" in cluster.run("scontrol", "show", "reservation")
    cluster.run("sbatch", *JOB)

    leave_verdict(cluster.reports, Decision.REJECTED)
    said = r"drained rigproof: REJECTED lab standard \d+ s ago: 2 failed"
    assert re.fullmatch(said, cluster.wait_for_node("drained"))
    cluster.run(retest)  # tests only what has no verdict
    assert "2 failed" in cluster.node

    cluster.run("scontrol", "update", "NodeName=n1", "Reason=the fan is loud")
    cluster.wait_for_checks()
    leave_verdict(cluster.reports)
    cluster.wait_for_checks()
    cluster.run(retest)
    assert cluster.node == "drained the fan is loud"  # somebody's own: whatever the verdict, it stays


def test_no_job_starts_between_two_health_checks(cluster: Slurm) -> None:
    leave_verdict(cluster.reports)
    check = cluster.folder / "etc" / "healthcheck.sh"
    whole = check.read_text()
    check.write_text("#!/bin/sh\n")
    cluster.wait_for_node("idle")
    cluster.run("sbatch", *JOB)

    leave_verdict(cluster.reports, Decision.REJECTED)
    job = cluster.run("sbatch", *JOB[1:]).split()[-1]
    assert cluster.wait_for_node("drained") == "drained Prolog error"
    queued = wait_for(lambda: pending(cluster.run("scontrol", "show", "job", job)), "the job in the queue")
    assert "held" not in queued.lower()
    check.write_text(whole)
    assert "REJECTED lab standard" in cluster.wait_for_node("drained rigproof")


def pending(job: str) -> str:
    return job if "JobState=PENDING" in job else ""
