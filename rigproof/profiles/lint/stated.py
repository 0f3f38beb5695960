"""Problems at the key by which a rig states a value, in the file that states it."""

from rigproof.profiles.errors import problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.base import Table


def rig_problem(loaded: LoadedRig, key: str, value: object, wrong: str, way_out: str) -> str:
    """A problem at the dotted `key` of a merged rig; it names the file and the key as the user wrote it."""
    return problem(loaded.source_of(key), loaded.written(key), value, wrong, way_out)


def stated(loaded: LoadedRig, device: PromisedDevice, *names: str) -> str | None:
    """The merged key of the first of `names` ("memory.least_size") that the GPU or else its rig states.

    None if only the defaults have it: they suit every card, because work adapts them to small ones.
    """
    for name in names:
        for key in (f"{device.key}.{name}", name):
            if loaded.states(key):
                return key
    return None


def problems_where_stated(
    loaded: LoadedRig, device: PromisedDevice, names: tuple[str, ...], wrong: str, way_out: str
) -> list[str]:
    """A problem at the first of `names` that the rig states, with its value; none if it states none."""
    key = stated(loaded, device, *names)
    if key is None:
        return []
    table, _, field = key.removeprefix(f"{device.key}.").rpartition(".")
    tables: dict[str, Table] = {"memory": loaded.memory_of(device)} | {
        f"stages.{name}": one for name, one in device.stages.items()
    }
    value = getattr(tables[table], field)
    return [rig_problem(loaded, key, list(value) if isinstance(value, tuple) else value, wrong, way_out)]
