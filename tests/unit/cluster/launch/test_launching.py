import hashlib
import re
from dataclasses import replace
from importlib.metadata import version
from platform import python_version

import pytest

from rigproof import __version__
from rigproof.cluster.launch import launching
from rigproof.cluster.launch.launching import Launch
from rigproof.cluster.launch.remote import Answer, NoAnswer, NoSsh
from rigproof.cluster.ray.preconditions import ClusterError, ClusterStartFailed
from rigproof.profiles.tables.node import Node

TOKEN = "7" * 64
SAME = hashlib.sha256(TOKEN.encode()).hexdigest()
NODES = (Node(name="pc1", address="10.0.0.1"), Node(name="pc2", address="10.0.0.2"))
LAUNCH = Launch("lab", NODES, "anna")


HAS = f"has Python {python_version()}\nhas rigproof {__version__}\nhas ray {version('ray')}\n"
RAY = "ray /opt/env/bin/ray\n" + HAS
WHOLE = frozenset({"pc1", "pc2"})
FIREWALL = (
    r"if a firewall is on \(`sudo ufw status`\), type `sudo ufw allow from 10\.0\.0\.2` on pc1 and "
    r"`sudo ufw allow from 10\.0\.0\.1` on pc2"
)


class Machines:
    """Two machines that answer scripts with these lines."""

    def __init__(self, pc1_finds, pc2_finds):
        self.finds = {"10.0.0.1": pc1_finds, "10.0.0.2": pc2_finds}
        self.given = {}
        self.started = []
        self.ended = []
        self.status = 0

    def bound(self):
        """A method in place of Remote's."""

        def run(remote, script, *arguments, limit_s):
            return self.run(remote, script, *arguments)

        return run

    def run(self, remote, script, *arguments):
        if script is launching.LOOK:
            return Answer(0, self.finds[remote.address])
        if script is launching.END:
            self.ended.append(remote.address)
            return Answer(0, "ended 3\n")
        if script is launching.START:
            self.started.append((remote.address, *arguments))
            return Answer(self.status, "a\n\nport taken\n")
        self.given[remote.address] = arguments
        return Answer(0, "")


@pytest.fixture
def machines(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)

    def make(pc2_finds, names=WHOLE, pc1_finds=f"token {SAME}\n{RAY}"):
        made = Machines(pc1_finds, pc2_finds)
        monkeypatch.setattr(launching.Remote, "run", made.bound())
        monkeypatch.setattr(launching, "check_listening", lambda address: None)
        monkeypatch.setattr(launching, "node_names", lambda address, limit_s: names)
        return made

    return make


def start(launch=LAUNCH, limit_s=60):
    lines = []
    launching.up(launch, limit_s=limit_s, say=lines.append)
    return lines


def test_up_gives_the_token_to_who_has_none_starts_the_head_first_and_waits_for_all(machines):
    made = machines(RAY)
    assert start()[-2:] == ["pc1: in the cluster", "pc2: in the cluster"]
    assert made.given == {"10.0.0.2": (TOKEN,)}
    mark = "env RIGPROOF_CLUSTER=rigproof-lab-6379@10.0.0.1 env RAY_AUTH_MODE=token /opt/env/bin/ray start"
    assert made.started == [
        (
            "10.0.0.1",
            f"{mark} --head --port=6379 --include-dashboard=false --node-ip-address=10.0.0.1 --node-name=pc1 "
            "--num-gpus=0 --disable-usage-stats",
        ),
        (
            "10.0.0.2",
            f"{mark} --address=10.0.0.1:6379 --node-ip-address=10.0.0.2 --node-name=pc2 --num-gpus=0 "
            "--disable-usage-stats",
        ),
    ]
    assert made.ended == []


@pytest.mark.parametrize(
    ("finds", "expected"),
    [
        (f"token {SAME}\n", "pc2 has no `/here/bin/ray` and no `~/x`; install rigproof there in the"),
        (f"token 0123\n{RAY}", "pc2 has another token"),
        (RAY + "lacks ModuleNotFoundError: No module named 'rigproof'", "import what .* named 'rigproof'"),
        (
            RAY + "has rigproof 0.0.9",
            r"pc2: /opt/env/bin/ray has rigproof 0\.0\.9, and this",
        ),
        (RAY + "has ray 2.9.0", r"has ray 2\.9\.0, and this machine ray .* the same version of ray on both"),
        (RAY + "has Python 3.9.1", r"has Python 3\.9\.1, and this machine Python"),
    ],
)
def test_up_refuses_before_it_starts_anything(machines, monkeypatch, finds, expected):
    made = machines(finds)
    monkeypatch.setattr(launching.Launch, "rays", ("/here/bin/ray", "~/x"))
    with pytest.raises(ClusterStartFailed, match=expected):
        start()
    assert made.started == made.ended == []


