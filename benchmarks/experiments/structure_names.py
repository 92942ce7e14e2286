"""Names of the package that have two spellings, found in the version that is imported."""

import inspect
from importlib import import_module

# Name: what it was called before.
FORMER = {
    "ConvexRiskRanker": "ConvexRisk",
    "MultilabelRanker": "MultilabelBoost",
    "SmoothMarginRanker": "SmoothMargin",
    "DaskConvexRiskRanker": "DaskConvexRisk",
    "DaskSmoothMarginRanker": "DaskSmoothMargin",
    "to_layout": "arrange",
    "tol": "tolerance",
    "weak_rankers": "rankers",
}


def of(owner, name):
    """An attribute, by either name."""
    return getattr(owner, name if hasattr(owner, name) else FORMER.get(name, name))


def named(name, module="precede"):
    """A function or class of the package, by either name."""
    return of(import_module(module), name)


def call(name, *values, module="precede", **given):
    """Call a function or class of the package with parameters of either name."""
    called = named(name, module)
    known = inspect.signature(called).parameters
    return called(*values, **{key if key in known else FORMER.get(key, key): value
                              for key, value in given.items()})  # fmt: skip
