from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.criterion import TITLE_MAX
from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.matrix import COLUMNS_MAX, heading, matrix_of
from rigproof.report.content.order import count_line

GPUS = tuple(f"n/gpu{number}" for number in range(8))
HOT, RATE, POWER = "thermal.core_temperature", "throughput.sustained", "power.draw"


def verdicts_of(criterion, values, limit, unit="", subjects=GPUS, bad=()):
    return [
        Verdict(
            criterion,
            subject,
            Outcome.FAIL if subject in bad else Outcome.PASS,
            unit,
            value,
            limit,
            direction=CATALOGUE[criterion].direction,
        )
        for subject, value in zip(subjects, values, strict=True)
    ]


def texts(row):
    return [cell and cell.text for cell in row.cells]


def test_titles_are_short_and_each_is_that_of_one_criterion():
    titles = [criterion.title for criterion in CATALOGUE.values()]
    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) <= TITLE_MAX
    assert all(titles)


def test_some_figures_are_always_there():
    assert [criterion.title for criterion in CATALOGUE.values() if criterion.key_figure] == [
        "sustained rate",
        "trained together",  # of several devices, at extended and soak
        "memory headroom",
        "core temperature",
        "power",
        "wake-up delay",
    ]


def test_failures_come_first_then_key_figures_and_the_rest_is_counted():
    verdicts = [
        *verdicts_of(RATE, [660] * 8, 495, "TFLOP/s"),
        *verdicts_of("health.xid", [0] * 8, 0, "Xids"),
        *verdicts_of("memory.no_oom", [0] * 8, 0, "OOMs"),
        *verdicts_of(HOT, [72, 72, 72, 91, 72, 72, 72, 72], 87, "°C", bad=["n/gpu3"]),
    ]
    matrix = matrix_of(verdicts, GPUS)
    assert [(row.word, row.title, row.limit) for row in matrix.rows] == [
        ("FAIL", "core temperature", "≤ 87 °C"),
        ("", "sustained rate", "≥ 495 TFLOP/s"),
    ]
    assert texts(matrix.rows[0]) == ["72", "72", "72", "[91]", "72", "72", "72", "72"]
    assert [row.title for row in matrix.quiet] == ["Xid errors", "out of memory"]
    assert matrix.notes == ("2 more pass on all",)
    assert matrix.shown(everything=True) == (*matrix.rows, *matrix.quiet)


def test_warnings_come_after_failures_and_what_follows_from_another_failure_after_that():
    hot, slow, weak = (verdicts_of(name, [1], 0, subjects=GPUS[:1])[0] for name in (HOT, RATE, POWER))
    hot = replace(hot, outcome=Outcome.WARN)
    slow = replace(slow, outcome=Outcome.FAIL, remedy="follows from power.draw")
    weak = replace(weak, outcome=Outcome.FAIL)
    matrix = matrix_of([hot, slow, weak], GPUS[:1])
    assert [row.criterion for row in matrix.rows] == [POWER, RATE, HOT]
    assert texts(matrix.rows[2]) == ["(1)"]


def test_unlike_cards_have_their_limit_in_the_cell():
    verdicts = [
        Verdict(RATE, "n/gpu0", Outcome.PASS, "TFLOP/s", 78.2, 58.5, direction="at_least"),
        Verdict(RATE, "n/gpu1", Outcome.NO_LIMIT, "TFLOP/s", 40.6),
    ]
    (row,) = matrix_of(verdicts, GPUS[:2]).rows
    assert row.limit == "TFLOP/s"
    assert [(cell.text, cell.limit) for cell in row.cells] == [("78.2", "58.5"), ("40.6", "")]
    assert [row.text(cell) for cell in (*row.cells, None)] == ["78.2 ≥ 58.5", "40.6", ""]
    assert row.spread == "78.2 (limit ≥ 58.5) on n/gpu0, 40.6 on n/gpu1"


def test_beyond_eight_gpus_a_row_has_the_range_and_the_worst():
    many = tuple(f"n{node}/gpu{gpu}" for node in range(2) for gpu in range(8))
    assert len(many) > COLUMNS_MAX
    values = [650.0 + number for number in range(16)]
    failed = [*values[:5], 594.0, *values[6:]]
    passing = matrix_of(verdicts_of(RATE, values, 600, subjects=many), many)
    assert passing.columns == ()
    assert (passing.rows[0].cells, passing.rows[0].spread) == ((), "650…665, worst n0/gpu0")
    bad = verdicts_of(RATE, failed, 600, subjects=many, bad=["n0/gpu5"])
    assert matrix_of(bad, many).rows[0].spread == "[594]…665, worst n0/gpu5"
    hot = verdicts_of(HOT, values, 700, subjects=many)
    assert matrix_of(hot, many).rows[0].spread == "650…665, worst n1/gpu7"  # nearest to its limit
    same = verdicts_of(HOT, [70] * 16, 87, subjects=many)
    assert matrix_of(same, many).rows[0].spread == "70"


