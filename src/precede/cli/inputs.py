"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import numpy as np
import typer

from precede.cli.console import say
from precede.engine.arrays import Array, Floats
from precede.estimator import BaseRanker, load
from precede.files.streams import STANDARD, is_plain, opened
from precede.files.tables import Data, read_numbers
from precede.files.trec import Judged, Run, joined, read_qrels, read_run
from precede.judgments import warn_of_lost_queries

if TYPE_CHECKING:
    from precede.estimator import BaseRanker
    from precede.files.tables import Data


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
    """How data files are read: which columns are what, and which files stand beside them."""

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

    remembered: tuple[tuple[str, str], ...] = ()  # no option: columns that models know

    def named(self) -> dict[str, str]:
        """The columns that options name, by role."""
        label = self.label[0] if self.label and len(self.label) == 1 else None
        named = {"label": label, "qid": self.qid, "docid": self.docid, "weight": self.weight}
        return {role: name for role, name in named.items() if name is not None}

    def knowing(self, *models: BaseRanker) -> Reading:
        """The same, with the columns that the models were fitted on where no option names one."""
        known = [item for model in models for item in model.data_columns_.items()]
        return replace(self, remembered=tuple(dict.fromkeys(known)))

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


# -- Where scores come from: models, files of scores, runs; and what they are judged by ----------


@dataclass(frozen=True, eq=False)
class FitContext:
    """Grades to judge by, and one vector of scores for each source."""

    y: Any  # None where the data list pairs only
    qid: Array | None
    weight: Floats | None
    scores: list[Floats]
    data: Data | None


def read_task(sources: list[str], path: str, reading: Reading) -> FitContext:
    """Read what to judge by, and the scores of each source on it."""
    if _is_qrels(path, reading):
        return _from_runs(sources, read_qrels(path))
    models = {source: load(source) for source in sources if _kind(source) == "model"}
    data = reading.knowing(*models.values()).read(path)
    scores = [_scores(source, data, models.get(source)) for source in sources]
    if scores[0].ndim == 2:
        return _of_labels(sources, scores, data)
    return FitContext(data.y, data.qid, data.weight, scores, data)


def read_candidates(
    sources: list[str], path: str, reading: Reading
) -> tuple[dict[str, BaseRanker], dict[str, Floats], FitContext]:
    """What to judge by; the models among the sources, and the scores of the others, by file name.

    Models that read other columns than the first are given as scores.
    """
    if _is_qrels(path, reading) or not any(_kind(source) == "model" for source in sources):
        task = read_task(sources, path, reading)
        return {}, dict(zip(file_names(sources), task.scores, strict=True)), task
    names = dict(zip(sources, file_names(sources), strict=True))
    loaded = {source: load(source) for source in sources if _kind(source) == "model"}
    data = reading.knowing(*loaded.values()).read(path)
    first = next(iter(loaded.values()))
    models = {names[s]: each for s, each in loaded.items() if _columns(each) == _columns(first)}
    others = [source for source in sources if names[source] not in models]
    scores = {names[source]: _scores(source, data, loaded.get(source)) for source in others}
    return models, scores, FitContext(data.y, data.qid, data.weight, [], data)


def _columns(model: BaseRanker) -> list[str]:
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [str(name) for name in names]


def file_names(sources: list[str]) -> list[str]:
    """The last parts of the paths, or the paths where these are not different."""
    names = [Path(source).name for source in sources]
    return names if len(set(names)) == len(names) else list(sources)


