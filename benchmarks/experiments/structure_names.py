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
    "tol": "tolerance",
    "weak_rankers": "rankers",
}


def named(name, module="precede"):
    """A function or class of the package, by either name."""
    package = import_module(module)
    return getattr(package, name if hasattr(package, name) else FORMER.get(name, name))


def call(name, *values, module="precede", **given):
    """Call a function or class of the package with parameters of either name."""
    called = named(name, module)
    known = inspect.signature(called).parameters
    return called(*values, **{key if key in known else FORMER.get(key, key): value
                              for key, value in given.items()})  # fmt: skip
