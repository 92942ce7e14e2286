"""The oldest supported versions: the lower bounds in pyproject.toml, as constraints for pip.

`make oldest` runs the suite with them, `tests/engine/test_compatibility.py` a few calls.
"""

import re
from pathlib import Path

# Tools of the tests and of the build; nobody needs an old one.
TOOLS = {
    "catboost", "hatchling", "hypothesis", "ipykernel", "ir-measures", "jupytext", "lightgbm",
    "mkdocs-material", "mkdocstrings", "mypy", "nbconvert", "playwright", "psutil", "pytest",
    "pytest-timeout", "pytest-xdist", "ranx", "ruff", "xgboost-cpu",
}  # fmt: skip


def pins(*, required=False):
    """One ``name==version`` for each package that the library works with, or that it requires."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    if required:
        text = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)[1]
    bounds = re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)[",]', text)
    return sorted({f"{name}=={least}" for name, least in bounds if name not in TOOLS})


if __name__ == "__main__":
    print(*pins(), sep="\n")
