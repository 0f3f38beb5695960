"""Every shell line of README and docs is typed as it stands, in a clone, on a simulated rig."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.acceptance import CHECKOUT, PRELOADED, runs_in_order
from support.forked_commands import programs

DOCUMENTS = [
    *(
        CHECKOUT / name
        for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "reports/samples/README.md")
    ),
    *sorted((CHECKOUT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LANGUAGES = {"sh", "toml", "yaml", "json", "python", "sql", "text"}
SIMULATED = "--hw-simulate-inline --hw-level=quick --hw-profile=dual-3090-3070"  # what is typed overrides it

LAB = 'name = "lab"\n[[nodes]]\nname = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3090"\n'

PACKAGES = "it installs packages"
TWO_PCS = "it needs two PCs; tests/cluster/hosts has hosts of its own"
ENDLESS = "it runs until Ctrl-C; tests/unit/monitor/test_terminal.py ends it so"
NOT_TYPED = {
    r".*\bpip install\b.*|\. \.venv/bin/activate": PACKAGES,
    r"rigproof cluster (up|down|status) .*": TWO_PCS,
    r"(ip|ping|getent) .*": "it is about a LAN; tests/cluster/hosts/test_lan.py types it on hosts",
    r"(sudo|nmcli) .*": "it changes this machine, or asks a NetworkManager, which may not be there",
    r"tmux new .*": "it opens a terminal, which has to be there",
    r".* --notify '(curl|mail|notify-send) .*": "it sends a message; tests/plugin/test_notify.py has others",
    r".* --ray-address .*": TWO_PCS,
    r"env RAY_AUTH_MODE=token ray start .*": TWO_PCS,
    r"test -s ~/.ray/auth_token .*": "it writes a token into the home folder",
    r"(chmod|ssh) .*~/.ray/auth_token.*|ssh-keygen|ssh-copy-id .*": TWO_PCS,
    r"rigproof monitor( --(json|hwprofile|simulate) .*)?": ENDLESS,
}
ENDS_WITH = {  # where the exit status is not 0
    r".* --inject memory-taken.*": {6},  # INCOMPLETE: that is others' doing
    r".* --inject clock-skew.*": {0},  # it warns
    r".* --inject .*": {1},  # REJECTED, as it is meant to be
    r"rigproof verdict .*": {6},  # there are simulated runs alone
    r"rigproof calibrate --hwprofile ./lab.toml": {4},  # no CPU is simulated, and here all runs are
    r"rigproof monitor --once .*": {0, 1},  # 1 is a warning, such as this host's CPU load
}


def commands(text: str) -> Iterator[str]:
    """Lines of the blocks in sh, and of the steps of a workflow."""
    for indent, language, block in FENCE.findall(text):
        lines = re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        if language == "sh":
            every = lines.replace("\\\n", " ").splitlines()
            yield from filter(None, (re.sub(r"(^|\s+)#\s.*", "", line).strip() for line in every))
        if language == "yaml":
            yield from re.findall(r"^\s*(?:- )?run: (.+)$", lines, re.MULTILINE)


def reason(command: str) -> str | None:
    """Why a command is not typed here."""
    return next((why for pattern, why in NOT_TYPED.items() if re.fullmatch(pattern, command)), None)


def typed() -> dict[str, list[str]]:
    """Commands by document; one that stands in several is typed once."""
    found: dict[str, list[str]] = {}
    for path in DOCUMENTS:
        seen = [command for several in found.values() for command in several]
        every = dict.fromkeys(commands(path.read_text()))
        new = [command for command in every if reason(command) is None and command not in seen]
        if new:
            found[str(path.relative_to(CHECKOUT))] = new
    return found


TYPED = typed()
PROGRAMS = {"pytest": "pytest", "rigproof": "rigproof", "pytest-benchmark": "pytest_benchmark"}
FORKED = ".venv/forked"


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What a clone holds and an installation puts on the PATH, two kept runs, and one that was rejected."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("rigproof", "hwprofiles", "tests/hardware"):
        shutil.copytree(CHECKOUT / name, folder / name)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy2(CHECKOUT / name, folder)
    (folder / "lab.toml").write_text(
        'name = "lab"\n[[nodes]]\nname = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3090"\n'
    )
    (folder / "DIR").mkdir()
    kept = folder / "reports" / "history" / "NAME"
    kept.mkdir(parents=True)
    (folder / "reports" / "samples").symlink_to(CHECKOUT / "reports" / "samples")
    for number, run in (("0001", "h200-quick"), ("0007", "h200-standard")):
        measured = json.loads((CHECKOUT / "reports/samples" / run / "benchmark.json").read_text())
        for one in measured["benchmarks"]:
            one["extra_info"]["rate"] = one["stats"][
                "ops"
            ]  # which the history keeps since these were measured
        (kept / f"{number}_{run}.json").write_text(json.dumps(measured))
    own = folder / ".venv" / "bin"  # programs that start an interpreter
    own.mkdir(parents=True)
    for name, module in {"python": "", **PROGRAMS}.items():
        program = own / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {f"-m {module}" if module else ""} "$@"\n')
        program.chmod(0o755)
    (folder / FORKED).mkdir()
    with programs(folder / FORKED, PROGRAMS, folder, PRELOADED):
        done = typed_in(folder, "pytest -m hardware --hw-level quick --hw-inject overheat@pc2/gpu0")
        # `reports/latest` is a run with a failure from now on
        assert done.returncode == 1, done.stdout + done.stderr
        yield folder


def typed_in(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """The command in a shell; an acceptance run is one of a simulated rig, in simulated time."""
    # Ray reads the environment when it is imported: where it is to start, the interpreter is a new one.
    forked = [] if "--simulate " in command else [folder / FORKED]
    environment = os.environ | {
        "PATH": ":".join(map(str, [*forked, folder / ".venv" / "bin", os.environ["PATH"]])),
        "PYTHONPATH": str(folder),
        "EDITOR": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "step-summary.md"),
    }
    if "-plan" not in command:  # which loads nothing
        environment["PYTEST_ADDOPTS"] = f"-p no:cacheprovider {SIMULATED}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("document", TYPED)
def test_the_commands_of_a_document_do_what_it_says(document, clone):
    if shutil.which("jq") is None and any("jq " in command for command in TYPED[document]):
        pytest.skip("jq is not installed")
    (clone / "lab.toml").write_text(LAB)
    latest = clone / "reports" / "latest"
    latest.unlink()
    latest.symlink_to(runs_in_order(clone / "reports")[0])  # which was rejected
    for command in TYPED[document]:
        done = typed_in(clone, command)
        allowed = next((ends for pattern, ends in ENDS_WITH.items() if re.fullmatch(pattern, command)), {0})
        assert done.returncode in allowed, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr, command
        if command.startswith("jq "):
            assert done.stdout.strip(), command
            assert not re.search(r"\bnull\b", done.stdout), command


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_each_block_says_what_it_is(path):
    unnamed = [block for _, language, block in FENCE.findall(path.read_text()) if language not in LANGUAGES]
    assert unnamed == [], "a block of commands is `sh`, an output is `text`"


def test_each_exception_is_in_a_document():
    every = [command for path in DOCUMENTS for command in commands(path.read_text())]
    for pattern in (*NOT_TYPED, *ENDS_WITH):
        assert any(re.fullmatch(pattern, command) for command in every), pattern