def test_patch_releases_of_python_go_together_and_a_ray_of_no_known_python_is_not_asked(machines):
    one = ".".join([*python_version().split(".")[:2], "99"])
    for finds in (RAY + f"has Python {one}\n", "ray /opt/wrapper\n"):
        made = machines(finds)
        start()
        assert len(made.started) == 2


def test_this_environments_ray_is_looked_for_first_there_below_the_home_too(monkeypatch):
    monkeypatch.setattr(launching.sys, "executable", "/home/anna/rigproof/.venv/bin/python")
    for home, rays in {
        "/home/anna": ("/home/anna/rigproof/.venv/bin/ray", "~/rigproof/.venv/bin/ray", "ray"),
        "/home/bob": ("/home/anna/rigproof/.venv/bin/ray", "ray"),
    }.items():
        monkeypatch.setenv("HOME", home)
        assert LAUNCH.rays == rays
    monkeypatch.delenv("HOME")
    assert LAUNCH.rays == ("/home/anna/rigproof/.venv/bin/ray", "ray")
    assert replace(LAUNCH, ray="/opt/ray").rays == ("/opt/ray",)


def test_what_runs_already_stays_if_it_is_whole_and_is_named_if_it_is_not(machines):
    runs = f"process 12\nprocess 13\ntoken {SAME}\n"
    made = machines(runs, pc1_finds=runs)
    assert start() == ["this cluster runs already"]
    for names, finds, said in (
        (frozenset({"pc1"}), runs, "this cluster runs already, but pc2 is not in it; end it with"),
        (WHOLE, RAY, "this cluster runs already, but pc2 is not in it"),
        (frozenset(), runs, "but pc1 is not in it (something answers there but lists no nodes"),
    ):
        made = machines(finds, names, pc1_finds=runs)
        with pytest.raises(ClusterStartFailed, match=re.escape(said)):
            start()
        assert made.started == made.ended == []


def test_what_did_not_come_up_is_ended_again_the_head_first(machines):
    made = machines(RAY, names=frozenset({"pc1"}))
    with pytest.raises(
        ClusterStartFailed, match=rf"pc2 did not join within 0\.1 s; {FIREWALL}; else the logs"
    ):
        start(limit_s=0.1)
    assert made.ended == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ("10.0.0.2", rf"pc2: `ray start` reached no head within 60 s; {FIREWALL}$"),
        ("10.0.0.1", "no answer from 10.0.0.1"),  # whom the head would have to reach is nobody
    ],
)
def test_a_ray_that_waits_for_the_head_is_told_from_an_ssh_that_does(machines, monkeypatch, waits, said):
    made = machines(RAY)

    def wait(remote, text, *arguments, limit_s):
        if text is launching.START and remote.address == waits:
            raise NoAnswer(f"no answer from {waits}")
        return made.run(remote, text, *arguments)

    monkeypatch.setattr(launching.Remote, "run", wait)
    with pytest.raises(ClusterError, match=said):
        start()
    assert made.ended == ["10.0.0.1", "10.0.0.2"]


def test_a_ray_that_does_not_start_is_quoted(machines):
    made = machines(RAY)
    made.status = 1
    with pytest.raises(
        ClusterStartFailed, match=r"pc1: `ray start` ended with status 1: a \| port taken; if another Ray"
    ):
        start()
    assert len(made.started) == 1
    assert made.ended == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "pc1: 10.0.0.1: No route to host"),
        (Answer(1, "its processes cannot be looked at: no grep\n"), "pc1: its processes cannot be looked at"),
        (Answer(0, ""), "pc1: "),
    ],
)
def test_down_goes_on_where_a_machine_cannot_be_looked_at_and_says_so(machines, monkeypatch, answer, said):
    made = machines("")

    def away(remote, *arguments, limit_s):
        if remote.address != "10.0.0.1":
            return made.run(remote, *arguments)
        if answer is None:
            raise NoSsh("10.0.0.1: No route to host")
        return answer

    monkeypatch.setattr(launching.Remote, "run", away)
    lines = []
    with pytest.raises(NoSsh, match=said) as refused:
        launching.down(LAUNCH, say=lines.append)
    assert lines == ["pc2: 3 processes ended"]
    assert str(refused.value).endswith(
        "What of this cluster still runs there goes on: type the same `rigproof cluster down` again once "
        "pc1 can be reached, or `ray stop` on pc1 itself, which ends every Ray of yours there"
    )


