"""Limits and floors of GPUs."""

from typing import Annotated, ClassVar

from pydantic import Field

from rigproof.profiles.tables.base import (
    AtLeastOne,
    AtLeastZero,
    Flag,
    LimitKeys,
    Meaningful,
    NotNegative,
    Portion,
    PortionOrNone,
    Positive,
    Share,
    Table,
    Whole,
    optional,
)


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

    core_temperature_c: Positive | None = optional(
        "Highest core temperature, in °C. Left out: NVML's GPU_MAX, else NVML's SLOWDOWN, else "
        "the SKU file's."
    )
    memory_temperature_c: Positive | None = optional(
        "Highest memory temperature, in °C. Left out: NVML's MEM_MAX, else the SKU file's."
    )
    # A limit of half the samples passes a card that cools down as long as it works.
    throttle_share: PortionOrNone | None = optional(
        "Largest share of a stage's samples in which the driver slows the GPU down (heat, HW "
        "slowdown, power brake). One or two such samples always pass.",
        Meaningful(highest=0.5, above="lets a card throttle half the time"),
    )
    # Two stretches are no coincidence any more; a card with ten throttles repeatedly.
    throttle_events: AtLeastZero | None = optional(
        "Largest number of separate slowdowns (unbroken stretches of such samples) in the whole "
        "run. What stays within all three limits only warns.",
        Meaningful(highest=10, above="lets a card throttle repeatedly"),
    )
    throttle_event_s: NotNegative | None = optional(
        "Longest slowdown that is allowed, in s; a longer one fails.",
        Meaningful(highest=10, above="is no longer a short slowdown"),
    )
    # Idle clocks are 210 to 345 MHz of 1700 to 2600.
    clock_ratio_share: Share | None = optional(
        "Smallest SM clock under load, as a share of the boost clock in the SKU file. A lower "
        "clock passes, or only warns, if the driver explains it.",
        Meaningful(lowest=0.2, below="passes the clock of an idle card"),
    )
    clock_unknown_share: Share | None = optional(
        "For a card whose boost clock is not known: smallest SM clock under load, as a share of "
        "the highest that NVML reports.",
        Meaningful(lowest=0.2, below="passes the clock of an idle card"),
    )
    # A card at its cap draws 97 % of it; one at 60 % has room for a higher clock.
    clock_capped_power_share: Share | None = optional(
        "The power cap explains a low clock only if the card draws at least this share of its "
        "enforced power limit (median).",
        Meaningful(
            0.6, 0.97, "treats a card as capped that is not at its cap", "is more than a capped card draws"
        ),
    )
    # GeForce drivers allow 30 to 45 % of the default at the lowest.
    power_cap_fail_share: Share | None = optional(
        "A power limit below the card's default warns; below this share of the default it "
        "fails. Has no effect where power_limit_w is stated.",
        Meaningful(lowest=0.3, below="is lower than any card can be capped"),
    )
    # A card that waits half of the time shows 50 %.
    active_utilization_share: Share | None = optional(
        "Smallest mean utilisation under load, for cards whose driver reports no power limit; "
        "they have it in place of active_power_share.",
        Meaningful(lowest=0.5, below="calls a card active that idles most of the time"),
    )
    # The overload protection of a supply trips at 1.1 to 1.5 times what it is rated for.
    power_over_limit_share: Positive | None = optional(
        "Highest mean power under load, as a share of the enforced limit: 1.05 allows 5 % more.",
        Meaningful(
            1.0,
            1.5,
            "fails a card that is merely at its limit",
            "is more than a supply gives before it trips",
        ),
    )
    # An idle card draws 5 to 15 % of its limit.
    active_power_share: Share | None = optional(
        "Smallest mean power under load, as a share of the enforced limit.",
        Meaningful(lowest=0.15, below="passes what an idle card draws"),
    )
    # Readings come twice a second and are kept for 10 s; a step of training waits for seconds at most.
    idle_beside_s: Positive | None = optional(
        "Longest time, in s, for which a GPU may idle while another one of the rig works, before "
        "`rigproof monitor` warns: neither active_utilization_share nor active_power_share is reached. In a "
        "run, activity.gpu_active judges that.",
        Meaningful(5, 600, "marks a card that waits for its next step", "marks no card that matters"),
    )
    # Half of the windows empty is a card that waits for its host.
    active_work_share: Share | None = optional(
        "Smallest share of the 1 s windows under load in which verified work was done.",
        Meaningful(lowest=0.5, below="calls a card active that idles most of the time"),
    )
    # Sound cards pause for 0.13 s at most; a stage measures for a few seconds.
    pause_s: Positive | None = optional(
        "Longest pause, in s, between two measured rounds of the same work without another "
        "round between them. Fed and continuous loads have limits of their own.",
        Meaningful(0.5, 5, "fails sound cards", "passes a card that stops for a whole stage"),
    )
    # One window of 5 s may contain a hiccup; under a third it contained almost no work.
    stability_worst_window_share: Share | None = optional(
        "Smallest rate of any 5 s window of the sustained stage, as a share of the median window. The same "
        "share holds for one process alone in the sharing stage, against the sustained rate; for a training "
        "step in the sweep of batch sizes, against the same step before; and for training steps in other "
        "precisions or of other batch sizes than the compared one, against their peers' median.",
        Meaningful(lowest=0.3, below="allows a rate that almost stops"),
    )
    # A card at half its clock does half the work; sound ones keep 0.83 of their best quarter at least.
    best_quarter_share: Share | None = optional(
        "Of work that a card repeats in a stage: smallest rate in the slowest quarter of its "
        "time, as a share of that in the best quarter. Also the smallest rate of a training "
        "step, as a share of what the card's steps of other batch sizes imply.",
        Meaningful(0.5, 0.95, "accepts a card that falls to half its rate", "fails sound cards"),
    )
    # Rounds that are all half as fast are no rare hiccups; sound cards keep 0.85 where small batches wait.
    slow_fifth_share: Share | None = optional(
        "Of work that a card repeats in a stage: four fifths of the rounds must reach at least "
        "this share of the rate that the fastest fifth reaches.",
        Meaningful(0.3, 0.85, "accepts a card that works by fits and starts", "fails sound cards"),
    )
    # Rates may lack 15 % at most.
    standstill_share: Share | None = optional(
        "If the host stood still for more than this share of a round, the round counts in no "
        "rate. A hypervisor can stop a virtual machine like that for a moment.",
        Meaningful(highest=0.15, above="calls a card slow whose host stood still"),
    )
    # A product of 16-bit operands of size 8192 takes 1.7 ms on an H200.
    launch_ms: Positive | None = optional(
        "A low rate of products for which the card waited is its host's, and not measured, if launching each "
        "took less than this, in ms. A host that takes longer is too slow itself. Rounds of collectives that "
        "are shorter are the hosts', too: neither a champion nor held against one.",
        Meaningful(highest=1.0, above="excuses a card whose products last long"),
    )
    # The known stragglers lack 8 to 15 %; sound cards of a model are within 3 %, so half of them lack some.
    peer_share: Share | None = optional(
        "Smallest sustained rate, as a share of the median of the other GPUs of the same SKU "
        "with the same work, scaled down to this GPU's power limit. Training steps and memory bandwidth are "
        "compared in the same way.",
        Meaningful(0.5, 0.99, "accepts a card that works at half the rate", "fails sound cards"),
    )
    # A card is full where the next matrix does not fit: 128 MiB in 16-bit at the usual size of 8192.
    headroom_gib: NotNegative | None = optional(
        "VRAM, in GiB, that must still be free on the card at the peak of the sustained stage. "
        "A plan that would leave less is refused.",
        Meaningful(lowest=0.125, below="passes a card that is full"),
    )
    # The known stragglers lack 8 to 15 %.
    marginal_share: PortionOrNone | None = optional(
        "A stage is measured once more if a rate misses its limit by less than this share of "
        "the limit. 0: never.",
        Meaningful(highest=0.08, above="gives stragglers another attempt"),
    )
    marginal_repeats: AtLeastZero | None = optional(
        "How often a stage is measured again because a rate misses its limit by little.",
        Meaningful(highest=5, above="lets a card try until it is lucky"),
    )
    # Four runs have three degrees of freedom: a loss would have to be twenty times the spread.
    regression_runs: AtLeastOne | None = optional(
        "Fewest earlier runs of a card under the same conditions that a rate of it is compared with.",
        Meaningful(5, 50, "says too little about how far a card's runs spread", "may never be reached"),
    )
    # Rates of one card over days differ by 1.5 %.
    regression_share: Share | None = optional(
        "Smallest loss against its own earlier runs, as a share, that fails a card; it must be beyond the "
        "spread of these runs, too.",
        Meaningful(0.005, 0.2, "is less than sound cards' rates vary", "lets a fifth of a rate be lost"),
    )
    regression_error: Share | None = optional(
        "Probability that a run of a sound rig suspects one of its cards, all cards and figures together.",
        Meaningful(highest=0.05, above="wakes somebody for nothing in one of twenty runs"),
    )
    regression_repeats: AtLeastZero | None = optional(
        "How often a stage is measured again because a rate is below the card's earlier ones. The median of "
        "all times is judged.",
        Meaningful(highest=5, above="repeats a stage for longer than the level lasts"),
    )
    # A rig that fails at every other task trains nothing.
    success_share: Share | None = optional(
        "Smallest share of a GPU's tasks and allocations that must end well, and of its rounds "
        "that must be verified.",
        Meaningful(lowest=0.5, below="allows every other task to fail"),
    )
    # SuperBench and Megatron call 5 to 10 % a regression.
    champion_share: Share | None = optional(
        "Floor of a rate, as a share of this GPU's champion, which is its best rate in an accepted run.",
        Meaningful(lowest=0.5, below="lets a card lose half of its best rate"),
    )
    # A floor of half of what others reached is meaningless.
    floor_measured_share: Share | None = optional(
        "Floor of a rate, as a share of the SKU file's figure, if that figure was measured on at least "
        "floor_cards cards and under the same conditions: size, batch, one worker, torch version.",
        Meaningful(0.5, 0.99, "lets a card lose half of its rate", "fails sound cards"),
    )
    floor_similar_share: Share | None = optional(
        "Like floor_measured_share, for a figure that was measured on fewer cards or under other conditions.",
        Meaningful(0.5, 0.97, "lets a card lose half of its rate", "fails sound cards"),
    )
    floor_printed_share: Share | None = optional(
        "Like floor_measured_share, for a figure that rigproof has not measured: it comes from "
        "a data sheet or from others. Also for copies, of the printed memory bandwidth.",
        Meaningful(0.4, 0.95, "lets a card lose more than half of its rate", "fails sound cards"),
    )
    # Large GEMMs reach 0.66 to 0.87 of what the silicon does at its clock.
    floor_unknown_share: Share | None = optional(
        "Where no figure is known: floor of a rate, as a share of what the card's architecture "
        "can do at the measured clock ([[architectures]]).",
        Meaningful(0.3, 0.85, "accepts a card that hardly works", "fails sound cards"),
    )
    # Sharing left 0.90 of the rate with 2 processes and 0.92 with 3, as measured.
    floor_sharing_share: Share | None = optional(
        "The floor from the SKU file is multiplied by this if more workers share the GPU than "
        "did when the figure was measured.",
        Meaningful(lowest=0.5, below="allows sharing that halves the rate"),
    )
    floor_cards: AtLeastOne | None = optional(
        "Number of cards on which a figure must have been measured for floor_measured_share to apply.",
        Meaningful(highest=100, above="is more cards than are ever measured, so that no floor is tight"),
    )
    # Boost clocks give 1.10 of the printed peak, a maximum clock up to 1.3 of it.
    ceiling_share: Positive | None = optional(
        "A rate over this multiple of the SKU file's printed peak is taken as a measurement "
        "error: not measured.",
        Meaningful(1.0, 2.0, "calls a sound card's rate an error", "accepts twice the peak as a rate"),
    )
    # A worker gives up after 8 tries to fill its memory: a plan that fails this often does not fit.
    ooms: AtLeastZero | None = optional(
        "Largest number of failed allocations (out of memory) of a GPU in a run, those that a "
        "worker recovered from included.",
        Meaningful(highest=10, above="passes even a plan that does not fit"),
    )
    # The first error ends the process that meets it (Xid 48); a card falls off the bus before it has many
    # (Xid 79).
    ecc_uncorrected: AtLeastZero | None = optional(
        "Largest number of new uncorrected memory errors of a GPU in a run.",
        Meaningful(highest=10, above="passes more errors than a broken card survives"),
    )
    # A card of the same model with half of its memory is another card.
    gpu_memory_share: Share | None = optional(
        "Smallest share of its model's memory, or of the `memory_gib` that a profile states, "
        "that a card must show.",
        Meaningful(0.6, 0.99, "accepts a card with half of its memory", "fails sound cards"),
    )
    host_share: Share | None = optional(
        "Smallest share of the `cpus` and `ram_gib` that a node states that must be usable. It "
        "counts only in [limits] of the rig, as do the other limits of hosts."
    )
    host_cpus_per_gpu: Positive | None = optional(
        "A container that leaves fewer CPUs than this for each GPU warns."
    )
    host_ram_share: Share | None = optional(
        "A container that leaves less RAM than this share of all GPUs' memory warns."
    )
    host_shm_gib: Positive | None = optional("A /dev/shm smaller than this, in GiB, warns.")
    run_threads: Positive | None = optional(
        "Threads that the driver and the head of a Ray of our own start. If a limit on this host "
        "leaves fewer than this and the next four make, the run is refused."
    )
    run_threads_per_node: Positive | None = optional("Threads of a node's raylet and agent.")
    run_threads_per_worker: Positive | None = optional("Threads of a worker.")
    run_threads_per_context: Positive | None = optional(
        "Threads of a worker's CUDA context, in addition to the worker's own."
    )
    run_threads_per_cpu: Positive | None = optional("Threads that Ray starts for each CPU of the host.")
    run_temp_mib: Positive | None = optional(
        "Room, in MiB, for the files of a Ray of our own in the folder for temporary files; with "
        "less, the run is refused."
    )
    run_open_files: Whole | None = optional(
        "Open files that a process of a Ray of our own needs (`ulimit -n`); with a lower limit "
        "the run is refused."
    )
    run_address_mib: Positive | None = optional(
        "Address space, in MiB, that a process of a Ray of our own needs (`ulimit -v`); with a "
        "lower limit the run is refused."
    )
    ecc_off: Flag | None = optional(
        "true: ECC may be switched off. Left out: it must be on where the card has it."
    )
    # NVIDIA, Memory Error Management: 512 spare rows, and 64 pages before row remapping.
    remapped_rows_fail: AtLeastOne | None = optional(
        "A card fails with this many memory rows remapped for uncorrectable errors, or more.",
        Meaningful(highest=512, above="is more rows than a card can remap"),
    )
    retired_pages_fail: AtLeastOne | None = optional(
        "A card fails with this many retired memory pages or more. Cards before Ampere retire "
        "pages instead of remapping rows.",
        Meaningful(highest=64, above="is more pages than a card can retire"),
    )
    retired_pages_warn: AtLeastOne | None = optional("More retired memory pages than this warn.")
    pcie_generation: Annotated[int, Field(ge=1, le=10, strict=True)] | None = optional(
        "PCIe generation that the slot allows, if that is less than NVML reports. Left out: "
        "what NVML reports."
    )
    pcie_width: Annotated[int, Field(ge=1, le=32, strict=True)] | None = optional(
        "PCIe lanes that the slot has, if they are fewer than NVML reports. Left out: what NVML reports."
    )
    # A sound link stays below 1e-12 by its specification. 1e-10 allows a Gen5 x16 link 3072 replays a minute.
    pcie_bit_error_rate: Portion | None = optional(
        "Largest number of PCIe replays (packets sent again), as a share of the bits that the "
        "link's lanes can carry in the time; more warn. 1e-12 is, a minute and lane, 0.15 at Gen1, 0.3 at "
        "Gen2, 0.48 at Gen3, 0.96 at Gen4, 1.92 at Gen5.",
        Meaningful(
            1e-15, 1e-10, "warns of a single replay", "never warns, not even of fifty packets resent a second"
        ),
    )
    # A Gen5 x16 link within its specification has 31 a minute.
    pcie_correctable_minute: NotNegative | None = optional(
        "Largest number of correctable PCIe errors, as the kernel counts them, in any minute "
        "from the first load to the last, at either end of the link.",
        Meaningful(highest=3000, above="passes a link that repairs fifty errors a second"),
    )
    # The first one loses data or resets the link.
    pcie_uncorrected: AtLeastZero | None = optional(
        "Largest number of new fatal or non-fatal PCIe errors in a run, as the kernel counts them.",
        Meaningful(highest=10, above="passes more errors than a broken link survives"),
    )
    nvlinks: Annotated[int, Field(ge=0, le=36, strict=True)] | None = optional(
        "Number of NVLinks that a card has here, if it is not that of its SKU file. Left out: "
        "the SKU file's, else as many as an equal card of the node has."
    )
    nvlink_replays: AtLeastZero | None = optional(
        "Largest number of replays, and of recoveries, of an NVLink in a run."
    )
    nvlink_crc_per_s: Positive | None = optional(
        "This many CRC errors of an NVLink a second, or more, fail. Fewer warn."
    )
    xid_fail: tuple[Whole, ...] | None = optional(
        "Xids (error numbers of the driver) that fail, whatever hwprofiles/xids.toml says. Left out: none."
    )
    xid_warn: tuple[Whole, ...] | None = optional(
        "Xids that only warn although hwprofiles/xids.toml lets them fail. One that xid_fail "
        "also lists fails. Left out: none."
    )
    # A CUDA context without any work holds 0.3 to 0.6 GiB.
    foreign_memory_warn_mib: NotNegative | None = optional(
        "More VRAM than this, in MiB, that other programs hold before the run warns. A card "
        "that drives a display is exempt.",
        Meaningful(highest=1024, above="lets another job hold memory without a warning"),
    )
    # Two programs that both keep a GPU busy get half of it each; a third of that shows in any rate.
    stranger_sm_percent: Annotated[float, Field(gt=0, lt=100, strict=True)] | None = optional(
        "A foreign process that was there before the run, or that draws a desktop, may take at "
        "most this share of the GPU's computing time (SM use), in percent. One that starts "
        "during the run and computes always counts as a disturbance.",
        Meaningful(highest=15, above="lets a foreign process take a sixth of the card and more"),
    )
    # A program that takes a GiB leaves less than any level's headroom on a card that the plan fills.
    stranger_growth_mib: Positive | None = optional(
        "Largest amount of VRAM, in MiB, by which a foreign process that was there before the "
        "run, or that draws a desktop, may grow during the run.",
        Meaningful(highest=4096, above="lets a job take memory as if it were a desktop"),
    )
    # At 10 Hz one reading in five is 2 Hz: a spike of a second is still seen.
    sample_coverage_share: Share | None = optional(
        "Smallest share of a sensor's due readings that must have been read under load. With "
        "fewer, what is judged by them is not measured.",
        Meaningful(lowest=0.2, below="accepts a few samples as a measurement"),
    )
    # A GPU that is idle a third of the time is starved; half is no longer a matter of taste.
    idle_share: Share | None = optional(
        "Largest share of the time in the feeding stage in which the GPU waited for the CPU.",
        Meaningful(highest=0.5, above="accepts a card that waits half the time as fed"),
    )
    # Idle clocks are 210 to 345 MHz; the fastest cards boost to 3000 MHz, overclocked ones to 3300.
    working_clock_mhz: Positive | None = optional(
        "Smallest SM clock in the feeding stage, in MHz. Left out: clock_ratio_share or "
        "clock_unknown_share applies there too.",
        Meaningful(400, 3500, "is the clock of an idle card", "is more than any card reaches"),
    )
    working_power_w: tuple[Positive, Positive] | None = optional(
        "Lowest and highest mean power in the feeding stage, in W. Left out: not judged."
    )
    working_temperature_c: tuple[Positive, Positive] | None = optional(
        "Lowest and highest mean core temperature in the feeding stage, in °C. Left out: not judged."
    )
    core_temperature_warn_c: Positive | None = optional(
        "A core temperature over this, in °C, warns. Left out: no warning."
    )
    core_temperature_never_c: Positive | None = optional(
        "Core temperature, in °C, that no single reading may exceed; core_temperature_c and "
        "core_temperature_warn_c then apply to means of 5 s. Left out: they apply to every reading."
    )
    power_limit_w: tuple[Positive, Positive] | None = optional(
        "Lowest and highest power limit, in W, to which the card may be set. Left out: the "
        "card's default is expected, and a lower limit warns or, far below, fails."
    )
    driver_minimum: str | None = optional('Oldest accepted driver, such as "550.54". Left out: any.')
    driver_mixed: Flag | None = optional(
        "true: the nodes may have different drivers. Left out: all must have the same one."
    )


LIMITS = LimitKeys("limits", Limits)
