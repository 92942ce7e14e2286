"""The command line, ``precede --help``. Commands import what is slow to load when they run."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer.core import TyperGroup

from precede.cli.asking import ask
from precede.cli.console import errors_as_messages, open_streams, set_up
from precede.cli.evaluation import compare, evaluate, metrics, report
from precede.cli.fitting import algorithms, fit, tune
from precede.cli.installation import demo, warmup
from precede.cli.options import with_reading_options
from precede.cli.prediction import convert, explain, export, predict
from precede.cli.votes import leaderboard

__all__ = ["app", "main"]

_EPILOG = (
    "Exit codes: 0 success, 1 bad data or value, 2 usage error, 3 file not found or not writable, "
    "4 package missing, 5 --at-least not reached, 130 interrupted."
)


class _Commands(TyperGroup):
    """The group of all commands, which reports their errors."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        with errors_as_messages():
            return super().invoke(ctx)


app = typer.Typer(
    name="precede",
    cls=_Commands,
    help="Learning to rank by boosting.",
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order of `precede --help`.
for _command in (
    warmup, demo, algorithms, metrics, fit, predict, evaluate, compare, explain, report, export,
    convert, tune, leaderboard, ask,
):  # fmt: skip
    app.command()(with_reading_options(_command))


def main() -> None:
    """Run the command line."""
    open_streams()
    app()


def _version(wanted: bool) -> None:
    if wanted:
        import precede

        with errors_as_messages():
            print(precede.__version__)
        raise typer.Exit


@app.callback()
def _every_command(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    version: Annotated[  # noqa: ARG001  (handled by its callback)
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    group = context.command
    known = group.commands if isinstance(group, TyperGroup) else {}
    command = known.get(context.invoked_subcommand or "")
    set_up([] if command is None else command.params, quiet=quiet)
    if quiet:
        os.environ["PRECEDE_QUIET"] = "1"
