"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from precede.estimator import BaseRanker
    from precede.files.data import Data


_TABLE, _SIDE = "Columns of a table", "Additional data files"

DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="LETOR, CSV, TSV or parquet file, may be gzipped; - is standard input.",
    ),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A model written by fit.")]
Source = Annotated[
    str,
    typer.Argument(help="A model, a file with one score per line, or a TREC run."),
]
Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="Output file; - is standard output."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, one object per line.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Number of threads; default: all cores.")
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", "-m", help="For example ndcg@10, auc, 'map(relevant=4)'; repeatable."),
]
Relevant = Annotated[
    float | None,
    typer.Option(
        "--relevant", metavar="GRADE", help="Least relevant grade, for metrics that do not say it."
    ),
]
EarlyStopping = Annotated[
    int | None,
    typer.Option(
        "--early-stopping",
        metavar="ROUNDS",
        min=1,
        help="Stop when the first metric on the first --valid file has not improved for this many "
        "rounds, and keep the best rounds.",
    ),
]
Algorithm = Annotated[
    str, typer.Option("--algorithm", "-a", help="See precede algorithms; case-insensitive.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable."
    ),
]


def _option(name: str, panel: str, help: str, **others: Any) -> Any:
    return typer.Option(name, rich_help_panel=panel, help=help, **others)


@dataclass(frozen=True)
class Reading:
    """How data files are read: the roles of columns, and the side files."""

    format: Annotated[
        str | None,
        _option("--format", _TABLE, "letor, csv, tsv or parquet; default: detected from the file."),
    ] = None
    label: Annotated[
        list[str] | None,
        _option("--label", _TABLE, "Column of the grades; repeat it for several 0/1 labels."),
    ] = None
    qid: Annotated[str | None, _option("--qid", _TABLE, "Column of the queries.")] = None
    docid: Annotated[str | None, _option("--docid", _TABLE, "Column of the documents.")] = None
    weight: Annotated[str | None, _option("--weight", _TABLE, "Column of the weights.")] = None
    drop: Annotated[
        list[str] | None, _option("--drop", _TABLE, "Column to leave out; repeatable.")
    ] = None
    features: Annotated[
        list[str] | None,
        _option("--feature", _TABLE, "Column to use as a feature; repeatable."),
    ] = None
    keep_index: Annotated[
        bool,
        _option("--keep-index", _TABLE, "Keep the index of a data frame in DATA as a feature."),
    ] = False
    header: Annotated[
        bool,
        _option("--header/--no-header", _TABLE, "Whether the first line names the columns."),
    ] = True
    groups: Annotated[
        str | None,
        _option("--groups", _SIDE, "File with the sizes of the queries (.query, .group)."),
    ] = None
    weights: Annotated[
        str | None, _option("--weights", _SIDE, "File with the weights (.weight).")
    ] = None
    pairs: Annotated[
        str | None, _option("--pairs", _SIDE, "File with pairs: winner, loser, weight (.pairs).")
    ] = None

    remembered: tuple[tuple[str, str], ...] = ()  # not an option: roles of columns stored in models

    def named(self) -> dict[str, str]:
        """Return the columns that options name, by role."""
        label = self.label[0] if self.label and len(self.label) == 1 else None
        named = {"label": label, "qid": self.qid, "docid": self.docid, "weight": self.weight}
        return {role: name for role, name in named.items() if name is not None}

    def with_roles_of(self, *models: BaseRanker) -> Reading:
        """Return a copy that takes the columns of the models' fits where no option names one."""
        known = [item for model in models for item in model.data_columns_.items()]
        return replace(self, remembered=tuple(dict.fromkeys(known)))

    def read(self, path: str, *, beside: bool = True) -> Data:
        """Read a file; the named side files belong to the first file of a command only."""
        from precede.files.reading import read  # noqa: PLC0415  (nothing heavy before it is needed)

        return read(path, **self.arguments(beside=beside))

    def arguments(self, *, beside: bool = True) -> dict[str, Any]:
        """Return the options as arguments of `precede.files.read` and `read_blocks`."""
        from precede.files.data import Roles  # noqa: PLC0415

        several = tuple(self.label) if self.label and len(self.label) > 1 else ()
        roles = Roles(
            self.label[0] if self.label and not several else None,
            self.qid, self.docid, self.weight, tuple(self.drop or ()),
            None if not self.features else tuple(self.features), several, self.keep_index,
            self.remembered,
        )  # fmt: skip
        sides = (self.groups, self.weights, self.pairs) if beside else (None, None, None)
        named = dict(zip(("groups", "weights", "pairs"), sides, strict=True))
        return {"format": self.format, "roles": roles, "header": self.header, **named}


def reads_data(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading`; it takes them as one argument, `reading`."""
    hints = get_type_hints(Reading, include_extras=True)
    options = [each for each in fields(Reading) if each.name != "remembered"]
    extra = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY,
            default=each.default, annotation=hints[each.name],
        )
        for each in options
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
        reading = Reading(**{each.name: given.pop(each.name) for each in options})
        function(**given, reading=reading)

    command.__signature__ = signature.replace(parameters=[*kept, *extra])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*kept, *extra)}
    del command.__wrapped__
    return command
