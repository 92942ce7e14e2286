"""Examples in docstrings, README and documentation are true."""

import doctest
import importlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "precede"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if path.stem != "__init__"
)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    failed, _ = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_examples_of_the_pages(path):
    failed, _ = doctest.testfile(
        str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.stem,
)  # fmt: skip
def test_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.filterwarnings("ignore::precede.boost.SmoothedStepWarning")
def test_the_readme_runs(tmp_path, monkeypatch):
    """The code blocks of the README, with names for its data, one after the other."""
    import numpy as np
    from sklearn.model_selection import GroupKFold, cross_validate

    from precede.datasets import search_results

    sample = search_results(30, features=6, informative=3, per_query=15, random_state=0)
    names = {
        "X": sample.X, "y": sample.y, "qid": sample.qid, "grade": sample.y,
        "pairs": [(0, 1)], "weight": np.ones(len(sample.y)),
        "scores": sample.truth, "scores_a": sample.truth, "scores_b": sample.X[:, 0],
        "GroupKFold": GroupKFold, "cross_validate": cross_validate,
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^( *)```python\n(.*?)^ *```",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.S | re.M,
    )
    assert len(blocks) == 3
    for indent, block in blocks:
        code = "\n".join(line.removeprefix(indent) for line in block.splitlines())
        if "auc(" in code:
            names["y"] = (sample.y > 0).astype(int)
        exec(compile(code, "README.md", "exec"), names)


def test_the_demo_tells_and_saves(tmp_path, capsys):
    from precede import load
    from precede.demo import main

    path = main(tmp_path / "demo", rounds=5)
    out = capsys.readouterr().out
    assert "RB-D" in out
    assert "AUC" in out
    assert "the same to the bit" in re.sub(r"\s+", " ", out)
    assert load(path).n_estimators_ == 5
