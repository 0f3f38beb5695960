"""Models of Bokeh's library in the page, without those of its Python.

The import of those, and the checks that each makes of itself, are a second of CPU at the end of a run. Here
nothing is checked; the tests read what is written with Bokeh's Python, which knows each name and value.
"""

from collections.abc import Iterable
from typing import Any

from bokeh import __version__
from bokeh.core.serialization import Serializable, Serializer
from bokeh.util.serialization import make_id


class Model(Serializable):  # type: ignore[misc]  # mypy leaves bokeh out
    """A model of type `type_`, with the `properties` that differ from the defaults.

    One that others refer to in several places is the same one in all of them.
    """

    def __init__(self, type_: str, /, **properties: Any) -> None:
        self.type, self.properties = type_, properties

    def to_serializable(self, serializer: Serializer) -> dict[str, Any]:
        """The form that Bokeh's library reads. Bokeh's serializer asks once, then writes a reference."""
        reference = {"id": make_id()}
        serializer.add_ref(self, reference)
        attributes = {name: serializer.encode(value) for name, value in self.properties.items()}
        return {"type": "object", "name": self.type, **reference, "attributes": attributes}


def document_of(plots: Iterable[Model]) -> dict[str, Any]:
    """The plots, in their order, as Bokeh's library reads a document."""
    return {"version": __version__, "roots": Serializer(deferred=False).encode(list(plots))}
