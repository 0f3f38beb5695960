"""What faults do to a task, whatever it works on: it ends, hangs, does little, or its results are wrong."""

from dataclasses import replace

from rigproof.records.measurements import Round
from rigproof.simulation.stage import Records
from rigproof.simulation.work.task import Task, TaskHangs

DONE_EVERY = 8  # of the fault gpu-idle: one round in so many is done


def hurt(task: Task, records: Records) -> Records:
    """The same records, as far as the card's faults let the task do them.

    Raises:
        TaskFailed, TaskHangs, WorkerKilled, WorkerFrozen: the way in which it ends.
    """
    told_wrong, number = False, 0
    for one in records:
        task.check(one.t_s)
        if not isinstance(one, Round):
            yield one
            continue
        if task.begun("hung-kernel", one.t_s) and task.first:
            raise TaskHangs
        number += 1
        if task.acting("gpu-idle", one.t_s) and number % DONE_EVERY:
            continue
        flipped = task.acting("bit-flip", one.t_s) is not None and task.first
        if flipped and not told_wrong:
            told_wrong = True
            precision = one.label("precision")
            message = f"{precision} result of pair 3 changed between equal products"
            data = {"precision": precision, "pair": 3}
            yield task.event(one.t_s, "wrong_result", message, data)
        yield replace(one, verified=False) if flipped else one
    late = task.fault("timeout")
    if late is not None and late.stage == task.spec.stage:
        raise TaskHangs
