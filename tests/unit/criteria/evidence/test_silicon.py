"""What the silicon can do: the floor of cards that nobody measured, and the ceiling of every rate."""

from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import NO_CEILING
from rigproof.profiles.loading.files import profile_folder, read_toml
from rigproof.profiles.tables.sku import Architecture
from rigproof.records.champions import ChampionRate
from rigproof.records.verdict import Outcome
from support.bench import Bench
from support.fault_changes import GPU, OTHER
from support.rig_profile import H200

ARCHITECTURES = read_toml(profile_folder() / "defaults.toml")["architectures"]
BF16, FP32, SUSTAINED = "throughput.gemm_bf16", "throughput.gemm_fp32", "throughput.sustained"
UNKNOWN = [
    {"name": "pc1", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "memory_gib": 141, "workers": 2}]},
    {"name": "pc2", "cpus": 8, "ram_gib": 64, "gpus": [{"sku": "unknown", "memory_gib": 141}]},
]


def bench_of(capability=(9, 0), sms=132, *, nodes=None, **identity) -> Bench:
    """Two Hoppers, of SKU h200 or unknown."""
    changes = {"architectures": ARCHITECTURES} | ({} if nodes is None else {"nodes": nodes})
    bench = Bench(changes)
    for subject in (GPU, OTHER):
        bench.gpu(subject, compute_capability=capability, **identity)
    bench.recording.workers = [replace(one, sms=sms) for one in bench.recording.workers]
    return bench


def unknown(capability=(9, 0), sms=132, **identity) -> Bench:
    return bench_of(capability, sms, nodes=UNKNOWN, **identity)


def test_an_unknown_card_s_floor_follows_the_clock_that_was_measured():
    bench = unknown()
    bench.samples(GPU, 5, sm_clock_mhz=1000)
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.PASS
    assert verdict.limit == pytest.approx(0.6 * 132 * 2048 * 2 * 1000e6 / 1e12)
    assert verdict.limit_source == (
        "0.6 of 541 TFLOP/s, what 132 SMs do at the measured 1000 MHz (compute capability 9.0); "
        "hwprofiles/defaults.toml"
    )
    for name in (BF16, FP32, SUSTAINED):
        assert bench.verdict(name, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize("name", [BF16, SUSTAINED])
def test_an_unknown_card_at_a_quarter_of_its_rate_fails_whatever_its_clock_is_excused_by(name):
    bench = unknown()
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, 0.25, stage)
    bench.samples(GPU, 5, sm_clock_mhz=600, clock_event_reasons=0x4)
    assert bench.verdict(name, GPU).outcome is Outcome.FAIL


def test_only_the_clock_while_the_judged_rounds_ran_counts():
    """bf16 is measured from 22.5 to 25 s; an idle clock before and after makes no lower floor."""
    bench = unknown()
    bench.samples(GPU, 5, 22.4, sm_clock_mhz=300)
    bench.samples(GPU, 25.1, sm_clock_mhz=300)
    bench.samples(GPU, 22.5, 25, sm_clock_mhz=1980)
    assert bench.verdict(BF16, GPU).limit == pytest.approx(0.6 * 132 * 2048 * 2 * 1980e6 / 1e12)


@pytest.mark.parametrize(
    ("sms", "clock_mhz", "why"),
    [
        (132, None, "only 0 of the 25 readings of the SM clock due under load"),
        (132, 1_500_000, "the SM clock reads 1.5e+06 MHz"),
        (None, 1980, "no worker reported how many SMs this card has, which its floor is based on"),
        (132_000, 1980, "its workers report 132000 streaming multiprocessors, more than a card has"),
    ],
)
def test_without_a_clock_and_multiprocessors_that_can_be_there_is_no_floor_and_no_pass(sms, clock_mhz, why):
    bench = unknown(sms=sms)
    bench.samples(GPU, 5, sm_clock_mhz=clock_mhz)
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert why in verdict.detail


