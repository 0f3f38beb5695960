"""What is read is data: nowhere in the package is a file, a recording or an argument turned into code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "rigproof"
MODULES = frozenset(
    {"cloudpickle", "code", "codeop", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve", "yaml"}
)
CALLS = frozenset(
    {
        "__import__",
        "compile",
        "eval",
        "exec",
        "importlib.import_module",
        "numpy.load",
        "np.load",
        "os.popen",
        "os.system",
        "runpy.run_module",
        "runpy.run_path",
        "torch.load",
        "yaml.load",
    }
)
# Where one of them is right: "file: what", with the reason.
JUSTIFIED = {
    "devices/ready.py: runpy.run_module": "its parent names the module, as it does that of any other child",
    "host/exit_status.py: exec": "an empty text: Python then forgets an interrupt that was caught",
}


def dotted(node: ast.expr) -> str:
    """The name that is called, as written: `os.system`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.fixture(scope="module")
def package() -> dict[Path, ast.Module]:
    """Every module of the package."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def found_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {one.name}" for one in node.names if one.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in CALLS:
                yield name
            for keyword in node.keywords:
                loud = not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
                if keyword.arg in ("shell", "allow_pickle") and loud:
                    yield f"{name}({keyword.arg}=…)"


def test_no_module_of_the_package_runs_what_it_reads(package):
    assert len(package) > 200
    found = {
        f"{path.relative_to(PACKAGE)}: {what}" for path, tree in package.items() for what in found_in(tree)
    }
    assert found == set(JUSTIFIED)


STARTERS = frozenset({"asyncio", "multiprocessing", "pty", "subprocess"})
START_CALLS = re.compile(
    r"os\.(fork|exec|spawn|posix_spawn)\w*|(\w+\.)*(ProcessPoolExecutor|create_subprocess_\w+)"
)
# Every file that can start a process. What is no `host.child.Child` says why in its text.
STARTING = {
    "child.py": "the package's own modules, with an interpreter of their own",
    "calibrate.py": "runs as users type them, by this interpreter",
    "notice.py": "the command that the user gave to --hw-notify",
    "remote.py": "`ssh`, or on this machine itself `sh`",
    "lap.py": "forks that share the records",
    "reward_process.py": "forks of a process that is a Child itself",
}


def starting(tree: ast.Module) -> Iterator[str]:
    """What can start a process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] in STARTERS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in STARTERS:
            yield node.module or ""
        elif isinstance(node, ast.Call) and START_CALLS.fullmatch(dotted(node.func)):
            yield dotted(node.func)


def test_few_files_start_processes_and_each_is_known(package):
    found = [path.name for path, tree in package.items() if any(starting(tree))]
    assert sorted(found) == sorted(STARTING)  # each name once: another file of that name is one more


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "from subprocess import run",
        "from multiprocessing.connection import Connection",
        "os.fork()",
        "os.posix_spawnp(path, words, {})",
        "os.execv(path, words)",
        "asyncio.create_subprocess_exec(path)",
        "ProcessPoolExecutor()",
    ],
)
def test_the_search_for_starts_finds_them(source):
    assert list(starting(ast.parse(source)))


# Modules whose functions and classes start a child. Those hand on which module it runs.
RUNNERS = ("rigproof.host.child", "rigproof.devices.own_process", "rigproof.devices.rank")


def run_by_children(tree: ast.Module) -> Iterator[ast.expr]:
    """The first argument of every call that makes a child: which module it runs."""
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in RUNNERS
        for name in node.names
        # What a child said, its own side, and one that only gets ready for a module that is named later.
        if name.name not in ("Answer", "Message", "serve_apart", "make_ready", "prepare")
    }
    if not imported:
        return
    made = [
        call
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef) and {dotted(base) for base in kind.bases} & imported
        for call in ast.walk(kind)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
    ]
    made += [call for call in ast.walk(tree) if isinstance(call, ast.Call) and dotted(call.func) in imported]
    yield from (call.args[0] for call in made)


def constants(tree: ast.Module) -> dict[str, object]:
    """What names of the module itself stand for, where that is written there."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_children_run_modules_of_the_package_that_the_code_names(package):
    """Whatever is read: no file, profile or message says what a child runs."""
    modules = set()
    for path, tree in package.items():
        if ".".join(("rigproof", *path.relative_to(PACKAGE).with_suffix("").parts)) in RUNNERS:
            continue
        for argument in run_by_children(tree):
            assert isinstance(argument, ast.Name), (path, ast.unparse(argument))
            modules.add(constants(tree).get(argument.id))
    assert len(modules) >= 7
    for name in modules:
        assert isinstance(name, str)
        assert name.startswith("rigproof.")
        file = PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
        assert '__name__ == "__main__"' in file.read_text()


def test_one_snippet_boots_them(package):
    booting = {
        path.relative_to(PACKAGE).as_posix()
        for path, tree in package.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "runpy" in node.value
    }
    assert booting == {"host/child.py"}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "eval(text)",
        "exec(text)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
        "subprocess.Popen(line, shell=wanted)",
        "np.load(path, allow_pickle=True)",
        "torch.load(path)",
        "importlib.import_module(name)",
        "def inside():\n    import marshal",
    ],
)
def test_the_search_finds_what_it_is_for(source):
    assert list(found_in(ast.parse(source)))


@pytest.mark.parametrize("source", ["re.compile(text)", "model.eval()", "subprocess.run(line, shell=False)"])
def test_the_search_leaves_alone_what_is_harmless(source):
    assert not list(found_in(ast.parse(source)))
