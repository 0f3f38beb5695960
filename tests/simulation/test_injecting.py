"""What `--inject` understands: a fault with all its values, or a refusal that says what to write."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.profiles.load import load_rig
from rigproof.profiles.plan import StagePlan
from rigproof.simulation.faults.catalogue import ARRIVES_WITH, BY_NAME, FIELDS, KINDS, lacks, unseen_field
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from support.fault_matrix import rig

STAGES = ("gemm", "sustained", "training", "feeding", "sharing")
STAGE_S = 60.0
WORDS = [*"@:,=%-09", "80%", "1e400", "nan", "٣", "n1", "n1/gpu0", "n2/gpu0"]
KEYS = ["after", "for", "by", "to", "code", "field"]
PARTS = st.sampled_from([*BY_NAME, *ARRIVES_WITH, *FIELDS, *WORDS, *KEYS, " ", "\n", "\0"])
GPUS = {one.subject: one for one in rig().devices()}


def plans(stages):
    return [StagePlan(name, STAGE_S, settle_s=1, measure_s=STAGE_S, round_s=0.1) for name in stages]


def parsed(text, stages=STAGES):
    (fault,) = parse_faults([text], rig(), plans(stages))
    return fault


def refusal(text, stages=STAGES, loaded=None):
    with pytest.raises(FaultError) as refused:
        parse_faults([text], loaded or rig(), plans(stages))
    return str(refused.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy host is no failure
@given(st.one_of(st.text(), st.lists(PARTS).map("".join)))
def test_any_text_is_a_fault_or_a_refusal(text):
    try:
        found = parsed(text)
    except FaultError as error:
        found = str(error)
    assert isinstance(found, InjectedFault) or found.startswith("--inject")


def figures(low, high):
    """As people write them: a decimal at most."""
    return st.integers(10 * low, 10 * high).map(lambda tenths: f"{tenths / 10:g}")


def spans(least, seconds):
    plain = figures(least, seconds)
    return st.one_of(figures(least, 99).map("{}%".format), plain, plain.map("{}s".format))


VALUES = {
    "after": spans(0, 59),
    "for": spans(1, 9999),
    "by": st.one_of(figures(1, 99).map("{}%".format), st.integers(1, 99).map(lambda n: f"{n / 100:g}")),
    "to": figures(1, 9999),
    "code": st.integers(0, 9999).map(str),
    "field": st.sampled_from(list(FIELDS)),
}


@st.composite
def faults(draw):
    """A fault that can be noticed on its subject, with some of its keys."""
    kind = draw(st.sampled_from(KINDS))
    subjects = list(GPUS) if kind.scope == "gpu" else ["n1", "n2"]
    subject = draw(st.sampled_from([s for s in subjects if not lacks(kind, rig(), GPUS.get(s), STAGES)]))
    keys = draw(st.lists(st.sampled_from(kind.keys), unique=True)) if kind.keys else []
    values = {key: draw(VALUES[key]) for key in keys}
    sensor = values.get("field", "")
    if sensor and unseen_field(kind, sensor, GPUS[subject], STAGES):
        values["field"] = "power"
    told = ",".join(f"{key}={value}" for key, value in values.items())
    return f"{kind.name}@{subject}" + (f":{told}" if told else "")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy host is no failure
@given(faults())
def test_a_fault_reads_back_as_it_is_written(text):
    fault = parsed(text)
    assert parsed(str(fault)) == fault


@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_a_fault_of_the_catalogue_reads_back_with_its_defaults(kind):
    subjects = list(GPUS) if kind.scope == "gpu" else ["n1"]
    subject = next(s for s in subjects if not lacks(kind, rig(), GPUS.get(s), STAGES))
    fault = parsed(f"{kind.name}@{subject}")
    assert parsed(str(fault)) == fault


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
    "nvlink-down": "arrives with its criterion transfer.peer",
    "overheat@n1/gpu7": "write one of n1/gpu0, n1/gpu1, n2/gpu0",
    "overheat@n1/gpu": "did you mean 'n1/gpu",
    "overheat@n1": "hits a gpu",
    "node-lost@n1/gpu0": "hits a node",
    "overheat:afer=3": "did you mean 'after'?",
    "overheat:code=3": "its keys: after, for, to",
    "node-missing:after=3": "its keys: none",
    "overheat:after": "'after' is no key=value",
    "overheat:": "'' is no key=value",
    "overheat:after=3,after=4": "after is given twice",
    "overheat:after=-3": "write seconds, such as 20, or a share, such as 80%",
    "overheat:after=180%": "0% to 100%",
    "overheat:after=soon": "that is no figure",
    "overheat:to=nan": "that is no figure",
    "overheat:to=1e400": "that is no figure",
    "overheat:to=0": "write a figure over 0",
    "overheat:for=0": "it would never act; write a time over 0",
    "overheat:for=0%": "it would never act; write a time over 0",
    "overheat:after=240": "from the begin of the sustained stage the load takes 240 s, write less",
    "straggler:by=0%": "over 0% and under 100%",
    "straggler:by=100%": "over 0% and under 100%",
    "xid:code=many": "an Xid is a whole number, such as 79",
    "xid:code=-1": "an Xid is a whole number, such as 79",
    "sensor-missing:field=temperature": "did you mean",
    "sensor-frozen:field=sm_clock": "what a healthy card shows too",
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
        ("straggler", "the rig has no other GPU of that SKU"),
        ("heat-spike", "no limits.core_temperature_never_c"),
    ],
)
def test_a_fault_that_nothing_could_notice_on_this_card_is_refused(text, why):
    assert why in refusal(text, loaded=load_rig("dual-3090-3070"))


@pytest.mark.parametrize(
    "text",
    ["rewards-slow", "tensor-cores-unused", "sharing-collapse", "sensor-missing:field=utilization"],
)
def test_a_fault_of_a_stage_that_the_level_lacks_is_refused(text):
    assert "take another --level" in refusal(text, ("gemm", "sustained"))


def test_a_fault_that_begins_within_a_later_stage_acts_and_one_that_would_begin_behind_the_last_does_not():
    assert parsed("overheat:after=239").after.value == 239
    assert "the load takes 60 s" in refusal("overheat:after=100%", stages=("gemm", "sustained"))
    assert parsed("overheat:after=100%").after.share
    assert "it would never begin" in refusal("overheat:after=0", stages=("gemm",))
