"""The worker of a simulated card: it answers like the real one, and its work is simulated."""

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from rigproof.cluster.actors.messages import WorkerReply, WorkerSetup, WorkerState
from rigproof.cluster.ray.gpu_probe import Probed
from rigproof.cluster.ray.placement import given_gpu
from rigproof.devices.specs import Spec
from rigproof.host import processes
from rigproof.host.processes import ProcessId
from rigproof.records.crews import Member
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import Round
from rigproof.records.recording import Record
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.rig import SimulatedRig
from rigproof.simulation.work.run import RunningTask
from rigproof.simulation.work.task import WorkerFrozen, WorkerKilled

FOR_EVER_S = 86400.0


class SimulatedWorker:
    """The simulated counterpart of `Worker`. Every call comes through `at` or `act`, which set the time.

    `process` is the process that it reports to be; None: the one that it runs in.
    """

    def __init__(self, rig: SimulatedRig, node: str, process: ProcessId | None = None) -> None:
        self._rig = rig
        self._setup: WorkerSetup | None = None
        self._node = rig.node(node)
        self._process = process or processes.own_process()
        self._t_s = 0.0
        self._state: WorkerState = "opening"
        self._task = 0
        self._progress = 0
        self._error: str | None = None
        self._work: RunningTask | None = None
        self._stopping = False

    def act(self, t_s: float, stages: Sequence[StageWindow], method: str, arguments: Sequence[Any]) -> Any:
        """Call one of its methods at run time `t_s`.

        Raises:
            WorkerKilled, WorkerFrozen: its process is gone, or does not answer.
        """
        self._t_s, self._node.stages = t_s, stages
        return getattr(self, method)(*arguments)

    def at(self, t_s: float, stages: Sequence[StageWindow], method: str, arguments: Sequence[Any]) -> Any:
        """Call a method like `act`, in a process of its own that a killed worker ends, a frozen one hangs."""
        try:
            return self.act(t_s, stages, method, arguments)
        except WorkerKilled:
            os.kill(os.getpid(), signal.SIGKILL)
        except WorkerFrozen:
            time.sleep(FOR_EVER_S)

    def gpu(self) -> Probed:
        """The simulated card that the logical GPU which Ray gave this process stands for."""
        return Probed(uuid=self._node.driver.gpus[given_gpu()].uuid)

    def become(self, setup: WorkerSetup) -> None:
        """Be this worker from now on."""
        self._setup = setup

    def start(self, task: int, spec: Spec, start_at_s: float, crew: Member, _ahead: int = 0) -> None:
        """Begin a task at run time `start_at_s`."""
        self._task, self._progress, self._error, self._state = task, 0, None, "working"
        self._stopping = False
        setup = self._setup
        assert setup is not None, "a process works once it is known which worker it is"
        self._work = RunningTask(
            self._node, setup.plan, spec, start_at_s, crew=crew, generation=setup.generation
        )

    def stop(self) -> None:
        """Let the task end after its current round."""
        self._stopping = True

    def poll(self) -> WorkerReply:
        """Records since the last poll, and how far the task is."""
        records: list[Record] = []
        if self._state == "opening" and self._setup is not None:
            records += self._open(self._setup)
        elif self._state == "working" and self._work is not None:
            made = list(self._work.until(self._t_s))
            records += made
            # A task that waits, as for its turn among others, sends signs of life.
            self._progress += sum(isinstance(one, Round) for one in made) or not self._work.hangs
            if self._work.ended is not None:
                self._state, self._error = self._work.ended, self._work.error
            elif self._stopping:
                self._state = "finished"
        return WorkerReply(
            self._process, self._state, self._task, self._progress, tuple(records), self._error
        )

    def _open(self, setup: WorkerSetup) -> list[Record]:
        plan = setup.plan
        card = self._node.cards[plan.subject]
        if card.begun("gpu-lost", self._t_s, self._node.stages):
            self._state, self._error = "broken", "RuntimeError: No CUDA GPUs are available"
            return []
        self._state = "ready"
        taken = self._rig.fault("wrong-gpu")
        return [
            WorkerIdentity(
                worker=plan.worker,
                subject=plan.subject,
                node=plan.node,
                device=plan.device,
                uuid=card.uuid if taken is None else self._rig.uuid_of(taken.subject),
                pid=self._process.pid,
                t_s=self._t_s,
                torch_version="simulated",
                cuda_version=None,
                precisions=card.precisions(),
                generation=setup.generation,
                sms=card.sku.sms,
            )
        ]
