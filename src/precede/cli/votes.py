"""The command that ranks items by votes on pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from precede.cli.console import say, write_rows
from precede.cli.options import AsJson, Level, Seed

if TYPE_CHECKING:
    from precede.leaderboard import Leaderboard


def _column(role: str, what: str) -> typer.models.OptionInfo:
    return typer.Option(f"--{role}", metavar="COLUMN", rich_help_panel="Columns", help=what)


Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="A page (.html) or the board (.json)."),
]
Control = Annotated[
    list[str] | None,
    typer.Option("--control", metavar="NAME", help="Compare at equal NAME_a and NAME_b."),
]
Cluster = Annotated[
    str, typer.Option("--cluster", help="Dependent votes: auto, voter, prompt, both or none.")
]
Anchor = Annotated[
    str | None, typer.Option("--anchor", metavar="ITEM", help="Item at the scale's center.")
]


def leaderboard(
    path: Annotated[
        str,
        typer.Argument(metavar="VOTES", help="CSV, TSV, parquet or JSON lines; - is stdin."),
    ],
    *,
    output: Output = None,
    ties: Annotated[str, typer.Option("--ties", help="davidson or half.")] = "davidson",
    shown_first: Annotated[
        bool, typer.Option("--shown-first", help="Estimate the advantage of being shown first.")
    ] = False,
    control: Control = None,
    curves: Annotated[bool, typer.Option("--curves", help="Controls as boosted curves.")] = False,
    cluster: Cluster = "auto",
    scale: Annotated[str, typer.Option("--scale", help="natural or elo.")] = "natural",
    anchor: Anchor = None,
    a: Annotated[str | None, _column("a", "One item.")] = None,
    b: Annotated[str | None, _column("b", "The other item.")] = None,
    outcome: Annotated[str | None, _column("outcome", "Which of the two won.")] = None,
    voter: Annotated[str | None, _column("voter", "Who voted.")] = None,
    prompt: Annotated[str | None, _column("prompt", "What the answers are to.")] = None,
    level: Level = 0.95,
    seed: Seed = 0,
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rank items by votes on pairs, with intervals of their strengths and ranks.

    precede leaderboard votes.csv -o board.html

    precede leaderboard votes.csv --control length --curves --scale elo
    """
    from precede.files import read_votes
    from precede.files.streams import require_folder, suffix_of
    from precede.leaderboard import Leaderboard

    suffix = None if output is None else suffix_of(output)
    if output is not None:
        require_folder(output)
        if suffix not in (".html", ".htm", ".json"):
            raise ValueError(f"{output}: name a page .html, or the board .json")
    given = {"a": a, "b": b, "outcome": outcome, "voter": voter, "prompt": prompt}
    columns = {role: name for role, name in given.items() if name is not None}
    board = Leaderboard(
        ties=ties, shown_first=shown_first, features=control, scale=scale, anchor=anchor,
        controls=("curves" if curves else "linear") if control else None,
        cluster=None if cluster == "none" else cluster, random_state=seed,
    )  # fmt: skip
    board.fit(read_votes(path, columns=columns, features=control or ()))
    if output is None:
        write_rows(board.rows(level), as_json=as_json, title=_title(board, title))
    elif suffix == ".json":
        board.save(output)
    else:
        board.to_html(output, level=level, title=title)
    for item, why in board.unranked_.items():
        say(f"{item} has no strength: {why}")
    if output is not None:
        say(f"written to {output}: {_title(board, None)}")


def _title(board: Leaderboard, title: str | None) -> str:
    return title or f"{len(board.items_)} items by {board.n_votes_:g} votes"
