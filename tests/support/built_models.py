"""Importing this builds the models of rigs and SKUs, which take a tenth of a second in every process."""

from rigproof.profiles.loading.load import load_rig
from rigproof.stages.registry import KINDS

load_rig("dual-3090-3070", KINDS)
