"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import typer
from typer.models import OptionInfo

if TYPE_CHECKING:
    from precede.estimator import BaseRanker
    from precede.files import Data, Roles


class ReadArguments(TypedDict):
    """Arguments of `precede.files.read` and `read_blocks`."""

    format: str | None
    roles: Roles
    header: bool
    groups: str | None
    weights: str | None
    pairs: str | None


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
Level = Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help="A parameter of the algorithm; repeatable."
    ),
]


def _column(name: str, help: str) -> OptionInfo:
    return typer.Option(name, rich_help_panel="Columns of a table", help=help)


def _file(name: str, help: str) -> OptionInfo:
    return typer.Option(name, rich_help_panel="Additional data files", help=help)


@dataclass(frozen=True)
class Reading:
    """How data files are read: the roles of columns, and the side files."""

    format: Annotated[
        str | None,
        _column("--format", "letor, csv, tsv or parquet; default: detected from the file."),
    ] = None
    label: Annotated[
        list[str] | None,
        _column("--label", "Column of the grades; repeat it for several 0/1 labels."),
    ] = None
    qid: Annotated[str | None, _column("--qid", "Column of the queries.")] = None
    docid: Annotated[str | None, _column("--docid", "Column of the documents.")] = None
    weight: Annotated[str | None, _column("--weight", "Column of the weights.")] = None
    drop: Annotated[list[str] | None, _column("--drop", "Column to leave out; repeatable.")] = None
    features: Annotated[
        list[str] | None,
        _column("--feature", "Column to use as a feature; repeatable."),
    ] = None
    keep_index: Annotated[
        bool,
        _column("--keep-index", "Keep the index of a data frame in DATA as a feature."),
    ] = False
    header: Annotated[
        bool,
        _column("--header/--no-header", "Whether the first line names the columns."),
    ] = True
    groups: Annotated[
        str | None,
        _file("--groups", "File with the sizes of the queries (.query, .group)."),
    ] = None
    weights: Annotated[str | None, _file("--weights", "File with the weights (.weight).")] = None
    pairs: Annotated[
        str | None, _file("--pairs", "File with pairs: winner, loser, weight (.pairs).")
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
        from precede.files import read

        return read(path, **self.arguments(beside=beside))

    def arguments(self, *, beside: bool = True) -> ReadArguments:
        """Return the options as arguments of `precede.files.read` and `read_blocks`."""
        from precede.files import Roles

        several = tuple(self.label) if self.label and len(self.label) > 1 else ()
        roles = Roles(
            label=self.label[0] if self.label and not several else None,
            qid=self.qid,
            docid=self.docid,
            weight=self.weight,
            drop=tuple(self.drop or ()),
            features=tuple(self.features) if self.features else None,
            labels=several,
            keep_index=self.keep_index,
            remembered=self.remembered,
        )
        return {
            "format": self.format,
            "roles": roles,
            "header": self.header,
            "groups": self.groups if beside else None,
            "weights": self.weights if beside else None,
            "pairs": self.pairs if beside else None,
        }


def with_reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace the argument `reading` of a command, if it has one, by the options of `Reading`."""
    signature = inspect.signature(function, eval_str=True)
    if "reading" not in signature.parameters:
        return function
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY,
            default=each.default, annotation=hints[each.name],
        )
        for each in fields(Reading) if each.name != "remembered"
    ]  # fmt: skip
    own = [each for name, each in signature.parameters.items() if name != "reading"]

    def command(**given: Any) -> None:
        chosen = {each.name: given.pop(each.name) for each in options}
        function(**given, reading=Reading(**chosen))

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*own, *options)}
    return command
