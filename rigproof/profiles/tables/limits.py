"""Limits and floors of GPUs."""

from typing import Annotated, ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import Flag, Positive, Share, Table, Whole


class Floors(Table):
    """The smallest rates that are accepted of one GPU. One that is left out follows from the SKU file.

    The stages declare which floors there are.
    """


class Limits(Table):
    """Limits for all GPUs of the rig or, under a GPU, for that one alone.

    Every value is optional here; `hwprofiles/defaults.toml` fills what a rig does not state. `of_rig` names
    those that hold for the hosts, which a single GPU cannot override.
    """

    of_rig: ClassVar[frozenset[str]] = frozenset({"driver_minimum", "driver_mixed"})

    core_temperature_c: Positive | None = Field(
        default=None,
        description="Highest core temperature, in °C. Left out: NVML's GPU_MAX, else NVML's SLOWDOWN, else "
        "the SKU file's.",
    )
    memory_temperature_c: Positive | None = Field(
        default=None,
        description="Highest memory temperature, in °C. Left out: NVML's MEM_MAX, else the SKU file's.",
    )
    throttle_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="Largest share of a stage's samples in which the driver slows the GPU down (heat, HW "
        "slowdown, power brake). One or two such samples always pass.",
    )
    throttle_events: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of separate slowdowns (unbroken stretches of such samples) in the whole "
        "run. What stays within all three limits only warns.",
    )
    throttle_event_s: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="Longest slowdown that is allowed, in s; a longer one fails."
    )
    clock_ratio_share: Share | None = Field(
        default=None,
        description="Smallest SM clock under load, as a share of the boost clock in the SKU file. A lower "
        "clock passes, or only warns, if the driver explains it.",
    )
    clock_unknown_share: Share | None = Field(
        default=None,
        description="For a card whose boost clock is not known: smallest SM clock under load, as a share of "
        "the highest that NVML reports.",
    )
    clock_capped_power_share: Share | None = Field(
        default=None,
        description="The power cap explains a low clock only if the card draws at least this share of its "
        "enforced power limit (median).",
    )
    power_cap_fail_share: Share | None = Field(
        default=None,
        description="A power limit below the card's default warns; below this share of the default it "
        "fails. Has no effect where power_limit_w is stated.",
    )
    active_utilization_share: Share | None = Field(
        default=None,
        description="Smallest mean utilisation under load, for cards whose driver reports no power limit; "
        "they have it in place of active_power_share.",
    )
    power_over_limit_share: Positive | None = Field(
        default=None,
        description="Highest mean power under load, as a share of the enforced limit: 1.05 allows 5 % more.",
    )
    active_power_share: Share | None = Field(
        default=None, description="Smallest mean power under load, as a share of the enforced limit."
    )
    idle_beside_s: Positive | None = Field(
        default=None,
        description="Longest time, in s, for which a GPU may idle while another one of the rig works, before "
        "`rigproof monitor` warns: neither active_utilization_share nor active_power_share is reached. In a "
        "run, activity.gpu_active judges that.",
    )
    active_work_share: Share | None = Field(
        default=None,
        description="Smallest share of the 1 s windows under load in which verified work was done.",
    )
    pause_s: Positive | None = Field(
        default=None,
        description="Longest pause, in s, between two measured rounds of the same work without another "
        "round between them. Fed and continuous loads have limits of their own.",
    )
    stability_worst_window_share: Share | None = Field(
        default=None,
        description="Smallest rate of any 5 s window of the sustained stage, as a share of the median "
        "window. The same share holds for one process alone in the sharing stage, against the "
        "sustained rate; for a training step in the sweep of batch sizes, against the same step "
        "before; and for training steps in other precisions or of other batch sizes than the "
        "compared one, against their peers' median.",
    )
    best_quarter_share: Share | None = Field(
        default=None,
        description="Of work that a card repeats in a stage: smallest rate in the slowest quarter of its "
        "time, as a share of that in the best quarter. Also the smallest rate of a training "
        "step, as a share of what the card's steps of other batch sizes imply.",
    )
    slow_fifth_share: Share | None = Field(
        default=None,
        description="Of work that a card repeats in a stage: four fifths of the rounds must reach at least "
        "this share of the rate that the fastest fifth reaches.",
    )
    standstill_share: Share | None = Field(
        default=None,
        description="If the host stood still for more than this share of a round, the round counts in no "
        "rate. A hypervisor can stop a virtual machine like that for a moment.",
    )
    peer_share: Share | None = Field(
        default=None,
        description="Smallest sustained rate, as a share of the median of the other GPUs of the same SKU "
        "with the same work, scaled down to this GPU's power limit. Training steps and memory bandwidth are "
        "compared in the same way.",
    )
    headroom_gib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="VRAM, in GiB, that must still be free on the card at the peak of the sustained stage. "
        "A plan that would leave less is refused.",
    )
    marginal_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="A stage is measured once more if a rate misses its limit by less than this share of "
        "the limit. 0: never.",
    )
    success_share: Share | None = Field(
        default=None,
        description="Smallest share of a GPU's tasks and allocations that must end well, and of its rounds "
        "that must be verified.",
    )
    champion_share: Share | None = Field(
        default=None,
        description="Floor of a rate, as a share of this GPU's champion, which is its best rate in an "
        "accepted run.",
    )
    floor_measured_share: Share | None = Field(
        default=None,
        description="Floor of a rate, as a share of the SKU file's figure, if that figure was measured on "
        "at least floor_cards cards and under the same conditions: size, batch, one worker, "
        "torch version.",
    )
    floor_similar_share: Share | None = Field(
        default=None,
        description="Like floor_measured_share, for a figure that was measured on fewer cards or under "
        "other conditions.",
    )
    floor_printed_share: Share | None = Field(
        default=None,
        description="Like floor_measured_share, for a figure that rigproof has not measured: it comes from "
        "a data sheet or from others. Also for copies, of the printed memory bandwidth.",
    )
    floor_unknown_share: Share | None = Field(
        default=None,
        description="Where no figure is known: floor of a rate, as a share of what the card's architecture "
        "can do at the measured clock ([[architectures]]).",
    )
    floor_sharing_share: Share | None = Field(
        default=None,
        description="The floor from the SKU file is multiplied by this if more workers share the GPU than "
        "did when the figure was measured.",
    )
    floor_cards: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="Number of cards on which a figure must have been measured for floor_measured_share to "
        "apply.",
    )
    ceiling_share: Positive | None = Field(
        default=None,
        description="A rate over this multiple of the SKU file's printed peak is taken as a measurement "
        "error: not measured.",
    )
    ooms: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of failed allocations (out of memory) of a GPU in a run, those that a "
        "worker recovered from included.",
    )
    ecc_uncorrected: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="Largest number of new uncorrected memory errors of a GPU in a run."
    )
    gpu_memory_share: Share | None = Field(
        default=None,
        description="Smallest share of its model's memory, or of the `memory_gib` that a profile states, "
        "that a card must show.",
    )
    host_share: Share | None = Field(
        default=None,
        description="Smallest share of the `cpus` and `ram_gib` that a node states that must be usable. It "
        "counts only in [limits] of the rig, as do the other limits of hosts.",
    )
    host_cpus_per_gpu: Positive | None = Field(
        default=None, description="A container that leaves fewer CPUs than this for each GPU warns."
    )
    host_ram_share: Share | None = Field(
        default=None,
        description="A container that leaves less RAM than this share of all GPUs' memory warns.",
    )
    host_shm_gib: Positive | None = Field(
        default=None, description="A /dev/shm smaller than this, in GiB, warns."
    )
    run_threads: Positive | None = Field(
        default=None,
        description="Threads that the driver and the head of a Ray of our own start. If a limit on this host "
        "leaves fewer than this and the next four make, the run is refused.",
    )
    run_threads_per_node: Positive | None = Field(
        default=None,
        description="The same: threads of a node's raylet and agent.",
    )
    run_threads_per_worker: Positive | None = Field(
        default=None,
        description="The same: threads of a worker.",
    )
    run_threads_per_context: Positive | None = Field(
        default=None,
        description="The same: threads of a worker's CUDA context, in addition.",
    )
    run_threads_per_cpu: Positive | None = Field(
        default=None,
        description="The same: threads that Ray starts for each CPU of the host.",
    )
    run_temp_mib: Positive | None = Field(
        default=None,
        description="Room, in MiB, for the files of a Ray of our own in the folder for temporary files; with "
        "less, the run is refused.",
    )
    run_open_files: Whole | None = Field(
        default=None,
        description="Open files that a process of a Ray of our own needs (`ulimit -n`); with a lower limit "
        "the run is refused.",
    )
    run_address_mib: Positive | None = Field(
        default=None,
        description="Address space, in MiB, that a process of a Ray of our own needs (`ulimit -v`); with a "
        "lower limit the run is refused.",
    )
    ecc_off: Flag | None = Field(
        default=None,
        description="true: ECC may be switched off. Left out: it must be on where the card has it.",
    )
    remapped_rows_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="A card fails with this many memory rows remapped for uncorrectable errors, or more.",
    )
    retired_pages_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="A card fails with this many retired memory pages or more. Cards before Ampere retire "
        "pages instead of remapping rows.",
    )
    retired_pages_warn: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="More retired memory pages than this warn."
    )
    pcie_generation: Annotated[int, Field(ge=1, le=10, strict=True)] | None = Field(
        default=None,
        description="PCIe generation that the slot allows, if that is less than NVML reports. Left out: "
        "what NVML reports.",
    )
    pcie_width: Annotated[int, Field(ge=1, le=32, strict=True)] | None = Field(
        default=None,
        description="PCIe lanes that the slot has, if they are fewer than NVML reports. Left out: what NVML "
        "reports.",
    )
    pcie_bit_error_rate: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="Largest number of PCIe replays (packets sent again), as a share of the bits that the "
        "link's lanes can carry in the time; more warn. 1e-12 is, a minute and lane, 0.15 at Gen1, 0.3 at "
        "Gen2, 0.48 at Gen3, 0.96 at Gen4, 1.92 at Gen5.",
    )
    pcie_correctable_minute: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of correctable PCIe errors, as the kernel counts them, in any minute "
        "from the first load to the last, at either end of the link.",
    )
    pcie_uncorrected: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of new fatal or non-fatal PCIe errors in a run, as the kernel counts "
        "them.",
    )
    nvlinks: Annotated[int, Field(ge=0, le=36, strict=True)] | None = Field(
        default=None,
        description="Number of NVLinks that a card has here, if it is not that of its SKU file. Left out: "
        "the SKU file's, else as many as an equal card of the node has.",
    )
    nvlink_replays: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of replays, and of recoveries, of an NVLink in a run.",
    )
    nvlink_crc_per_s: Positive | None = Field(
        default=None,
        description="This many CRC errors of an NVLink a second, or more, fail. Fewer warn.",
    )
    xid_fail: tuple[Whole, ...] | None = Field(
        default=None,
        description="Xids (error numbers of the driver) that fail, whatever hwprofiles/xids.toml says. Left "
        "out: none.",
    )
    xid_warn: tuple[Whole, ...] | None = Field(
        default=None,
        description="Xids that only warn although hwprofiles/xids.toml lets them fail. One that xid_fail "
        "also lists fails. Left out: none.",
    )
    foreign_memory_warn_mib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="More VRAM than this, in MiB, that other programs hold before the run warns. A card "
        "that drives a display is exempt.",
    )
    stranger_sm_percent: Annotated[float, Field(gt=0, lt=100, strict=True)] | None = Field(
        default=None,
        description="A foreign process that was there before the run, or that draws a desktop, may take at "
        "most this share of the GPU's computing time (SM use), in percent. One that starts "
        "during the run and computes always counts as a disturbance.",
    )
    stranger_growth_mib: Positive | None = Field(
        default=None,
        description="Largest amount of VRAM, in MiB, by which a foreign process that was there before the "
        "run, or that draws a desktop, may grow during the run.",
    )
    sample_coverage_share: Share | None = Field(
        default=None,
        description="Smallest share of a sensor's due readings that must have been read under load. With "
        "fewer, what is judged by them is not measured.",
    )
    idle_share: Share | None = Field(
        default=None,
        description="Largest share of the time in the feeding stage in which the GPU waited for the CPU.",
    )
    working_clock_mhz: Positive | None = Field(
        default=None,
        description="Smallest SM clock in the feeding stage, in MHz. Left out: clock_ratio_share or "
        "clock_unknown_share applies there too.",
    )
    working_power_w: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest mean power in the feeding stage, in W. Left out: not judged.",
    )
    working_temperature_c: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest mean core temperature in the feeding stage, in °C. Left out: not "
        "judged.",
    )
    core_temperature_warn_c: Positive | None = Field(
        default=None, description="A core temperature over this, in °C, warns. Left out: no warning."
    )
    core_temperature_never_c: Positive | None = Field(
        default=None,
        description="Core temperature, in °C, that no single reading may exceed; core_temperature_c and "
        "core_temperature_warn_c then apply to means of 5 s. Left out: they apply to every "
        "reading.",
    )
    power_limit_w: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest power limit, in W, to which the card may be set. Left out: the "
        "card's default is expected, and a lower limit warns or, far below, fails.",
    )
    driver_minimum: str | None = Field(
        default=None,
        description='Oldest accepted driver, such as "550.54". Left out: any.',
    )
    driver_mixed: Flag | None = Field(
        default=None,
        description="true: the nodes may have different drivers. Left out: all must have the same one.",
    )
