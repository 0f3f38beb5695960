"""Changes workers from inside. Python runs this at its start wherever this folder is on PYTHONPATH.

The CPU as a device rests between two rounds: real runs, side by side, would else take all CPUs from each
other for as long as their stages last, and no fault needs more load than rounds that go on.

RIGPROOF_HURT names who is hurt how: `here/cpu0#0=nap;here/cpu1#0=flip`. From the HEALTHY_ROUNDS-th round of
the sustained stage on that worker's device does what its name says: `nap` sleeps between products, `flip`
changes one bit of a result, `endless` begins work that never ends, `bounds` reads outside of an array and
`fill` takes all memory that is left (both on CUDA only).

RIGPROOF_HURT_RANK hurts a device's rank in its own process, in whatever group: `here/gpu1=element` changes
the last element of its large answers, `here/cpu1=all_to_all` of its answers of that operation,
`here/gpu1=gradient` one bit of its own gradients, `here/gpu1=p2p` takes P2P from it alone, and
`here/gpu1=bounds` reads outside of memory, after which every CUDA call fails, as on a lost GPU.

pandas is not there, as for most users: pyarrow loads it wherever it finds it, for half a second of each run.
"""

import importlib.machinery
import importlib.util
import os
import sys
import time

HEALTHY_ROUNDS = 3
WORK_S = 2.5
NAP_S = 4.0  # so that three whole seconds lack work: a standstill of a busy machine may excuse one
REST_S = 0.1  # twice as long as a round of the short profiles


def flip(pool):
    import torch  # noqa: PLC0415 - only a worker has it loaded

    pool.out.view(torch.int16 if pool.out.element_size() == 2 else torch.int32)[0, 0] ^= 1


def endless(pool):
    import torch  # noqa: PLC0415 - only a worker has it loaded

    if pool.out.is_cuda:
        torch.cuda._sleep(2**62)  # clock cycles: a century
    while True:
        time.sleep(0.1)


def bounds(pool):
    read_outside(pool.out.device)


def read_outside(device):
    import torch  # noqa: PLC0415 - only a worker, or a rank, has it loaded

    torch.zeros(4, device=device)[torch.tensor([10**9], device=device)] += 1
    torch.cuda.synchronize()


def fill(pool):
    import torch  # noqa: PLC0415 - only a worker has it loaded

    free, _ = torch.cuda.mem_get_info()
    torch.empty(free + 2**30, dtype=torch.uint8, device=pool.out.device)


HURTS = {"flip": flip, "endless": endless, "bounds": bounds, "fill": fill}
COUNT = {"rounds": 0, "woke_s": float("inf")}  # of the sustained stage, in this process
WANTED = dict(one.split("=") for one in os.environ.get("RIGPROOF_HURT", "").split(";") if one)


def here():
    """How this very process is to be hurt; empty for those that it starts."""
    pid, _, how = os.environ.get("RIGPROOF_HURT_HERE", "").partition("=")
    return how if pid == str(os.getpid()) else ""


def hurt_worker(module):
    """Remember which worker this process is."""
    become = module.RigproofWorker.become

    def become_hurt(self, setup):
        # In the environment, since Ray may send this function by value; with the id: children inherit it.
        how = "" if setup.generation else WANTED.get(setup.plan.worker, "")
        os.environ["RIGPROOF_HURT_HERE"] = f"{os.getpid()}={how}"
        become(self, setup)

    module.RigproofWorker.become = become_hurt


def nap(after_s=0.0):
    """Sleep, if it has worked for so long."""
    if time.monotonic() - COUNT["woke_s"] >= after_s:
        time.sleep(NAP_S)
        COUNT["woke_s"] = time.monotonic()


