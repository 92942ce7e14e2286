"""Names of a package that are imported when they are first used.

``import precede`` and the help of the command line must not wait for numba.
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
    """Give ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    `modules` maps the modules of the package to the names that they define, in one string. Every
    module of the package is an attribute of it as well, imported when it is used.

    >>> get, names, _ = lazily("precede", {"judgments": "Judgments"})
    >>> get("Judgments").__name__, names()
    ('Judgments', ['Judgments'])
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name[:1] != "_" and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(homes), sorted(homes)
