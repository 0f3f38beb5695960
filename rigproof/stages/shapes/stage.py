"""The shapes stage, put together. It has a table, no criterion of its own: no size is anybody's fault."""

from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need, StageKind
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.records.measurements import TFLOP
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
    held_against=HeldAgainst("products", (Need(TFLOP, ("precision",)),)),
)
SHAPES = StageSlice(KIND, specs, SIMULATED, tables=shapes_tables)
