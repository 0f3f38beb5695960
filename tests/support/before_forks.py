"""Importing this makes what each run would make for itself: models, a template, a canned recording."""

from rigproof.profiles.loading.load import load_rig
from rigproof.report.page import page
from rigproof.stages.registry import KINDS
from support.bench import Bench

load_rig("dual-3090-3070", KINDS)
page.templates().get_template("report.html.jinja")
Bench()