def test_several_failures_and_what_was_not_measured_are_counted_in_a_range():
    many = tuple(f"n/gpu{gpu}" for gpu in range(10))
    verdicts = verdicts_of(HOT, [91.0 + gpu for gpu in range(10)], 87, subjects=many, bad=many[:3])
    verdicts[9] = Verdict(HOT, many[9], Outcome.NOT_MEASURED, detail="no samples")
    (row,) = matrix_of(verdicts, many).rows
    assert row.spread == "[91]…99, worst [93] n/gpu2, 3 failed, 1 not measured"


def test_a_figure_that_misses_its_limit_does_not_look_like_it():
    verdicts = verdicts_of("throughput.peer_outlier", [93.97], 94.0, "%", GPUS[:1], bad=GPUS[:1])
    assert texts(matrix_of(verdicts, GPUS[:1]).rows[0]) == ["[93.97]"]


def test_a_rows_limit_is_not_rounded_past_a_figure_that_misses_it():
    power = verdicts_of(POWER, [735.4, 700.0, 735.1], 735.2, "W", GPUS[:3], bad=GPUS[:1])
    (row,) = matrix_of(power, GPUS[:3]).rows
    assert (row.limit, texts(row)) == ("≤ 735.2 W", ["[735.4]", "700", "735"])
    close = verdicts_of(POWER, [347.9, 347.5], 347.55, "W", GPUS[:2], bad=GPUS[:1])
    (row,) = matrix_of(close, GPUS[:2]).rows
    assert (row.limit, texts(row)) == ("≤ 347.6 W", ["[347.9]", "347.5"])
    warned = [replace(verdicts_of(HOT, [84.996], 85, "°C", GPUS[:1])[0], outcome=Outcome.WARN)]
    (row,) = matrix_of(warned, GPUS[:1]).rows
    assert (row.limit, texts(row)) == ("≤ 85 °C", ["(84.996)"])
    own = [replace(power[0], limit=735.2), replace(power[1], limit=800)]
    (row,) = matrix_of(own, GPUS[:2]).rows
    assert [row.text(cell) for cell in row.cells] == ["[735.4] ≤ 735.2", "700 ≤ 800"]


def test_limits_of_two_directions_are_not_one_limit():
    verdicts = [
        Verdict("power.limit", GPUS[0], Outcome.PASS, "W", 350.0, 340.0, direction="at_least"),
        Verdict("power.limit", GPUS[1], Outcome.FAIL, "W", 450.0, 340.0, direction="at_most"),
    ]
    (row,) = matrix_of(verdicts, GPUS[:2]).rows
    assert (row.limit, row.sign) == ("W", "")
    assert [row.text(cell) for cell in row.cells] == ["350 ≥ 340", "[450] ≤ 340"]
    assert row.spread == "350 (limit ≥ 340) on n/gpu0, [450] (limit ≤ 340) on n/gpu1"


def test_in_a_range_the_worst_is_marked_also_if_others_have_its_figure():
    many = tuple(f"n/gpu{gpu}" for gpu in range(9))
    zeros = verdicts_of("health.xid", [0] * 9, 0, subjects=many)
    zeros[4] = replace(zeros[4], outcome=Outcome.WARN)
    assert matrix_of(zeros, many).rows[0].spread == "(0), worst n/gpu4"
    low = verdicts_of(HOT, [80.0 + gpu for gpu in range(8)] + [80.0], 93, subjects=many)
    low[8] = replace(low[8], outcome=Outcome.FAIL, limit=75)
    assert matrix_of(low, many).rows[0].spread == "[80]…87, worst n/gpu8 (limit ≤ 75)"
    high = verdicts_of(HOT, [80.0 + gpu for gpu in range(8)] + [87.0], 93, subjects=many)
    high[8] = replace(high[8], outcome=Outcome.FAIL, limit=75)
    assert matrix_of(high, many).rows[0].spread == "80…[87], worst n/gpu8 (limit ≤ 75)"


def test_a_range_counts_what_does_not_apply_and_names_what_is_no_gpu():
    many = tuple(f"n/gpu{gpu}" for gpu in range(9))
    verdicts = verdicts_of(HOT, [60.0 + gpu for gpu in range(9)], 93, subjects=many)
    verdicts[7:] = [Verdict(HOT, subject, Outcome.NOT_APPLICABLE) for subject in many[7:]]
    assert matrix_of(verdicts, many).rows[0].spread == "60…66, worst n/gpu6, 2 not applicable"
    bare = [replace(one, measured=None, limit=None) for one in verdicts]
    assert matrix_of(bare, many).rows[0].spread == "ok on all 7, 2 not applicable"
    nodes = [f"n{number}" for number in range(4)]
    quick = verdicts_of("host.responsiveness", [0.48] * 4, 50, subjects=nodes)
    assert matrix_of(quick, many).rows[0].spread == "0.48 on 4 nodes"


