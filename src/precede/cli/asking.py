"""The command that asks for votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from precede.cli.console import say, write_json
from precede.cli.options import AsJson, Level

if TYPE_CHECKING:
    from pathlib import Path

    from precede.asking.session import Session


def ask(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS", help="CSV or TSV: columns item and any of text, markdown, image."
        ),
    ],
    *,
    votes: Annotated[
        str,
        typer.Option("--votes", metavar="FILE", help="CSV to append votes to; begun if absent."),
    ],
    folder: Annotated[
        str | None,
        typer.Option("--folder", help="Folder of the pictures; default: that of the items."),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(
            "--goal",
            help="What to settle: first, top@5 or order; default: top@5, of 5 or fewer the order.",
        ),
    ] = None,
    question: Annotated[
        str, typer.Option("--question", metavar="TEXT", help="Title of the page.")
    ] = "Which is better?",
    voter: Annotated[str, typer.Option("--voter", metavar="NAME", help="Who votes.")] = "me",
    level: Level = 0.95,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Ask for votes on pairs of items, on a page in your browser.

    precede ask items.csv --votes votes.csv

    Open the address that it prints, and vote by the keys ← → and ↓ (tie); U takes a vote back.
    Every vote is saved at once; Ctrl-C ends the session, and the same command goes on with it. See
    precede leaderboard votes.csv for the result.
    """
    from importlib.util import find_spec

    if missing := [m for m in ("starlette", "uvicorn", "markdown_it") if find_spec(m) is None]:
        raise ImportError(
            f"precede ask needs {missing[0].replace('_it', '-it-py')}: pip install 'precede[ask]'"
        )
    from pathlib import Path

    from precede.asking.items import read_items
    from precede.asking.session import Session, VoteFile
    from precede.rank_sets import first_of

    inside = (Path(items).parent if folder is None else Path(folder)).resolve(strict=True)
    shown = read_items(items, inside)
    goal = goal or ("top@5" if len(shown) > 5 else "order")
    if goal != "order" and first_of(goal, len(shown)) == len(shown):
        raise ValueError(f"--goal {goal}: there are {len(shown)} items; use --goal order")
    file = VoteFile(votes, shown)
    session = Session(shown, file, goal=goal, voter=voter, level=level)
    _serve(session, inside, question, port, as_json)
    file.close()


def _serve(session: Session, folder: Path, question: str, port: int, as_json: bool) -> None:
    """Print the address, and serve until the process is interrupted."""
    import contextlib
    import secrets
    import socket
    import sys

    from precede.asking.server import application, server_of
    from precede.engine.parameters import pluralize

    def count() -> str:
        return f"{pluralize(len(session.votes.rows), 'vote')} in {session.votes.path}"

    token = secrets.token_urlsafe(16)
    with socket.create_server(("127.0.0.1", port)) as listener:
        port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{port}/{token}/"
        write_json({"address": address}) if as_json else print(address)
        sys.stdout.flush()
        say(f"{count()}. Open the address; Ctrl-C ends")
        app = application(session, folder, token=token, port=port, question=question)
        with contextlib.suppress(KeyboardInterrupt):
            server_of(app).run(sockets=[listener])
        say(f"{count()}; rank them by precede leaderboard {session.votes.path}")
