"""Saving and loading of fitted rankers as JSON."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.boosting.loop import History
from precede.engine.execution import count_jobs
from precede.engine.frames import check_categories
from precede.engine.parameters import check_integer, find_auto_parameters
from precede.losses import (
    Exp,
    Exponential,
    Hinge,
    Linear,
    Logistic,
    Power,
    SmoothedHinge,
    SquaredHinge,
)
from precede.model import FORMAT, Ensemble, number, plain, read_model, spelled
from precede.weak_rankers.base import family_name
from precede.weak_rankers.stumps import Stumps

if TYPE_CHECKING:
    from precede.boosting.callbacks import Checkpoint
    from precede.boosting.selection import Selection
    from precede.estimator.base import BaseRanker


@dataclass(frozen=True)
class Saved:
    """How a fitted attribute of an algorithm is saved; see `BaseRanker.saved_attributes`.

    Attributes
    ----------
    read : function of a JSON value and its name that returns the attribute, or raises ValueError;
        by default for a number, which may be NaN or infinite
    write : function of the attribute that returns a JSON value

    >>> Saved().read("inf", "gap")
    inf
    """

    read: Callable[[Any, str], object] = spelled
    write: Callable[[Any], object] = plain


def of_type(*kinds: type) -> Callable[[Any, str], Any]:
    """Return a function that reads a JSON value of one of these types from a model file.

    >>> of_type(int)(3, "memory")
    3
    """

    def read(value: Any, name: str) -> Any:
        if type(value) not in kinds:
            named = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"{name!r} of the model is {shown(value)}, not of type {named}")
        return value

    return read


def model_fields(estimator: BaseRanker) -> dict[str, Any]:
    """Return the fields of a model file; `restore_model` is the inverse."""
    import precede  # noqa: PLC0415  (the version, once the package is complete)

    names = getattr(estimator, "feature_names_in_", None)
    classes = None if estimator.classes_ is None else np.asarray(estimator.classes_).tolist()
    return {
        "format": FORMAT,
        "precede": precede.__version__,
        "estimator": type(estimator).__name__,
        "missing": "NaN; a stump sends it to the side named in its 'missing'",
        "features": None if names is None else [str(name) for name in names],
        **({"categories": estimator.categories_} if estimator.categories_ else {}),
        **({"queries": True} if estimator.has_queries_ else {}),
        **({} if estimator.selection_ is None else {"selection": estimator.selection_.to_dict()}),
        **({"data_columns": dict(estimator.data_columns_)} if estimator.data_columns_ else {}),
        **saved_parameters(estimator),
        "classes": classes,
        "intercept": None if classes is None else estimator.intercept_,
        "link": estimator.link_,
        "best_iteration": estimator.best_iteration_,
        "best_score": estimator.best_score_,
        "stop_reason": estimator.stop_reason_,
        "model": estimator.ensemble_.to_dict(),
        "history": list(estimator.history_),
        "fitted": {
            name.rstrip("_"): saved.write(getattr(estimator, name))
            for name, saved in estimator.saved_attributes.items()
        },
    }


def _read_selection(estimator: BaseRanker, fields: dict[str, Any]) -> Selection:
    """Return the record of what "auto" chose, which must have all parameters that are "auto"."""
    from precede.boosting.selection import Selection  # noqa: PLC0415  (if "auto" chose)

    selection = Selection.from_dict(fields)
    if not set(find_auto_parameters(estimator)) <= set(selection.parameters):
        raise ValueError("'selection' lacks a parameter of the model that is 'auto'")
    return selection


def restore_model(estimator: BaseRanker, fields: dict[str, Any]) -> None:
    """Set the fitted attributes from the fields of a model file."""
    estimator.ensemble_ = Ensemble.from_dict(required_field(fields, "model", dict))
    estimator.n_features_in_ = estimator.ensemble_.n_features
    names = fields.get("features")
    if names is not None:
        if not isinstance(names, list) or len(names) != estimator.n_features_in_:
            raise ValueError(f"the model needs {estimator.n_features_in_} feature names")
        if not all(isinstance(name, str) for name in names):
            raise ValueError("the feature names of the model are not all text")
        estimator.feature_names_in_ = np.array(names, object)
    if "categories" in fields:
        estimator.categories_ = check_categories(fields["categories"], names)
    estimator.has_queries_ = fields.get("queries", False) is True
    if "selection" in fields:
        estimator.selection_ = _read_selection(estimator, fields["selection"])
    if "data_columns" in fields:
        columns = required_field(fields, "data_columns", dict)
        if not all(isinstance(name, str) for name in columns.values()):
            raise ValueError("the data columns of the model are not all text")
        estimator.data_columns_ = columns
    estimator.history_ = read_history(required_field(fields, "history", list))
    estimator.n_bags_ = estimator._n_bags
    estimator.n_estimators_ = len(estimator.ensemble_) // estimator.n_bags_
    estimator.best_iteration_ = required_field(fields, "best_iteration", int)
    score = fields.get("best_score")
    estimator.best_score_ = None if score is None else spelled(score, "best_score")
    estimator.evals_result_ = estimator.history_.evals_result()
    estimator.stop_reason_ = str(fields.get("stop_reason", ""))
    _restore_classes(estimator, fields)
    fitted = required_field(fields, "fitted", dict)
    for name, saved in estimator.saved_attributes.items():
        key = name.rstrip("_")
        if key not in fitted:
            raise ValueError(f"the model file has no {key!r} among the fitted attributes")
        setattr(estimator, name, saved.read(fitted[key], key))
    estimator.check_model()


def _restore_classes(estimator: BaseRanker, fields: dict[str, Any]) -> None:
    """Set the two classes, the intercept and the link, if any."""
    classes = fields.get("classes")
    two = isinstance(classes, list) and len(classes) == 2
    if classes is not None and not (two and all(isinstance(c, str | int | float) for c in classes)):
        raise ValueError(f"classes={shown(classes)} are not two classes")
    estimator.classes_ = None if classes is None else np.array(classes)
    estimator.intercept_, estimator.link_ = (
        None if fields.get(name) is None else number(fields[name], name)
        for name in ("intercept", "link")
    )
    if estimator.intercept_ is not None and estimator.classes_ is None:
        raise ValueError("the model has an intercept, but no classes")
    if estimator.link_ is not None and (estimator.intercept_ is None or not estimator.link_ > 0):
        raise ValueError(f"link={estimator.link_}: it must be positive, and needs an intercept")


def read_checkpoint(
    estimator: BaseRanker, checkpoint: Checkpoint
) -> tuple[Ensemble | None, History]:
    """Return the model and the history of a checkpoint; None and no rounds if it is new."""
    fields = checkpoint.begin(type(estimator).__name__, described_parameters(estimator))
    if fields is None:
        return None, History()
    ensemble = Ensemble.from_dict(required_field(fields, "model", dict))
    history = read_history(required_field(fields, "history", list))
    if len(ensemble) != len(history) or ensemble.n_features != estimator.n_features_in_:
        raise ValueError(
            f"{checkpoint.path} holds {len(ensemble)} rankers of {ensemble.n_features} "
            f"features and {len(history)} rounds, so it is not a checkpoint of this fit"
        )
    _check_rounds(history, estimator.resumes_from, checkpoint)
    rounds = estimator._max_rounds
    return ensemble.first(rounds), history[:rounds]


def _check_rounds(history: History, columns: tuple[str, ...], checkpoint: Checkpoint) -> None:
    """Raise ValueError if rounds of a checkpoint lack columns needed to resume."""
    for done, values in enumerate(history, 1):
        for name in columns:
            if not isinstance(values.get(name), int | float):
                raise ValueError(
                    f"{checkpoint.path}: round {done} has no number {name!r}, which is needed "
                    "to go on; the file was changed, so remove it or give another path"
                )


def load(path: str | os.PathLike[str]) -> BaseRanker:
    """Read a model that `save` wrote; nothing in the file is executed.

    >>> import tempfile, os
    >>> from precede import RankBoost, load
    >>> model = RankBoost(n_estimators=5).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.json"))
    ...     load(os.path.join(folder, "model.json")).predict([[2.0]]) == model.predict([[2.0]])
    array([ True])
    """
    import precede  # noqa: PLC0415  (circular)
    from precede.estimator.base import BaseRanker  # noqa: PLC0415  (circular)

    fields = read_model(path)
    name = fields.get("estimator")
    if isinstance(name, str) and name in dir(precede.algorithms):
        getattr(precede.algorithms, name)  # imports the module that defines it
    known = {cls.__name__: cls for cls in _subclasses(BaseRanker) if cls.__name__[0] != "_"}
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"{path} holds an estimator {shown(name)} that is not known here; import the module "
            f"that defines it first (known: {', '.join(sorted(known))})"
        )
    estimator = known[name]()
    try:
        _fill_estimator(estimator, fields)
    except ValueError as error:
        raise ValueError(f"{path} is not a usable model: {error}") from error
    left_out = fields.get("parameters_left_out")
    if left_out:
        warnings.warn(
            f"{path} could not store {', '.join(left_out)}; scores are unaffected, but "
            "set them before fitting again",
            stacklevel=2,
        )
    return estimator


def _fill_estimator(estimator: BaseRanker, fields: dict[str, Any]) -> None:
    """Set the parameters and the fitted attributes from the fields of a file."""
    known = estimator.get_params(deep=False)
    parameters = required_field(fields, "parameters", dict)
    for key, value in parameters.items():
        if not _is_plain(value):
            raise ValueError(f"the parameter {shown(key)} is {shown(value)}")
    read = {key: _decode_parameter(value) for key, value in parameters.items() if key in known}
    estimator.set_params(**read)
    count_jobs(estimator.n_jobs)
    check_integer("bags", estimator._n_bags, least=1)
    restore_model(estimator, fields)
    left_out = fields.get("parameters_left_out") or []
    if not isinstance(left_out, list) or not all(isinstance(name, str) for name in left_out):
        raise ValueError("the parameters left out of the model are not a list of names")


def _subclasses(cls: type[BaseRanker]) -> Iterator[type[BaseRanker]]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def required_field(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Return a field of a model file; raise ValueError unless it has the given type."""
    value = fields.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"the model file has no {name!r}, or it is not a {kind.__name__}")
    return value


