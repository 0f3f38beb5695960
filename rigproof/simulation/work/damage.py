"""The effect of faults on any task: it ends, hangs, does little, or has wrong results."""

from dataclasses import replace

from rigproof.records.measurements import Round
from rigproof.simulation.stage import Records
from rigproof.simulation.work.task import Task, TaskHangs

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
        if not isinstance(record, Round):
            yield record
            continue
        if task.begun("hung-kernel", record.t_s) and task.first:
            raise TaskHangs
        number += 1
        if task.acting("gpu-idle", record.t_s) and number % DONE_EVERY:
            continue
        flipped = task.acting("bit-flip", record.t_s) is not None and task.first
        if multiplies_all and task.first and number % STUCK_EVERY == 1:
            flipped = flipped or task.acting("vram-stuck-bit", record.t_s) is not None
        if flipped and not wrong_reported:
            wrong_reported = True
            precision = record.label("precision")
            message = f"{precision} result of pair 3 changed between equal products"
            data = {"precision": precision, "pair": 3}
            yield task.event(record.t_s, "wrong_result", message, data)
        yield replace(record, verified=False) if flipped else record
    late = task.fault("timeout")
    if late is not None and late.stage == task.spec.stage:
        raise TaskHangs
