"""Lazy imports: a package loads its modules when their names are first used."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import precede
from precede.engine.lazy import lazily


def test_names_are_listed_and_found():
    get, names, every = lazily("precede", {"judgments": "Judgments", "losses": "Exp"})
    from precede import Judgments

    assert get("Judgments") is Judgments
    assert names() == every == ["Exp", "Judgments"]


def test_an_unknown_name_is_an_attribute_error_that_names_the_package():
    get, _, _ = lazily("precede.files", {})
    with pytest.raises(AttributeError, match=r"'precede.files' has no attribute 'nothing'"):
        get("nothing")


@pytest.mark.parametrize(
    "package",
    [
        "algorithms",
        "boosting",
        "bounds",
        "dask",
        "explain",
        "files",
        "metrics",
        "weak_rankers",
        "risks",
    ],
)
def test_a_package_loads_none_of_its_modules_before_a_name_is_used(package):
    code = f"""
import sys, precede.{package}
print(sorted(name for name in sys.modules if name.startswith("precede.{package}.")))
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False"]


# Modules that most fits do not need.
RARELY = (
    r"precede\.(.*\.device_\w+|boosting\.(bagging|checkpoint|folds|resampling|selection)|metrics\..*"
    r"|explain\..+|files\.(arrow|blocks|letor|tables|trec)|plots\..*|report.*|dask.*"
    r"|weak_rankers\.tree_family"
    r"|risks\.(hinge|logistic|listwise|rank|short|smooth|sweeps|top)\w*)"
    r"|sklearn\.model_selection|matplotlib|jinja2|typer"
)


@pytest.mark.parametrize("fit", ["", "(n_estimators=1).fit([[0.0], [1.0]], [0, 1])"])
def test_rarely_needed_modules_are_not_loaded(fit):
    code = f"import sys, precede; precede.RankBoost{fit}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "precede.algorithms.rankboost" in loaded
    assert [name for name in loaded if re.fullmatch(RARELY, name)] == []


def test_documented_paths_exist_after_import_precede():
    """In a fresh interpreter, since imports of other tests would add attributes."""
    root = Path(precede.__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    paths = sorted(set(re.findall(r"\bprecede\.[a-z]\w*(?:\.[A-Za-z]\w*)+", text)), reverse=True)
    assert {"precede.risks.listwise.ListRisk", "precede.algorithms.tuning"} <= {*paths}
    code = f"""
import precede
from functools import reduce
for path in {paths!r}:
    reduce(getattr, path.split(".")[1:], precede)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


LAZY = sorted(
    path
    for path in Path(precede.__file__).parent.glob("*/__init__.py")
    if "lazily(" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", LAZY, ids=lambda path: path.parent.name)
def test_names_for_type_checkers_are_those_that_are_loaded(path):
    """A package lists its names twice: for type checkers and for `lazily`."""
    module = import_module(f"precede.{path.parent.name}")
    blocks = ast.parse(path.read_text(encoding="utf-8")).body
    (hints,) = [node for node in blocks if isinstance(node, ast.If)]
    imports = [node for node in hints.body if isinstance(node, ast.ImportFrom)]
    written = {alias.asname: node.module for node in imports for alias in node.names}
    assert sorted(written) == module.__all__ == dir(module)
    for name, home in written.items():
        assert getattr(module, name) is getattr(import_module(home), name)
