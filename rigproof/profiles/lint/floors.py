"""Floors that cannot fail, or that no card could reach."""

from collections.abc import Iterator

from rigproof.profiles.lint.limits import told
from rigproof.profiles.lint.sku import FLOOR_LOWEST, floor_problem, peak_16bit_tflops
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.models import Floors

# Peaks that every device has, where there is no SKU file to tell the card's own, TFLOP/s.
# The slowest GPUs that CUDA 12 runs on (compute capability 5.0, GeForce 830M: 256 FMA at 1.15 GHz) have 0.59.
SLOWEST_TFLOPS = {
    "cuda": 0.5,
    "cpu": 0.002,  # one core at 1 GHz with one FMA a cycle
}


def floor_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """Floors of one GPU that lie too low or too high for it."""
    for name in Floors.model_fields:
        floor = getattr(device.gpu.floors, name)
        if floor is None:
            continue
        key = f"{device.key}.floors.{name}"
        precision = (
            "fp16" if name == "training_tflops" else name.removeprefix("gemm_").removesuffix("_tflops")
        )
        peak = _peak_tflops(device, precision)
        if device.sku is None:
            wrong = _too_low(floor, FLOOR_LOWEST * SLOWEST_TFLOPS[device.gpu.device])
        elif peak is None:
            unknown = f"hwprofiles/gpus/{device.sku_stem}.toml knows no {precision} peak"
            wrong = unknown, "leave the floor out, or add the peak to the SKU file"
        else:
            wrong = floor_problem(floor, peak)
        if wrong is not None:
            yield told(loaded, key, floor, *wrong)


def combined_problems(loaded: LoadedRig) -> Iterator[str]:
    """The floor of all GPUs together, against the sum of their peaks."""
    floor, devices = loaded.rig.combined_floor_tflops, loaded.devices()
    if floor is None or not devices:
        return
    known = [_peak_tflops(device, "sustained") for device in devices]
    at_least = sum(
        peak or SLOWEST_TFLOPS[device.gpu.device] for peak, device in zip(known, devices, strict=True)
    )
    wrong = _too_low(floor, FLOOR_LOWEST * at_least) if None in known else floor_problem(floor, at_least)
    if wrong is not None:
        yield told(loaded, "combined_floor_tflops", floor, *wrong)


def _peak_tflops(device: PromisedDevice, precision: str) -> float | None:
    """The SKU's peak; of the sustained stage its best 16-bit one. None where nobody knows it."""
    if device.sku is None:
        return None
    if precision == "sustained":
        return peak_16bit_tflops(device.sku)
    peak: float | None = getattr(device.sku.peak_tflops, precision)
    return peak


def _too_low(floor_tflops: float, least_tflops: float) -> tuple[str, str] | None:
    """What is wrong with a floor under what any such device reaches, and the way out."""
    if floor_tflops >= least_tflops:
        return None
    return "even the slowest device is faster: such a floor cannot fail", f"write {least_tflops:.3g} or more"
