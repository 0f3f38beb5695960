"""Which runs become their rig's champions."""

import shlex
from collections.abc import Sequence

from rigproof.history.champion_keeping import champion_run, gpu_figures, keep, profile_file, rig_figures
from rigproof.history.champions import ChampionError, champions_folder
from rigproof.history.goodness import GOOD
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.length import shortfalls
from rigproof.plugin.preparation import Prepared
from rigproof.profiles.loading.load import default_rig
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.stages.registry import KINDS

FIT = GOOD | {Outcome.NOT_APPLICABLE}
TOO_SHORT = "quick"  # its cards are not hot yet: a floor from its rates could be out of reach for longer runs


def may_become_champion(prepared: Prepared, recording: Recording, verdicts: Sequence[Verdict]) -> bool:
    """Whether an accepted run's rates are kept: real devices, long enough, all of them measured."""
    shortened = bool(shortfalls(recording, default_rig(KINDS, recording.run.rig)))
    measured = all(one.outcome in FIT for one in verdicts if CATALOGUE[one.criterion].rate)
    return not recording.run.simulated and prepared.level != TOO_SHORT and not shortened and measured


def keep_champions(
    prepared: Prepared, recording: Recording, verdicts: Sequence[Verdict]
) -> tuple[list[str], list[str]]:
    """Keep the figures that are better than the kept ones. Returns a sentence for each, and the errors."""
    folder = champions_folder(prepared.request.report_dir, prepared.loaded.rig.name)
    profile = profile_file(folder, recording.run.run_id)
    command = ["pytest", "-m", "hardware", f"--hwprofile={profile}", f"--hw-level={prepared.level}"]
    if prepared.request.duration_s is not None:
        command.append(f"--hw-duration={prepared.request.duration_s / 60:g}")
    if prepared.request.ray_address is not None:
        command.append(f"--hw-ray-address={prepared.request.ray_address}")
    if prepared.request.allow_open:
        command.append("--hw-allow-open-cluster")
    run = champion_run(recording, shlex.join(command))
    try:
        figures, combined = gpu_figures(recording, verdicts), rig_figures(recording, verdicts)
        return keep(folder, recording, run, figures, combined), []
    except ChampionError as error:
        return [], [str(error)]
    except OSError as error:
        reason = error.strerror or str(error)
        return [], [
            f"{error.filename or folder}: champions were not written: {reason}; "
            "free space or make it writable"
        ]
