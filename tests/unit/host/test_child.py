"""Children, all of them real processes: what they say, and that each of them ends, whatever it does."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rigproof.host import child as module
from rigproof.host.child import Child, ask
from rigproof.host.processes import process_id, wait_gone

LIMIT_S = 60.0  # ends only a test that has failed already
HANG = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); tell(up=1); time.sleep(600)"


class Heard:
    """What a child says, and at last its exit status."""

    def __init__(self, name, *arguments, **options):
        self.heard = queue.SimpleQueue()
        self.child = Child(
            name,
            *arguments,
            hear=self.heard.put,
            ended=lambda status: self.heard.put(("ended", status)),
            **options,
        )

    def next(self):
        return self.heard.get(timeout=LIMIT_S)

    def all(self):
        found = []
        while not isinstance(one := self.next(), tuple):
            found.append(one)
        return found, one[1]


@pytest.fixture
def start(child_module):
    """Start a child of this code; none is left."""
    started = []

    def begin(code, *arguments, **options):
        started.append(Heard(child_module(code), *arguments, **options))
        return started[-1]

    yield begin
    for one in started:
        one.child.stop(0)


def test_orders_go_there_and_messages_come_back_however_long(start):
    echo = start(
        """
        orders = Orders()
        while (order := orders.next()) is not None:
            tell(**order)
        """
    )
    orders = [{"number": 1}, {"text": "ä\n" * 200_000}, {"nested": [{"x": None}]}]
    for order in orders:
        assert echo.child.tell(**order)
    assert [echo.next() for _ in orders] == orders
    echo.child.let_go()
    assert echo.all() == ([], 0)
    assert not echo.child.alive
    echo.child.stop()
    echo.child.stop()


def test_what_is_no_json_object_is_passed_over(start):
    noisy = start(
        r"""
        tell(number=1)
        for line in (b"a library's word", b"", b"[1]", b"3", b"null", b"{", b"{'a': 1}", b"\xff\xfe", b"\0",
                     b'{"a": ' * 100_000, b'{"a": "\xff"}', b'"{}"', b"x" * 1_000_000):
            os.write(1, line + b"\n")
        tell(number=2)
        os.write(1, b'{"number": 3')  # its death cuts it off
        os.kill(os.getpid(), 9)
        """
    )
    assert noisy.all() == ([{"number": 1}, {"number": 2}], -signal.SIGKILL)


@pytest.mark.parametrize("frozen", [False, True])
def test_one_that_does_not_end_is_killed_at_its_limit(start, frozen):
    hanging = start(HANG)
    assert hanging.next() == {"up": 1}
    if frozen:
        os.kill(hanging.child.pid, signal.SIGSTOP)
    assert hanging.child.wait(0.05) is None
    begun_s = time.monotonic()
    hanging.child.stop(0.3)
    assert time.monotonic() - begun_s >= 0.3
    assert hanging.child.returncode == -signal.SIGKILL
    assert hanging.all() == ([], -signal.SIGKILL)


def test_one_that_hangs_is_ended_by_its_own_reader_after_its_grace(start):
    hanging = start("import time; orders = Orders(grace_s=0.2); tell(up=1); time.sleep(600)")
    assert hanging.next() == {"up": 1}
    hanging.child.let_go()
    assert hanging.all() == ([], 1)


def test_an_order_that_is_no_json_is_an_error_and_everybody_who_asks_is_told_of_the_end(start):
    asking = start(
        """
        orders = Orders()
        try:
            orders.next()
        except ValueError:
            tell(refused=True)
        tell(orders=[orders.next(), orders.next()], closed=orders.closed.is_set())
        """
    )
    asking.child._process.stdin.write(b"no json\n")
    asking.child._process.stdin.flush()
    assert asking.next() == {"refused": True}
    asking.child._process.stdin.write(b'{"cut": "off')
    asking.child.let_go()
    assert asking.all() == ([{"orders": [None, None], "closed": True}], 0)


def test_an_order_to_one_that_is_gone_says_so(start):
    gone = start("os.kill(os.getpid(), 9)")
    assert gone.all() == ([], -signal.SIGKILL)
    assert not gone.child.tell(mib=1.0)
    gone.child.stop(0)


def test_one_that_closes_its_stdout_and_goes_on_has_no_status(start, monkeypatch):
    monkeypatch.setattr(module, "KILLED_S", 0.2)
    silent = start("import time; tell(up=1); os.close(1); time.sleep(600)")
    assert silent.all() == ([{"up": 1}], None)
    assert silent.child.alive


def test_a_flood_of_either_kind_blocks_nobody_and_the_end_of_stderr_is_kept(start, child_module):
    flood = """
        for place in range(20_000):
            print("noise" * 10)
            print("noise" * 10, place, file=sys.stderr)
        """
    kept = start(flood, keep_stderr=True)
    assert kept.all() == ([], 0)
    assert kept.child.complaint().endswith("noise 19999")
    assert len(kept.child.complaint()) <= module.COMPLAINT_BYTES
    dropped = Child(child_module(flood))
    assert dropped.wait(LIMIT_S) == 0
    assert dropped.complaint() == ""
    dropped.stop()


def test_ctrl_c_is_the_parent_s_to_handle(start):
    listening = start("orders = Orders()\ntell(up=1)\ntell(**orders.next())\norders.next()")
    assert listening.next() == {"up": 1}
    os.kill(listening.child.pid, signal.SIGINT)
    listening.child.tell(still="here")
    assert listening.next() == {"still": "here"}


def test_its_surroundings_are_its_parent_s_but_the_current_folder_s_modules_are_not(
    start, tmp_path, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "html.py").write_text("raise RuntimeError('not the library')")
    code = """
        import html
        gpus = os.environ["CUDA_VISIBLE_DEVICES"]
        tell(argv=sys.argv[1:], cwd=os.getcwd(), session=os.getsid(0), gpus=gpus)
        """
    assert start(code, "a b", "ü").next() == {
        "argv": ["a b", "ü"],
        "cwd": str(tmp_path),
        "session": os.getsid(0),
        "gpus": "GPU-1",
    }


def test_the_package_is_found_where_no_environment_leads_to_it(monkeypatch):
    look = "; import json, sys; print(json.dumps(dict(no_site=sys.flags.no_site, path=sys.path)))"
    monkeypatch.setattr(module, "BOOT", module.BOOT + look)
    monkeypatch.setenv("PYTHONPATH", "")
    plain = ask("rigproof.host.package", limit_s=LIMIT_S).message
    assert plain["no_site"] == 0
    assert plain["path"][-1] == str(module.ROOT)
    heard = Heard("rigproof.host.package", isolated=True)
    isolated, status = heard.all()
    heard.child.stop()
    assert ([one["no_site"] for one in isolated], status) == ([1], 0)


# The parent's own death.

PARENT = """
import sys, threading, time
from rigproof.host.child import Child
up = threading.Event()
def begin():
    child = Child(sys.argv[1], hear=lambda message: up.set())
    up.wait()
    print(child.pid, flush=True)
