"""What the command line asks of an acceptance run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from rigproof.profiles.tables.level_names import LevelName

Simulate = Literal["ray", "inline"]


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a run."""

    profile: str
    level: LevelName | None
    duration_s: float | None
    ray_address: str | None
    require_gpu: bool
    report_dir: Path
    simulate: Simulate | None = None
    seed: int | None = None  # of the simulated noise
    inject: tuple[str, ...] = ()
    keep_history: bool = False  # of a simulated rig
    allow_open: bool = False
    wait_s: float = 0.0  # for other runs on the same hosts to end
    tags: tuple[str, ...] = ()
    notify: str | None = None  # a shell command to run at the end

    @classmethod
    def of(cls, config: pytest.Config) -> "Request":
        given = config.option
        return cls(
            profile=given.hw_profile or "auto",
            level=given.hw_level,
            duration_s=None if given.hw_duration is None else given.hw_duration * 60,
            ray_address=given.hw_ray_address,
            allow_open=bool(given.hw_allow_open_cluster),
            wait_s=given.hw_wait or 0.0,
            tags=tuple(dict.fromkeys(given.hw_tag or ())),
            notify=given.hw_notify,
            require_gpu=bool(given.hw_require_gpu),
            simulate="inline" if given.hw_simulate_inline else "ray" if given.hw_simulate else None,
            seed=given.hw_simulate_seed,
            inject=tuple(given.hw_inject or ()),
            keep_history=bool(given.hw_keep_history),
            report_dir=config.invocation_params.dir / (given.hw_report_dir or "reports"),
        )
