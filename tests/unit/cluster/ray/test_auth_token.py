"""Where Ray's token is looked for, and what is done without one or with one that everybody can read."""

import pytest

from rigproof.cluster.launch import launching
from rigproof.cluster.ray.preconditions import (
    ClusterUnreachable,
    TokenPlace,
    check_private,
    joining_mode,
    token_place,
    token_used,
    tokenless,
)


@pytest.fixture
def home(tmp_path):
    """A home folder with Ray's token in it, readable by nobody else."""
    file = tmp_path / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text("a" * 64)
    file.chmod(0o600)
    return tmp_path


def test_the_environment_comes_before_its_file_and_that_before_the_one_at_home(home, tmp_path):
    other = tmp_path / "other"
    other.write_text("b" * 64)
    environ = {"HOME": str(home)}
    assert token_place(environ) == TokenPlace(home / ".ray" / "auth_token")
    assert token_place(environ | {"RAY_AUTH_TOKEN_PATH": str(other)}) == TokenPlace(other)
    assert token_place(environ | {"RAY_AUTH_TOKEN_PATH": str(other), "RAY_AUTH_TOKEN": "c"}) == TokenPlace()


@pytest.mark.parametrize("variables", [{}, {"RAY_AUTH_TOKEN": ""}, {"RAY_AUTH_TOKEN_PATH": "/nowhere/token"}])
def test_no_token_is_none(tmp_path, variables):
    assert token_place({"HOME": str(tmp_path)} | variables) is None
    assert tokenless({"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"} | variables)


def test_an_empty_file_is_no_token(home):
    (home / ".ray" / "auth_token").write_text("")
    assert token_place({"HOME": str(home)}) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o620])
def test_a_token_that_others_can_read_is_refused_with_the_line_that_helps(home, mode):
    file = home / ".ray" / "auth_token"
    file.chmod(mode)
    with pytest.raises(ClusterUnreachable, match=rf"mode {mode:04o} .*chmod 600 {file}"):
        check_private(token_place({"HOME": str(home)}))
    assert file.stat().st_mode & 0o777 == mode  # not ours to change


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_token_of_one_user_is_taken(home, mode):
    (home / ".ray" / "auth_token").chmod(mode)
    check_private(token_place({"HOME": str(home)}))


def test_no_file_no_complaint():
    check_private(None)
    check_private(TokenPlace())


def test_a_cluster_with_tokens_is_joined_with_the_token_that_is_there(home, tmp_path):
    nobody = {"HOME": str(tmp_path / "nobody")}
    assert joining_mode({"HOME": str(home)}, open_cluster=False) == {"RAY_AUTH_MODE": "token"}
    assert joining_mode(nobody, open_cluster=False) == {}
    assert joining_mode(nobody | {"RAY_AUTH_TOKEN": "c"}, open_cluster=False) == {"RAY_AUTH_MODE": "token"}
    assert joining_mode({"HOME": str(home), "RAY_AUTH_MODE": "k8s"}, open_cluster=False) == {}


def test_an_open_cluster_is_joined_without_the_token(home):
    """Its head's questions to the driver come without one: asking for it there would cost every actor."""
    wanted = {"RAY_AUTH_MODE": "disabled"}
    assert joining_mode({"HOME": str(home)}, open_cluster=True) == wanted
    assert joining_mode({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "c"}, open_cluster=True) == wanted


@pytest.mark.parametrize(
    ("mode", "used"), [(None, True), ("token", True), ("disabled", False), ("k8s", False)]
)
def test_a_token_that_is_not_sent_is_nobody_s_concern(home, mode, used):
    environ = {"HOME": str(home)} | ({} if mode is None else {"RAY_AUTH_MODE": mode})
    assert (token_used(environ) is not None) == used


def test_a_rig_is_not_started_with_a_token_that_others_read(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    file = home / ".ray" / "auth_token"
    file.chmod(0o644)
    with pytest.raises(ClusterUnreachable, match="mode 0644"):
        launching._own_token()
    file.chmod(0o600)
    assert launching._own_token() == file.read_text().strip()
