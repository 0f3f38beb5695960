"""A task in a process of its own: whatever that process does, the worker knows, and nothing is left of it."""

import os
import signal
from dataclasses import dataclass

import pytest

from rigproof.devices import own_process
from rigproof.devices.own_process import ApartError, run_apart
from rigproof.devices.specs import Spec
from rigproof.host.processes import process_id
from rigproof.records.crews import Member
from support.devices import NodeContext

LIMIT_S = 60.0  # ends only a test that has failed already
SERVE = """\
import os, signal, time
from rigproof.host.parent import tell
from rigproof.devices.own_process import serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import Spec
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class LabSpec(Spec):
    threads: int
    def run(self, device, context):
        pass
def work(spec, context):
    Reporter(context, spec.stage, context.crew.subject).event("pid", "", {"pid": os.getpid()})
"""


@dataclass(frozen=True, slots=True)
class LabSpec(Spec):
    threads: int

    def run(self, device, context):
        """Not called."""


class Alive(NodeContext):
    """Counts the signs of life."""

    signs = 0

    def alive(self):
        self.signs += 1


@pytest.fixture
def heard(child_module):
    """What a process said that does this; or raises what comes of it. None is left."""

    def hear(work, context=None, *, stall_s=LIMIT_S, **more):
        name = child_module(f"{SERVE}{work}\nsys.exit(serve_apart(work, LabSpec))")
        context = context or Alive()
        said = {"test": "lab test", "silent": "it said nothing"}
        try:
            run_apart(name, LabSpec("lab", threads=3), context, records=(), stall_s=stall_s, **said, **more)
        finally:
            pids = [one.data["pid"] for one in context.events("pid")]
            assert list(map(process_id, pids)) == [None] * len(pids)
        return context.events("said")

    return hear


def test_its_records_are_the_workers_and_each_is_a_sign_of_life(heard, monkeypatch):
    monkeypatch.setattr(own_process, "WAIT_S", LIMIT_S)  # else to wait is one, too
    context = Alive()
    work = (
        "    reporter = Reporter(context, spec.stage, context.crew.subject)\n"
        "    reporter.event('said', f'{spec.threads} threads', {})\n"
        "    reporter.round(phase='measure', seconds=0.5, work=2.0, verified=True, labels={'size': 8})\n"
    )
    begun_s = context.now_s()
    (said,) = heard(work, context)
    assert (said.message, said.stage, said.worker, said.subject) == (
        "3 threads",
        "lab",
        context.worker,
        "host",
    )
    assert begun_s <= said.t_s <= context.now_s()
    (done,) = context.rounds
    assert (done.seconds, done.work, done.verified, done.label("size")) == (0.5, 2.0, True, 8)
    assert context.signs == 4  # with its pid, and that it is done


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("    raise ValueError('broken')", "the lab test failed: ValueError: broken"),
        (
            "    os.kill(os.getpid(), 9)",
            "the lab test ended with status -9; the kernel killed it since memory ran out, or somebody did",
        ),
        ("    os._exit(3)", "the lab test ended with status 3"),
        (
            "    os.write(2, b'Traceback:\\nImportError: libcudart.so.13\\n'); os._exit(1)",
            "the lab test ended with status 1: ImportError: libcudart.so.13",
        ),
    ],
)
def test_one_that_fails_or_dies_is_an_error_that_says_how(heard, work, error):
    with pytest.raises(RuntimeError) as raised:
        heard(work)
    assert str(raised.value) == error


def test_one_that_says_nothing_is_given_up(heard):
    with pytest.raises(RuntimeError) as raised:
        heard("    time.sleep(600)", stall_s=0.3)
    assert str(raised.value) == "it said nothing for 0.3 s"


def test_it_says_itself_how_soon_its_next_message_must_come(heard):
    told = []
    work = "    tell(what='step', number=1, limit_s=0.3)\n    time.sleep(600)"
    with pytest.raises(ApartError, match=r"^it said nothing for 0.3 s$") as raised:
        heard(work, hear=told.append)
    assert told == [{"what": "step", "number": 1, "limit_s": 0.3}]
    assert (raised.value.how, raised.value.held) == ("silent", False)


@pytest.mark.parametrize(
    ("work", "limit_s"),
    [("time.sleep(600)", 0.3), ("os._exit(3)", LIMIT_S), ("raise ValueError('x')", LIMIT_S)],
)
def test_when_it_ended_and_how_long_it_had_is_known_of_each(heard, work, limit_s):
    """By the worker's clock, from before it was examined."""
    context, asked = Alive(), []
    with pytest.raises(ApartError) as raised:
        heard(
            f"    tell(what='step', limit_s={limit_s})\n    {work}",
            context,
            examine=lambda: asked.append(context.now_s()),
        )
    assert raised.value.limit_s == limit_s
    assert raised.value.t_s <= min([*asked, context.now_s()])
    assert len(asked) == (raised.value.how == "silent")


