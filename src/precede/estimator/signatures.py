"""Signatures of estimators: parameters declared as attributes, and `fit`.

Errors explain the counterparts of parameters, arguments and attributes of other libraries.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterable, Mapping
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from typing import TYPE_CHECKING, TypeVar, cast

from precede.boosting.callbacks import fitted_attributes

if TYPE_CHECKING:
    from precede.estimator.base import BaseRanker

Decorated = TypeVar("Decorated", bound=Callable[..., object])

_PARAMETER = "it is a parameter of the estimator: give it when the estimator is made"
# Arguments of `fit` in other libraries, and their counterparts.
FIT_ARGUMENTS = {
    "callbacks": _PARAMETER,
    "categorical_feature": "BoostedRanker has the parameter categorical_features",
    "early_stopping_rounds": _PARAMETER,
    "eval_at": "cut-offs are part of a metric: eval_metric=['ndcg@5', 'ndcg@10'] of the estimator",
    "eval_metric": _PARAMETER,
    "eval_names": "evaluation sets are called valid_0, valid_1, ... in evals_result_",
    "eval_sample_weight": "give eval_set=(X, Judgments(y, qid, weight=...))",
    "init_score": "this estimator has no offset",
    "feature_name": "give X as a data frame, whose columns have names",
    "base_margin": "it is called init_score here",
    "group_id": "queries are given as qid, or by their sizes as group",
    "groups": "queries are given as qid, or by their sizes as group",
    "init_model": "set warm_start=True and fit again to continue from a model",
    "sample_weight_eval_set": "it is called eval_sample_weight here",
    "verbose": _PARAMETER,
}
# Names of the parameters in LightGBM, XGBoost and CatBoost.
OTHER_NAMES = {
    "n_estimators": "iterations n_iter num_boost_round num_iterations num_rounds num_trees",
    "learning_rate": "eta shrinkage_rate",
    "num_leaves": "max_leaf_nodes max_leaves",
    "max_depth": "depth",
    "min_child_samples": "min_data_in_leaf min_samples_leaf",
    "min_split_gain": "gamma min_gain_to_split",
    "reg_lambda": "l2_leaf_reg l2_regularization lambda_l2",
    "reg_alpha": "lambda_l1",
    "subsample": "bagging_fraction",
    "max_features": "colsample_bytree feature_fraction rsm",
    "max_features_by_split": "colsample_bynode feature_fraction_bynode",
    "max_bins": "border_count max_bin",
    "categorical_features": "cat_features categorical_feature",
    "monotone_constraints": "monotonic_cst",
    "loss": "loss_function objective",
    "eval_metric": "metric",
    "early_stopping_rounds": "early_stopping_round n_iter_no_change",
    "random_state": "random_seed seed",
    "n_jobs": "nthread num_threads thread_count",
    "verbose": "verbosity",
}

# Parameters of these libraries without a counterpart, and what to use instead.
WITHOUT_COUNTERPART = {
    "bagging_freq": "with subsample rows are drawn for every tree",
    "boosting": "",
    "boosting_type": "",
    "booster": "",
    "bootstrap_type": "subsample draws rows without replacement",
    "label_gain": "gains of grades belong to rank_weight=RankWeight(gain=...)",
    "lambdarank_truncation_level": "weights that end at rank 10 are rank_weight='ndcg@10'",
    "subsample_for_bin": "",
    "subsample_freq": "with subsample rows are drawn for every tree",
    "tree_method": "",
}

# Attributes of LightGBM, XGBoost and CatBoost, and their counterparts.
OTHER_ATTRIBUTES = {
    "booster_": "the fitted model is ensemble_",
    "dump_model": "save(path) writes JSON",
    "feature_name_": "the names are feature_names_in_",
    "feature_names_": "the names are feature_names_in_",
    "get_booster": "the fitted model is ensemble_",
    "n_features_": "the number is n_features_in_",
    "n_iter_": "the number of rounds is n_estimators_",
    "num_trees": "the number of rounds is n_estimators_",
    "save_model": "save(path) writes the model, and precede.load reads it",
}


def unknown_parameter(estimator: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown parameter, with a suggestion.

    >>> unknown_parameter("RankBoost", "eta", ["learning_rate", "step"])
    "RankBoost has no parameter 'eta'; it is called learning_rate here"
    >>> unknown_parameter("RankBoost", "learningrate", ["learning_rate", "step"])
    "RankBoost has no parameter 'learningrate'; did you mean learning_rate?"
    >>> unknown_parameter("BoostedRanker", "subsample_for_bin", ["subsample_by"])
    "BoostedRanker has no parameter 'subsample_for_bin'; leave it out"
    >>> unknown_parameter("RankBoost", "x", ["learning_rate", "step"])
    "RankBoost has no parameter 'x'; it has learning_rate, step"
    """
    known = list(known)
    equivalent = [own for own in known if name in OTHER_NAMES.get(own, "").split()]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    remedy = f"it has {', '.join(known)}"
    if name in WITHOUT_COUNTERPART:
        instead = WITHOUT_COUNTERPART[name]
        # The estimator may lack the parameter that the advice mentions.
        applies = any(own in instead for own in known if own in ("rank_weight", "subsample"))
        remedy = f"leave it out: {instead}" if applies else "leave it out"
    elif equivalent:
        remedy = f"it is called {equivalent[0]} here"
    elif close:
        remedy = f"did you mean {close[0]}?"
    return f"{estimator} has no parameter {name!r}; {remedy}"