def test_criteria_of_nodes_pairs_and_the_rig_have_rows_without_columns():
    verdicts = [
        Verdict("host.responsiveness", "pc1", Outcome.PASS, "ms", 0.5, 50.0),
        Verdict("host.responsiveness", "pc2", Outcome.FAIL, "ms", 90.0, 50.0),
        Verdict("cluster.no_timeouts", "rig", Outcome.FAIL, "faults", 2, 0),
        Verdict("cluster.nodes_present", "pc1", Outcome.FAIL),
    ]
    rows = matrix_of(verdicts, ["pc1/gpu0", "pc2/gpu0"]).rows
    assert [(row.cells, row.spread) for row in rows] == [
        ((), "0.50 on pc1, [90] on pc2"),
        ((), "[2] on the rig"),
        ((), "[no] on pc1"),
    ]


def test_a_missing_gpu_does_not_make_a_row_of_each_criterion():
    names = [*(name for name in CATALOGUE if CATALOGUE[name].scope == "device")][:6]
    lost = [
        Verdict(name, "n/gpu1", Outcome.NOT_MEASURED, detail="n/gpu1 was not found")
        for name in (*names, RATE, "health.xid")
    ]
    found = [Verdict(name, "n/gpu0", Outcome.PASS) for name in names]
    matrix = matrix_of([*found, *lost], ["n/gpu0", "n/gpu1"])
    assert [(row.criterion, texts(row)) for row in matrix.rows if row.criterion == RATE] == [
        (RATE, [None, "?"])
    ]
    assert RATE not in names
    assert f"{len(names)} more pass wherever they were measured" in matrix.notes
    assert matrix.last_notes == ("1 more not measured on any: Xid errors",)
    alone = matrix_of([*found, lost[0]], ["n/gpu0", "n/gpu1"])
    assert (alone.rows[0].word, texts(alone.rows[0])) == ("?", ["ok", "?"])


def test_what_does_not_apply_is_counted_last_on_one_line():
    verdicts = [
        *(Verdict("memory.ecc", gpu, Outcome.NOT_APPLICABLE, detail="no ECC") for gpu in GPUS[:2]),
        Verdict("thermal.memory_temperature", GPUS[0], Outcome.NOT_APPLICABLE, detail="no sensor"),
        Verdict("thermal.memory_temperature", GPUS[1], Outcome.PASS, "°C", 60, 95),
    ]
    matrix = matrix_of(verdicts, GPUS[:2])
    assert matrix.last_notes == ("2 not applicable: uncorrected ECC, memory temperature (on some)",)
    assert texts(matrix.quiet[0]) == ["-", "60"]
    assert matrix.notes == ("1 more passes wherever it applies",)


def test_what_passes_is_said_to_pass_only_where_it_applies_and_was_measured():
    away = Verdict("memory.ecc", GPUS[1], Outcome.NOT_APPLICABLE, detail="no ECC")
    ecc = Verdict("memory.ecc", GPUS[0], Outcome.PASS, "errors", 0, 0)
    xid = Verdict("health.xid", GPUS[0], Outcome.PASS, "Xids", 0, 0)
    lost = [
        Verdict(name, GPUS[2], Outcome.NOT_MEASURED, detail="n/gpu2 was not found")
        for name in ("memory.ecc", "health.xid", "clock.ratio", "power.limit")
    ]
    assert [
        matrix_of(verdicts, GPUS[:3]).notes
        for verdicts in (
            [ecc],
            [ecc, xid],
            [ecc, xid, away],
            [ecc, *lost],
            [ecc, xid, *lost],
            [ecc, xid, away, *lost],
        )
    ] == [
        ("1 more passes on all",),
        ("2 more pass on all",),
        ("2 more pass wherever they apply",),
        ("1 more passes wherever it was measured",),
        ("2 more pass wherever they were measured",),
        ("2 more pass wherever they apply and were measured",),
    ]


def test_the_marks_that_are_there_are_explained():
    verdicts = [
        Verdict(HOT, GPUS[0], Outcome.FAIL, "°C", 91, 87),
        Verdict(HOT, GPUS[1], Outcome.NOT_MEASURED, detail="no samples"),
    ]
    matrix = matrix_of(verdicts, GPUS[:2])
    assert matrix.legend(matrix.rows) == "[ ] failed, ? not measured"
    calm = matrix_of(verdicts_of(HOT, [70], 87, subjects=GPUS[:1]), GPUS[:1])
    assert calm.legend(calm.rows) == ""


