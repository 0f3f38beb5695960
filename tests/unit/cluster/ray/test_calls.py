import inspect
import threading

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
    RaySystemError,
)

from rigproof.cluster.ray import calls
from rigproof.cluster.ray.calls import (
    FETCH_S,
    Gone,
    LocalCall,
    Maker,
    Poller,
    ask,
    collect,
    created,
    reason_of,
)


def refuse():
    raise RaySystemError("the head said no")


class Actor:
    """Hands out numbered calls, as `actor.poll.remote()` does."""

    def __init__(self):
        self.sent = 0
        self.poll = self

    def remote(self):
        self.sent += 1
        return f"call {self.sent}"


@pytest.fixture
def answers(monkeypatch):
    """What each call gives: a value, or an error to raise; every call is done at once."""
    given = {}

    def get(call, timeout):
        answer = given[call].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(calls.ray, "get", get)
    monkeypatch.setattr(calls.ray, "wait", lambda refs, num_returns, timeout: (list(refs), []))
    return given


def test_an_answer_that_is_slow_to_arrive_is_asked_for_again_and_nobody_is_gone(answers):
    poller = Poller(Actor(), 0.0)
    answers["call 1"] = ["first"]
    assert collect({1: poller}, 1.0, 1.0) == {1: "first"}

    answers["call 2"] = [GetTimeoutError("2 s"), "second"]
    assert collect({1: poller}, 1.0, 2.0) == {}
    assert poller.gone is None
    assert poller.silent_s(5.0) == 3.0  # counted since it was asked
    assert collect({1: poller}, 1.0, 5.0) == {1: "second"}
    assert poller.actor.sent == 2


def test_an_actor_out_of_reach_is_silent_and_not_gone(answers):
    poller = Poller(Actor(), 0.0)
    answers["call 1"] = [ActorUnavailableError("for the moment", None)]
    assert collect({1: poller}, 1.0, 1.0) == {}
    assert poller.gone is None
    assert poller.silent_s(9.0) == 9.0


def test_a_dead_actor_is_gone(answers):
    poller = Poller(Actor(), 0.0)
    answers["call 1"] = [ActorDiedError()]
    answer = collect({1: poller}, 1.0, 1.0)[1]
    assert isinstance(answer, Gone)
    assert poller.gone is answer


RAN_OUT = """1 worker(s) were killed due to the node running low on memory. \
Memory on the node (ID: 1051) was 2.11GB used / 23.54GB limit (0.089688)
OOM kill reason: Memory usage 2246524928B exceeded threshold of 2224333312B (8.8% of 25276514304B limit)
Top 10 memory users: PID	MEM(GB)	COMMAND
456	0.90	python train.py
457	0.06	ray::NodeAgent
Refer to the documentation on how to address the out of memory issue"""


def test_an_actor_that_rays_memory_monitor_killed_names_it_and_who_holds_the_memory(answers):
    poller = Poller(Actor(), 0.0)
    answers["call 1"] = [OutOfMemoryError(RAN_OUT)]
    answer = collect({1: poller}, 1.0, 1.0)[1]
    assert answer.reason == (
        "Ray's memory monitor killed it, with 2.11GB of 23.54GB in use; most of it by "
        "pid 456 (python train.py, 0.90 GB), pid 457 (ray::NodeAgent, 0.06 GB)"
    )
    assert answer.remedy.startswith("end what holds that node's memory")
    answers["call 2"] = [OutOfMemoryError("in other words")]
    assert ask({"one": "call 2"}, 1.0)["one"] == Gone("Ray's memory monitor killed it", answer.remedy)


@pytest.mark.parametrize("hanging", ["wait", "get"])
def test_a_store_that_does_not_answer_holds_nobody_up(answers, monkeypatch, hanging):
    """`ray.wait` and `ray.get` outlast their time-outs there; the call stays on its way."""
    answers["call 1"] = ["late"]
    thawed = threading.Event()
    real = getattr(calls.ray, hanging)

    def hang(*arguments, **options):
        thawed.wait(60)
        return real(*arguments, **options)

    monkeypatch.setattr(calls, "FETCH_S", 0.05)
    monkeypatch.setattr(calls.ray, hanging, hang)
    poller = Poller(Actor(), 0.0)
    assert collect({1: poller}, 0.05, 1.0) == {}
    assert ask({"one": poller.send(1.0)}, 0.05) == {}
    assert poller.gone is None
    thawed.set()
    assert poller.actor.sent == 1


def test_an_answer_that_has_not_arrived_is_left_out(answers):
    answers |= {"a": [1], "b": [GetTimeoutError("2 s")], "c": [ActorDiedError()]}
    found = ask({"one": "a", "late": "b", "dead": "c"}, 1.0)
    assert found["one"] == 1
    assert isinstance(found["dead"], Gone)
    assert "late" not in found


def test_an_actor_in_the_making_is_silent_until_it_is_there(answers):
    made = threading.Event()
    actor = Actor()

    def order():
        made.wait(60)
        return actor

    poller = Poller(Maker().make(order), 0.0)
    assert poller.actor is None
    assert poller.wait(0.01) is None
    assert collect({1: poller}, 0.01, 1.0) == {}
    assert poller.silent_s(9.0) == 9.0
    made.set()
    assert poller.wait(60) is actor
    answers["call 1"] = ["first"]
    assert collect({1: poller}, 1.0, 10.0) == {1: "first"}


def test_an_actor_that_ray_refuses_to_make_is_gone_once():
    poller = Poller(Maker().make(refuse), 0.0)
    poller.wait(60)
    answer = collect({1: poller}, 0.01, 1.0)[1]
    assert answer == Gone("Ray refused it: System error: the head said no")
    assert collect({1: poller}, 0.01, 1.0) == {}


