"""Write a fitted model in the format of a serving system."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from precede.engine.parameters import Argument, ParameterError
from precede.exports.base import ExportedModel, Format, refuse_other_missing
from precede.exports.onnx_graph import onnx_bytes
from precede.exports.search_engines import (
    elasticsearch_text,
    ltr_features_text,
    ltr_model_text,
    ranklib_text,
    solr_features_text,
    solr_text,
)
from precede.exports.source import c_text, python_text
from precede.exports.sql import sql_text
from precede.exports.xgboost_model import xgboost_dump_text, xgboost_text
from precede.model import write_file

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

FORMATS = {
    "c": Format(c_text, "C", ".c", lines=True, categories=True),
    "elasticsearch": Format(elasticsearch_text, "Elasticsearch"),
    "ltr-features": Format(ltr_features_text, "the plugin", lines=True, categories=True),
    "ltr-model": Format(ltr_model_text, "the plugin", columns=True, zeros_for_missing="the plugin"),
    "onnx": Format(onnx_bytes, "ONNX", ".onnx", lines=True),
    "python": Format(python_text, "Python", ".py", lines=True, categories=True),
    "ranklib": Format(ranklib_text, "RankLib", zeros_for_missing="RankLib"),
    "solr": Format(solr_text, "Solr", columns=True),
    "solr-features": Format(solr_features_text, "Solr", lines=True, categories=True),
    "sql": Format(sql_text, "SQL", ".sql", lines=True, categories=True),
    "xgboost": Format(xgboost_text, "XGBoost"),
    "xgboost-dump": Format(
        xgboost_dump_text, "the dump of XGBoost", zeros_for_missing="the plugin"
    ),
}


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix of a file name stands for.

    >>> format_of("model.onnx"), format_of("weak_ranker.PY")
    ('onnx', 'python')
    """
    suffixes = {each.suffix: name for name, each in FORMATS.items() if each.suffix}
    found = suffixes.get(PurePath(path).suffix.lower())
    if found is None:
        known = ", ".join(f"{suffix} ({name})" for suffix, name in suffixes.items())
        raise ValueError(
            f"{os.fspath(path)}: the suffix does not determine the format; use {known}, or give "
            "the format, for example 'solr'"
        )
    return found


def export(
    model: BaseRanker, path: str | os.PathLike[str], format: str | None = None, **options: object
) -> None:
    """Write a fitted model for serving, atomically; its scores are those of `predict`.

    ================= ======================================= =============== ===========
    format            read by                                 missing values  numbers
    ================= ======================================= =============== ===========
    ``json``          `precede.load`                          kept            float64
    ``python``        Python alone, without a package         kept            float64
    ``c``             any C compiler                          kept            float64
    ``sql``           databases, as one SELECT statement      kept (NULL)     float64
    ``onnx``          ONNX runtimes                           kept            see `dtype`
    ``xgboost``       XGBoost (``Booster.load_model``)        kept            float32
    ``elasticsearch`` Elasticsearch's own learning to rank    kept            float64
    ``ltr-model``     plugins of Elasticsearch and OpenSearch read as 0       float32
    ``xgboost-dump``  the trees of ``ltr-model``; Vespa       read as 0       float32
    ``ranklib``       RankLib                                 read as 0       float32
    ``solr``          Solr's learning-to-rank module          kept (Solr 9.2) float32
    ================= ======================================= =============== ===========

    Where a format cannot hold the model, or would treat missing values in another way, the
    export is refused with the reason. Scores of float64 formats are equal to the last bit
    (ONNX: to rounding); for float32 formats, thresholds are rounded such that every float32
    value falls on the same side, and the sums of leaves are float32.

    Parameters
    ----------
    model : fitted ranker
    path : where to write
    format : str, optional
        One of the above, or ``ltr-features`` and ``solr-features``, which write the features of
        the model for the plugins and for Solr. The default follows from the suffix of `path`:
        ``.onnx``, ``.py``, ``.c`` or ``.sql``; several formats are JSON, so ``.json`` needs a
        format.
    missing : {"refuse", "zero"}
        For ``ranklib``, ``xgboost-dump``, ``ltr-model``, ``solr`` and ``solr-features``. These
        readers take a missing value for 0. "refuse" refuses a model that does not; "zero" writes
        it anyway, for when no feature is ever missing or 0 is what you mean. Solr 9.2 can
        keep the rule for fields (not for queries) and does, unless "zero" asks for a file for
        older versions.
    dtype : {"float32", "float64"}
        For ``onnx``: of the input and the scores.
    name : str
        For ``solr`` and ``ltr-model`` the name of the model, for ``c`` that of the function, for
        ``sql`` that of the column of scores ("score").
    features : dict
        For ``elasticsearch``, ``ltr-features`` and ``solr-features``: for each feature the query
        that returns its value, with ``{{parameter}}`` for what the search fills in.
    type : {"xgboost+json", "ranklib"}
        For ``ltr-model``: how the trees are written.
    store : str
        For ``solr`` and ``solr-features``: the feature store.
    table, key : str or list of str
        For ``sql``: the table that holds the features ("features"; a list is a name in parts, such
        as schema and table), and the columns to return with the score (by default the features).
    dialect : {"ansi", "duckdb", "mariadb", "mysql", "postgresql", "sqlite"}
        For ``sql``: the database. "ansi" is standard SQL, which SQLite, DuckDB and PostgreSQL read;
        MySQL and MariaDB need their own, and so do categories with a backslash.
    materialized : bool
        For ``sql``: write ``AS MATERIALIZED``, which SQLite, PostgreSQL and DuckDB know; SQLite
        computes large models several times faster with it.

    Examples
    --------
    >>> import os, pathlib, tempfile
    >>> from precede import RankBoost, export
    >>> model = RankBoost(n_estimators=2).fit([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]], [0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.py")
    ...     export(model, path)
    ...     module = {}
    ...     exec(pathlib.Path(path).read_text(), module)
    >>> bool(module["score"]([2.0, 2.0]) == model.predict([[2.0, 2.0]])[0])
    True
    """
    check_is_fitted(model)
    format = format_of(path) if format is None else format
    if format == "json":
        _check_options(format, options, [])
        model.save(path)
        return
    content = export_content(ExportedModel.of(model), format, **options)
    write_file(path, content.encode("utf-8") if isinstance(content, str) else content)


def export_content(model: ExportedModel, format: str, **options: object) -> str | bytes:
    """Return what `export` writes; refuse a model that the format cannot hold."""
    if format not in FORMATS:
        known = ", ".join(sorted([*FORMATS, "json"]))
        raise ParameterError(Argument("format", format), f" is unknown; use one of {known}")
    chosen = FORMATS[format]
    _check_options(format, options, chosen.options)
    chosen.check(model)
    if chosen.zeros_for_missing and options.pop("missing", "refuse") == "refuse":
        refuse_other_missing(model, chosen.zeros_for_missing)
    try:
        return chosen.write(model, **options)
    except RecursionError as error:
        raise ParameterError(
            "a tree is too deep for ", Argument("format", format), ", which nests its nodes; limit "
            "max_depth or num_leaves, or use another format",
        ) from error  # fmt: skip


def _check_options(format_: str, options: dict[str, object], accepted: list[str]) -> None:
    for name in options:
        if name not in accepted:
            have = f"has {', '.join(accepted)}" if accepted else "has none"
            raise ParameterError(Argument("format", format_), f" has no option {name!r}; it {have}")
    if options.get("missing", "refuse") not in ("refuse", "zero"):
        given = Argument("missing", options["missing"])
        raise ParameterError(given, " is unknown; use 'refuse' or 'zero'")
