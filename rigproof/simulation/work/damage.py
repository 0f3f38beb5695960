"""The effect of faults on any task: it ends, hangs, does little, or has wrong results."""

from dataclasses import replace
from typing import Any

from rigproof.records.measurements import Round
from rigproof.simulation.stage import Records
from rigproof.simulation.work.task import Task, TaskHangs

STUCK = "vram-stuck-bit"
ALWAYS = {"repeated": 3, "again": 3}
ELEMENT = {"elements": 1, "rows": [17, 17], "columns": [4096, 4096], "tiles": 1, "bits": "0x0100"}
WARP = {"elements": 128, "rows": [4096, 4099], "columns": [1024, 1055], "tiles": 1, "bits": "0x00ff"}
# By fault, where a worker finds its wrong results; one that was not held against exact arithmetic is nowhere.
WRONG: dict[str, dict[str, Any]] = {
    "bit-flip": {},
    "wrong-element": {**ALWAYS, **ELEMENT},
    "wrong-tile": {**ALWAYS, **WARP},
    STUCK: {**ALWAYS, **ELEMENT, "operand": 1},
}
STUCK_EVERY = 32  # under the fault vram-stuck-bit: one round in this many has a product of the bad word
DONE_EVERY = 8  # under the fault gpu-idle: one round in this many is done


def damaged(task: Task, records: Records) -> Records:
    """The records, as far as the card's faults let the task get.

    Raises:
        TaskFailed, TaskHangs, WorkerKilled, WorkerFrozen: the way in which it ends.
    """
    wrong_reported, number = False, 0
    form = task.node.rig.forms[task.spec.stage]
    multiplies_all = form.verifies_memory and form.holds in ("each", "together")
    for record in records:
        task.check(record.t_s)
        if task.idle or not isinstance(record, Round):
            yield record
            continue
        if task.begun("hung-kernel", record.t_s) and task.first:
            raise TaskHangs
        number += 1
        if task.acting("gpu-idle", record.t_s) and number % DONE_EVERY:
            continue
        begun_s = record.t_s - record.seconds  # every result of the round is compared
        acting = [name for name in WRONG if task.first and task.acting(name, record.t_s, begun_s)]
        if STUCK in acting and not (multiplies_all and number % STUCK_EVERY == 1):
            acting.remove(STUCK)
        wrong = acting[0] if acting else None
        if wrong and not wrong_reported:
            wrong_reported = True
            precision, found = record.label("precision"), WRONG[wrong]
            what = "is not exact" if found else "changed between equal products"
            message = f"{precision} product 3 {what}"
            data = {"precision": precision, "pair": 3, "golden": bool(found), **found}
            yield task.event(record.t_s, "wrong_result", message, data)
        yield replace(record, verified=False) if wrong else record
    late = task.fault("timeout")
    if late is not None and late.stage == task.spec.stage:
        raise TaskHangs
