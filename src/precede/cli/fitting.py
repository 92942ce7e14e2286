"""Work of the commands fit and tune: parameters from text, fits, out-of-core fits and searches."""

from __future__ import annotations

import ast
import contextlib
import inspect
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import precede
from precede.boosting.holdout import TooFewError
from precede.boosting.loop import INTERRUPTED
from precede.cli.console import is_interactive, say
from precede.cli.inputs import name_features
from precede.engine.parameters import AUTO, pluralize
from precede.estimator import BaseRanker
from precede.estimator.other_libraries import unknown_parameter
from precede.files.data import Data
from precede.files.reading import write_table_of_file
from precede.files.streams import STANDARD
from precede.metrics import default_metrics


def algorithms() -> dict[str, type[BaseRanker]]:
    """Return every ranker of the package, by name."""
    found = {name: getattr(precede.algorithms, name) for name in dir(precede.algorithms)}
    return {name: thing for name, thing in found.items()
            if inspect.isclass(thing) and issubclass(thing, BaseRanker)}  # fmt: skip


# Parameters by topic; the others concern the objective.
_GROUPS = {
    "learner": (
        "weak_rankers", "nonnegative", "num_leaves", "max_depth", "min_child_samples",
        "min_child_weight", "reg_lambda", "reg_alpha", "min_split_gain", "subsample",
        "subsample_by", "max_features", "max_features_by_split", "categorical_features",
        "cat_smooth", "monotone_constraints", "interaction_constraints", "max_bins",
    ),
    "rounds": (
        "n_estimators", "learning_rate", "bags", "line_search", "step_length", "tol",
        "early_stopping_rounds", "eval_metric", "random_state", "n_jobs", "memory_limit",
    ),
}  # fmt: skip
# Parameters without use on the command line: functions, models, and those that it sets itself.
_PYTHON_ONLY = ("callbacks", "warm_start", "verbose")