def saved_parameters(estimator: BaseRanker) -> dict[str, Any]:
    """Return the parameters that JSON can hold, and the names of the others.

    >>> from precede import BaseRanker
    >>> saved_parameters(BaseRanker())
    {'parameters': {}, 'parameters_left_out': []}
    """
    parameters = estimator.get_params(deep=False)
    named = {name: _encode_parameter(value) for name, value in parameters.items()}
    held = {name: plain(value) for name, value in named.items() if _is_plain(value)}
    return {
        "parameters": held,
        "parameters_left_out": [name for name in parameters if name not in held],
    }


def described_parameters(estimator: BaseRanker) -> dict[str, Any]:
    """Return the parameters that can change a model, as JSON; see `describe`.

    >>> from precede import RankBoost, Columns, Features
    >>> model = RankBoost(weak_rankers=Columns() | Features())
    >>> [each["$is"] for each in described_parameters(model)["weak_rankers"]["families"]]
    ['precede.weak_rankers.columns.Columns', 'precede.weak_rankers.columns.Features']
    """
    parameters = estimator.get_params(deep=False)
    parameters.pop("callbacks", None)
    return {name: plain(describe(_encode_parameter(value))) for name, value in parameters.items()}


def describe(value: Any, depth: int = 8) -> Any:
    """Describe a value in JSON types: functions and classes by name, objects by attributes.

    >>> describe([max, 2])
    [{'$is': 'builtins.max'}, 2]
    >>> describe(partial(max, 2))["args"]
    (2,)
    """
    if _is_plain(value):
        return value
    if depth == 0:
        return {"$is": _full_name(type(value))}
    if isinstance(value, dict):
        return [[str(key), describe(each, depth - 1)] for key, each in value.items()]
    if isinstance(value, list | tuple | np.ndarray):
        return [describe(each, depth - 1) for each in value]
    if hasattr(value, "__qualname__"):  # a function or a class
        return {"$is": _full_name(value)}
    if hasattr(value, "get_params"):
        parts = value.get_params(deep=False)
    elif isinstance(value, partial):
        parts = {"args": value.args, "func": value.func, "keywords": value.keywords}
    else:
        parts = getattr(value, "__dict__", {})
    return {"$is": _full_name(type(value))} | {
        str(name): describe(part, depth - 1) for name, part in sorted(parts.items())
    }