def features_for(model: BaseRanker, data: Data) -> Any:
    """The columns that a model knows, in its order, found by name where it has names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and data.zeros:
        first = int(data.feature_names[0]) if data.feature_names else 1
        names = [str(first + column) for column in range(model.n_features_in_)]
    if names is None:
        return data.X
    known = set(map(str, names))
    left = [name for name in data.feature_names if name not in known]
    if left:
        say(f"note: ignoring {len(left)} columns that the model does not use, such as {left[0]!r}")
    return data.with_features([str(name) for name in names]).X


def read_for(model: str, path: str, reading: Reading) -> tuple[BaseRanker, Data]:
    """A saved model, and data whose columns have the roles that the model knows."""
    fitted = load(model)
    return fitted, reading.knowing(fitted).read(path)


def name_features(model: BaseRanker, data: Data) -> None:
    """Keep the names of the columns with a model that was fitted on an array."""
    model.feature_names_in_ = np.array([str(name) for name in data.feature_names], object)


def _scores(source: str, data: Data, model: BaseRanker | None) -> Floats:
    if model is not None:
        if data.y is not None:
            warn_of_lost_queries(model, data.judgments)
        return np.asarray(model.predict(features_for(model, data)), np.float64)
    if _kind(source) == "run":
        return _of_rows(read_run(source), data, source)
    scores = read_numbers(source, "scores")[:, 0]
    if scores.size != len(data):
        raise ValueError(f"{source} has {scores.size} scores and the data have {len(data)} rows")
    return scores


def _of_labels(sources: list[str], scores: list[Floats], data: Data) -> FitContext:
    """Every item is a query, and its labels are the documents."""
    labels = data.labels
    known = getattr(load(sources[0]), "labels_", ())
    if labels is None and data.y is not None:
        labels = (data.y[:, None] == np.asarray(known)[None, :]).astype(np.float64)
    if labels is None or any(each.shape != labels.shape for each in scores):
        raise ValueError(
            f"the model scores {len(known)} labels ({', '.join(map(str, known[:5]))}, ...); name "
            "their columns in this order: --label red --label green"
        )
    qid = np.repeat(np.arange(len(data)), labels.shape[1])
    return FitContext(labels.ravel(), qid, None, [each.ravel() for each in scores], None)


def _of_rows(run: Run, data: Data, source: str) -> Floats:
    """Scores of a run, found by query and document."""
    if data.docid is None or data.qid is None:
        raise ValueError(
            f"{source} is a run, but the data name no documents or queries; give a file with "
            "one score for each row instead"
        )
    known = dict(zip(zip(map(str, run.qid), run.docid, strict=True), run.score, strict=True))
    keys = zip(map(str, data.qid.tolist()), data.docid.tolist(), strict=True)
    found = np.array([known.get(key, np.nan) for key in keys], np.float64)
    missing = np.isnan(found)
    if missing.all():
        raise ValueError(f"{source} has none of the documents in the data; check the identifiers")
    if missing.any():
        say(f"note: {source} lacks {missing.sum()} documents; they count as not returned")
        # Listed pairs are compared as they stand: a row that was not returned is below the others.
        found[missing] = np.nextafter(run.score.min(), -np.inf) if data.y is None else -np.inf
    return found


def _from_runs(sources: list[str], judged: Judged) -> FitContext:
    """Runs against qrels: every document of any of them, so that all are judged alike."""
    runs = []
    for source in sources:
        if _kind(source) != "run":
            raise ValueError(
                f"{source} is not a run, and qrels have no features to score; give a file of "
                "lines 'query Q0 document rank score tag'"
            )
        runs.append(read_run(source))
    pool = _pooled(runs, judged)
    parts = [joined(run, pool) for run in runs]
    for source, part in zip(sources, parts, strict=True):
        counted = ", ".join(f"{count} {what}" for what, count in part[3].items() if count)
        if counted:
            say(f"note: {source}: {counted}")
    return FitContext(parts[0][0], parts[0][2], None, [part[1] for part in parts], None)


def _pooled(runs: list[Run], judged: Judged) -> Judged:
    """What was judged, and with grade 0 what any run returned for the same queries."""
    seen = dict.fromkeys(zip(map(str, judged.qid.tolist()), judged.docid, strict=True))
    queries = {query for query, _ in seen}
    others: dict[tuple[str, str], None] = {}
    for run in runs if len(runs) > 1 else []:
        for key in zip(map(str, run.qid.tolist()), run.docid, strict=True):
            if key[0] in queries and key not in seen:
                others[key] = None
    keys = [*seen, *others]
    qid, docid = (np.array([key[part] for key in keys], object) for part in (0, 1))
    return Judged(qid, docid, np.concatenate([judged.grade, np.zeros(len(others))]))


def _kind(source: str) -> str:
    """A model, a run or scores, by the first bytes; from a pipe, which is read once, scores."""
    if source != STANDARD and Path(source).exists() and not is_plain(source):
        return "scores"
    beginning = _beginning(source)
    if beginning.startswith(b"{"):
        return "model"
    return "run" if len(beginning.split(b"\n")[0].split()) == 6 else "scores"


def _is_qrels(path: str, reading: Reading) -> bool:
    if reading.format == "qrels":
        return True
    if reading.format is not None or not is_plain(path):
        return False
    first = _beginning(path).split(b"\n")[0]
    words = first.split()
    return len(words) == 4 and b"," not in first and not any(re.search(rb":", w) for w in words)


def _beginning(path: str) -> bytes:
    with opened(path) as stream:
        return stream.peek(1 << 16).lstrip()
