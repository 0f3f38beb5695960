"""The monitor on a simulated rig, which needs neither a GPU nor NVIDIA's driver."""

import json

import pytest

from rigproof.monitor.simulated_source import REST_S, windows
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.planning.planning import make_plan
from rigproof.stages.registry import KINDS
from support.acceptance import rigproof

RIG = ("monitor", "--simulate", "--hwprofile=dual-3090-3070")


@pytest.fixture(scope="module")
def document():
    done = rigproof(*RIG, "--once", "--json", "--interval=7")
    assert done.returncode == 0, done.stdout + done.stderr
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
        (("--simulate",), "--simulate: there is no rig to simulate; name one"),
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
