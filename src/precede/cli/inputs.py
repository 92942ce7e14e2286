"""Inputs of evaluations: scores from models, files or runs, and the judgments of the data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from precede.cli.console import say
from precede.cli.options import Reading
from precede.engine.arrays import Array, Floats
from precede.estimator import BaseRanker, load
from precede.files.data import Data
from precede.files.reading import read_numbers
from precede.files.streams import STANDARD, is_plain, opened
from precede.files.trec import Judged, Run, joined, read_qrels, read_run
from precede.judgments import warn_of_lost_queries


@dataclass(frozen=True, eq=False)
class EvaluationTask:
    """Judgments, and one vector of scores for each source."""

    y: Any  # None if the data have explicit pairs only
    qid: Array | None
    weight: Floats | None
    scores: list[Floats]
    data: Data | None


def read_task(sources: list[str], path: str, reading: Reading) -> EvaluationTask:
    """Read the judgments, and the scores of each source."""
    if _is_qrels(path, reading):
        return _from_runs(sources, read_qrels(path))
    models = {source: load(source) for source in sources if _kind(source) == "model"}
    data = reading.with_roles_of(*models.values()).read(path)
    scores = [_scores(source, data, models.get(source)) for source in sources]
    if scores[0].ndim == 2:
        return _of_labels(sources, scores, data)
    return EvaluationTask(data.y, data.qid, data.weight, scores, data)


def read_candidates(
    sources: list[str], path: str, reading: Reading
) -> tuple[dict[str, BaseRanker], dict[str, Floats], EvaluationTask]:
    """Read the data, the models among the sources, and the scores of the others, by file name.

    Models that read other columns than the first are given as scores.
    """
    if _is_qrels(path, reading) or not any(_kind(source) == "model" for source in sources):
        task = read_task(sources, path, reading)
        return {}, dict(zip(file_names(sources), task.scores, strict=True)), task
    names = dict(zip(sources, file_names(sources), strict=True))
    loaded = {source: load(source) for source in sources if _kind(source) == "model"}
    data = reading.with_roles_of(*loaded.values()).read(path)
    first = next(iter(loaded.values()))
    models = {names[s]: each for s, each in loaded.items() if _columns(each) == _columns(first)}
    others = [source for source in sources if names[source] not in models]
    scores = {names[source]: _scores(source, data, loaded.get(source)) for source in others}
    return models, scores, EvaluationTask(data.y, data.qid, data.weight, [], data)


def _columns(model: BaseRanker) -> list[str]:
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [str(name) for name in names]


def file_names(sources: list[str]) -> list[str]:
    """Return the last parts of the paths, or the paths if these are not unique."""
    names = [Path(source).name for source in sources]
    return names if len(set(names)) == len(names) else list(sources)


def features_for(model: BaseRanker, data: Data) -> Any:
    """Return the features of a model in its order, found by name if it has names."""
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
    """Read a saved model, and data whose columns have the roles they had in its fit."""
    fitted = load(model)
    return fitted, reading.with_roles_of(fitted).read(path)


def name_features(model: BaseRanker, data: Data) -> None:
    """Store the names of the columns in a model that was fitted on an array."""
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


def _of_labels(sources: list[str], scores: list[Floats], data: Data) -> EvaluationTask:
    """Return a task whose queries are the items and whose documents are the labels."""
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
    return EvaluationTask(labels.ravel(), qid, None, [each.ravel() for each in scores], None)


def _of_rows(run: Run, data: Data, source: str) -> Floats:
    """Return the scores of a run, found by query and document."""
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
        # For explicit pairs, a row that was not returned ranks below all others.
        found[missing] = np.nextafter(run.score.min(), -np.inf) if data.y is None else -np.inf
    return found


def _from_runs(sources: list[str], judged: Judged) -> EvaluationTask:
    """Return a task over all documents of the qrels and of any run, so that runs are comparable."""
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
    return EvaluationTask(parts[0][0], parts[0][2], None, [part[1] for part in parts], None)


def _pooled(runs: list[Run], judged: Judged) -> Judged:
    """Return the judged documents, and with grade 0 all others that several runs returned."""
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
    """Return the kind of a file by its first bytes; a pipe, which is read once, holds scores."""
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