def group_parameters(parameters: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Group the parameters that --set accepts by topic.

    >>> group_parameters({"select": "slope", "weak_rankers": "stumps", "n_estimators": 300,
    ...                   "verbose": None})
    {'objective': {'select': 'slope'}, 'learner': {'weak_rankers': 'stumps'},
     'rounds': {'n_estimators': 300}}
    """
    group_of = {name: group for group, names in _GROUPS.items() for name in names}
    found: dict[str, dict[str, Any]] = {"objective": {}, **{group: {} for group in _GROUPS}}
    for name, value in parameters.items():
        if name not in _PYTHON_ONLY:
            found[group_of.get(name, "objective")][name] = value
    return {group: values for group, values in found.items() if values}


def format_parameters(parameters: dict[str, Any]) -> str:
    """Format parameters in the syntax of --set."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def parse_parameters(words: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """Parse parameters from ``name=value``; a value that is not a Python literal is text.

    `options` are parameters with a separate option, None where it was not given.

    >>> parse_parameters(["n_estimators=500", "step=bound", "warm_start=false", "price=None"])
    {'n_estimators': 500, 'step': 'bound', 'warm_start': False, 'price': None}
    """
    found = {}
    for word in words or ():
        name, sign, value = word.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"{word!r} is not NAME=VALUE, such as n_estimators=500")
        found[name.strip()] = _literal(value.strip())
    return found | {name: value for name, value in options.items() if value is not None}


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def make_estimator(algorithm: str, parameters: dict[str, Any]) -> BaseRanker:
    """Make an estimator by name, checking the names of its parameters."""
    known = algorithms()
    by_lower = {name.lower(): name for name in known}
    if algorithm.lower() not in by_lower:
        raise ValueError(f"there is no algorithm {algorithm!r}; there are {', '.join(known)}")
    model = known[by_lower[algorithm.lower()]]()
    accepted = model.get_params(deep=False)
    for name in parameters:
        if name not in accepted:
            raise ValueError(unknown_parameter(type(model).__name__, name, accepted))
    return model.set_params(**parameters)


def fit(
    model: BaseRanker, data: Data, valid: Sequence[Data] = (), *, progress: bool = True
) -> float:
    """Fit a model on data from a file, keep the names, and return the seconds taken."""
    bar = progress and is_interactive() and model.get_params(deep=False).get("verbose") == 0
    if bar:
        model.set_params(verbose=1)
    begin = time.perf_counter()
    if ranks_labels(model):
        _fit_labels(model, data, valid)
    elif valid:
        sets = [(each.with_features(data.feature_names).X, each.judgments) for each in valid]
        model.fit(data.X, data.judgments, eval_set=sets)
    else:
        model.fit(data.X, data.judgments)
    if bar:
        model.set_params(verbose=0)  # the progress bar must not be saved
    name_features(model, data)
    return time.perf_counter() - begin


def choose_sizes(model: BaseRanker, given: dict[str, Any]) -> list[str]:
    """Set unset sizes that can be chosen on held-out queries to "auto"; return their names.

    >>> choose_sizes(make_estimator("BoostedRanker", {}), {"num_leaves": 8})
    ['n_estimators']
    """
    wanted = [name for name in model.selectable if name not in given]
    if "n_estimators" not in wanted:
        return []
    if given.get("weak_rankers", "trees") != "trees" and "num_leaves" in wanted:
        wanted.remove("num_leaves")
    model.set_params(**dict.fromkeys(wanted, AUTO))
    return wanted


def refuse_without_validation(
    parameters: dict[str, Any], metric: Any, early_stopping: int | None, chosen: Sequence[str]
) -> None:
    """Raise ValueError for options that need validation data; a metric may also choose sizes."""
    asked = {"--metric": metric, "--early-stopping": early_stopping}
    asked |= {name: parameters.get(name) for name in ("early_stopping_rounds", "eval_metric")}
    for name, given in asked.items():
        if given and not (chosen and name in ("--metric", "eval_metric")):
            raise ValueError(
                f"{name} needs validation data, evaluated after every round; give --valid DATA"
            )


def fit_chosen(
    model: BaseRanker, data: Data, valid: Sequence[Data], chosen: Sequence[str]
) -> float:
    """Fit with the sizes of `choose_sizes`, or with the defaults if there are too few rows."""
    try:
        return fit(model, data, valid)
    except TooFewError:
        if not chosen:
            raise
        defaults = type(model)().get_params(deep=False)
        model.set_params(**{name: defaults[name] for name in chosen})
        message = ", ".join(f"{name}={defaults[name]}" for name in chosen)
        say(f"note: too few rows to hold some out; {message}")
        return fit(model, data, valid)


def describe_fit(model: BaseRanker, seconds: float) -> str:
    """Describe the number of rounds, the time, and why the fit stopped."""
    rounds, reason = pluralize(model.n_estimators_, "round"), model.stop_reason_
    asked_for = [f"{n} rounds" for n in (model.n_estimators_, model.n_estimators)]
    why = "" if reason in asked_for else f" ({reason})"
    return f"{rounds} in {seconds:.1f} s{why}"


def fit_summary(model: BaseRanker, seconds: float, written: str | None) -> dict[str, Any]:
    """Return the output of --json for a fit."""
    known = {"algorithm": type(model).__name__, "rounds": model.n_estimators_,
            "best_score": model.best_score_, "best_iteration": model.best_iteration_,
            "stopped": model.stop_reason_, "seconds": round(seconds, 3),
            "model": written}  # fmt: skip
    return known if model.selection_ is None else {**known, "selection": model.selection_.to_dict()}


def best_round(model: BaseRanker) -> str:
    """Describe the best round on validation data, and the number of rounds saved."""
    best, rounds = model.best_iteration_, model.n_estimators_
    until = pluralize(best, "round")
    message = f"best on validation: {model.best_score_:.4f} after {until}"
    if best == rounds:
        return f"{message}, {'which is' if best == 1 else 'all of which are'} in the model"
    hint = "; use --early-stopping ROUNDS to keep the best only"
    known = "early_stopping_rounds" in model.get_params(deep=False)
    return f"{message}, but all {rounds} are in the model{hint if known else ''}"


def fit_from_disk(
    model: BaseRanker, path: str, valid: Sequence[Data], reading: dict[str, Any], output: str
) -> tuple[float, str | None]:
    """Fit out of core and save; return the seconds, and the path (see `save_model`).

    The disk table and a checkpoint are stored beside the model during the fit; the checkpoint
    stays if the fit is interrupted. Files left by a killed command are removed by the next one.
    """
    if "-" in (path, output):
        raise ValueError("--out-of-core needs files; name DATA and the model (-o)")
    bar = is_interactive() and model.get_params(deep=False).get("verbose") == 0
    with _temporary_folder(Path(output).resolve()) as room:
        table, names = write_table_of_file(
            room / "table",
            path,
            max_bins=model.max_bins,
            categorical_features=getattr(model, "categorical_features", None),
            n_jobs=model.n_jobs,
            **reading,
        )
        say(f"{path}: {table!r}")
        checkpoint = Path(f"{output}.checkpoint")
        sets = [(each.with_features(names.feature_names).X, each.judgments) for each in valid]
        begin = time.perf_counter()
        model.set_params(verbose=1 if bar else 0)
        model.fit(
            table,
            eval_set=sets or None,
            checkpoint=checkpoint if model.can_resume else None,
        )
        model.set_params(verbose=0)
    name_features(model, names)
    written = save_model(model, output)
    if model.stop_reason_ != INTERRUPTED:
        checkpoint.unlink(missing_ok=True)
    return time.perf_counter() - begin, written


def save_model(model: BaseRanker, output: str) -> str | None:
    """Write a fitted model and return the path.

    The rounds of an interrupted fit are written to ``model.partial.json`` instead of
    ``model.json``. None if there are no rounds, or if the model would go to standard output.
    """
    if model.stop_reason_ == INTERRUPTED:
        if output == STANDARD or model.n_estimators_ == 0:
            return None
        path = Path(output)
        output = str(path.with_name(f"{path.stem}.partial{path.suffix}"))
    model.save(output)
    return output


@contextlib.contextmanager
def _temporary_folder(output: Path) -> Iterator[Path]:
    """Yield a folder for the duration of a fit, named after the model only."""
    room = output.parent / f".{output.name}.out-of-core"
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    try:
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def ranks_labels(model: BaseRanker) -> bool:
    """Return whether the algorithm ranks the labels of an item, not the rows of a query."""
    return "qid" not in inspect.signature(model.fit).parameters


def _fit_labels(model: BaseRanker, data: Data, valid: Sequence[Data]) -> None:
    """Fit on several columns of labels, or on the class of each row."""
    if valid:
        raise ValueError(f"{type(model).__name__} takes no validation file; leave --valid out")
    target = data.y if data.labels is None else data.labels
    if target is None:
        raise ValueError("name the columns that hold the labels: --label red --label green")
    model.fit(data.X, target, sample_weight=data.weight)
    if data.labels is not None:
        vars(model)["labels_"] = np.array([str(name) for name in data.label_names])


def default_metric(data: Data) -> str:
    """Return the metric to tune for: the first default, or the pairs of a single list."""
    return "pairwise_accuracy" if data.qid is None else default_metrics()[0]


def values_to_try(base: BaseRanker, words: Sequence[str]) -> dict[str, list[Any]]:
    """Parse candidate values of parameters from ``name=a,b,...``."""
    accepted = base.get_params(deep=False)
    found: dict[str, list[Any]] = {}
    for name, value in parse_parameters(words).items():
        if name not in accepted:
            raise ValueError(unknown_parameter(type(base).__name__, name, accepted))
        listed = [_literal(each.strip()) for each in value.split(",")] if (
            isinstance(value, str)
        ) else list(value) if isinstance(value, tuple | list) else [value]  # fmt: skip
        found[name] = listed
    return found


def tune(
    base: BaseRanker,
    data: Data,
    space: dict[str, list[Any]] | None,
    *,
    source: str,
    output: str | None,
    seed: int,
    **options: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """Search for parameters; return the table, the best parameters and a message."""
    if ranks_labels(base):
        raise ValueError(f"{type(base).__name__} ranks labels, and queries are held out; use fit")
    if data.y is None:
        raise ValueError("tuning needs grades; the data have pairs only")
    usual = type(base)().get_params(deep=False)
    if "early_stopping_rounds" in usual and base.n_estimators == usual["n_estimators"]:
        base = make_estimator(
            type(base).__name__, {**base.get_params(deep=False), "n_estimators": 1000}
        )
    found = precede.tune(
        base, data.X, data.judgments, space=space, random_state=seed,
        verbose=1 if is_interactive() else 0, **options,
    )  # fmt: skip
    message = f"{found}\n{found.command(source, output or 'model.json')}"
    return found.rows(), found.settings, message
