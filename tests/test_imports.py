"""Lazy imports: what a new interpreter has loaded after an import, a name or a fit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import precede

OPTIONAL = {"matplotlib", "dask", "lightgbm", "jinja2", "typer", "pandas"}


def loaded_by(code):
    """Return the names of the modules that a new interpreter has loaded after running the code."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_an_unknown_name_is_an_attribute_error_that_names_the_package():
    with pytest.raises(AttributeError, match=r"precede.files.* attribute.* nothing"):
        precede.files.nothing  # noqa: B018


def test_import_is_light():
    """Packages load none of their modules before a name is used."""
    packages = [f"precede.{path.parent.name}" for path in Path(precede.__path__[0]).glob("*/*.pyi")]
    assert {"precede.algorithms", "precede.files", "precede.metrics"} < set(packages)
    loaded = loaded_by(f"import precede, {', '.join(packages)}")
    assert not loaded & (OPTIONAL | {"numba", "sklearn", "scipy"})
    assert [name for name in loaded if name.startswith(tuple(f"{p}." for p in packages))] == []


# Modules that most fits do not need.
RARELY = (
    r"precede\.((bounds|cli|dask|explain|exports|metrics|plots|report|scorecard)\..+"
    r"|engine\.(cuda|tree_\w+)|boosting\.(bagging|holdout|selection)"
    r"|files\.(arrow|data|letor|reading|text|trec|writing)"
    r"|weak_rankers\.(candidates|interactions|regressors|tree_grower)"
    r"|risks\.(by_cell|by_order|by_pair|lambdarank|listwise|mixture|pair_sums|pair_weights|splits))"
    r"|sklearn\.model_selection"
)


@pytest.mark.parametrize("fit", ["", "(n_estimators=1).fit([[0.0], [1.0]], [0, 1])"])
def test_rarely_needed_modules_are_not_loaded(fit):
    loaded = loaded_by(f"import precede; precede.RankBoost{fit}")
    assert "precede.algorithms.rankboost" in loaded
    assert [name for name in loaded if re.fullmatch(RARELY, name)] == []
    assert not loaded & (OPTIONAL - {"pandas"})


def test_evaluation_loads_nothing_heavy_and_compiles_nothing():
    loaded = loaded_by(
        "import precede.inference, precede.metrics.ranked as kernels; precede.bounds.Bound\n"
        "compiled = [v for v in vars(kernels).values() if getattr(v, 'signatures', None)]\n"
        "assert not compiled, compiled"
    )
    assert not loaded & {*OPTIONAL, "scipy.stats"}


def test_a_model_loads_where_nothing_else_has_been_imported():
    path = Path(__file__).parent / "models" / "rankboost_v1.json"
    loaded_by(f"from precede import load; assert str(load({str(path)!r})).startswith('RankBoost(')")


def test_documented_paths_exist():
    """In a new interpreter, since imports of other tests would add attributes."""
    root = Path(precede.__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    paths = sorted(set(re.findall(r"\bprecede\.[a-z]\w*(?:\.[A-Za-z]\w*)+", text)), reverse=True)
    assert {"precede.risks.listwise.ListRisk", "precede.algorithms.tuning"} <= {*paths}
    loaded_by(f"from pkgutil import resolve_name\nfor path in {paths!r}: resolve_name(path)")
