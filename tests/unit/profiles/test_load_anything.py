"""Whatever a TOML file holds, it loads or raises ProfileError with problems: never anything else."""

import contextlib
import tempfile
from pathlib import Path
from typing import get_args

import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from rigproof.profiles.auto import completed
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.structure import structural_problems
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.identity import HostInventory
from rigproof.stages.registry import KINDS
from support.rig_profile import MODELS


def keys_of(model: type[BaseModel]) -> set[str]:
    found: set[str] = set()

    def visit(annotation: object) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.update(annotation.model_fields)
            for field in annotation.model_fields.values():
                visit(field.annotation)
        for inner in get_args(annotation):
            visit(inner)

    visit(model)
    return found


KEYS = st.sampled_from(sorted(keys_of(MODELS.rig))) | st.text(max_size=6)
SCALARS = (
    st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats()
    | st.sampled_from(["a", "rtx-3090", "unknown", "cpu", "dual-3090-3070", "./x.toml", ""])
    | st.text(max_size=8)
    | st.datetimes()
    | st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
GPUS = st.lists(
    st.fixed_dictionaries(
        {"sku": st.sampled_from(["rtx-3090", "unknown", "nosuch"]) | VALUES},
        optional={
            "workers": st.integers(-1, 70) | VALUES,
            "gemm_size": SCALARS,
            "limits": VALUES,
            "uuid": SCALARS,
        },
    )
    | VALUES,
    max_size=2,
)
NODES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "a.b", "-"]) | VALUES},
        optional={"gpus": GPUS | VALUES, "cpu": VALUES},
    )
    | VALUES,
    max_size=3,
)
RIGS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("lab") | VALUES,
        "extends": st.sampled_from(["dual-3090-3070", "rig.toml", "", "/", "a\0b"]) | VALUES,
        "nodes": NODES | VALUES,
        "cpu": st.fixed_dictionaries(
            {}, optional={"band_percent": st.lists(SCALARS, max_size=3), "warn_percent": SCALARS}
        ),
        "limits": VALUES,
        "levels": VALUES,
    },
)


def load_or_problems(text: bytes) -> LoadedRig | tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rig.toml"
        path.write_bytes(text)
        try:
            return load_rig(str(path), KINDS)
        except ProfileError as error:
            return error.problems


def check(text: bytes) -> None:
    outcome = load_or_problems(text)
    if isinstance(outcome, LoadedRig):
        assert isinstance(lint_rig(outcome), list)
        assert LoadedRig.restore(outcome.dump(), KINDS) == outcome
        with contextlib.suppress(ProfileError):
            make_plan(outcome, "quick")
    else:
        assert outcome
        assert all(isinstance(line, str) and line.strip() for line in outcome)
        assert "pydantic" not in "".join(outcome)


SLOW = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


PART = st.floats(0.001, 1)
NUMBER = st.floats(1e-6, 1e9)
FLOORS = sorted(MODELS.all["Floors"].model_fields)
SOUND_GPUS = st.fixed_dictionaries(
    {"sku": st.sampled_from(["rtx-3090", "h200-sxm", "t4", "unknown"])},
    optional={
        "device": st.sampled_from(["cuda", "cpu"]),
        "uuid": st.sampled_from(["GPU-1", "GPU-2"]),
        "workers": st.integers(1, 64),
        "gpu_share": PART,
        "cpus_per_worker": NUMBER,
        "vram_share": PART,
        "vram_gib_per_worker": NUMBER,
        "gemm_size": st.integers(8, 8192).map(lambda eighth: eighth * 8),
        "memory_gib": NUMBER,
        "floors": st.dictionaries(st.sampled_from(FLOORS), NUMBER, max_size=2),
        "limits": st.dictionaries(st.sampled_from(["core_temperature_c", "memory_temperature_c"]), NUMBER),
    },
)
BANDS = st.tuples(st.floats(0, 49), st.floats(50, 90)).map(list)
SOUND_CPU = st.fixed_dictionaries(
    {}, optional={"band_percent": BANDS, "primary_thread_share": PART, "enabled": st.booleans()}
)
SOUND_NODES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "a.b"]), "gpus": st.lists(SOUND_GPUS, max_size=3)},
        optional={
            "cpus": NUMBER,
            "ram_gib": NUMBER,
            "address": st.sampled_from(["x", "y"]),
            "cpu": SOUND_CPU,
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda node: node["name"],
)
SOUND_RIGS = st.fixed_dictionaries(
    {"name": st.just("lab"), "nodes": SOUND_NODES},
    optional={"cpu": SOUND_CPU, "extends": st.just("dual-3090-3070")},
)


@SLOW
@given(SOUND_RIGS)
def test_any_sound_rig_loads_and_is_planned_or_reported_by_lint(tables):
    outcome = load_or_problems(tomlkit.dumps(tables).encode())
    assert isinstance(outcome, LoadedRig), outcome
    assert LoadedRig.restore(outcome.dump(), KINDS) == outcome
    problems = lint_rig(outcome)
    assert all(": " in line and "; " in line for line in problems)
    if not problems:
        plan = make_plan(completed(outcome, HostInventory("box", 64, 256, None, None, ())), "quick")
        assert len(plan.workers) == sum(device.gpu.workers for device in outcome.devices())


@SLOW
@given(RIGS | st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_tables_load_or_are_refused_with_problems(tables):
    try:
        text = tomlkit.dumps(tables)
    except Exception:  # what tomlkit cannot write is no TOML
        return
    check(text.encode("utf-8", "surrogatepass"))


@SLOW
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_load_or_are_refused_with_problems(text):
    check(text)


@SLOW
@given(st.text(max_size=30))
def test_any_name_loads_or_is_refused_with_problems(name):
    with contextlib.suppress(ProfileError):
        assert load_rig(name, KINDS).devices()


@SLOW
@given(
    st.dictionaries(st.sampled_from(sorted(keys_of(MODELS.sku))) | st.text(max_size=4), VALUES, max_size=6)
)
def test_any_sku_tables_are_valid_or_reported(tables):
    found = structural_problems(MODELS.sku, tables, "hwprofiles/gpus/x.toml")
    if not found:
        MODELS.sku.model_validate(tables)
    assert all(line.startswith("hwprofiles/gpus/x.toml: ") for line in found)
