"""Examples in docstrings, README and documentation are true."""

import doctest
import importlib
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "precede"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if path.stem != "__init__"
)


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


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
    "path",
    [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), ROOT / "benchmarks" / "README.md",
     *sorted(ROOT.glob("benchmarks/results/*.md"))],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)  # fmt: skip
def test_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_every_page_is_in_the_navigation():
    """Results are in it by a pattern (docs/hooks.py), and every name in it is a page."""
    navigation = re.search(r"^nav:\n(.*?)^\S", text_of("mkdocs.yml"), re.S | re.M)[1]
    listed = re.findall(r"([\w/]+\.md)", navigation)
    from_elsewhere = {"benchmarks.md", "changes.md", "contributing.md"}
    assert len(listed) == len(set(listed))
    assert set(listed) - from_elsewhere == {path.name for path in ROOT.glob("docs/*.md")}


def test_names_on_the_page_of_the_mathematics_are_in_the_code():
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    words = set(re.findall(r"\w+", code))
    names = re.findall(r"`\.?([A-Za-z_][\w.]*)[^`]*`", text_of("docs/maths.md"))
    assert len(names) > 50
    for name in names:
        assert set(name.split(".")) <= words, name


def test_every_estimator_has_its_mathematics():
    import precede
    from precede.estimator import BaseRanker

    page = text_of("docs/maths.md")
    for name in precede.__all__:
        thing = getattr(precede, name)
        if isinstance(thing, type) and issubclass(thing, BaseRanker):
            assert f"`{name}`" in page, f"{name} is not on docs/maths.md"


def test_files_shown_on_pages_are_those_that_run():
    shown = re.findall(r'--8<-- "(.*?)"', "".join(map(text_of, ROOT.glob("docs/*.md"))))
    assert {"examples/add_a_loss.py", "examples/add_a_ranker.py"} < set(shown)
    run = {f"examples/{path.name}" for path in ROOT.glob("examples/*.py")}
    assert set(shown) <= run


@pytest.mark.skipif(
    importlib.util.find_spec("material") is None,
    reason="needs mkdocs-material: pip install -e .[docs], or make docs",
)
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    names = {page.relative_to(tmp_path).with_suffix("").as_posix() for page in pages}
    assert {path.stem for path in ROOT.glob("docs/*.md")} <= names
    assert {f"results/{path.stem}" for path in ROOT.glob("benchmarks/results/*.md")} <= names
    fetched = re.compile(r"<(?:script|img|iframe)[^>]+src=\"?(?:https?:)?//|<link[^>]+(?:stylesheet"
                         r"|preconnect)[^>]+//|<link[^>]+//[^>]+stylesheet")  # fmt: skip
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not fetched.search(text), page
        assert "--8&lt;--" not in text, page
    # The files that pages show are on the page.
    assert "SmoothHinge" in (tmp_path / "extend.html").read_text(encoding="utf-8")


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
