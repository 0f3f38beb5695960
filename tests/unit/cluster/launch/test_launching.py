import hashlib

import pytest

from rigproof.cluster.launch import launching
from rigproof.cluster.launch.file import Launch
from rigproof.cluster.launch.remote import Answer, NoSsh
from rigproof.cluster.ray.errors import ClusterError, ClusterStartFailed
from rigproof.profiles.tables.node import Node

TOKEN = "7" * 64
SAME = hashlib.sha256(TOKEN.encode()).hexdigest()
NODES = (Node(name="pc1", address="10.0.0.1"), Node(name="pc2", address="10.0.0.2"))
LAUNCH = Launch("lab", NODES, "anna")


class Machines:
    """Two machines that answer scripts with these lines."""

    def __init__(self, pc2_finds):
        self.finds = {"10.0.0.1": f"token {SAME}\nray\n", "10.0.0.2": pc2_finds}
        self.given = {}
        self.ended = []

    def bound(self):
        """As a method of Remote."""

        def run(remote, script, *arguments, **more):
            return self.run(remote, script, **more)

        return run

    def run(self, remote, script, *, given="", limit_s):
        if script is launching.LOOK:
            return Answer(0, self.finds[remote.address])
        if script is launching.END:
            self.ended.append(remote.address)
            return Answer(0, "ended 3\n")
        self.given[remote.address] = given
        return Answer(0, "")


@pytest.fixture
def machines(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))

    def make(pc2_finds, names=frozenset({"pc1", "pc2"})):
        made = Machines(pc2_finds)
        monkeypatch.setattr(launching.Remote, "run", made.bound())
        monkeypatch.setattr(launching, "_ray_up", lambda file, limit_s: None)
        monkeypatch.setattr(launching, "node_names", lambda address, limit_s: names)
        return made

    return make


def start(tmp_path, limit_s=60):
    lines = []
    launching.up(LAUNCH, tmp_path / "lab.yaml", limit_s=limit_s, say=lines.append)
    return lines


def test_up_gives_the_token_to_who_has_none_and_waits_for_all(machines, tmp_path):
    made = machines("ray\n")
    assert start(tmp_path)[1:] == ["pc1: in the cluster", "pc2: in the cluster"]
    assert made.given == {"10.0.0.2": TOKEN}
    assert made.ended == []
    assert TOKEN not in (tmp_path / "lab.yaml").read_text()


@pytest.mark.parametrize(
    ("finds", "expected"),
    [
        (f"process 12\nprocess 13\ntoken {SAME}\nray\n", "pc2 runs 2 processes of this cluster already"),
        (f"token {SAME}\n", "pc2 has no `ray` for the user anna"),
        ("token 0123\nray\n", "pc2 has another token"),
    ],
)
def test_up_refuses_before_it_starts_anything(machines, tmp_path, finds, expected):
    made = machines(finds)
    with pytest.raises(ClusterStartFailed, match=expected):
        start(tmp_path)
    assert made.ended == []
    assert not (tmp_path / "lab.yaml").exists()


def test_what_did_not_come_up_is_ended_again_the_head_first(machines, tmp_path):
    made = machines("ray\n", names=frozenset({"pc1"}))
    with pytest.raises(ClusterStartFailed, match=r"pc2 did not join within 0\.1 s"):
        start(tmp_path, limit_s=0.1)
    assert made.ended == ["10.0.0.1", "10.0.0.2"]


def test_down_goes_on_where_a_machine_is_away(machines, monkeypatch):
    made = machines("")

    def away(remote, *arguments, **more):
        if remote.address == "10.0.0.1":
            raise NoSsh("anna@10.0.0.1: No route to host")
        return made.run(remote, arguments[0], **more)

    monkeypatch.setattr(launching.Remote, "run", away)
    lines = []
    with pytest.raises(NoSsh, match="No route"):
        launching.down(LAUNCH, say=lines.append)
    assert lines == ["pc2: 3 processes ended"]


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
    ],
)
def test_a_rig_that_cannot_be_addressed_is_refused(nodes, expected):
    with pytest.raises(ClusterError, match=expected):
        launching.addressed(nodes)


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
