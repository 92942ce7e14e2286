"""Names of a package that are imported when they are first used.

``import precede`` and the help of the command line must not wait for numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Give ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    `modules` maps the modules of the package to the names that they define, in one string.

    >>> get, names, _ = lazily("precede", {"judgments": "Judgments"})
    >>> get("Judgments").__name__, names()
    ('Judgments', ['Judgments'])
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get, lambda: sorted(homes), sorted(homes)