def hurt_filling(module):
    """Hurt the products of the sustained stage; those of others have pools of their own."""

    class HurtPool(module.Pool):
        def grow(self):
            COUNT["woke_s"] = min(COUNT["woke_s"], time.monotonic())
            for made in super().grow():
                if here() == "nap":  # on a busy machine filling takes as long as the load
                    nap(after_s=WORK_S)
                yield made

        def launch(self, products, sums):
            COUNT["rounds"] += 1
            how = HURTS.get(here())
            if how is None or COUNT["rounds"] <= HEALTHY_ROUNDS:
                return super().launch(products, sums)
            if how is not flip:
                how(self)
                return super().launch(products, sums)
            multiply = self._device.multiply

            def multiply_wrongly(a, b, out):
                multiply(a, b, out)
                flip(self)

            self._device.multiply = multiply_wrongly
            try:
                return super().launch(products, sums)
            finally:
                self._device.multiply = multiply

    module.Pool = HurtPool


def late_rounds(module):
    """Sleep before a round is begun."""
    add = module.RoundQueue.add

    def add_late(self, *round_of):
        if here() == "nap" and COUNT["rounds"] > HEALTHY_ROUNDS:  # of the sustained stage
            nap()
        elif self._device.kind == "cpu":
            time.sleep(REST_S)
        add(self, *round_of)

    module.RoundQueue.add = add_late


RANK, _, RANK_HURT = os.environ.get("RIGPROOF_HURT_RANK", "").partition("=")


def hurt_rank():
    """What is to be done to the rank that this process is; empty for any other process."""
    return RANK_HURT if RANK_HURT and f'"subject": "{RANK}"' in sys.argv[1] else ""


def change_element(module):
    """Change the last element of this rank's answers, of large ones or of one operation; or lose the GPU."""
    wrong = module.Operation.wrong

    def wrong_answer(self, first_number):
        if hurt_rank() == self.name or (hurt_rank() == "element" and self.elements > 2**20):
            self.answers[0][-1] += 1
        if hurt_rank() == "bounds" and self.elements > 2**20:
            read_outside(self.answers[0].device)
        return wrong(self, first_number)

    module.Operation.wrong = wrong_answer


def without_p2p(module):
    """Let this rank join the group with P2P switched off."""
    join = module.join

    def join_hurt(*arguments):
        if hurt_rank() == "p2p":
            os.environ["NCCL_P2P_DISABLE"] = "1"
        join(*arguments)

    module.join = join_hurt


def change_gradient(module):
    """Change one bit of the gradients that this rank computes by itself, once it compares them."""
    gradients = module.GradientSums.gradients
    compare = module.Rank._compare

    def gradients_hurt(self, step, model, loss):
        if "compares" in COUNT:
            self._parameters[3].grad.view(-1).view(sys.modules["torch"].int32)[5] ^= 1
        gradients(self, step, model, loss)

    def compare_hurt(self, *arguments):
        if hurt_rank() == "gradient":
            COUNT["compares"] = 1
        compare(self, *arguments)

    module.GradientSums.gradients, module.Rank._compare = gradients_hurt, compare_hurt


PATCHES = {
    "rigproof.stages.collective.operations": change_element,
    "rigproof.devices.process_group": without_p2p,
    "rigproof.stages.ddp.training": change_gradient,
    "rigproof.devices.round_queue": late_rounds,
    "rigproof.cluster.actors.worker": hurt_worker,
    "rigproof.stages.sustained.filling": hurt_filling,
}


class Finder:
    """Finds the modules of PATCHES as everybody does, and patches them once they are loaded."""

    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("not in these runs", name=name)
        patch = PATCHES.pop(name, None)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        load = spec.loader.exec_module

        def load_and_patch(module):
            load(module)
            patch(module)

        spec.loader.exec_module = load_and_patch
        return spec


def no_pandas(find):
    """torch asks before it imports: it is told that there is none."""
    return lambda name, package=None: None if name == "pandas" else find(name, package)


importlib.util.find_spec = no_pandas(importlib.util.find_spec)
sys.meta_path.insert(0, Finder())
