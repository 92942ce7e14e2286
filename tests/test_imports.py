"""Lazy imports: a package loads its modules when their names are first used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import precede


def test_an_unknown_name_is_an_attribute_error_that_names_the_package():
    with pytest.raises(AttributeError, match=r"precede.files.* attribute.* nothing"):
        precede.files.nothing  # noqa: B018


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
    r"precede\.(.*\.device_\w+|boosting\.(bagging|holdout|selection)|metrics\..*"
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


def test_documented_paths_exist():
    """In a fresh interpreter, since imports of other tests would add attributes."""
    root = Path(precede.__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    paths = sorted(set(re.findall(r"\bprecede\.[a-z]\w*(?:\.[A-Za-z]\w*)+", text)), reverse=True)
    assert {"precede.risks.listwise.ListRisk", "precede.algorithms.tuning"} <= {*paths}
    code = f"""
from pkgutil import resolve_name
for path in {paths!r}:
    resolve_name(path)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
