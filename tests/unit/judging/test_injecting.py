"""What `--hw-inject` understands: a fault with all its values, or a refusal that says what to write."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.judging.catalogue import FAULTS
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.load import load_rig
from rigproof.simulation.faults.injected import InjectedFault, StageWindow
from rigproof.simulation.faults.kinds import SENSORS
from rigproof.simulation.faults.parsing import FaultError, parse_faults, unseen_field
from rigproof.stages.registry import FORMS, KINDS
from support.fault_matrix import rig, rig_of, subject_of

DUTY_OF = {kind.name: kind.duty for kind in KINDS}
STAGES = tuple(DUTY_OF)

STAGE_S = 60.0
LATER_S = STAGE_S * len(STAGES[STAGES.index("sustained") :])
UNTIL_FEEDING = ("gemm", "sustained", "training", "feeding")
WORDS = [*"@:,=%-09", "80%", "1e400", "nan", "٣", "n1", "n1/gpu0", "n2/gpu0"]
KEYS = ["stage", "lap", "training", "after", "for", "by", "to", "code", "field"]
PARTS = st.sampled_from([*FAULTS, *SENSORS, *WORDS, *KEYS, " ", "\n", "\0"])
GPUS = {one.subject: one for one in rig().devices()}


def plans(stages):
    return [StagePlan(name, STAGE_S, settle_s=1, measure_s=STAGE_S, round_s=0.1) for name in stages]


def parsed(text, stages=STAGES, loaded=None):
    (fault,) = parse_faults([text], FAULTS, loaded or rig(), plans(stages), FORMS)
    return fault


def refusal(text, stages=STAGES, loaded=None):
    with pytest.raises(FaultError) as refused:
        parse_faults([text], FAULTS, loaded or rig(), plans(stages), FORMS)
    return str(refused.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy host is no failure
@given(st.one_of(st.text(), st.lists(PARTS).map("".join)))
def test_any_text_is_a_fault_or_a_refusal(text):
    try:
        found = parsed(text)
    except FaultError as error:
        found = str(error)
    assert isinstance(found, InjectedFault) or found.startswith("--hw-inject")


def figures(low, high):
    """As people write them: a decimal at most."""
    return st.integers(10 * low, 10 * high).map(lambda tenths: f"{tenths / 10:g}")


def spans(least, seconds):
    plain, most = figures(least, seconds), min(99, int(100 * seconds / STAGE_S))
    return st.one_of(figures(least, most).map("{}%".format), plain, plain.map("{}s".format))


VALUES = {
    "after": spans(0, 59),
    "for": spans(1, 9999),
    "stage": st.sampled_from(STAGES),
    "by": st.one_of(figures(1, 99).map("{}%".format), st.integers(1, 99).map(lambda n: f"{n / 100:g}")),
    "to": figures(1, 9999),
    "code": st.integers(0, 9999).map(str),
    "field": st.sampled_from(list(SENSORS)),
}
LATEST = {"training": 40, "feeding": 56}  # of 60 s: behind it nothing is done there


@st.composite
def faults(draw):
    """A fault that can be noticed on its subject, with some of its keys."""
    kind = draw(st.sampled_from([one for one in FAULTS.values() if rig_of(one) is rig()]))
    subjects = list(GPUS) if kind.scope == "gpu" else ["n1", "n2"]
    lacks = (kind.lacks if kind.scope == "gpu" else kind.host_lacks) or (lambda _loaded, _subject: "")
    subject = draw(st.sampled_from([s for s in subjects if not lacks(rig(), GPUS.get(s, s))]))
    keys = draw(st.lists(st.sampled_from(kind.keys), unique=True)) if kind.keys else []
    values = {key: draw(VALUES[key]) for key in keys}
    if kind.fields and "field" in values:
        values["field"] = draw(st.sampled_from(kind.fields))
    if "stage" in values:
        values["stage"] = draw(st.sampled_from(kind.acts_in(DUTY_OF)))
    stage = values.get("stage", kind.home(DUTY_OF))
    if stage in LATEST and "after" in kind.keys:  # its default may be later too
        values["after"] = draw(spans(0, LATEST[stage]))
    sensor = "" if kind.fields else values.get("field", "")
    if sensor and unseen_field(kind, sensor, GPUS[subject], DUTY_OF, stage, within="stage" in values):
        values["field"] = "power"
    options = ",".join(f"{key}={value}" for key, value in values.items())
    return f"{kind.name}@{subject}" + (f":{options}" if options else "")


NOT_SHOWN = ("nothing could notice it in the", "too short to act reliably", "where nothing notices less than")


def shows_in_its_stage(text):
    """Not one that a stage does not show, or not in so short a time."""
    try:
        parsed(text)
    except FaultError as error:
        return not any(why in str(error) for why in NOT_SHOWN)
    return True


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy host is no failure
@given(faults().filter(shows_in_its_stage))
def test_a_fault_reads_back_as_it_is_written(text):
    fault = parsed(text)
    assert parsed(str(fault)) == fault


def test_a_fault_of_the_catalogue_reads_back_with_its_defaults():
    for kind in FAULTS.values():
        fault = parsed(f"{kind.name}@{subject_of(kind)}", loaded=rig_of(kind))
        assert parsed(str(fault), loaded=rig_of(kind)) == fault


def test_without_a_subject_the_first_gpu_or_node_is_hit():
    assert parsed("overheat").subject == "n1/gpu0"
    assert parsed("node-lost").subject == "n1"


def test_whoever_says_when_a_fault_begins_means_to_the_end():
    assert str(parsed("overheat:after=80%")) == "overheat@n1/gpu0:after=80%"
    assert str(parsed("overheat")) == "overheat@n1/gpu0:after=40%,for=30%"


def test_a_fault_that_ends_by_itself_keeps_its_length():
    assert str(parsed("host-frozen:after=80%")) == "host-frozen@n1:after=80%,for=5"


REFUSED = {
    "overheet": "did you mean 'overheat'?",
    "": "there is no fault ''",
    "overheat@n1/gpu7": "write one of n1/gpu0, n1/gpu1, n2/gpu0",
    "overheat@n1/gpu": "did you mean 'n1/gpu",
    "overheat@n1": "hits a gpu",
    "node-lost@n1/gpu0": "hits a node",
    "overheat:afer=3": "did you mean 'after'?",
    "overheat:code=3": "its keys: stage, after, for, to",
    "node-missing:after=3": "its keys: none",
    "overheat:after": "'after' is not key=value",
    "overheat:": "'' is not key=value",
    "overheat:after=3,after=4": "after is given twice",
    "overheat:after=-3": "write seconds, such as 20, or a share, such as 80%",
    "overheat:after=180%": "0% to 100%",
    "overheat:after=soon": "that is not a number",
    "overheat:to=nan": "that is not a number",
    "overheat:to=1e400": "that is not a number",
    "overheat:to=0": "write a figure over 0",
    "gpu-idle:for=0": "too short to act reliably; write 0.5 s or more",
    "gpu-idle:for=0%": "too short to act reliably; write 0.5 s or more",
    "gpu-idle:for=0.4": "too short to act reliably; write 0.5 s or more",
    "early-heat:for=5": "too short to act reliably; write 6 s or more",
    "bit-flip:stage=sharing,after=0,for=0.5": "the card rests from 0.0 to 0.5 s of it; let it begin at ",
    "overheat:for=0.9": "too short to act reliably; write 1.25 s or more",
    "power-over-limit:stage=training,after=57": "it would act for 2.1 s of the training stage, where nothing",
    "overheat:stage=trainnig": "did you mean 'training'?",
    "overheat:stage=training,after=60": "work of the training stage takes 59.13 s, write less",
    "overheat:stage=training,after=59.9": "work of the training stage takes 59.13 s, write less",
    "overheat:stage=training,after=100%": "work of the training stage takes 59.13 s, write less",
    "straggler:stage=training": "straggler can act in: sustained",
    "rewards-slow:stage=gemm": "rewards-slow can act in: feeding",
    "bit-flip:stage=feeding": "bit-flip can act in: gemm, sustained",
    "bit-flip:after=60": "the sustained stage takes 60 s, write less; stage= selects another one",
    "hung-kernel:after=60": "the sustained stage takes 60 s, write less; stage= selects another one",
    "oom-retry:after=60": "the sustained stage takes 60 s, write less; stage= selects another one",
    "gpu-idle:after=60": "the sustained stage takes 60 s, write less; stage= selects another one",
    "straggler:after=60": "it would begin in the pattern stage, where it would never act",
    "cpu-starved:after=75": "it would begin in the pattern stage, where it would never act",
    "host-frozen:after=75": "it would begin in the pattern stage, where it would never act",
    "foreign-memory:after=3": "takes no 'after'",
    "sensor-shifted:by=0s": "write over 0s and up to 600s, such as 5s",
    "sensor-shifted:field=sm_clock": "nothing else shows what sm_clock should read",
    "sensor-impossible:field=clock_event_reasons": "any value of clock_event_reasons is possible",
    "sensor-missing:stage=gemm,field=utilization": "choose another --hw-level",
    f"overheat:after={LATER_S:g}": f"of the sustained stage the load takes {LATER_S:g} s, write less",
    "vram-stuck-bit:stage=gemm": "in the gemm stage: it does not fill and compare the memory",
    "vram-hot": "its memory's own sensor is judged",
    "throughput-sag:stage=bandwidth": "in the bandwidth stage: its rates follow the memory, not the core",
    **{
        f"throughput-sag:stage={stage}": f"in the {stage} stage: its limits leave room for less than by={by}%"
        for stage, by in (("gemm", 25), ("replay", 35), ("shapes", 35), ("sharing", 15), ("transient", 35))
    },
    "straggler:by=0%": "over 0% and under 100%",
    "straggler:by=100%": "over 0% and under 100%",
    "overheat:lap=2": "only a soak goes round its stages several times",
    "overheat:lap=0": "only a soak goes round its stages several times",
    "foreign-memory:lap=1": "takes no 'lap'",
    "xid:code=many": "an Xid is a whole number, such as 79",
    "xid:code=-1": "an Xid is a whole number, such as 79",
    "sensor-missing:field=temperature": "did you mean",
    "sensor-frozen:field=sm_clock": "also stays the same on a healthy card",
    "worker-killed@n1/gpu1:stage=ram": "in the ram stage: a worker of n1/gpu0 measures the host",
    "power-limit-off": "no limits.power_limit_w",
    "power-capped@n2/gpu0": "take power-limit-off",
    "temperature-out-of-range": "no limits.working_temperature_c",
    "o" * 501: "501 characters",
}


@pytest.mark.parametrize("text", REFUSED, ids=[repr(text)[:40] for text in REFUSED])
def test_what_is_no_fault_is_refused_with_the_way_out(text):
    assert REFUSED[text] in refusal(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("memory-overheat", "its driver reports no such sensor"),
        ("sensor-missing:field=memory_temperature", "its driver reports no such sensor"),
        ("ecc-uncorrected", "its driver counts no ECC errors"),
        ("row-remap-failed", "its driver reports no remapped rows"),
        ("hot-spot", "its driver reports no thermal margin"),
        ("out-of-phase", "its node has no other GPU"),
        ("straggler", "the rig has no other GPU of that SKU"),
        ("ram-slow", "there is neither another host of its kind nor a floor"),
        ("disk-slow@pc2", "there is neither another host of its kind nor a floor"),
        ("heat-spike", "no limits.core_temperature_never_c"),
        (
            "throughput-sag:stage=training,after=20%,by=60%",
            "no training step was measured on this card's model",
        ),
        ("throughput-sag:after=135,by=60%", "no training step was measured on this card's model"),
    ],
)
def test_a_fault_that_nothing_could_notice_on_this_card_is_refused(text, why):
    assert why in refusal(text, loaded=load_rig("dual-3090-3070", KINDS))


@pytest.mark.parametrize(
    "text",
    ["rewards-slow", "tensor-cores-unused", "sharing-collapse", "sensor-missing:field=utilization"],
)
def test_a_fault_of_a_stage_that_the_level_lacks_is_refused(text):
    assert "choose another --hw-level" in refusal(text, ("gemm", "sustained"))


@pytest.mark.parametrize(
    ("keys", "stages", "refused"),
    [
        ("", ("gemm", "sustained"), True),
        (",stage=gemm", ("gemm", "sustained"), True),
        (",stage=feeding", UNTIL_FEEDING, True),
        (",stage=feeding", (*UNTIL_FEEDING, "sharing"), False),
        (",stage=sharing", (*UNTIL_FEEDING, "sharing"), True),
        ("", UNTIL_FEEDING, False),
    ],
)
def test_a_frozen_temperature_needs_a_later_stage_whose_power_changes_for_long(keys, stages, refused):
    text = f"sensor-frozen@n1/gpu0:field=core_temperature{keys}"
    if refused:
        assert "the power does not change for long enough" in refusal(text, stages)
    else:
        assert parsed(text, stages).field == "core_temperature"


@pytest.mark.parametrize(("after", "acts"), [(58.6, True), (58.7, False)])
def test_a_fault_begins_while_the_simulated_work_of_its_stage_goes_on(after, acts):
    """Training's segments end at 59.13 of 60 s here; a fault needs half a second."""
    text = f"clock-stuck@n1/gpu0:stage=training,after={after}"
    if acts:
        assert parsed(text).after.value == after
    else:
        assert "the simulated work of the training stage takes 59.13 s, write less" in refusal(text)