def test_the_clock_is_due_in_all_stretches_of_the_rounds():
    """Of 14 and 15 s, the first of which was hardly read."""
    bench = unknown()
    bench.recording.rounds = [
        one for one in bench.recording.rounds if one.stage != "sustained" or not 45.0 < one.t_s <= 55.0
    ]
    bench.samples(GPU, 31, 43, sm_clock_mhz=None)
    verdict = bench.verdict(SUSTAINED, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.endswith(" of the 290 readings of the SM clock due under load")


@pytest.mark.parametrize(
    ("capability", "brand", "fma"),
    [
        ((8, 6), "geforce_rtx", 256),
        ((8, 6), "nvidia", 256),  # A10G is of that brand, and half rate
        ((8, 6), None, 256),
        ((8, 6), "nvidia_rtx", 512),
        ((8, 9), "geforce_rtx", 256),
        ((8, 9), "nvidia_rtx", 512),
        ((8, 0), "nvidia", 1024),
        ((12, 0), "geforce_rtx", 256),
    ],
)
def test_a_brand_that_says_it_decides_between_two_rate_classes(capability, brand, fma):
    bench = unknown(capability, sms=50, brand=brand, sm_clock_max_mhz=20_000)
    bench.samples(GPU, 5, sm_clock_mhz=1500)
    assert bench.verdict(BF16, GPU).limit == pytest.approx(0.6 * 50 * fma * 2 * 1500e6 / 1e12)


@pytest.mark.parametrize(
    ("capability", "identity", "why"),
    [
        ((6, 1), {}, "no floor: compute capability 6.1 is not known for bf16; this is its baseline"),
        (None, {}, "no floor: its architecture is not known for bf16; this is its baseline"),
        (
            (7, 0),
            {"sm_clock_max_mhz": 99_000},
            "no floor: compute capability 7.0 is not known for bf16; this is its baseline",
        ),
        (
            (9, 0),
            {"virtualization": "vgpu"},
            "no floor: this is a vGPU, and its share of the card is not reported; this is its baseline",
        ),
        (
            (9, 0),
            {"brand": "nvidia_vws"},
            "no floor: this is a vGPU, and its share of the card is not reported; this is its baseline",
        ),
    ],
)
def test_a_missing_floor_is_reported_with_its_reason(capability, identity, why):
    verdict = unknown(capability, **identity).verdict(BF16, GPU)
    assert (verdict.outcome, verdict.limit, verdict.detail) == (
        Outcome.NO_LIMIT,
        None,
        f"{why}; {NO_CEILING}",
    )


@pytest.mark.parametrize(
    ("tflops", "expected"), [(700.0, 665.0), (100.0, 0.6 * 132 * 2048 * 2 * 1000e6 / 1e12)]
)
def test_a_champion_of_an_unknown_card_counts_where_it_is_higher(tflops, expected):
    bench = unknown()
    bench.samples(GPU, 5, sm_clock_mhz=1000)
    labels = {"precision": "bf16", "size": 1024}
    best = ChampionRate(tflops, "TFLOP/s", 700, labels, 1, "run-7")
    bench.champions = {f"GPU-{GPU}": {"gemm_bf16_tflops": (best,)}}
    assert bench.verdict(BF16, GPU).limit == pytest.approx(expected)


def test_a_figure_of_the_sku_file_needs_no_architecture():
    bench = bench_of()
    bench.samples(GPU, 5, sm_clock_mhz=1980)
    assert bench.verdict(BF16, GPU).limit == 495


def test_a_known_card_without_a_figure_has_the_floor_of_its_architecture():
    bench = bench_of()
    figures = H200.steady.model_copy(update={"gemm_bf16_tflops": None})
    bench.loaded = replace(bench.loaded, skus={"h200": H200.model_copy(update={"steady": figures})})
    bench.samples(GPU, 5, sm_clock_mhz=1000)
    assert bench.verdict(BF16, GPU).limit == pytest.approx(0.6 * 132 * 2048 * 2 * 1000e6 / 1e12)


RATES = [BF16, FP32, SUSTAINED, "throughput.stability", "throughput.peer_outlier", "scaling.sharing"]


@pytest.mark.parametrize(
    "make", [Bench, bench_of, unknown], ids=["sku", "sku-and-architecture", "architecture"]
)
@pytest.mark.parametrize("name", RATES)
def test_a_million_times_the_rate_is_not_measured(make, name):
    bench = make()
    for stage in ("gemm", "sustained", "sharing"):
        bench.rounds(GPU, stage, work=lambda one: one.work * 1e6)
    verdict = bench.verdict(name, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "a measurement error, not a rate" in verdict.detail
    assert bench.verdict("throughput.combined", "rig").outcome is Outcome.NOT_MEASURED


def test_of_several_precisions_the_first_by_name_is_reported():
    bench = bench_of()
    bench.rounds(GPU, "gemm", work=lambda one: one.work * 1e6)
    with pytest.raises(NotMeasured, match="in bf16 "):
        Evidence(bench.recording, bench.loaded).device(GPU).possible("gemm")


def test_one_round_that_no_silicon_can_do_is_enough():
    bench = bench_of()
    bench.rounds(GPU, "gemm", 24.4, 24.6, seconds=1e-4)
    assert bench.verdict(BF16, GPU).outcome is Outcome.NOT_MEASURED
    assert bench.verdict(SUSTAINED, GPU).outcome is Outcome.PASS


def test_workers_that_are_possible_one_by_one_are_not_together():
    """Two workers share pc1/gpu0: at 3.4 times its rate each one is under the ceiling, both are over it."""
    bench = bench_of()
    bench.rounds(GPU, "sustained", work=lambda one: one.work * 1.7)
    verdict = bench.verdict(SUSTAINED, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith("1122 TFLOP/s in bf16 is more than this card can do (1071: 132 SMs of")


def test_the_ceiling_is_the_maximum_clock_and_not_the_measured_one():
    bench = bench_of()
    bench.samples(GPU, 5, sm_clock_mhz=300)
    assert bench.verdict(BF16, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("highest_mhz", "read_mhz", "outcome"),
    [
        (1980, 2200, Outcome.PASS),
        (1980, 2300, Outcome.NOT_MEASURED),
        (1840, 2116, Outcome.PASS),  # 1.15 times
    ],
)
def test_an_overclocked_card_s_ceiling_is_the_clock_that_it_reached(highest_mhz, read_mhz, outcome):
    bench = bench_of(sm_clock_max_mhz=highest_mhz)
    bench.rounds(GPU, "sustained", work=lambda one: one.work * 1.7)
    bench.samples(GPU, 40, 41, sm_clock_mhz=read_mhz)
    assert bench.verdict(SUSTAINED, GPU).outcome is outcome


def test_cards_share_a_ceiling_only_if_their_silicon_is_the_same():
    def ceilings(bench):
        evidence = Evidence(bench.recording, bench.loaded)
        return [evidence.device(one).silicon.ceiling("bf16").value for one in (GPU, OTHER)]

    own, other = ceilings(unknown())
    assert own == other
    for identity in ({"compute_capability": (8, 9)}, {"sm_clock_max_mhz": 1000}):
        bench = unknown()
        bench.gpu(OTHER, **identity)
        assert ceilings(bench)[0] == own > ceilings(bench)[1]
    bench = unknown()
    bench.recording.workers = [
        replace(one, sms=66) if one.subject == OTHER else one for one in bench.recording.workers
    ]
    assert ceilings(bench) == [own, own / 2]


def test_where_nothing_is_known_there_is_no_ceiling():
    bench = unknown(None)
    bench.rounds(GPU, "gemm", work=lambda one: one.work * 1e6)
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.NO_LIMIT
    assert verdict.detail.endswith(NO_CEILING)


@pytest.mark.parametrize("table", ARCHITECTURES, ids=lambda table: table["compute_capability"])
def test_no_rate_class_is_over_the_highest(table):
    architecture = Architecture.model_validate(table)
    for precision, fma in architecture.lowest.model_dump(exclude_none=True).items():
        assert fma < getattr(architecture.highest, precision)


# Printed dense peaks at the printed boost clock, TFLOP/s.
@pytest.mark.parametrize(
    ("capability", "rate_class", "precision", "sms", "boost_mhz", "printed"),
    [
        ("7.0", "highest", "fp16", 80, 1530, 125),
        ("7.5", "highest", "fp16", 40, 1590, 65),
        ("8.0", "highest", "bf16", 108, 1410, 312),
        ("8.0", "highest", "tf32", 108, 1410, 156),
        ("8.0", "highest", "fp32", 108, 1410, 19.5),
        ("8.6", "highest", "fp16", 84, 1800, 154.8),
        ("8.6", "lowest", "fp16", 82, 1695, 71.2),
        ("8.6", "lowest", "tf32", 82, 1695, 35.6),
        ("8.9", "highest", "fp16", 58, 2040, 121),
        ("8.9", "lowest", "fp16", 128, 2520, 165.2),
        ("9.0", "highest", "bf16", 132, 1830, 989),
        ("9.0", "highest", "tf32", 114, 1620, 378),
        ("10.0", "highest", "bf16", 148, 1850, 2250),
        ("12.0", "lowest", "fp16", 170, 2407, 209.5),
        ("12.0", "highest", "fp16", 188, 2617, 503.8),
    ],
)
def test_the_rate_classes_are_those_of_printed_peaks(
    capability, rate_class, precision, sms, boost_mhz, printed
):
    (table,) = [one for one in ARCHITECTURES if one["compute_capability"] == capability]
    assert table[rate_class][precision] * sms * 2 * boost_mhz / 1e6 == pytest.approx(printed, rel=0.005)
