"""The shapes stage, put together. It has a table and no criterion: which size runs best is nobody's fault."""

from rigproof.profiles.kinds.stages import Label, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.simulation.faults.kinds import Noticed
from rigproof.stages.shapes.settings import STAGE, ShapesSettings
from rigproof.stages.shapes.simulated import SIMULATED
from rigproof.stages.shapes.specs import specs
from rigproof.stages.shapes.table import shapes_tables
from rigproof.stages.slice import StageSlice

KIND = StageKind(
    STAGE,
    "bursts",
    ShapesSettings,
    shortest_s=4.0,
    # `product` does not separate work: each is too short for the sensors, but all of them together are not.
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int),  # the hidden size
        Label("product", str),
        Label("tokens", int),
    ),
)
NOTICED = {"gpu-idle": Noticed(ends="not measured")}
SHAPES = StageSlice(KIND, specs, SIMULATED, noticed=NOTICED, tables=shapes_tables)