def test_a_card_s_own_work_counts_and_for_a_node_the_slowest_card_s():
    """A card without tf32 has done its work sooner."""
    loaded = rig()
    first = next(iter(loaded.skus))
    sku = loaded.skus[first]
    peak = sku.peak_tflops.model_copy(update={"tf32": None})
    fewer = replace(loaded, skus=loaded.skus | {first: sku.model_copy(update={"peak_tflops": peak})})
    assert "takes 241.75 s" in refusal("clock-stuck@n1/gpu0:stage=gemm,after=250", loaded=fewer)
    assert "takes 302 s" in refusal("node-lost@n1:stage=gemm,after=303")


def test_a_fault_that_begins_within_a_later_stage_acts_and_one_that_would_begin_behind_the_last_does_not():
    assert parsed("overheat:after=239").after.value == 239
    assert "the load takes 60 s" in refusal("overheat:after=100%", stages=("gemm", "sustained"))
    assert parsed("overheat:after=100%").after.share
    assert "it would never begin" in refusal("overheat:after=0", stages=("gemm",))


def test_a_fault_that_is_given_a_stage_acts_in_no_other():
    fault = parsed("thermal-throttle:stage=training,after=20%")
    assert str(fault) == "thermal-throttle@n1/gpu0:stage=training,after=20%,by=40%"
    stages = (StageWindow("sustained", 0.0, 60.0), StageWindow("training", 61.0, 50.0))
    assert fault.window(stages[:1]) is None
    assert fault.window(stages) == (71.0, 111.0)
    assert fault.window((*stages, StageWindow("feeding", 105.0, 20.0))) == (71.0, 105.0)