def test_the_heading_counts_what_was_judged():
    verdicts = verdicts_of(HOT, [91, 72], 87, subjects=GPUS[:2], bad=GPUS[:1])
    away = Verdict("memory.ecc", GPUS[0], Outcome.NOT_APPLICABLE)
    missing = Verdict(POWER, GPUS[0], Outcome.NOT_MEASURED)

    def line(decision, some, **more):
        return heading("lab", decision, some, **({"simulated": False, "instead": ""} | more))

    assert line(Decision.REJECTED, [*verdicts, away]) == "lab REJECTED  1 of 2 failed"
    assert line(Decision.ACCEPTED, verdicts[1:], simulated=True) == "lab SIMULATED ACCEPTED  none of 1 failed"
    assert line(Decision.INCOMPLETE, [verdicts[1], missing]) == "lab INCOMPLETE  1 of 2 not measured"
    cut = replace(missing, detail="good in lap 1 of 3; lap 2 was interrupted in gemm")
    assert line(Decision.INCOMPLETE, [missing, cut]) == (
        "lab INCOMPLETE  2 of 2 not measured (1 good until the run ended)"
    )
    assert count_line([missing, cut]) == "2 not measured (1 good until the run ended)"
    assert line(Decision.ACCEPTED, verdicts[1:], instead=" for 6 s").startswith("lab ACCEPTED for 6 s  ")


OUTCOMES = st.sampled_from(list(Outcome))
FIGURES = st.none() | st.floats(-1e6, 1e6)


@st.composite
def judged(draw):
    """Verdicts on some devices, pairs of them, a node and the rig, of any outcome and figure."""
    devices = [f"node{number // 4}/gpu{number % 4}" for number in range(draw(st.integers(0, 12)))]
    names = draw(st.lists(st.sampled_from(sorted(CATALOGUE)), unique=True))
    pairs = ["-".join(pair) for pair in combinations(devices[:4], 2)]
    nodes = ["node0", "node1"]
    subjects = {"device": devices, "peers": pairs, "node": nodes, "team": [*nodes, "rig"], "rig": ["rig"]}
    subjects["node_ring"] = ["node0+node1"]
    return devices, [
        Verdict(name, subject, draw(OUTCOMES), CATALOGUE[name].unit, draw(FIGURES), draw(FIGURES), detail="d")
        for name in names
        for subject in subjects[CATALOGUE[name].scope]
    ]


@given(judged())
def test_nothing_that_is_wrong_is_folded_away(case):
    devices, verdicts = case
    matrix = matrix_of(verdicts, devices)
    shown = {row.criterion for row in matrix.rows}
    bad = {one.criterion for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN)}
    assert bad <= shown
    quiet = {row.criterion for row in matrix.quiet}
    assert not shown & quiet
    for row in matrix.rows:
        own = {one.subject: one for one in verdicts if one.criterion == row.criterion}
        for cell in filter(None, row.cells):
            assert cell.outcome is own[cell.subject].outcome
            assert cell.text.startswith("[") == (cell.outcome is Outcome.FAIL)
            assert (cell.text == "?") == (cell.outcome is Outcome.NOT_MEASURED)
    order = [("FAIL", "WARN", "?", "").index(row.word) for row in matrix.rows if not _key(row)]
    assert order == sorted(order)


def _key(row):
    return CATALOGUE[row.criterion].key_figure


def test_a_row_whose_cells_have_limits_of_their_own_says_its_unit_and_no_limit():
    own = [
        Verdict("throughput.sustained", "a/gpu0", Outcome.PASS, "TFLOP/s", 78.0, 58.5, direction="at_least"),
        Verdict("throughput.sustained", "b/gpu0", Outcome.PASS, "TFLOP/s", 40.0, 30.5, direction="at_least"),
    ]
    (row,) = matrix_of(own, ("a/gpu0", "b/gpu0")).rows
    assert (row.limit_label, row.limit) == ("in", "TFLOP/s")
    (row,) = matrix_of(own[:1], ("a/gpu0",)).rows
    assert (row.limit_label, row.limit) == ("limit", "≥ 58.5 TFLOP/s")


def test_where_the_cells_limits_are_of_several_units_each_names_its_own():
    active, power = "activity.gpu_active", "% of the power limit"
    verdicts = [
        Verdict(active, "a/gpu0", Outcome.PASS, "%", 100.0, 90.0, direction="at_least"),
        Verdict(active, "b/gpu0", Outcome.FAIL, power, 7.97, 30.0, direction="at_least"),
    ]
    (row,) = matrix_of(verdicts, ("a/gpu0", "b/gpu0")).rows
    assert row.limit == ""
    assert [row.text(cell) for cell in row.cells] == ["100 ≥ 90 %", f"[7.97] ≥ 30 {power}"]
    assert row.spread == f"100 (limit ≥ 90 %) on a/gpu0, [7.97] (limit ≥ 30 {power}) on b/gpu0"
