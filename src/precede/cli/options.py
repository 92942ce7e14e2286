"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from precede.files.tables import Data

__all__ = [
    "Algorithm",
    "AsJson",
    "DataFile",
    "EarlyStopping",
    "Jobs",
    "Metrics",
    "ModelFile",
    "Output",
    "Reading",
    "Seed",
    "Settings",
    "Source",
    "reads_data",
]  # fmt: skip

_TABLE, _SIDE = "Columns of a table", "Files beside the data"

DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="LETOR, CSV, TSV or parquet; gzip is opened; - is standard input.",
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A model that fit has written.")]
Source = Annotated[
    str,
    typer.Argument(help="A model, a file with a score on each line, or a TREC run."),
]
Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is standard output."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, one object on a line.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all cores if not said.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything that is drawn.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", "-m", help="Such as ndcg@10, auc, 'map(relevant=4)'; may be repeated."
    ),
]
EarlyStopping = Annotated[
    int | None,
    typer.Option(
        "--early-stopping",
        metavar="ROUNDS",
        min=1,
        help="Stop when the first metric of the first --valid has not improved for so many rounds, "
        "and keep the best ones.",
    ),
]
Algorithm = Annotated[
    str, typer.Option("--algorithm", "-a", help="See precede algorithms; case does not matter.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter; may be repeated."),
]


def _option(name: str, panel: str, help: str, **others: Any) -> Any:
    return typer.Option(name, rich_help_panel=panel, help=help, **others)


@dataclass(frozen=True)
class Reading:
    """How data files are read: which columns are what, and which files stand beside them."""

    format: Annotated[
        str | None,
        _option("--format", _TABLE, "letor, csv, tsv or parquet; seen from the file if not said."),
    ] = None
    label: Annotated[
        list[str] | None,
        _option("--label", _TABLE, "Column of the grades; several are labels of 0 and 1."),
    ] = None
    qid: Annotated[str | None, _option("--qid", _TABLE, "Column of the queries.")] = None
    docid: Annotated[str | None, _option("--docid", _TABLE, "Column of the documents.")] = None
    weight: Annotated[str | None, _option("--weight", _TABLE, "Column of the weights.")] = None
    drop: Annotated[
        list[str] | None, _option("--drop", _TABLE, "Column to leave out; may be repeated.")
    ] = None
    features: Annotated[
        list[str] | None,
        _option("--feature", _TABLE, "Column to keep as a feature; may be repeated."),
    ] = None
    keep_index: Annotated[
        bool,
        _option("--keep-index", _TABLE, "Take the index of a data frame in DATA for a feature."),
    ] = False
    header: Annotated[
        bool,
        _option("--header/--no-header", _TABLE, "Whether the first line names the columns."),
    ] = True
    groups: Annotated[
        str | None, _option("--groups", _SIDE, "Sizes of the queries (.query, .group).")
    ] = None
    weights: Annotated[str | None, _option("--weights", _SIDE, "Weights (.weight).")] = None
    pairs: Annotated[
        str | None, _option("--pairs", _SIDE, "Pairs: winner, loser, weight (.pairs).")
    ] = None

    def read(self, path: str, *, beside: bool = True) -> Data:
        """Read a file so; named side files belong to the first file of a command only."""
        from precede.files.tables import read  # noqa: PLC0415  (nothing heavy before it is needed)

        return read(path, **self.arguments(beside=beside))

    def arguments(self, *, beside: bool = True) -> dict[str, Any]:
        """The options as `precede.files.read` and `precede.files.blocks.read_blocks` take them."""
        from precede.files.tables import Roles  # noqa: PLC0415

        several = tuple(self.label) if self.label and len(self.label) > 1 else ()
        roles = Roles(
            self.label[0] if self.label and not several else None,
            self.qid, self.docid, self.weight, tuple(self.drop or ()),
            None if not self.features else tuple(self.features), several, self.keep_index,
        )  # fmt: skip
        sides = (self.groups, self.weights, self.pairs) if beside else (None, None, None)
        named = dict(zip(("groups", "weights", "pairs"), sides, strict=True))
        return {"format": self.format, "roles": roles, "header": self.header, **named}


def reads_data(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading`; it takes them as one argument, `reading`."""
    hints = get_type_hints(Reading, include_extras=True)
    extra = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY,
            default=each.default, annotation=hints[each.name],
        )
        for each in fields(Reading)
    ]  # fmt: skip
    own = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    kept = [
        parameter.replace(annotation=own[name])
        for name, parameter in signature.parameters.items()
        if name != "reading"
    ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        reading = Reading(**{each.name: given.pop(each.name) for each in fields(Reading)})
        function(**given, reading=reading)

    command.__signature__ = signature.replace(parameters=[*kept, *extra])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*kept, *extra)}
    del command.__wrapped__
    return command