if "thread" in sys.argv:
    threading.Thread(target=begin).start()
else:
    begin()
time.sleep(600)
"""


def parent_of(name, *arguments):
    """A process that starts a child, and the child, once it is up."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, name, *arguments], stdout=subprocess.PIPE)
    child = process_id(int(parent.stdout.readline()))
    return parent, child


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("orders = Orders()\ntell(up=1)\norders.next()", id="waits for orders"),
        pytest.param("import time\norders = Orders(0.1)\ntell(up=1)\ntime.sleep(600)", id="hangs"),
        pytest.param("import time\ndie_with_parent()\ntell(up=1)\ntime.sleep(600)", id="reads no orders"),
        pytest.param(
            "import time\nfrom rigproof.host.parent import serve\n"
            "serve(lambda orders: (tell(up=1), time.sleep(600)))",
            id="serves",
        ),
        pytest.param(
            "import time\norders = Orders(0.1)\nwhile True: tell(up=1); time.sleep(0.1)", id="talks"
        ),
    ],
)
def test_it_dies_with_its_parent(child_module, code):
    parent, child = parent_of(child_module(code))
    try:
        assert child is not None
    finally:
        parent.kill()
        parent.communicate()
    assert wait_gone([child], LIMIT_S) == ()


def test_to_die_with_the_parent_means_with_the_thread_that_started_it(child_module):
    parent, child = parent_of(
        child_module("import time\ndie_with_parent()\ntell(up=1)\ntime.sleep(600)"), "thread"
    )
    try:
        assert child is None or wait_gone([child], LIMIT_S) == ()
        assert parent.poll() is None
    finally:
        parent.kill()
        parent.communicate()


