"""What a host reports of its past: each run that never ended, once; and what it keeps of this one."""

import os
import signal

import pytest

from rigproof.cluster.actors import remembering
from rigproof.cluster.actors.agent import NodeAgent
from rigproof.cluster.actors.messages import AgentDuty
from rigproof.cluster.actors.remembering import Remembering, look_back
from rigproof.cluster.actors.state_folder import host_folder, runs_of, this_host
from rigproof.host.proc import BootId, boot_id
from rigproof.records.black_box import FINISHED, CardWords, End, Reported, read_box
from rigproof.records.measurements import BootReading, Event
from rigproof.records.samples import GpuSample
from support.last_words import LAST, OTHER_BOOT, RESTARTED, head_of, leave


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def memory(state):
    """The memory of this host in run-9."""
    made = Remembering("here", "run-9", lambda: 3.0, dict)
    yield made
    made.end()


def kinds(records):
    return [getattr(one, "kind", None) for one in records if not isinstance(one, BootReading)]


def own_box(run_id="run-9"):
    host = this_host()
    (run,) = [one for one in runs_of(host, host_folder(host)) if one.box.head.run_id == run_id]
    return run


def test_a_first_run_has_a_boot_id_and_nothing_to_report(memory):
    (reading,) = memory.begin()
    assert (reading.subject, reading.moment, reading.boot_id) == ("here", "before", boot_id().value)
    assert memory.boot("after").moment == "after"
    assert own_box().going_on


def test_a_run_that_the_host_did_not_survive_is_reported(state, memory):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    _, event = memory.begin()
    assert (event.kind, event.subject, event.t_s) == ("unfinished_run", "here", 3.0)
    assert event.message == f"pc1 {RESTARTED}"
    assert event.data["restarted"] is True


def test_a_run_that_was_killed_is_reported_as_killed(state, memory):
    leave(state, head_of("run-1"))
    _, event = memory.begin()
    assert event.kind == "unfinished_run"
    assert event.data["restarted"] is False
    assert "did not restart" in event.message


@pytest.mark.parametrize(
    ("boot", "more"),
    [
        (OTHER_BOOT, [End(FINISHED)]),
        (None, [End(FINISHED)]),
        (OTHER_BOOT, [End("SIGTERM")]),  # an orderly shutdown
        (OTHER_BOOT, [Reported("run-2")]),
    ],
)
def test_what_ended_in_an_orderly_way_or_was_reported_is_not(state, memory, boot, more):
    leave(state, head_of("run-1", boot=boot), [LAST, *more])
    assert kinds(memory.begin()) == []


def test_an_orderly_shutdown_of_which_the_system_knows_is_no_reset(state, memory, monkeypatch):
    """The driver was killed, nobody wrote an end, and a person restarted the machine later."""
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    monkeypatch.setattr(remembering, "shut_down_after", lambda wall_s: wall_s == LAST.wall_s)
    assert kinds(memory.begin()) == []


def test_another_run_that_goes_on_beside_this_one_is_none_that_ended(state, memory):
    other = Remembering("pc1", "run-1", lambda: 3.0, dict)
    other.begin()
    try:
        assert kinds(memory.begin()) == []
    finally:
        other.end()


def test_a_run_is_reported_once_and_only_by_one_that_ended_itself(state):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    killed = Remembering("here", "run-2", lambda: 3.0, dict)
    assert kinds(killed.begin()) == ["unfinished_run"]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert killed._box.close("SIGTERM", 5.0)  # its driver was killed: nobody has read it
    second = Remembering("here", "run-3", lambda: 3.0, dict)
    try:
        assert kinds(second.begin()) == ["unfinished_run"] * 2
    finally:
        second.end()
    third = Remembering("here", "run-4", lambda: 3.0, dict)
    try:
        assert kinds(third.begin()) == []
    finally:
        third.end()


def test_this_very_run_on_another_start_of_the_host_is_a_reset(state, memory):
    """An agent that takes another's place, or that of a node that was lost and came back."""
    leave(state, head_of("run-9", node="here", boot=OTHER_BOOT))
    _, event = memory.begin()
    assert (event.kind, event.subject, event.t_s) == ("host_reset", "here", LAST.t_s)
    assert look_back("there", "run-9", 5.0)[0] == []  # another node of the profile on this host


def test_this_very_run_on_the_same_start_is_an_agent_that_was_replaced(state, memory):
    leave(state, head_of("run-9", node="here"))
    assert kinds(memory.begin()) == []


