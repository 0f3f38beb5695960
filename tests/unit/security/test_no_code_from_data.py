"""What is read is data: nowhere in the package is a file, a recording or an argument turned into code."""

import ast
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
JUSTIFIED: dict[str, str] = {}


def dotted(node: ast.expr) -> str:
    """The name that is called, as written: `os.system`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def found_in(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
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


def test_no_module_of_the_package_runs_what_it_reads():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 200
    found = {f"{path.relative_to(PACKAGE)}: {what}" for path in files for what in found_in(path.read_text())}
    assert found == set(JUSTIFIED)


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
    assert list(found_in(source))


@pytest.mark.parametrize("source", ["re.compile(text)", "model.eval()", "subprocess.run(line, shell=False)"])
def test_the_search_leaves_alone_what_is_harmless(source):
    assert not list(found_in(source))