def _full_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


@cache
def _serializable_classes() -> dict[str, type]:
    """Return the classes that are saved by their arguments; loading creates no others."""
    from precede.risks.lambdarank import RankWeight  # noqa: PLC0415  (slow import)
    from precede.weak_rankers.tree_grower import Trees  # noqa: PLC0415  (slow import)

    classes = (
        RankWeight, Exponential, Logistic, Hinge, SquaredHinge, SmoothedHinge, Linear, Power, Exp,
        Stumps, Trees,
    )  # fmt: skip
    return {cls.__name__: cls for cls in classes}


def _encode_parameter(value: Any) -> Any:
    """Return a parameter in JSON types, if possible; `_decode_parameter` is the inverse.

    A family of weak rankers with default arguments becomes its name, an object of a known class its
    arguments, and a dict with keys other than text a list.

    >>> _encode_parameter({0: 1})
    {'$items': [[0, 1]]}
    """
    if isinstance(value, dict) and not all(isinstance(k, str) and k[:1] != "$" for k in value):
        return {"$items": [[key, each] for key, each in value.items()]}
    name = family_name(value)
    cls = type(value)
    if name or _serializable_classes().get(cls.__name__) is not cls:
        return name or value
    names = signature(cls).parameters
    if not vars(value).keys() >= names.keys():
        return value
    arguments = {each: getattr(value, each) for each in names}
    if not _is_plain(arguments) or cls(**arguments) != value:
        return value
    return {"$class": cls.__name__, "arguments": arguments}


