"""The monitor on a simulated rig, which needs neither a GPU nor NVIDIA's driver."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rigproof.cluster.actors.messages import AgentDuty
from rigproof.monitor.gathering import RATE_HZ, Gathering
from rigproof.monitor.signs import warning_signs
from rigproof.monitor.simulated import REST_S, simulated, windows
from rigproof.monitor.snapshot import Snapshot
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.registry import KINDS
from support.acceptance import rigproof

RIG = ("monitor", "--simulate")


@pytest.fixture(scope="module")
def document():
    done = rigproof(*RIG, "--once", "--json", "--interval=7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.startswith(
        "rigproof: SIMULATED: dual-3090-3070, since no --hwprofile names another rig"
    )
    return json.loads(done.stdout)


def test_the_cards_of_the_profile_are_there_and_work(document):
    assert document["source"] == "SIMULATED rig"
    assert [node["name"] for node in document["nodes"]] == ["pc1", "pc2"]
    cards = [gpu for node in document["nodes"] for gpu in node["gpus"]]
    assert [gpu["name"] for gpu in cards] == ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3070"]
    for gpu in cards:
        assert gpu["presence"] == "here"
        assert gpu["utilization_percent"] > 50  # its first stage has begun
        assert gpu["power_average_w"] > 100
        assert 30 <= gpu["fan_percent"] <= 100
        (process,) = gpu["processes"]
        assert process["used_mib"] > 0


def signs_of(seconds, *inject):
    """The signs of idle cards after so long, on a clock of our own, without threads."""
    loaded = load_rig("dual-3090-3070", KINDS)
    gathering, clock, ports = Gathering(), [0.0], []
    nodes = simulated(loaded, inject, gathering, lambda: clock[0])
    for node in nodes.there():
        gathering.promise(loaded, node)
        port = nodes.port(node, 0)
        facts = port.facts(node, gpu_promised=True)
        subject = f"{node}/gpu0"
        gathering.add(replace(facts.gpus[0], subject=subject))
        duty = AgentDuty(node, 0.0, RATE_HZ, 30.0, {facts.gpus[0].uuid: subject})
        gathering.begin(node, facts, port.begin(duty), 0.0)
        ports.append(port)
    found = []
    while clock[0] < seconds:
        clock[0] += 1 / RATE_HZ
        for port in ports:
            port.poll()
        at = datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=clock[0])
        shown = Snapshot(f"{at:%Y-%m-%dT%H:%M:%SZ}", loaded.rig.name, "test", gathering.nodes(clock[0]))
        found += [sign for sign in warning_signs(shown) if sign.kind == "idle"]
    for port in ports:
        port.close(1.0)
    return found


def test_an_idle_second_card_is_marked_and_none_of_a_sound_rig():
    signs = signs_of(40.0, "gpu-idle@pc2/gpu0:stage=gemm")
    assert {sign.subject for sign in signs} == {"pc2/gpu0"}
    assert signs[0].text.startswith("idle while pc1/gpu0 works, since 00:00:")
    assert signs_of(150.0) == []


def test_the_stages_of_the_plan_come_again_and_again():
    plan = make_plan(load_rig("dual-3090-3070", KINDS), "quick")
    names = [stage.name for stage in plan.stages]
    once_s = sum(stage.expected_s + REST_S for stage in plan.stages)
    assert windows(plan, 0.0) == ()
    assert [one.name for one in windows(plan, REST_S)] == names[:1]
    assert [one.name for one in windows(plan, 2 * once_s + REST_S + 0.001)] == [*names, *names, names[0]]
    starts = [one.start_s for one in windows(plan, 3 * once_s)]
    assert starts == sorted(starts)
    assert starts[len(names)] == pytest.approx(once_s + REST_S)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((*RIG[1:], "--ray-address=a:1"), "--ray-address a:1: a simulated rig is on this machine; leave out"),
        (("--inject=oom",), "--inject oom: real hardware has its own faults; add --simulate"),
        ((*RIG[1:], "--inject=overheet"), "did you mean 'overheat'?"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, expected):
    done = rigproof("monitor", *options, "--once")
    assert done.returncode == 4, done.stdout
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
