"""Devices to work on, and a context that keeps what they report."""

from support.devices import context, cpu, faulty_cpu, own_garbage, run_alone, stopping_context

__all__ = ["context", "cpu", "faulty_cpu", "own_garbage", "run_alone", "stopping_context"]
