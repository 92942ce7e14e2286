"""Lazy imports: a package loads its modules when their names are first used.

``import precede`` and ``precede --help`` must not wait for numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lazily"]


def lazily(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    `modules` maps each module of the package to the names it exports, separated by spaces. The
    modules themselves are attributes of the package too.

    >>> get, names, _ = lazily("precede", {"judgments": "Judgments"})
    >>> get("Judgments").__name__, names()
    ('Judgments', ['Judgments'])
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in module_of:
            return getattr(import_module(f"{package}.{module_of[name]}"), name)
        if name[:1] != "_" and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(module_of), sorted(module_of)
