import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.stages.feeding import reward_pool
from rigproof.stages.feeding.reward_pool import Job, RewardPool
from rigproof.stages.feeding.strategies import parse, reward
from support.mishaps import KINDS, PLAYED, completion, completion_of
from support.waiting import wait_for

ROOT = str(Path(__file__).resolve().parents[3])
# Of CPU time, which grows too where a virtual machine has to wait for its host's CPU. A game takes some ten
# milliseconds. A strategy that hangs takes all of it, and one that blocks signals ten times as long.
STRATEGY_S, HANGING_S, MEMORY_MIB, SEED = 30.0, 0.4, 64, 5
ENDS = {
    PLAYED: "played",
    "raise": "crashed",
    "abort": "crashed",
    "exit": "crashed",
    "eat memory": "out_of_memory",
    "hang": "timed_out",
    "ignore signals and hang": "timed_out",
}
HANGING = ("hang", "ignore signals and hang")
BAD_FORM = completion_of("begin", "wait")
GOOD = completion()


@pytest.fixture(scope="module", autouse=True)
def _mishaps():
    """Pools play strategies that fail, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reward_pool, "MODULE", "support.mishaps")
        patch.setenv("PYTHONPATH", ROOT)
        yield


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def below(pid):
    """The living descendants of a process."""
    return [one.pid for one in psutil.Process(pid).children(recursive=True) if alive(one.pid)]


def rewards_of(pool, completions, *, parallel, seed=SEED):
    pool.submit(Job(completions, seed, parallel))
    while (rewards := pool.take(1.0)) is None:
        pass
    return rewards


@pytest.fixture(scope="module")
def pool():
    with closing(RewardPool(2, STRATEGY_S, MEMORY_MIB)) as pool:
        yield pool


@pytest.fixture(scope="module")
def short_pool():
    """For strategies that hang."""
    with closing(RewardPool(2, HANGING_S, MEMORY_MIB)) as pool:
        yield pool


def test_rewards_come_in_order_and_are_those_of_the_games(pool):
    completions = [completion(moves=order) for order in (("left",) * 4, ("up",) * 4)] * 3
    completions.insert(2, BAD_FORM)
    rewards = rewards_of(pool, completions, parallel=True)
    expected = [0.0 if one == BAD_FORM else reward(parse(one), SEED) for one in completions]
    assert list(rewards.rewards) == expected
    assert rewards.count("invalid") == 1
    assert rewards.seconds > 0
    assert rewards.job.completions == completions


@pytest.mark.parametrize("kind", KINDS)
def test_a_strategy_that_goes_wrong_costs_only_itself(pool, short_pool, kind):
    pool = short_pool if kind in HANGING else pool
    completions = [GOOD, completion(kind), GOOD, GOOD]
    for parallel in (False, True):
        rewards = rewards_of(pool, completions, parallel=parallel)
        good = reward(parse(GOOD), SEED)
        assert rewards.rewards == (good, 0.0, good, good)
        assert rewards.ends == ("played", ENDS[kind], "played", "played")


kinds = st.sampled_from([kind for kind in ENDS if kind not in HANGING] + ["invalid"])


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mix=st.lists(kinds, max_size=5), hanging=st.sampled_from([None, "hang"]), place=st.integers(0, 5))
def test_any_mix_gives_the_rewards_of_the_sequential_run_in_order(pool, short_pool, mix, hanging, place):
    if hanging is not None:
        mix.insert(place, hanging)
        pool = short_pool
    completions = [BAD_FORM if kind == "invalid" else completion(kind) for kind in mix]
    good = reward(parse(GOOD), SEED)
    expected = tuple(good if kind == PLAYED else 0.0 for kind in mix)
    together = rewards_of(pool, completions, parallel=True)
    assert together.rewards == expected
    assert rewards_of(pool, completions, parallel=False).rewards == expected
    assert together.ends == tuple(ENDS.get(kind, "invalid") for kind in mix)


def test_jobs_are_answered_in_the_order_in_which_they_came(pool):
    for seed in (1, 2, 3):
        pool.submit(Job([GOOD], seed, parallel=True))
    assert len(pool) == 3
    wait_for(lambda: pool._answers.qsize() == 3)
    answers = [pool.take() for _ in range(3)]
    assert [one.job.seed for one in answers] == [1, 2, 3]
    assert [one.rewards for one in answers] == [(reward(parse(GOOD), seed),) for seed in (1, 2, 3)]
    assert pool.take() is None


def test_there_are_never_more_processes_than_the_pool_has_and_none_is_left_at_stop():
    with closing(RewardPool(3, 30.0, MEMORY_MIB)) as pool:
        pool.submit(Job([completion("hang")] * 8, SEED, parallel=True))
        wait_for(lambda: len(below(pool.pid)) == 3)
        processes = [pool.pid, *below(pool.pid)]
        assert (
            psutil.Process(pool.pid).num_threads() == 2
        )  # one plays, one reads jobs: no other waits for them
        begun = time.monotonic()
        pool.close()
        assert time.monotonic() - begun < 10
        wait_for(lambda: not any(map(alive, processes)))


def test_a_strategy_that_waits_for_a_cpu_is_not_killed():
    with closing(RewardPool(1, 1.0, MEMORY_MIB)) as pool:
        pool.submit(Job([completion("hang")], SEED, parallel=True))
        wait_for(lambda: below(pool.pid))
        (strategy,) = below(pool.pid)
        os.kill(strategy, signal.SIGSTOP)
        time.sleep(1.5)  # longer than it may work
        assert psutil.Process(strategy).status() == psutil.STATUS_STOPPED
        os.kill(strategy, signal.SIGCONT)
        wait_for(lambda: not alive(strategy))
        assert pool.take(20.0).ends == ("timed_out",)


OWNER = """
import sys, time
from rigproof.stages.feeding import reward_pool
from support.mishaps import completion
reward_pool.MODULE = "support.mishaps"
pool = reward_pool.RewardPool(2, 60.0, 64)
pool.submit(reward_pool.Job([completion("ignore signals and hang")] * 2, 1, parallel=True))
print(pool.pid, flush=True)
time.sleep(600)
"""


def test_no_process_outlives_the_one_that_made_the_pool():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        leader = int(owner.stdout.readline())
        wait_for(lambda: len(below(leader)) == 2)
        processes = [leader, *below(leader)]
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    wait_for(lambda: not any(map(alive, processes)))


def test_a_pool_that_died_says_so_and_stops_all_the_same():
    with closing(RewardPool(1, 30.0, MEMORY_MIB)) as pool:
        pool.submit(Job([completion("hang")], SEED, parallel=True))
        wait_for(lambda: below(pool.pid))
        children = below(pool.pid)
        os.kill(pool.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="ended by itself, exit status -9: nothing on its stderr"):
                pool.take(20.0)
        with pytest.raises(RuntimeError, match="ended by itself"):
            pool.submit(Job([GOOD], SEED, parallel=True))
    wait_for(lambda: not any(map(alive, children)))


def test_its_process_imports_neither_torch_nor_ray():
    loaded = "sorted({'torch', 'ray', 'pynvml'} & {*sys.modules})"
    code = f"import sys, rigproof.stages.feeding.reward_process; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
