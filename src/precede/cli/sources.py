"""Sources of rankings: scores of models, files and runs, and the data to judge them on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precede.cli.console import say
from precede.cli.options import Reading
from precede.engine.arrays import Floats, MatrixLike
from precede.estimator import BaseRanker, load
from precede.files import Data, Judged, Roles, Run, joined, read_qrels, read_run
from precede.files.reading import read_numbers
from precede.files.streams import STANDARD, is_plain, opened
from precede.judgments import warn_of_lost_queries


class Task(NamedTuple):
    """Data with judgments, and one vector of scores for each source."""

    data: Data
    scores: list[Floats]


def read_task(sources: Sequence[str], path: str, reading: Reading) -> Task:
    """Read the data, and the scores of each source."""
    if _is_qrels(path, reading):
        return _run_task(sources, read_qrels(path))
    models = {source: load(source) for source in sources if _kind(source) == "model"}
    data = reading.with_roles_of(*models.values()).read(path)
    scores = [_scores(source, data, models.get(source)) for source in sources]
    if scores[0].ndim == 2:
        return _label_task(models[sources[0]], scores, data)
    return Task(data, scores)


def read_candidates(
    sources: Sequence[str], path: str, reading: Reading
) -> tuple[dict[str, BaseRanker], dict[str, Floats], Data]:
    """Read the models among the sources, and the scores of the others, by file name, and the data.

    Models that read other columns than the first are given as scores.
    """
    names = dict(zip(sources, file_names(sources), strict=True))
    kinds = {source: _kind(source) for source in names}
    if _is_qrels(path, reading) or "model" not in kinds.values():
        task = read_task(sources, path, reading)
        return {}, dict(zip(file_names(sources), task.scores, strict=True)), task.data
    loaded = {source: load(source) for source, kind in kinds.items() if kind == "model"}
    data = reading.with_roles_of(*loaded.values()).read(path)
    first = next(iter(loaded.values()))
    models = {names[s]: each for s, each in loaded.items() if _columns(each) == _columns(first)}
    others = [source for source, name in names.items() if name not in models]
    scores = {names[source]: _scores(source, data, loaded.get(source)) for source in others}
    return models, scores, data


def _columns(model: BaseRanker) -> list[str]:
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    return [str(name) for name in names]


def file_names(sources: Sequence[str]) -> list[str]:
    """Return the last parts of the paths, or the paths if these are not unique."""
    names = [Path(source).name for source in sources]
    return names if len(set(names)) == len(names) else list(sources)


def features_for(model: BaseRanker, data: Data) -> MatrixLike:
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
        return _scores_of_run(read_run(source), data, source)
    scores = read_numbers(source, "scores")[:, 0]
    if scores.size != len(data):
        raise ValueError(f"{source} has {scores.size} scores and the data have {len(data)} rows")
    return scores


def _label_task(model: BaseRanker, scores: list[Floats], data: Data) -> Task:
    """Return a task whose queries are the items and whose documents are the labels."""
    labels = data.labels
    known = getattr(model, "labels_", ())
    if labels is None and data.y is not None:
        labels = (data.y[:, None] == np.asarray(known)[None, :]).astype(np.float64)
    if labels is None or any(each.shape != labels.shape for each in scores):
        raise ValueError(
            f"the model scores {len(known)} labels ({', '.join(map(str, known[:5]))}, ...); name "
            "their columns in this order: --label red --label green"
        )
    qid = np.repeat(np.arange(len(data)), labels.shape[1])
    judged = Data(np.empty((qid.size, 0)), y=labels.ravel(), qid=qid)
    return Task(judged, [each.ravel() for each in scores])


def _scores_of_run(run: Run, data: Data, source: str) -> Floats:
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


def _run_task(sources: Sequence[str], judged: Judged) -> Task:
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
    scores = []
    for source, run in zip(sources, runs, strict=True):
        grade, score, qid, counts = joined(run, pool)
        scores.append(score)
        counted = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        if counted:
            say(f"note: {source}: {counted}")
    return Task(Data(np.empty((qid.size, 0)), y=grade, qid=qid), scores)


def _pooled(runs: Sequence[Run], judged: Judged) -> Judged:
    """Return the judged documents, and with grade 0 all others that several runs returned."""
    if len(runs) == 1:
        return judged
    seen = set(zip(map(str, judged.qid.tolist()), judged.docid, strict=True))
    queries = {query for query, _ in seen}
    returned = (zip(map(str, run.qid.tolist()), run.docid, strict=True) for run in runs)
    others = [key for key in dict.fromkeys(chain(*returned))
              if key[0] in queries and key not in seen]  # fmt: skip
    qid, docid = (np.array([key[part] for key in others], object) for part in (0, 1))
    return Judged(
        np.concatenate([judged.qid.astype(str), qid]),
        np.concatenate([judged.docid, docid]),
        np.concatenate([judged.grade, np.zeros(len(others))]),
    )


def _kind(source: str) -> str:
    """Return the kind of a file by its first bytes; a pipe, which is read once, holds scores."""
    if source != STANDARD and Path(source).exists() and not is_plain(source):
        return "scores"
    beginning = _beginning(source)
    if beginning.startswith(b"{"):
        return "model"
    return "run" if len(beginning.split(b"\n")[0].split()) == 6 else "scores"


def _is_qrels(path: str, reading: Reading) -> bool:
    """Return whether a file holds qrels, by its first line: four words, the last one a number.

    A comment is none, and neither is a header such as ``grade qid 1 2``.
    """
    if reading.format == "qrels":
        return True
    if reading.format is not None or not reading.header or not is_plain(path):
        return False
    first = _beginning(path).split(b"\n")[0]
    if first.startswith(b"#") or b"," in first or b":" in first:
        return False
    words = first.decode("utf-8", "replace").split()
    if len(words) != 4 or any(each in words[:2] for each in chain(*Roles.USUAL.values())):
        return False
    return re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", words[3]) is not None


def _beginning(path: str) -> bytes:
    with opened(path) as stream:
        return stream.peek(1 << 16).lstrip()