def test_a_parent_that_died_before_its_child_could_be_told_is_noticed(start):
    assert start("die_with_parent(os.getppid())\ntell(up=1)").all() == ([{"up": 1}], 0)
    assert start("die_with_parent(1 << 30)\ntell(up=1)").all() == ([], 1)


def test_one_that_nobody_listens_to_ends_without_a_word(child_module):
    name = child_module("import time\norders = Orders()\nwhile True: tell(up=1); time.sleep(0.01)")
    with subprocess.Popen(
        [sys.executable, "-m", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as talking:
        talking.stdout.close()
        assert talking.wait(LIMIT_S) == 0
        assert talking.stderr.read() == b""


# Children that are asked for one thing.


def test_the_answer_is_the_last_message_and_the_status_says_how_it_ended(child_module):
    answer = ask(child_module("tell(first=1)\ntell(rest=sys.stdin.read())\nprint('bye')"), limit_s=LIMIT_S)
    assert (answer.message, answer.status, answer.complaint) == ({"rest": ""}, 0, "")
    answer = ask(child_module("raise RuntimeError('driver trouble')"), limit_s=LIMIT_S)
    assert (answer.message, answer.status) == (None, 1)
    assert answer.complaint == "RuntimeError: driver trouble"
    said = "terminate called\\n  what():  CUDA error: out of memory\\nframe #9: clone\\n"
    answer = ask(child_module(f"sys.stderr.write('{said}')\nsys.stderr.flush()\nos.abort()"), limit_s=LIMIT_S)
    assert (answer.status, answer.complaint) == (-signal.SIGABRT, "what():  CUDA error: out of memory")
    answer = ask(child_module("os.kill(os.getpid(), 11)"), limit_s=LIMIT_S)
    assert (answer.message, answer.status, answer.complaint) == (None, -signal.SIGSEGV, "")


def own_children():
    return {
        process
        for one in Path(f"/proc/{os.getpid()}/task").glob("*/children")
        for pid in one.read_text().split()
        if (process := process_id(int(pid))) is not None
    }


def test_one_that_hangs_is_killed_at_the_limit(child_module):
    before = own_children()
    answer = ask(child_module(HANG), limit_s=1.5)
    assert answer.status is None
    assert own_children() == before


def test_nothing_is_left_where_whoever_asks_is_interrupted(child_module, monkeypatch):
    def interrupted(self, timeout_s):
        monkeypatch.setattr(Child, "wait", wait)
        raise KeyboardInterrupt

    wait = Child.wait
    before = own_children()
    monkeypatch.setattr(Child, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask(child_module(HANG), limit_s=LIMIT_S)
    assert own_children() == before


def left_open():
    """Files and threads of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def test_many_questions_leave_neither_files_nor_threads(child_module):
    name = child_module("tell(up=1)")
    ask(name, limit_s=LIMIT_S)
    before = left_open()
    for _ in range(5):
        ask(name, limit_s=LIMIT_S)
    assert [now <= then for now, then in zip(left_open(), before, strict=True)] == [True, True]
