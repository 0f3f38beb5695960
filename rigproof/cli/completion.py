"""What a shell completes after `rigproof accept`: its options, and the values of those that have a list."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from rigproof.profiles.loading.files import stems
from rigproof.profiles.tables.level_names import LEVELS
from rigproof.run.options import OPTIONS, short


class AcceptCommand(TyperCommand):
    """A command that has the options of an acceptance run where a shell asks what it could complete.

    Otherwise it has none: `rigproof accept` reads its arguments itself, and hands the others to pytest.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters; while a line is completed, which alone parses resiliently, also the options."""
        params: list[Any] = super().get_params(ctx)
        return [*params, *_options()] if ctx.resilient_parsing else params


def _options() -> list[Any]:
    """The options as typer makes them of a function that declares them."""
    values = {"hw_level": LEVELS, "hw_profile": ("auto", *stems("rigs"))}
    declared = []
    for group in OPTIONS.values():
        for names, settings in group.items():
            key = names[0].removeprefix("--").replace("-", "_")
            kind = bool if settings.get("action") == "store_true" else str
            option = typer.Option(
                kind(),
                *map(short, names),
                help=short(settings["help"]),
                autocompletion=_beginning(values[key]) if key in values else None,
            )
            declared.append(
                inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)
            )

    def options(**_: Any) -> None:
        """Declares them."""

    options.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]  # as PEP 362 has it
    options.__annotations__ = {one.name: one.annotation for one in declared}
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(options)
    return list(typer.main.get_command(app).params)


def _beginning(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [one for one in known if one.startswith(incomplete)]

    return complete
