"""Which signal ends a run, and which is only noted."""

import signal

import pytest

from rigproof.host.exit_status import end_interrupts, interrupt_by_signals, interrupted_early, note_signal
from rigproof.plugin.signals import STOPPING, SignalGuard


@pytest.fixture(autouse=True)
def _unnoted():
    yield
    note_signal(None)


@pytest.fixture
def guard():
    # A shell that starts the tests in the background makes them ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    noted = []
    guard = SignalGuard(noted.append)
    guard.noted = noted
    guard.install()
    yield guard
    guard.restore()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)
def test_the_first_signal_ends_the_run_and_the_second_is_noted(guard, number):
    with pytest.raises(KeyboardInterrupt, match=number.name):
        signal.raise_signal(number)
    signal.raise_signal(number)
    assert guard.noted == [number, number]


@pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)
def test_once_everything_is_measured_the_first_signal_ends_nothing(guard, number):
    guard.hold()
    signal.raise_signal(number)
    assert guard.noted == []
    assert guard.seen == [number]


def test_the_third_signal_has_its_ordinary_effect(guard):
    guard.hold()
    for _ in range(2):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)
def test_a_signal_before_the_session_is_an_interrupt_that_is_named(guard, number):
    guard.restore()
    before = [signal.getsignal(one) for one in STOPPING]
    interrupt_by_signals()
    try:
        with pytest.raises(KeyboardInterrupt, match=number.name):
            signal.raise_signal(number)
        assert interrupted_early() == (
            f"INCOMPLETE: {number.name} interrupted the run before anything was tested"
        )
        with pytest.raises(KeyboardInterrupt, match=number.name):  # where Python had ignored what was raised
            guard.install()
        assert guard.noted == [number]
        guard.restore()
    finally:
        end_interrupts()
    assert [signal.getsignal(one) for one in STOPPING] == before


def test_after_the_third_signal_nothing_is_an_interrupt_any_more(guard):
    guard.restore()
    interrupt_by_signals()
    guard.install()
    guard.hold()
    for _ in range(2):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_came_before_is_given_back():
    before = [signal.getsignal(number) for number in STOPPING]
    guard = SignalGuard(lambda _: None)
    guard.install()
    guard.restore()
    guard.restore()
    assert [signal.getsignal(number) for number in STOPPING] == before


@pytest.mark.parametrize("number", STOPPING, ids=lambda number: number.name)
def test_a_signal_that_is_inherited_as_ignored_stays_ignored(guard, number):
    guard.restore()
    before = signal.signal(number, signal.SIG_IGN)  # as `nohup` starts a run
    try:
        guard.install()
        assert signal.getsignal(number) is signal.SIG_IGN
        others = [one for one in STOPPING if one is not number]
        assert signal.SIG_IGN not in map(signal.getsignal, others)
        guard.restore()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
