import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.devices.cpu import CpuDevice, CpuMark
from rigproof.devices.round_queue import MIN_ROUND_S, RoundQueue, adapted, products_for


@given(st.floats(1e-6, 10), st.floats(1e-6, 10))
def test_a_round_lasts_at_least_what_is_asked_and_at_most_one_product_more(round_s, product_s):
    length_s = products_for(round_s, product_s) * product_s
    aimed_s = max(round_s, MIN_ROUND_S)
    assert length_s >= aimed_s * (1 - 1e-9)
    assert length_s <= aimed_s + product_s * (1 + 1e-9)


def test_a_device_that_reports_no_time_gets_single_products():
    assert products_for(0.1, 0.0) == 1


@pytest.mark.parametrize(
    ("products", "seconds", "expected"),
    [(30, 0.05, 30), (30, 0.041, 30), (30, 0.079, 30), (30, 0.005, 300), (30, 0.3, 5), (1, 3.0, 1)],
)
def test_a_round_far_off_its_length_changes_the_next(products, seconds, expected):
    assert adapted(products, seconds, 0.05) == expected


class LoggedMark(CpuMark):
    def __init__(self, log: list[str], number: int) -> None:
        super().__init__()
        self.log, self.number = log, number

    def wait(self) -> None:
        self.log.append(f"wait {self.number}")


class LoggingCpu(CpuDevice):
    """Queues like a GPU and logs when the host waits, and for which mark."""

    queue_depth = 2

    def __init__(self) -> None:
        super().__init__(cpu_threads=1)
        self.log: list[str] = []
        self.marks = 0

    def mark(self) -> LoggedMark:
        self.marks += 1
        self.log.append(f"mark {self.marks}")
        return LoggedMark(self.log, self.marks)


def test_the_host_waits_for_a_round_only_while_another_is_queued():
    device = LoggingCpu()
    matrix = device.normal(64, "fp32", seed=1)

    def launch(products, sums):
        device.log.append(f"launch {products}")
        for _ in range(products):
            sums.add(matrix)
        return products

    queue = RoundQueue(device, launch)
    finished = []
    for products in (5, 6, 7):
        queue.add(products, "measure")
        if queue.full:
            finished.append(queue.finish())
    while queue:
        finished.append(queue.finish())
    assert device.log == [
        *("mark 1", "launch 5", "mark 2"),
        *("mark 3", "launch 6", "mark 4", "wait 2"),
        *("mark 5", "launch 7", "mark 6", "wait 4", "wait 6"),
    ]
    assert [round_.work for round_ in finished] == [5, 6, 7]
    assert [len(round_.checksums) for round_ in finished] == [5, 6, 7]
    assert len({checksum for round_ in finished for checksum in round_.checksums}) == 1


def test_checksums_of_every_product_come_back_with_their_round(cpu):
    matrices = [cpu.normal(64, "fp32", seed) for seed in range(5)]
    order = iter([0, 1, 2, 3, 4, 1, 0])

    def launch(products, sums):
        used = [next(order) for _ in range(products)]
        for place in used:
            sums.add(matrices[place])
        return used

    queue = RoundQueue(cpu, launch)
    queue.add(5, "warmup")
    first = queue.finish()
    queue.add(2, "measure")
    second = queue.finish()
    assert len(set(first.checksums)) == 5
    assert second.checksums == (first.checksums[1], first.checksums[0])
    assert (first.phase, second.phase) == ("warmup", "measure")


def test_an_error_while_launching_leaves_no_half_round(cpu):
    def launch(products, sums):
        raise RuntimeError("can't allocate memory")

    queue = RoundQueue(cpu, launch)
    with pytest.raises(RuntimeError):
        queue.add(3, "measure")
    assert len(queue) == 0


def test_a_sum_that_is_not_made_is_not_taken_for_the_last_round_s(cpu):
    """The same room is used again: what a sum left there must not stand for one of the next round."""
    matrix = cpu.normal(64, "fp32", seed=1)
    queue = RoundQueue(cpu, lambda products, sums: [sums.add(matrix) for _ in range(products)])
    queue.add(3, "warmup")
    right = queue.finish().checksums[0]
    queue.add(3, "warmup")
    again = queue._queued[0].sums
    assert queue.finish().checksums == (right, right, right)

    again.add(matrix)
    again._count = 3  # as if two kernels had not run
    again.fetch()
    assert again.take() == (right, 0, 0)
