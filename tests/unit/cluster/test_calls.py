import threading

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError

from rigproof.cluster import calls
from rigproof.cluster.calls import Gone, Line, ask, collect


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
    line = Line(Actor(), 0.0)
    answers["call 1"] = ["first"]
    assert collect([line], 1.0, 1.0) == [(line, "first")]

    answers["call 2"] = [GetTimeoutError("2 s"), "second"]
    assert collect([line], 1.0, 2.0) == []
    assert line.gone is None
    assert line.silent_s(5.0) == 3.0  # counted since it was asked
    assert collect([line], 1.0, 5.0) == [(line, "second")]
    assert line.actor.sent == 2


def test_an_actor_out_of_reach_is_silent_and_not_gone(answers):
    line = Line(Actor(), 0.0)
    answers["call 1"] = [ActorUnavailableError("for the moment", None)]
    assert collect([line], 1.0, 1.0) == []
    assert line.gone is None
    assert line.silent_s(9.0) == 9.0


def test_a_dead_actor_is_gone(answers):
    line = Line(Actor(), 0.0)
    answers["call 1"] = [ActorDiedError()]
    ((gone, answer),) = collect([line], 1.0, 1.0)
    assert gone is line
    assert isinstance(answer, Gone)
    assert line.gone is answer


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
    line = Line(Actor(), 0.0)
    assert collect([line], 0.05, 1.0) == []
    assert ask({"one": line.send(1.0)}, 0.05) == {}
    assert line.gone is None
    thawed.set()
    assert line.actor.sent == 1


def test_an_answer_that_has_not_arrived_is_left_out(answers):
    answers |= {"a": [1], "b": [GetTimeoutError("2 s")], "c": [ActorDiedError()]}
    found = ask({"one": "a", "late": "b", "dead": "c"}, 1.0)
    assert found["one"] == 1
    assert isinstance(found["dead"], Gone)
    assert "late" not in found