def refuse_other_callbacks(callbacks: Iterable[object]) -> None:
    """Raise ValueError for callbacks of other libraries."""
    for callback in callbacks:
        library = type(callback).__module__.split(".")[0]
        if library in ("catboost", "lightgbm", "xgboost"):
            raise ValueError(
                f"callbacks holds {type(callback).__name__} of {library}, which is not a "
                "callback for precede: use early_stopping_rounds to stop early, verbose=1 to see "
                "progress, evals_result_ for what was recorded, or a function of a Progress"
            )


def refuse_fit_arguments(named: Mapping[str, object], accepted: Container[str]) -> None:
    """Raise TypeError for arguments of `fit` that other libraries have."""
    for name in sorted(named.keys() & FIT_ARGUMENTS.keys()):
        if name not in accepted:
            if name == "callbacks" and isinstance(callbacks := named[name], list | tuple):
                refuse_other_callbacks(callbacks)
            raise TypeError(f"fit has no argument {name}; {FIT_ARGUMENTS[name]}")


def declare_parameters(cls: type, root: type) -> None:
    """Give a class an `__init__` that assigns its parameters, if it has none of its own.

    The parameters are the annotated attributes with defaults of the class and of its bases below
    `root`.
    """
    parameters = _declared_parameters(cls, root)
    if "__init__" not in vars(cls) and parameters.keys() & vars(cls).keys():
        cls.__init__ = _make_init(parameters)  # type: ignore[misc]


def _declared_parameters(cls: type, root: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, those of the class first."""
    found: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__[: cls.__mro__.index(root)]):
        kinds = get_annotations(base) if issubclass(base, root) else {}
        own = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=vars(base)[name], annotation=kind)
            for name, kind in kinds.items()
            if name in vars(base) and "ClassVar" not in str(kind)
        }
        found = {name: each for name, each in own.items() if name not in found} | found | own
    return found


def _make_init(parameters: dict[str, Parameter]) -> Callable[..., None]:
    """Return an `__init__` that assigns parameters, with the signature that scikit-learn reads."""
    defaults = {name: each.default for name, each in parameters.items()}

    def init(self: object, **given: object) -> None:
        for name in given.keys() - defaults.keys():
            raise TypeError(unknown_parameter(type(self).__name__, name, defaults))
        self.__dict__.update(defaults | given)

    named_self = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    init.__signature__ = Signature([named_self, *parameters.values()])  # type: ignore[attr-defined]
    return init


def restore_on_failure(fit: Decorated) -> Decorated:
    """Decorate `fit` to restore the previous fitted attributes if it raises."""
    accepted = signature(fit).parameters

    @wraps(fit)
    def wrapped(self: BaseRanker, *arguments: object, **named: object) -> object:
        if named.keys() - accepted.keys():
            refuse_fit_arguments(named, accepted)
        before = fitted_attributes(self)
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            for name in fitted_attributes(self):
                delattr(self, name)
            self.__dict__.update(before)
            raise

    return cast(Decorated, wrapped)
