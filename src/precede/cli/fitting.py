"""Commands that fit: fit and tune, and the list of the algorithms."""

from __future__ import annotations

import ast
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

import precede
from precede.cli.console import is_interactive, say, write_json, write_rows
from precede.cli.options import (
    AsJson,
    DataFile,
    Jobs,
    Metrics,
    Output,
    Reading,
    Relevant,
    Seed,
    Settings,
)

if TYPE_CHECKING:
    from precede.engine.arrays import Json, MatrixLike
    from precede.estimator import BaseRanker
    from precede.files import Data
    from precede.judgments import Judgments

Algorithm = Annotated[
    str, typer.Option("--algorithm", "-a", help="See precede algorithms; case-insensitive.")
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

# Parameters by topic; the others concern the objective.
_GROUPS = {
    "learner": (
        "weak_rankers", "nonnegative", "num_leaves", "max_depth", "min_child_samples",
        "min_child_weight", "reg_lambda", "reg_alpha", "min_split_gain", "subsample",
        "subsample_by", "max_features", "max_features_by_split", "categorical_features",
        "cat_smooth", "monotone_constraints", "interaction_constraints", "max_bins",
    ),
    "rounds": (
        "n_estimators", "time_limit", "learning_rate", "bags", "line_search", "step_length", "tol",
        "early_stopping_rounds", "eval_metric", "random_state", "n_jobs", "memory_limit",
    ),
}  # fmt: skip
# Parameters without use on the command line: functions, models, and those that it sets itself.
_PYTHON_ONLY = ("callbacks", "warm_start", "verbose")


# -- algorithms and their parameters -----------------------------------------------------------


def algorithms(*, as_json: AsJson = False) -> None:
    """List the algorithms and their parameters."""
    rows = []
    for name, each in find_algorithms().items():
        groups = group_parameters(each().get_params(deep=False))
        about = (each.__doc__ or "").strip().split("\n")[0]
        parameters = {key: value for group in groups.values() for key, value in group.items()}
        if not as_json and sys.stdout.isatty():
            print(fill(f"{name}: {about}", 80))
            for group, values in groups.items():
                print(fill(_format_parameters(values), 80, initial_indent=f"  {group:<10}",
                           subsequent_indent=" " * 12))  # fmt: skip
            print()
        facts = parameters if as_json else _format_parameters(parameters)
        rows.append({"algorithm": name, "what": about, "parameters": facts})
    if as_json or not sys.stdout.isatty():
        write_rows(rows, as_json=as_json)


def find_algorithms() -> dict[str, type[BaseRanker]]:
    """Return every ranker of the package, by name."""
    found = {name: getattr(precede.algorithms, name) for name in dir(precede.algorithms)}
    return {name: thing for name, thing in found.items()
            if isinstance(thing, type) and issubclass(thing, precede.BaseRanker)}  # fmt: skip


def group_parameters(parameters: Json) -> dict[str, Json]:
    """Group the parameters that --set accepts by topic.

    >>> group_parameters({"select": "slope", "weak_rankers": "stumps", "n_estimators": 300,
    ...                   "verbose": None})
    {'objective': {'select': 'slope'}, 'learner': {'weak_rankers': 'stumps'},
     'rounds': {'n_estimators': 300}}
    """
    group_of = {name: group for group, names in _GROUPS.items() for name in names}
    found: dict[str, Json] = {"objective": {}, **{group: {} for group in _GROUPS}}
    for name, value in parameters.items():
        if name not in _PYTHON_ONLY:
            found[group_of.get(name, "objective")][name] = value
    return {group: values for group, values in found.items() if values}


def _format_parameters(parameters: Json) -> str:
    """Format parameters in the syntax of --set."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def parse_parameters(words: Sequence[str] | None, **options: object) -> dict[str, object]:
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


def _literal(text: str) -> object:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def make_estimator(algorithm: str, parameters: Mapping[str, object]) -> BaseRanker:
    """Make an estimator by name, checking the names of its parameters."""
    known = find_algorithms()
    by_lower = {name.lower(): each for name, each in known.items()}
    if algorithm.lower() not in by_lower:
        raise ValueError(f"there is no algorithm {algorithm!r}; there are {', '.join(known)}")
    model = by_lower[algorithm.lower()]()
    _check_names(model, parameters)
    return model.set_params(**parameters)


def _check_names(model: BaseRanker, parameters: Mapping[str, object]) -> None:
    from precede.estimator.signatures import unknown_parameter

    accepted = model.get_params(deep=False)
    for name in parameters:
        if name not in accepted:
            raise ValueError(unknown_parameter(type(model).__name__, name, accepted))


# -- fit ---------------------------------------------------------------------------------------


def fit(
    data: DataFile,
    *,
    output: Output = "model.json",
    algorithm: Algorithm = "BoostedRanker",
    settings: Settings = None,
    valid: Annotated[
        list[str] | None,
        typer.Option("--valid", metavar="DATA", help="Evaluated after every round; repeatable."),
    ] = None,
    metric: Metrics = None,
    relevant: Relevant = None,
    early_stopping: EarlyStopping = None,
    out_of_core: Annotated[
        bool,
        typer.Option(
            "--out-of-core",
            help="Read DATA block by block into a table on disk and fit from there; run the "
            "command again to resume an interrupted fit.",
        ),
    ] = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Fit a model to DATA and save it.

    Without --valid and n_estimators, the number of rounds (and of leaves) is chosen on held-out
    queries.

    precede fit train.txt -a RankBoost -s n_estimators=500 -s step=bound --valid vali.txt
    """
    from precede.metrics.registry import with_relevant
    from precede.model import check_model_name

    check_model_name(output)
    parameters = parse_parameters(
        settings, n_jobs=jobs, eval_metric=with_relevant(metric, relevant) if metric else None,
        early_stopping_rounds=early_stopping,
    )  # fmt: skip
    model = make_estimator(algorithm, parameters)
    chosen = [] if valid or out_of_core else _choose_sizes(model, parameters)
    if not valid:
        _refuse_without_validation(parameters, metric, early_stopping, chosen)
    model.data_columns_ = reading.named()
    sets = [reading.read(name, beside=False) for name in valid or ()]
    if out_of_core:
        seconds = _fit_from_disk(model, data, sets, reading, output)
    else:
        train = reading.read(data)
        say(f"{data}: {train!r}")
        seconds = _fit_in_memory(model, train, sets, chosen)
    written = save_model(model, output)
    _describe_fit(model, seconds)
    if as_json and output != "-":
        write_json(_fit_summary(model, seconds, written))
    if written != output:  # interrupted
        kept = "there is no round to keep" if written is None else f"its rounds are in {written}"
        raise KeyboardInterrupt(f"interrupted: {kept}, and {output} is not written")
    if out_of_core:
        _checkpoint(output).unlink(missing_ok=True)
    if output != "-":
        say(f"written to {output}")


def _choose_sizes(model: BaseRanker, given: Mapping[str, object]) -> list[str]:
    """Set unset sizes that can be chosen on held-out queries to "auto"; return their names."""
    from precede.engine.parameters import AUTO

    # Not the loss, on which it depends whether the model has probabilities.
    wanted = [name for name in model.selectable if name not in given and name != "loss"]
    if "n_estimators" not in wanted:
        return []
    if given.get("weak_rankers", "trees") != "trees" and "num_leaves" in wanted:
        wanted.remove("num_leaves")
    model.set_params(**dict.fromkeys(wanted, AUTO))
    return wanted


def _refuse_without_validation(
    parameters: Mapping[str, object], metric: list[str] | None, early_stopping: int | None,
    chosen: Sequence[str],
) -> None:  # fmt: skip
    """Raise ValueError for options that need validation data; a metric may also choose sizes."""
    asked: dict[str, object] = {"--metric": metric, "--early-stopping": early_stopping}
    asked |= {name: parameters.get(name) for name in ("early_stopping_rounds", "eval_metric")}
    for name, given in asked.items():
        if given and not (chosen and name in ("--metric", "eval_metric")):
            raise ValueError(
                f"{name} needs validation data, evaluated after every round; give --valid DATA"
            )


def _fit_in_memory(
    model: BaseRanker, data: Data, valid: Sequence[Data], chosen: Sequence[str] = ()
) -> float:
    """Fit a model and return the seconds taken.

    The sizes that are `chosen` on held-out queries get their defaults if there are too few rows.
    """
    from precede.boosting.holdout import TooFewError
    from precede.cli.sources import name_features

    if ranks_labels(model):
        if valid:
            raise ValueError(f"{type(model).__name__} takes no validation file; leave --valid out")
        return _fit_labels(model, data)
    began = time.perf_counter()
    try:
        with _progress(model):
            model.fit(data.X, data.judgments, eval_set=_evaluation_sets(data, valid))
    except TooFewError:
        if not chosen:
            raise
        defaults = type(model)().get_params(deep=False)
        model.set_params(**{name: defaults[name] for name in chosen})
        message = ", ".join(f"{name}={defaults[name]}" for name in chosen)
        say(f"note: too few rows to hold some out; {message}")
        return _fit_in_memory(model, data, valid)
    name_features(model, data)
    return time.perf_counter() - began


def ranks_labels(model: BaseRanker) -> bool:
    """Return whether the algorithm ranks the labels of an item, not the rows of a query."""
    return isinstance(model, precede.MultilabelRanker)


def _fit_labels(model: BaseRanker, data: Data) -> float:
    """Fit on several columns of labels, or on the class of each row; return the seconds taken."""
    import numpy as np

    from precede.cli.sources import name_features

    target = data.y if data.labels is None else data.labels
    if target is None:
        raise ValueError("name the columns that hold the labels: --label red --label green")
    began = time.perf_counter()
    with _progress(model):
        model.fit(data.X, target, sample_weight=data.weight)
    if data.labels is not None:
        vars(model)["labels_"] = np.array([str(name) for name in data.label_names])
    name_features(model, data)
    return time.perf_counter() - began


def _fit_from_disk(
    model: BaseRanker, path: str, valid: Sequence[Data], reading: Reading, output: str
) -> float:
    """Fit out of core and return the seconds taken.

    The disk table and a checkpoint are stored beside the model during the fit; the checkpoint
    stays if the fit is interrupted. Files left by a killed command are removed by the next one.
    """
    from precede.cli.sources import name_features
    from precede.files.reading import write_table_of_file

    if "-" in (path, output):
        raise ValueError("--out-of-core needs files; name DATA and the model (-o)")
    room = Path(output).resolve()
    room = room.parent / f".{room.name}.out-of-core"
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    try:
        table, names = write_table_of_file(
            room / "table",
            path,
            max_bins=model.max_bins,
            categorical_features=getattr(model, "categorical_features", None),
            n_jobs=model.n_jobs,
            **reading.arguments(),
        )
        say(f"{path}: {table!r}")
        began = time.perf_counter()
        with _progress(model):
            model.fit(
                table,
                eval_set=_evaluation_sets(names, valid),
                checkpoint=_checkpoint(output) if model.can_resume else None,
            )
    finally:
        shutil.rmtree(room, ignore_errors=True)
    name_features(model, names)
    return time.perf_counter() - began


def _checkpoint(output: str) -> Path:
    return Path(f"{output}.checkpoint")


def _evaluation_sets(
    data: Data, valid: Sequence[Data]
) -> list[tuple[MatrixLike, Judgments]] | None:
    """Return the validation data with the features of the training data, for `fit`."""
    sets = [(each.with_features(data.feature_names).X, each.judgments) for each in valid]
    return sets or None


@contextmanager
def _progress(model: BaseRanker) -> Iterator[None]:
    """Show a progress bar in a terminal, unless `verbose` is given; it is not saved."""
    shown = is_interactive() and model.get_params(deep=False).get("verbose") == 0
    if shown:
        model.set_params(verbose=1)
    try:
        yield
    finally:
        if shown:
            model.set_params(verbose=0)


def save_model(model: BaseRanker, output: str) -> str | None:
    """Write a fitted model and return the path.

    The rounds of an interrupted fit are written to ``model.partial.json`` instead of
    ``model.json``. None if there are no rounds, or if the model would go to standard output.
    """
    from precede.boosting.loop import INTERRUPTED

    if model.stop_reason_ == INTERRUPTED:
        if output == "-" or model.n_estimators_ == 0:
            return None
        path = Path(output)
        output = str(path.with_name(f"{path.stem}.partial{path.suffix}"))
    model.save(output)
    return output


def _describe_fit(model: BaseRanker, seconds: float) -> None:
    """Print the number of rounds, why the fit stopped, what was chosen, and the best round."""
    from precede.engine.parameters import pluralize

    rounds, reason, best = model.n_estimators_, model.stop_reason_, model.best_iteration_
    asked_for = [f"{n} rounds" for n in (rounds, model.n_estimators)]
    why = "" if reason in asked_for else f" ({reason})"
    say(f"{type(model).__name__}: {pluralize(rounds, 'round')} in {seconds:.1f} s{why}")
    if model.selection_ is not None:
        say(model.selection_.summary())
    if model.best_score_ is None:
        return
    message = f"best on validation: {model.best_score_:.4f} after {pluralize(best, 'round')}"
    if best == rounds:
        say(f"{message}, {'which is' if best == 1 else 'all of which are'} in the model")
        return
    hint = "; use --early-stopping ROUNDS to keep the best only"
    known = "early_stopping_rounds" in model.get_params(deep=False)
    say(f"{message}, but all {rounds} are in the model{hint if known else ''}")


def _fit_summary(model: BaseRanker, seconds: float, written: str | None) -> Json:
    """Return the output of --json for a fit."""
    known = {"algorithm": type(model).__name__, "rounds": model.n_estimators_,
             "best_score": model.best_score_, "best_iteration": model.best_iteration_,
             "stopped": model.stop_reason_, "seconds": round(seconds, 3),
             "model": written}  # fmt: skip
    return known if model.selection_ is None else {**known, "selection": model.selection_.to_dict()}


# -- tune --------------------------------------------------------------------------------------


def tune(
    data: DataFile,
    *,
    algorithm: Algorithm = "BoostedRanker",
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", metavar="NAME=A,B,...", help="Values to try; repeatable."),
    ] = None,
    settings: Settings = None,
    metric: Annotated[
        str | None, typer.Option("--metric", "-m", help="Metric to optimize.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Random candidates; default: 27, or the whole grid."),
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="FILE", help="Log of all fits, to resume a search.")
    ] = None,
    cv: Annotated[int, typer.Option("--folds", min=2, help="Number of folds.")] = 5,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Refit with the best parameters and save."
        ),
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
    reading: Reading,
) -> None:
    """Cross-validate parameters over queries: a grid, or a search by successive halving.

    Without --grid, or with --trials, candidates are drawn at random, and the better third of them
    is tried on more folds. The number of rounds is chosen.

    precede tune train.txt --log search.jsonl -o best.json

    precede tune train.txt -g learning_rate=0.1,0.3,1 -g n_estimators=100,300 -o best.json
    """
    from precede.model import check_model_name

    check_model_name(output or "-")
    base = make_estimator(algorithm, parse_parameters(settings, n_jobs=jobs))
    space = None if grid is None else _values_to_try(base, grid)
    train = reading.read(data)
    say(f"{data}: {train!r}")
    if ranks_labels(base):
        raise ValueError(f"{type(base).__name__} ranks labels, and queries are held out; use fit")
    usual = type(base)().get_params(deep=False)
    if "early_stopping_rounds" in usual and base.n_estimators == usual["n_estimators"]:
        base.set_params(n_estimators=1000)
    found = precede.tune(
        base, train.X, train.judgments, space=space, cv=cv, metric=metric, random_state=seed,
        trials=trials or (27 if space is None else None), log=log, verbose=int(is_interactive()),
    )  # fmt: skip
    write_rows(found.rows(), as_json=as_json)
    say(f"{found}\n{found.command(data, output or 'model.json')}")
    if output is not None:
        model = found.best_estimator
        model.data_columns_ = reading.named()
        _fit_in_memory(model, train, ())
        if save_model(model, output) != output:
            raise KeyboardInterrupt(f"interrupted: {output} is not written")
        say(f"written to {output}")


def _values_to_try(base: BaseRanker, words: Sequence[str]) -> dict[str, list[object]]:
    """Parse candidate values of parameters from ``name=a,b,...``."""
    parsed = parse_parameters(words)
    _check_names(base, parsed)
    found: dict[str, list[object]] = {}
    for name, value in parsed.items():
        if isinstance(value, str):
            found[name] = [_literal(each.strip()) for each in value.split(",")]
        else:
            found[name] = list(value) if isinstance(value, tuple | list) else [value]
    return found
