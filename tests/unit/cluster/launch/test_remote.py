"""What a machine is sent and what is made of its answer, with a program in place of ssh that runs it here."""

import re
import shutil
import sys

import pytest

from rigproof.cluster.launch.remote import Answer, NoSsh, Remote

# ssh runs the line by the login shell; this one is ours.
SSH = """#!{python}
import os, sys
line = sys.argv[sys.argv.index("--") + 2]
os.execv("{shell}", ["{shell}", "-c", line])
"""
PC2 = Remote("10.0.0.2", "anna")


@pytest.fixture
def ssh(monkeypatch, tmp_path):
    """Make a program `ssh`."""

    def make(text):
        file = tmp_path / "ssh"
        file.write_text(text)
        file.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("HOME", str(tmp_path))

    return make


def a_shell(name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here (apt-get install csh fish)")
    return path


@pytest.mark.parametrize("name", ["sh", "bash", "csh", "fish"])
def test_a_script_runs_by_every_login_shell_with_its_arguments_and_status(ssh, tmp_path, name):
    """Even if its file prints a banner."""
    ssh(SSH.format(python=sys.executable, shell=a_shell(name)))
    (tmp_path / ".cshrc").write_text("echo welcome to anna\n")
    words = ["a b", "it's $HOME", 'a "quoted" \\ !word', "two\nlines", ""]
    script = 'for one; do printf "<%s>" "$one"; done; cat; echo no >&2; exit 7'
    answer = PC2.run(script, *words, limit_s=60)
    assert answer == Answer(7, "".join(f"<{word}>" for word in words) + "no\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho This account is currently not available.\nexit 1", "This account is currently not"),
        ("#!/bin/sh\nread line\necho cannot do that\nexit 0", "cannot do that"),
        ("#!/bin/sh\nread line\n$line\necho lost >&2; exit 255", "lost"),
        *(
            (
                f"#!/bin/sh\necho '{complaint}' >&2; exit 255",
                f"anna@10.0.0.2: {re.escape(complaint)}; {way_in}",
            )
            for complaint, way_in in (
                (
                    "anna@10.0.0.2: Permission denied (publickey,password).",
                    "type `ssh-copy-id anna@10.0.0.2`, once",
                ),
                (
                    "Host key verification failed.",
                    "type `ssh anna@10.0.0.2`, once, to say whether its host key is",
                ),
                ("ssh: connect to host pc2 port 22: Connection refused", "install an ssh server there"),
                (
                    "ssh: connect to host pc2 port 22: Connection timed out",
                    "switch it on; `ip address`, typed there",
                ),
                (
                    "Could not resolve hostname pc2: Name or service not known",
                    "write its IP address into the profile",
                ),
                ("something new", "`ssh anna@10.0.0.2` has to log in without a question"),
            )
        ),
        ("#!/bin/sh\nexit 255", "10.0.0.2: ssh gave no reason"),
        ("#!/bin/sh\necho No user exists for uid 4242 >&2; exit 255", "No user exists for uid 4242; "),
        (
            "#!/bin/sh\necho a note >&2\necho No route to host >&2\nexit 255",
            "anna@10.0.0.2: No route to host",
        ),
        ("#!/bin/sh\nexec sleep 60", "no answer within 0.2 s; see what keeps `ssh anna@10.0.0.2` waiting"),
    ],
)
def test_what_did_not_run_to_its_end_is_an_error_that_quotes_the_shell(ssh, text, said):
    ssh(text)
    with pytest.raises(NoSsh, match=said):
        PC2.run("echo ended 0", limit_s=0.2 if "sleep" in text else 60)


def test_a_script_that_is_cut_off_is_no_answer(ssh):
    ssh(SSH.format(python=sys.executable, shell="/bin/sh"))
    with pytest.raises(NoSsh, match=r"did not run to its end .* printed \"ended 0\""):
        PC2.run("echo ended 0; kill -9 $$", limit_s=60)


def test_this_machine_needs_no_ssh_unless_a_user_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert Remote("127.0.0.1").run("echo here", limit_s=60) == Answer(0, "here\n")
    with pytest.raises(NoSsh, match="there is no `ssh` on this machine"):
        Remote("127.0.0.1", "anna").run("echo here", limit_s=60)


def test_a_process_that_keeps_the_output_is_not_waited_for():
    assert Remote("127.0.0.1").run("sleep 600 & echo $!", limit_s=60).status == 0
