"""Lint of settings with which a host's disk could not be measured, or would be filled."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LEVELS, LevelName
from rigproof.stages.disk.settings import STAGE, DiskSettings

BOUNDS = {
    "reserve_gib": Bound(lowest=0.25, below="may fill the disk that others write to meanwhile"),
    "free_warn_share": Bound(highest=0.5, above="warns of a disk that is half empty"),
    "used_fail_share": Bound(lowest=0.5, below="takes a disk that is half empty for full"),
    # Sound disks of a model differ by 15 % and more with their fill and age.
    "peer_share": Bound(0.3, 0.95, "accepts a disk at a third of the rate", "fails sound disks"),
    "write_floor_mbps": Bound(lowest=10, below="is less than any disk writes"),
    "read_floor_mbps": Bound(lowest=10, below="is less than any disk reads"),
}
# Disks keep as much in caches of their own as they have DRAM: 0.06 to 0.5 GiB.
LEAST_GIB, MOST_GIB = 0.25, 256.0


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems of the rig's settings, and of those that a node states itself."""
    yield from stage_limit_problems(loaded, STAGE, BOUNDS)
    paths = {f"stages.{STAGE}.path": loaded.settings(DiskSettings).path}
    for node in loaded.rig.nodes:
        if getattr(node.stages, STAGE, None) is not None:
            own = loaded.settings_of(node.name, DiskSettings)
            paths[f"nodes.{node.name}.stages.{STAGE}.path"] = own.path
    for key, path in paths.items():
        if not path.startswith(("/", "~")):
            way_out = "write an absolute path such as /data/checkpoints, or one that begins with ~/"
            yield rig_problem(loaded, key, path, "not an absolute path", way_out)
    sizes = loaded.settings(DiskSettings).most_gib
    for level in LEVELS:
        gib, name = sizes.at(level), f"stages.{STAGE}.most_gib.{level}"
        if gib < LEAST_GIB:
            way_out = f"write {LEAST_GIB:g} or more"
            yield rig_problem(loaded, name, gib, "measures the disk's own cache", way_out)
        elif gib > MOST_GIB:
            wrong = "wears a disk out for no better measurement"
            yield rig_problem(loaded, name, gib, wrong, f"write {MOST_GIB:g} or less")
