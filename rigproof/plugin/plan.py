"""`--hw-plan`: what would be run and judged, by which limits. Loads nothing."""

import shutil
import sys
from collections.abc import Iterator

import pytest

from rigproof.cluster.driver.presence import missing_node
from rigproof.cluster.ray.matching import local_node
from rigproof.history.listing import champion_lines
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.plugin.preparation import Prepared, Refused, prepare
from rigproof.plugin.request import Request
from rigproof.profiles.auto import found_here
from rigproof.report.terminal.matrix_lines import on_screen
from rigproof.report.terminal.plan_text import plan_lines
from rigproof.telemetry.host import host_addresses

LOG_COLUMNS = 160  # where there is no terminal


def print_plan(config: pytest.Config) -> int:
    """Print the plan. Returns the exit status. Raises pytest.UsageError (exit 4) if there is none."""
    try:
        prepared = prepare(Request.of(config))
    except Refused as refusal:
        raise pytest.UsageError(str(refusal)) from refusal
    width = shutil.get_terminal_size((LOG_COLUMNS, 24)).columns
    lines = plan_lines(
        prepared.loaded,
        prepared.plan,
        CATALOGUE,
        promised,
        found=found_here(prepared.loaded, prepared.inventory),
        nvml_error=prepared.inventory.nvml_error,
        simulated=prepared.simulated is not None,
        verbose=config.get_verbosity() > 0,
        width=width,
    )
    for line in on_screen(lines, width) if sys.stdout.isatty() else lines:
        print(line)  # noqa: T201 - there is no session to report through
    for line in _not_here(prepared):
        print(line)  # noqa: T201
    for line in champion_lines(prepared.champions, prepared.loaded.rig.name):
        print(line)  # noqa: T201
    sys.stdout.flush()  # pytest puts another stream in its place, and nobody would flush this one at the end
    return 0


def _not_here(prepared: Prepared) -> Iterator[str]:
    """The reason why a run without a cluster cannot measure a rig of several machines."""
    nodes = prepared.loaded.rig.nodes
    if len(nodes) == 1 or prepared.request.ray_address is not None or prepared.simulated is not None:
        return
    here = local_node(nodes, prepared.inventory.hostname, host_addresses())
    absent = [missing_node(prepared.loaded, node, None, 0.0)[0] for node in nodes if node.name != here]
    yield "a run of this plan would end INCOMPLETE, for it could not measure all of the rig:"
    yield from (f"  {event.message}" for event in absent)
    yield f"  {absent[0].data['next_step']}"