def test_what_no_signal_ends_is_named_with_what_does(machines, monkeypatch):
    machines("")
    monkeypatch.setattr(launching.Remote, "run", lambda *_, limit_s: Answer(0, "ended 3\nleft 41\n"))
    lines = []
    assert launching.down(LAUNCH, say=lines.append) == 2
    assert lines[:2] == [
        "pc1: 2 processes ended",
        "pc1: not even SIGKILL ended 41: they wait in the kernel, often for the GPU's driver; `sudo dmesg` "
        "there says more, and a restart of that machine ends them",
    ]


def test_up_names_the_machine_that_ssh_does_not_reach(machines, monkeypatch):
    machines(RAY)

    def away(remote, *arguments, limit_s):
        raise NoSsh(f"{remote.address}: No route to host; switch it on")

    monkeypatch.setattr(launching.Remote, "run", away)
    with pytest.raises(NoSsh, match=r"^pc1: 10\.0\.0\.1: No route to host; switch it on$"):
        start()


def test_a_machine_that_cannot_be_looked_at_starts_nothing(machines, monkeypatch):
    made = machines(RAY)
    monkeypatch.setattr(launching.Remote, "run", lambda *_, limit_s: Answer(1, "no grep\n"))
    with pytest.raises(ClusterStartFailed, match="pc1: no grep"):
        start()
    assert made.started == []


def test_a_token_is_made_once_for_its_owner_alone(monkeypatch, tmp_path):
    for key in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    token = launching._own_token()
    path = tmp_path / ".ray" / "auth_token"
    assert (path.read_text(), path.stat().st_mode & 0o777) == (token, 0o600)
    assert len(token) == 64
    assert launching._own_token() == token


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("file/below", "File exists; set RAY_AUTH_TOKEN_PATH to a file of yours"),
        (".", "Is a directory; set RAY_AUTH_TOKEN_PATH"),
        ("odd", "can't decode byte"),
    ],
)
def test_a_token_that_cannot_be_kept_is_refused(monkeypatch, tmp_path, place, said):
    (tmp_path / "file").touch()
    (tmp_path / "odd").write_bytes(b"\xff")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / place))
    with pytest.raises(ClusterStartFailed, match=said):
        launching._own_token()


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ((), "no nodes"),
        ((Node(name="pc1"),), "a rig of one machine needs no cluster; run `rigproof accept`"),
        ((Node(name="pc1"), Node(name="pc2")), "pc1 has no address in the profile"),
        ((Node(name="pc1", address="no-such-host.invalid"),), "no-such-host.invalid is not known here"),
        (
            (Node(name="pc1", address="127.0.0.1"), Node(name="pc2", address="localhost")),
            r"pc1 and pc2 are at one address, 127\.0\.0\.1;",
        ),
    ],
)
def test_a_rig_that_cannot_be_addressed_is_refused(nodes, expected):
    with pytest.raises(ClusterError, match=expected):
        launching.addressed(nodes)


def test_an_address_is_looked_up_whatever_its_family():
    nodes = (Node(name="pc1", address="[FD00::0001]"), Node(name="pc2", address="127.0.0.1"))
    assert [node.address for node in launching.addressed(nodes)] == ["fd00::1", "127.0.0.1"]
    assert Launch("lab", nodes).head_address == "[fd00::1]:6379"


def test_what_a_cluster_has_is_told_from_what_does_not_answer(monkeypatch):
    monkeypatch.setattr(launching, "check_listening", lambda address: None)
    for names, problem in (
        (frozenset({"pc1"}), ""),
        (frozenset(), "something answers there but lists no nodes"),
    ):
        monkeypatch.setattr(launching, "node_names", lambda address, limit_s, names=names: names)
        there, why = launching.nodes_in("10.0.0.1:6379")
        assert there == names
        assert why.startswith(problem)
        assert bool(why) is bool(problem)