def test_a_fault_of_a_lap_begins_in_it():
    stages = tuple(
        StageWindow(name, start_s, 50.0, lap)
        for lap in (1, 2, 3)
        for name, start_s in (("sustained", 200.0 * lap), ("training", 200.0 * lap + 60))
    )
    for text, window in {
        "straggler:lap=2": (400.0, math.inf),
        "straggler:stage=sustained,lap=2": (400.0, 450.0),
        "overheat:stage=training,after=20%,lap=3": (670.0, 710.0),
        "overheat:stage=training,after=20%": (270.0, 310.0),
    }.items():
        (fault,) = parse_faults([text], FAULTS, rig(), plans(STAGES), FORMS, laps=3)
        assert (text, fault.window(stages)) == (text, window)
        assert parse_faults([str(fault)], FAULTS, rig(), plans(STAGES), FORMS, laps=3) == (fault,)
        assert fault.hits_task(stages) is (fault.lap == 3)
    with pytest.raises(FaultError, match="lap=4: write 1 to 3"):
        parse_faults(["overheat:lap=4"], FAULTS, rig(), plans(STAGES), FORMS, laps=3)


def test_a_fault_of_the_card_that_begins_after_the_sustained_stage_acts_in_the_next_one():
    assert parsed("thermal-throttle:after=75").window((StageWindow("sustained", 1.0, 60.0),))[0] == 76.0


def test_a_reading_can_be_late_by_seconds_or_low_by_a_share():
    assert (parsed("sensor-shifted:by=5s").late_s, parsed("sensor-shifted:by=5s").by) == (5.0, None)
    assert (parsed("sensor-shifted:by=5%").late_s, parsed("sensor-shifted:by=5%").by) == (None, 0.05)


def test_a_fault_that_has_a_time_or_a_stage_can_act_in_its_own_stage():
    for kind in FAULTS.values():
        timed = {"stage", "after", "for"} & set(kind.keys)
        assert bool(timed) == bool(kind.acts_in(DUTY_OF)), kind.name
        assert not timed or kind.home(DUTY_OF) in kind.acts_in(DUTY_OF), kind.name
        assert kind.stage is None or not kind.duties, kind.name
