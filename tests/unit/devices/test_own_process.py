"""A task in a process of its own: whatever that process does, the worker knows, and nothing is left of it."""

import pytest

from rigproof.devices.own_process import messages_of
from rigproof.host.processes import process_id
from support.devices import NodeContext

LIMIT_S = 60.0  # ends only a test that has failed already
SERVE = "import json, os, time\nfrom rigproof.host import parent\n"


class Alive(NodeContext):
    """Counts the signs of life."""

    signs = 0

    def alive(self):
        self.signs += 1


@pytest.fixture
def heard(child_module):
    """What is heard of a process that does this; or raises what comes of it. None is left."""

    def hear(work, context=None, *, stall_s=LIMIT_S, take=list):
        code = f"{SERVE}{work}\nsys.exit(parent.serve(work))"
        name = child_module(f"tell(pid=os.getpid())\n{code}")
        pids = []
        options = {"test": "lab test", "silent": "it said nothing", "endings": {-9: "; it was killed"}}
        try:
            with messages_of(
                name, {"threads": 3}, context or Alive(), stall_s=stall_s, **options
            ) as messages:
                pids.append(next(messages)["pid"])
                return take(messages)
        finally:
            assert list(map(process_id, pids)) == [None] * len(pids)

    return hear


def test_messages_come_until_it_is_done_and_each_is_a_sign_of_life(heard):
    context = Alive()
    work = "def work(orders):\n    tell(got=json.loads(sys.argv[1]))\n    tell(second=2)"
    assert heard(work, context) == [{"got": {"threads": 3}}, {"second": 2}]
    assert context.signs == 4  # with its pid, and that it is done


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("    raise ValueError('broken')", "the lab test failed: ValueError: broken"),
        ("    os.kill(os.getpid(), 9)", "the lab test ended with status -9; it was killed"),
        ("    os._exit(3)", "the lab test ended with status 3"),
    ],
)
def test_one_that_fails_or_dies_is_an_error_that_says_how(heard, work, error):
    with pytest.raises(RuntimeError) as raised:
        heard(f"def work(orders):\n{work}")
    assert str(raised.value) == error


def test_one_that_says_nothing_is_given_up(heard):
    with pytest.raises(RuntimeError) as raised:
        heard("def work(orders):\n    time.sleep(600)", stall_s=0.3)
    assert str(raised.value) == "it said nothing for 0.3 s"


def test_a_task_that_is_stopped_ends_without_waiting_for_it(heard):
    context = NodeContext(lambda one: len(one.records) > 0)

    def stopping(messages):
        context.records.append("enough")
        return list(messages)

    assert heard("def work(orders):\n    orders.closed.wait()", context, take=stopping) == []


def test_nothing_is_left_where_whoever_listens_fails(child_module):
    name = child_module("tell(pid=os.getpid())\nOrders().closed.wait()")
    pids = []

    def listen():
        options = {"test": "lab test", "silent": "it said nothing", "stall_s": LIMIT_S}
        with messages_of(name, {}, NodeContext(), **options) as messages:
            pids.append(next(messages)["pid"])
            raise KeyError("a message without what it should have")

    with pytest.raises(KeyError):
        listen()
    assert process_id(*pids) is None