def test_however_long_it_may_be_silent_by_its_own_word_it_is_given_up_in_time(heard, monkeypatch):
    class Impatient(Alive):
        def alive(self):
            monkeypatch.setattr(own_process, "LEAST_S", 0.3)  # once it has begun

    monkeypatch.setattr(own_process, "LEAST_S", LIMIT_S)
    work = "    tell(what='step', limit_s=600)\n    time.sleep(600)"
    with pytest.raises(ApartError, match=r"^it said nothing for 0.3 s$"):
        heard(work, Impatient(), most_s=0.0)


def test_of_a_silent_one_it_is_known_whether_a_signal_stopped_it(heard):
    with pytest.raises(ApartError) as raised:
        heard("    tell(what='step', limit_s=0.3)\n    os.kill(os.getpid(), signal.SIGSTOP)")
    assert (raised.value.how, raised.value.held) == ("silent", True)


def test_one_that_a_signal_holds_is_not_waited_for_until_its_deadline(heard):
    work = "    tell(what='step', limit_s=600)\n"
    with pytest.raises(ApartError, match=r"^it said nothing for [\d.]+ s$") as raised:
        heard(work + "    os.kill(os.getpid(), signal.SIGSTOP)", held_s=0.3)
    assert (raised.value.how, raised.value.held) == ("silent", True)
    assert 0.3 < raised.value.limit_s < LIMIT_S


@pytest.mark.parametrize("held_s", [{}, {"held_s": LIMIT_S}])
def test_one_that_a_signal_held_for_a_moment_goes_on(heard, held_s):
    own = "    tell(what='step', limit_s=60)\n    import subprocess, sys\n"
    let_go = "import os, signal, time; time.sleep(0.3); os.kill({os.getpid()}, signal.SIGCONT)"
    held = f"    subprocess.Popen([sys.executable, '-c', f'{let_go}'])\n"
    on = "    os.kill(os.getpid(), signal.SIGSTOP)\n    Reporter(context, spec.stage).event('said', 'on', {})"
    assert [one.message for one in heard(own + held + on, **held_s)] == ["on"]


def test_its_place_in_the_crew_is_the_workers(heard):
    context = Alive()
    context.crew = Member("host", 1, 2, ("127.0.0.1", 4711), 2.5, ("host/cpu0#0", "host/cpu1#0"))
    (said,) = heard("    Reporter(context, spec.stage).event('said', repr(context.crew), {})", context)
    assert said.message == repr(context.crew)


def test_a_task_that_is_stopped_ends_without_waiting_for_it(heard):
    stopped = Alive(lambda one: len(one.records) > 0)
    assert heard("    while not context.stopped(): time.sleep(0.01)", stopped) == []


def test_nothing_is_left_where_whoever_listens_fails(heard):
    class Full(NodeContext):
        def emit(self, record):
            super().emit(record)
            raise OSError("no room for a record")

    with pytest.raises(OSError, match="no room"):
        heard("    while not context.stopped(): time.sleep(0.01)", Full())


@pytest.fixture
def ready():
    """A process that has loaded torch, or is about to."""
    own_process.make_ready(1)
    (process,) = own_process._ready
    own_process.make_ready(1)
    assert own_process._ready == [process]
    own_process.make_ready(0)
    yield process
    for one in (process, *own_process._ready):
        one.stop(0)
    own_process._ready.clear()


TELL = """\
    told = {"by": os.environ.get("LAB"), "torch": "torch" in sys.modules, "pid": os.getpid()}
    Reporter(context, spec.stage, context.crew.subject).event("said", str(spec.threads), told)
"""


@pytest.mark.parametrize("ended", [False, True])
def test_a_process_that_is_ready_takes_the_task_and_one_that_has_ended_does_not(heard, ready, ended):
    if ended:
        os.kill(ready.pid, signal.SIGKILL)
        assert ready.wait(LIMIT_S) == -signal.SIGKILL
    (told,) = heard(TELL, torch=True, environment={"LAB": "lan"})
    assert (told.message, told.data["by"], told.data["torch"]) == ("3", "lan", not ended)
    assert (told.data["pid"] == ready.pid) is not ended
    assert own_process._ready == []


def test_another_is_started_as_it_is_taken_where_a_later_task_needs_one(heard, ready):
    own_process.make_ready(1)
    heard(TELL, torch=True)
    (another,) = own_process._ready
    assert another.pid != ready.pid


def test_the_one_that_has_loaded_for_longest_is_taken_of_two(heard, ready):
    own_process.make_ready(2)
    _, younger = own_process._ready
    own_process.make_ready(1)
    (told,) = heard(TELL, torch=True)
    assert told.data["pid"] == ready.pid
    assert own_process._ready == [younger]


def test_what_needs_no_torch_leaves_it_for_those_that_do(heard, ready):
    (told,) = heard(TELL)
    assert told.data["pid"] != ready.pid
    assert own_process._ready == [ready]


def test_who_waits_for_a_silent_process_within_its_limit_is_alive(heard):
    context = Alive()
    heard("    time.sleep(1.0)", context)
    assert context.signs > 3