def test_a_host_without_a_boot_id_keeps_nothing_and_reports_nothing(state, memory, monkeypatch):
    leave(state, head_of("run-1", boot=OTHER_BOOT))
    monkeypatch.setattr(remembering, "boot_id", lambda: BootId(None, "not here"))
    (reading,) = memory.begin()
    assert (reading.boot_id, reading.reason) == (None, "not here")
    memory.mark("gemm", 4.0)
    memory.end()
    assert look_back("here", "run-9", 3.0) == ([], [])


def test_a_folder_that_takes_nothing_is_reported_and_the_run_goes_on(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path / "file" / "state"))
    memory = Remembering("here", "run-9", lambda: 3.0, dict)
    assert [one.boot_id for one in memory.begin()] == [boot_id().value]
    memory.mark("gemm", 4.0)
    (event,) = memory.problems()
    assert (event.kind, event.subject) == ("black_box", "here")
    assert "cannot be written" in event.message
    assert memory.problems() == []
    memory.end()


def test_a_marker_holds_the_stage_the_steps_and_what_the_cards_reported(state):
    sample = GpuSample(3.0, "here/gpu0", 100.0, None, 71.0, power_w=348.0, sm_clock_mhz=1695.0)
    memory = Remembering("here", "run-9", lambda: 30.0, lambda: {"here/gpu0": sample})
    memory.begin()
    memory.mark("sustained", 26.0)
    last = read_box(own_box().files[0].read_bytes()).last
    assert (last.stage, last.stage_s, last.steps) == ("sustained", 26.0, {})
    assert last.gpus == {"here/gpu0": CardWords(348.0, 71.0, 1695.0, 100.0)}
    memory.doing({"here/gpu0#0": "bf16"})
    memory._box.mark(60.0)
    assert read_box(own_box().files[0].read_bytes()).last.steps == {"here/gpu0#0": "bf16"}
    memory.mark(None, 40.0)
    memory.end()
    assert own_box().box.end == FINISHED


def test_a_late_marker_is_reported(state, memory, monkeypatch):
    memory.begin()
    monkeypatch.setattr(remembering, "MARK_S", 0.0)
    monkeypatch.setattr(memory._box, "mark", lambda timeout_s: False)
    memory.mark("gemm", 4.0)
    assert "the black box's line before gemm" in memory.problems()[0].message


def test_sigterm_is_an_orderly_end_and_goes_on_to_whoever_waits_for_it(state, memory):
    """What the init system sends to every process before it shuts a host down."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        memory.begin()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        assert own_box().box.end == "SIGTERM"
        memory.end()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] * 2  # the handler before is there again
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_agent_of_a_run_remembers_and_one_that_only_watches_does_not(state):
    for run_id, boots in (("run-9", ["before", "after"]), (None, [])):
        agent = NodeAgent(lambda: "")
        agent.begin(AgentDuty("here", 0.0, 10.0, 30.0, {}, run_id))
        agent.mark("gemm", 1.0)
        agent.doing({"here/cpu0#0": "fp32"})
        agent.counters("after", 1.0)
        records = (*agent.poll().records, *agent.finish(5.0).records)
        assert [one.moment for one in records if isinstance(one, BootReading)] == boots
    assert own_box().box.end == FINISHED


def test_the_agent_of_a_node_that_came_back_reports_its_reset(state):
    leave(state, head_of("run-9", node="here", boot=OTHER_BOOT))
    reading, event = NodeAgent(lambda: "").came_back("here", "run-9", 55.0)
    assert (reading.t_s, reading.moment, reading.boot_id) == (55.0, "after", boot_id().value)
    assert event.kind == "host_reset"


@pytest.mark.parametrize("reset", [False, True])
def test_an_earlier_run_is_found_again_by_the_next_agent_of_the_node(state, memory, monkeypatch, reset):
    """The driver passes it on once; the first agent was right on whether the host had restarted."""
    leave(state, head_of("run-1"))
    _, first = memory.begin()
    if reset:
        monkeypatch.setattr(remembering, "boot_id", lambda: BootId(OTHER_BOOT))
    second = [one for one in NodeAgent(lambda: "").came_back("here", "run-9", 55.0) if isinstance(one, Event)]
    assert [(one.kind, one.subject, one.data["run_id"]) for one in (first, second[0])] == [
        ("unfinished_run", "here", "run-1")
    ] * 2
    assert (first.data["restarted"], second[0].data["restarted"]) == (False, reset)