def _decode_parameter(value: Any) -> Any:
    """Return the parameter that `_encode_parameter` wrote.

    >>> from precede import RankWeight
    >>> _decode_parameter(_encode_parameter(RankWeight(k=10, blend=0.5)))
    RankWeight(gain='exp', discount='log', k=10, blend=0.5, by_ideal=True, floor=0.0)
    """
    if not isinstance(value, dict) or not {"$items", "$class"} & value.keys():
        return value
    try:
        if "$items" in value:
            return {_check_key(key): each for key, each in value["$items"]}
        return _serializable_classes()[value["$class"]](**value["arguments"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the parameter {shown(value)} cannot be read") from error


def _check_key(key: Any) -> Any:
    if not isinstance(key, str | int | float):
        raise TypeError(f"{key!r} is not a column")
    return key


def _is_plain(value: Any, depth: int = 8) -> bool:
    if isinstance(value, dict):
        named = all(isinstance(name, str) for name in value)
        return named and _is_plain([*value.values()], depth)
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    return value is None or isinstance(value, str | int | float | bool | np.number | np.bool_)


def read_history(rounds: list[Any]) -> History:
    """Return the history of a model file, with NaN and infinities decoded."""
    if not all(isinstance(each, dict) for each in rounds):
        raise ValueError("the history of the model is not a list of rounds")
    return History({name: _decode_number(value) for name, value in each.items()} for each in rounds)


def _fits_int64(value: Any) -> bool:
    """Whether a value is an integer that NumPy can hold."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _decode_number(value: Any) -> Any:
    """Decode a number of the history that `plain` encoded."""
    if value is None or isinstance(value, float) or _fits_int64(value):
        return value
    return spelled(value, "a value in the history of the model")