def test_what_nobody_expects_of_an_order_is_raised():
    poller = Poller(Maker().make(lambda: {}["a fault of ours"]), 0.0)
    poller.wait(60)
    with pytest.raises(KeyError, match="a fault of ours"):
        collect({1: poller}, 0.01, 1.0)


def test_an_actor_is_killed_as_soon_as_it_is_there():
    killed = []
    actor = Actor()
    Poller(actor, 0.0, killed.append).kill()
    refused = Poller(Maker().make(refuse), 0.0, killed.append)
    refused.kill()
    assert killed == [actor]


def test_an_actor_is_killed_by_ray_where_nobody_says_otherwise():
    assert inspect.signature(Poller).parameters["kill"].default is calls.ray.kill


def test_actors_are_ordered_one_after_the_other():
    maker, first, begun = Maker(), threading.Event(), []

    def order(number):
        begun.append(number)
        first.wait(60)
        return number

    one = maker.make(lambda: order(1))
    while not begun:
        first.wait(0.01)
    two = maker.make(lambda: order(2))
    assert not two.done(0.05)
    assert begun == [1]
    first.set()
    assert one.done(60)
    assert two.done(60)
    assert begun == [1, 2]


def test_a_silence_that_was_the_drivers_own_is_forgotten():
    poller = Poller(Actor(), 0.0)
    poller.send(1.0)
    assert poller.silent_s(9.0) == 9.0
    poller.begin_anew(8.0)
    assert poller.silent_s(9.0) == 1.0


def test_what_ray_makes_is_given_and_what_it_refuses_or_keeps_is_gone():
    never = threading.Event()
    assert created(lambda: "group", 60.0) == "group"
    assert created(refuse, 60.0) == Gone("Ray refused it: System error: the head said no")
    assert created(lambda: never.wait(60), 0.01) == Gone("Ray did not answer for 0.01 s")
    never.set()
    with pytest.raises(KeyError, match="a fault of ours"):
        created(lambda: {}["a fault of ours"], 60.0)


def test_who_has_answered_and_was_not_asked_again_owes_nothing(answers):
    poller = Poller(Actor(), 0.0)
    assert poller.silent_s(5.0) == 5.0  # it has never answered
    answers["call 1"] = ["first"]
    collect({1: poller}, 1.0, 1.0)
    assert poller.heard
    assert poller.silent_s(50.0) == 0.0


def test_out_of_reach_again_the_silence_counts_from_the_last_answer(answers):
    poller = Poller(Actor(), 0.0)
    answers |= {
        "call 1": ["first"],
        "call 2": [ActorUnavailableError("for the moment", None)],
        "call 3": [GetTimeoutError("2 s")],
    }
    collect({1: poller}, 1.0, 1.0)
    collect({1: poller}, 1.0, 5.0)
    assert not poller.heard
    assert poller.silent_s(9.0) == 4.0  # since it was asked for the second time
    collect({1: poller}, 1.0, 9.0)
    assert poller.silent_s(12.0) == 7.0


def test_calls_within_this_process_need_no_ray(monkeypatch):
    monkeypatch.setattr(calls.ray, "wait", refuse)
    found = ask({"one": LocalCall(1), "never": LocalCall(2, pending=True)}, 1.0)
    assert found == {"one": 1}
    assert ask({}, 1.0) == {}


def test_calls_are_waited_for_together_and_each_answer_for_what_is_left(monkeypatch):
    waits, gets = [], []
    clock = iter([100.0, 101.0, 109.0])
    monkeypatch.setattr(calls.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(
        calls.ray, "wait", lambda refs, **options: waits.append((len(refs), options)) or (refs, [])
    )
    monkeypatch.setattr(calls.ray, "get", lambda call, timeout: gets.append(timeout) or call)
    real = calls.Background
    limits = []

    class Noted(real):
        def done(self, timeout_s=0.0):
            limits.append(timeout_s)
            return super().done(60)

    monkeypatch.setattr(calls, "Background", Noted)
    assert ask({"one": "a", "other": "b"}, 5.0) == {"one": "a", "other": "b"}
    assert waits == [(2, {"num_returns": 2, "timeout": 5.0})]
    assert gets == [4.0, FETCH_S]
    assert limits == [5.0 + FETCH_S]


def test_what_nobody_expects_of_an_answer_is_raised(answers):
    answers["a"] = [KeyError("a fault of ours")]
    with pytest.raises(KeyError, match="a fault of ours"):
        ask({"one": "a"}, 1.0)


DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: GpuWorker
\tactor_id: 0123
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail:
Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes.
(1) The process is killed by SIGKILL by OOM killer due to high memory usage."""


def test_a_process_that_died_is_described_by_its_ending_alone():
    reason = reason_of(RuntimeError(DIED))
    assert reason == "Worker unexpectedly exits with a connection error code 2 (SYSTEM_ERROR)"


def test_any_other_error_keeps_its_words():
    assert (
        reason_of(RuntimeError("The node is gone\n  cause: unplugged")) == "The node is gone cause: unplugged"
    )


def test_an_error_without_words_is_reported_by_its_name():
    assert reason_of(TimeoutError()) == "TimeoutError"


def test_of_a_long_error_the_informative_lines_are_kept():
    lines = ["The task failed", "at line 3", "Error: one", "the node ended", "exit code 1"]
    assert reason_of(RuntimeError("\n".join(lines))) == "The task failed Error: one the node ended"


def test_a_reason_is_at_most_600_characters_long():
    assert reason_of(RuntimeError("x" * 1000)) == "x" * 600
