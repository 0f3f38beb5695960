"""What a run needs of its host, and the sentences for what is missing."""

from pathlib import Path

import pytest

from rigproof.cluster.ray.folder import LONGEST_ROOT_BYTES
from rigproof.host.room import MIB, ThreadRoom
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.tables.limits import Limits
from rigproof.run import surroundings
from rigproof.run.surroundings import (
    no_localhost,
    no_loopback,
    no_room,
    threads_needed,
    too_few_threads,
    too_tight,
)
from rigproof.stages.registry import KINDS

LIMITS = Limits(
    run_threads=60,
    run_threads_per_node=65,
    run_threads_per_worker=25,
    run_threads_per_context=33,
    run_threads_per_cpu=4.75,
    run_temp_mib=16,
)


@pytest.mark.parametrize(
    ("raylets", "workers", "contexts", "cpus", "needed"),
    [(1, 1, 0, 2, 160), (1, 1, 1, 2, 192), (3, 2, 0, 2, 314), (1, 2, 2, 32, 393), (1, 16, 8, 128, 1397)],
)
def test_threads_grow_with_nodes_workers_and_cpus(raylets, workers, contexts, cpus, needed):
    assert threads_needed(LIMITS, raylets, workers, contexts, cpus) == needed


def test_a_profile_without_these_limits_refuses_nothing(tmp_path):
    assert threads_needed(Limits(), 3, 2, 2, 64) == 0
    assert list(no_room(tmp_path, tmp_path, Limits())) == []


def test_the_defaults_are_what_was_measured():
    """Threads of two simulated PCs, of a node with two workers on 2 CPUs, and of two H100 with 32 CPUs."""
    limits = default_rig(KINDS).rig.limits
    assert 286 <= threads_needed(limits, 3, 2, 0, 2) <= 286 * 1.1
    assert 169 <= threads_needed(limits, 1, 2, 0, 2) + 2 <= 169 * 1.1
    assert 393 <= threads_needed(limits, 1, 2, 2, 32) <= 393 * 1.1


def test_too_few_threads_are_named_with_the_limit_the_need_and_the_way_out():
    room = ThreadRoom(200, 40, "/sys/fs/cgroup/pids.max", "raise it")
    assert list(too_few_threads(room, 161, 1)) == [
        "/sys/fs/cgroup/pids.max = 200: 40 threads are there already, which leaves 160; a run with 1 worker "
        "starts about 161 (limits.run_threads and the keys below it); raise it, or plan fewer workers"
    ]
    assert list(too_few_threads(room, 160, 1)) == []
    assert list(too_few_threads(None, 10_000, 1)) == []


@pytest.mark.parametrize(
    ("option", "allowed", "said"),
    [
        ("RLIMIT_NOFILE", 40, "`ulimit -n` allows 40 open files, and a process of Ray needs 100 ("),
        (
            "RLIMIT_AS",
            1000 * MIB,
            "`ulimit -v` allows 1000 MiB of addresses, and a process of Ray needs 2900 (",
        ),
        (
            "RLIMIT_FSIZE",
            2 * MIB,
            "`ulimit -f` allows 2 MiB in a file, and a process of Ray needs 75; raise it",
        ),
        ("RLIMIT_NOFILE", 100, ""),
        ("RLIMIT_STACK", 1, ""),
    ],
)
def test_a_limit_on_each_process_is_named_with_what_ray_needs(monkeypatch, option, allowed, said):
    tight = getattr(surroundings.resource, option)
    infinite = surroundings.resource.RLIM_INFINITY
    monkeypatch.setattr(
        surroundings.resource, "getrlimit", lambda limit: (allowed if limit == tight else infinite, infinite)
    )
    found = "".join(too_tight(default_rig(KINDS).rig.limits))
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_a_loopback_interface_that_is_down_is_named_with_the_way_out():
    (sentence,) = no_loopback("Network is unreachable")
    assert "(Network is unreachable)" in sentence
    assert sentence.endswith("`ip link set lo up`")
    assert list(no_loopback("")) == []


def test_a_localhost_that_is_elsewhere_is_named_with_the_way_out():
    (sentence,) = no_localhost("203.0.113.9")
    assert "says that localhost is 203.0.113.9" in sentence
    assert sentence.endswith("write `127.0.0.1 localhost` into /etc/hosts")
    assert list(no_localhost("")) == []


@pytest.mark.parametrize(
    ("temp_mib", "shared_mib", "said"),
    [
        (16, 75, ""),
        (15, 4000, "/t has 15.0 MiB free; Ray's files need 16 MiB there; make room"),
        (90, 64, "need 91 MiB there, 75 of them because /s has 64 MiB free; make room"),
        (91, 0, ""),
    ],
)
def test_rays_object_store_is_in_shared_memory_or_beside_its_files(monkeypatch, temp_mib, shared_mib, said):
    """That there is no space is only said where there is none."""
    found = {Path("/t"): temp_mib, Path("/s"): shared_mib}
    monkeypatch.setattr(surroundings, "free_mib", found.__getitem__)
    monkeypatch.setattr(surroundings.os, "access", lambda *_: True)
    sentences = list(no_room(Path("/t"), Path("/s"), LIMITS))
    assert len(sentences) == bool(said)
    assert said in "".join(sentences)


def test_a_folder_that_cannot_be_written_is_named_with_the_longest_path_of_another(tmp_path):
    (sentence,) = no_room(tmp_path / "nothing", tmp_path, LIMITS)
    assert f"a path of at most {LONGEST_ROOT_BYTES} bytes: a socket's has 107 in all" in sentence
