"""Examples in docstrings, README and documentation are true."""

import ast
import doctest
import functools
import importlib
import importlib.util
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import precede
from precede.engine.compatibility import has_callbacks

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
    if path.stem == "interoperability" and not has_callbacks:
        pytest.skip("callbacks came with scikit-learn 1.9")
    failed, _ = doctest.testfile(
        str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0


# MLflow's own warnings are not ours; tests/test_examples.py runs that one.
EXAMPLES = sorted({*ROOT.glob("examples/*.py")} - {ROOT / "examples" / "log_with_mlflow.py"})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
def test_examples_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/gallery/*.py")), ids=lambda p: p.stem)
def test_notebooks_of_the_gallery_run(path, tmp_path, pytestconfig):
    """`make docs` executes them cell by cell; here they are plain scripts."""
    warned = "error" if "error" in pytestconfig.getini("filterwarnings") else "default"
    done = subprocess.run(
        [sys.executable, "-W", warned, path], check=False, capture_output=True, text=True,
        cwd=tmp_path, env=os.environ | {"MPLBACKEND": "agg"}, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_gallery_holds_its_seven_notebooks():
    assert {path.stem for path in ROOT.glob("docs/gallery/*.py")} == {
        "credit", "leaderboard", "migrating_from_lightgbm", "preferences", "reading_a_model",
        "recommendations", "search",
    }  # fmt: skip


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
    from_elsewhere = {"benchmarks.md", "coverage.md", "changes.md", "contributing.md"}
    assert len(listed) == len(set(listed))
    assert set(listed) - from_elsewhere == {path.name for path in ROOT.glob("docs/*.md")}


@pytest.mark.parametrize(("page", "least"), [("maths", 50), ("architecture", 30)])
def test_names_on_a_page_are_in_the_code(page, least):
    paths = [*SOURCE.rglob("*.py"), ROOT / "tests" / "test_conventions.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    words = set(re.findall(r"\w+", code))
    text = re.sub(r"```.*?```", "", text_of(f"docs/{page}.md"), flags=re.S)
    names = re.findall(r"`\.?([A-Za-z_][\w.]*)(?![\w./*])[^`/]*`", text)
    assert len(names) > least
    for name in names:
        assert set(name.split(".")) <= words, name


def test_every_estimator_has_its_mathematics():
    import precede
    from precede.estimator import BaseRanker

    page = text_of("docs/maths.md")
    for name in precede.__all__:
        thing = getattr(precede, name)
        is_algorithm = isinstance(thing, type) and issubclass(thing, BaseRanker)
        if is_algorithm and thing is not BaseRanker:
            assert f"`{name}`" in page, f"{name} is not on docs/maths.md"


# -- from the papers to the code ----------------------------------------------------------------

COLUMNS = ["item", "name in the library", "test", "results page"]
PAPERS = (
    "Rudin & Schapire 2009", "Rudin 2005", "Connamacher et al. 2019",
    "Clémençon, Lugosi & Vayatis 2005", "Zheng et al. 2007",
)  # fmt: skip


def tables_of_papers():
    """The rows of docs/papers.md, by paper."""
    for part in text_of("docs/papers.md").split("\n## ")[1:]:
        title, *lines = part.splitlines()
        yield title, [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                      for line in lines if line.startswith("|")]  # fmt: skip


def member(owner, name):
    """What `owner.name` is: an attribute, a module, or what instances have (then None)."""
    if hasattr(owner, name):
        return getattr(owner, name)
    if inspect.ismodule(owner):
        return importlib.import_module(f"{owner.__name__}.{name}")
    ours = [each for each in inspect.getmro(owner) if each.__module__.startswith("precede")]
    source = "".join(map(inspect.getsource, ours))  # a fit sets it, or it is a field
    assert re.search(rf"(self|model)\.{name}\b|^    {name}: ", source, re.M), f"no {name}"
    return None


def resolved(node):
    """What an expression such as `bounds.Bound`, `Class.method` or `Class(parameter=1)` names."""
    import precede

    if isinstance(node, ast.Name):
        return precede if node.id == "precede" else member(precede, node.id)
    if isinstance(node, ast.Attribute):
        return member(resolved(node.value), node.attr)
    if isinstance(node, ast.Subscript):  # a column of a history
        return resolved(node.value)
    if isinstance(node, ast.Call):
        given = {keyword.arg: None for keyword in node.keywords}
        inspect.signature(resolved(node.func)).bind_partial(*node.args, **given)
        return None
    raise ValueError("use a name, or a name with parameters")


def fault_of_name(name):
    if "/" in name:
        return None if (ROOT / name).exists() else f"{name}: no such file"
    try:
        resolved(ast.parse(name.replace("...", "0"), mode="eval").body)
    except Exception as error:
        return f"{name}: {error}"
    return None


def fault_of_test(name):
    path, _, function = name.partition("::")
    if not (ROOT / path).is_file():
        return f"{name}: no such file"
    found = {getattr(node, "name", None) for node in ast.parse(text_of(path)).body}
    return None if not function or function.split("[")[0] in found else f"{name}: no such test"


def faults_of_row(row):
    if len(row) != 4 or not row[0]:
        return [f"{row}: a row has the columns {COLUMNS}"]
    item, names, tests, results = row
    quoted = re.findall(r"`([^`]+)`", names)
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", results)
    cited = re.findall(r"tests/[^\s`,]+", tests)
    found = [fault_of_name(name) for name in quoted] + [fault_of_test(name) for name in cited]
    found += [f"{link}: no such page" for link in links if not (ROOT / "docs" / link).exists()]
    if "not implemented" in names:
        if not re.search(r"not implemented: \S+ \S+", names):
            found.append("not implemented: say why")
    elif not quoted:
        found.append('no name in the library, and no "not implemented: reason"')
    elif not cited and not links:
        found.append("neither a test nor a page")
    return [f"{item}: {fault}" for fault in found if fault]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_paper_holds_is_where_the_page_says(paper):
    (header, rule, *rows), *others = [rows for title, rows in tables_of_papers() if title == paper]
    assert not others
    assert (header, {*rule}) == (COLUMNS, {"---"})
    assert rows
    assert [fault for row in rows for fault in faults_of_row(row)] == []


def test_no_paper_is_forgotten():
    assert [title for title, _ in tables_of_papers()] == list(PAPERS)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (["a", "`RankBoos`", "`tests/test_docs.py`", ""], "RankBoos"),
        (["a", "`RankBoost(stepp=1)`", "`tests/test_docs.py`", ""], "stepp"),
        (["a", "`bounds.nothing_bound`", "`tests/test_docs.py`", ""], "nothing_bound"),
        (["a", "`ConvexRiskRanker.gapp_`", "`tests/test_docs.py`", ""], "no gapp_"),
        (["a", "`RankBoost`", "`tests/test_nothing.py::test_a`", ""], "no such file"),
        (["a", "`RankBoost`", "`tests/test_docs.py::test_a`", ""], "no such test"),
        (["a", "`RankBoost`", "", "[a](../benchmarks/results/nothing.md)"], "no such page"),
        (["a", "`benchmarks/nothing.py`", "`tests/test_docs.py`", ""], "no such file"),
        (["a", "`RankBoost`", "", ""], "neither"),
        (["a", "not implemented", "", ""], "say why"),
        (["a", "", "", ""], "no name"),
        (["a", "`RankBoost`", ""], "columns"),
    ],
)
def test_faults_of_that_page_are_found(row, fault):
    (found,) = faults_of_row(row)
    assert fault in found


@pytest.mark.parametrize(
    "name",
    ["RankBoost", "precede.bounds.Bound", "bounds.margin_bound", "RankBoost.fit",
     "Judgments(pairs=...)", "ConvexRiskRanker.gap_", 'RankBoost.history_["risk"]',
     "algorithms.push.SmallSampleWarning",
     "RankBoost(step=\"bound\")", "benchmarks/experiments/rudin2005.py"],
)  # fmt: skip
def test_names_that_page_may_use(name):
    assert fault_of_name(name) is None


# -- pages of results -----------------------------------------------------------------------------

RESULTS = sorted(ROOT.glob("benchmarks/results/*.md"))


@pytest.fixture(scope="module")
def measure():
    return runpy.run_path(str(ROOT / "benchmarks" / "measure.py"))


def pages_written_by(script):
    """Names of the pages for which a script calls ``write_page(__file__, name, text)``."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "write_page":
            assert getattr(node.args[0], "id", "") == "__file__", script
            yield ast.literal_eval(node.args[1])


@functools.cache
def package_at(commit):
    """The digest of src/precede at a commit; None where git does not have the commit."""
    measure = runpy.run_path(str(ROOT / "benchmarks" / "measure.py"))
    try:
        with measure["source_at"](commit) as source:
            return measure["package_digest"](source / "precede")
    except (OSError, subprocess.CalledProcessError):
        return None


def fault_of_page(text, scripts, measure):
    """What shows that a page is not what its script wrote, or None."""
    seal = re.escape(measure["STAMP"]).replace(r"\{", "{").replace(r"\}", "}")
    fields = dict(
        script=r"(\S+)",
        commit="([0-9a-f]{7,}(?:-dirty)?|unknown)",
        code="([0-9a-f]{16})",
        # pages that were measured before versions were recorded know only when they were committed
        package="([0-9a-f]{16}(?:-and-earlier)?|unknown, text since [0-9a-f]{7})",
        text="([0-9a-f]{16})",
    )
    found = re.fullmatch(rf"(.*?)\n\n{seal.format(**fields)}\n", text, re.S)
    if not found:
        return "it does not end with the line of write_page"
    body, script, commit, code, package, digest = found.groups()
    if measure["digest"](body) != digest:
        return "its text was changed after it was written"
    known = None if package.startswith("unknown") else package_at(commit)
    if known and not package.startswith(known):
        return f"src/precede of commit {commit} is {known}, not {package}"
    if script not in scripts:
        return f"{script} does not write it"
    if measure["code_digest"](ROOT / script) != code:
        return f"{script} has changed since; run it again"
    return None


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_page_of_results_is_the_output_of_its_script(path, measure):
    scripts = [
        script.relative_to(ROOT).as_posix()
        for script in ROOT.glob("benchmarks/**/*.py")
        if path.name in pages_written_by(script)
    ]
    assert len(scripts) == 1
    fault = fault_of_page(path.read_text(encoding="utf-8"), scripts, measure)
    assert fault is None, f"{path.name}: {fault}"


def coverages(title):
    """Name, size and coverage of the intervals in a section of coverage.md."""
    text = text_of("benchmarks/results/coverage.md").split(f"\n## {title}")[1].split("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| (\d+) \| [\d.-]+ \| ([\d.]+) \|", text, re.M)
    return [(name, int(size), float(share)) for name, size, share in found]


def test_what_pages_say_about_coverage_is_what_was_measured():
    """`docs/inference.md` and `docs/metrics.md` give ranges, the page of results every number."""
    asymptotic, means = coverages("Asymptotic"), coverages("Means over queries")
    assert len(asymptotic) > 40
    assert all(94 <= share <= 98 for _, _, share in asymptotic)
    assert min(size for _, size, _ in asymptotic) == 20
    assert all(93 <= share <= 97 for _, size, share in means if size >= 20)
    few = [share for name, size, share in means if size <= 10 and "weighted" not in name]
    assert all(86 <= share <= 93 for share in few)
    assert all(share >= 99.5 for _, _, share in coverages("Bernstein"))
    sentences = " ".join((text_of("docs/inference.md") + text_of("docs/metrics.md")).split())
    for said in ("in 94 to 98 % of samples", "in 93 to 97 % from 20", "in 86 to 93 % below",
                 "in 93 to 97 % of simulated", "in 86 to 93 % ("):  # fmt: skip
        assert said in sentences


def test_pages_that_are_not_the_output_of_their_script_are_found(tmp_path):
    """The text changed, a digit of a table too; the line removed; the script changed or another."""
    measure = runpy.run_path(str(ROOT / "benchmarks" / "measure.py"))
    measure["write_page"].__globals__["RESULTS"] = tmp_path
    script = ROOT / "benchmarks" / "speed" / "push.py"
    measure["write_page"](script, "a.md", "# A\n\n| 1.5 |\n")
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert measure["read_page"]("a.md").rstrip() == "# A\n\n| 1.5 |"

    def fault(text, scripts=("benchmarks/speed/push.py",)):
        return fault_of_page(text, scripts, measure)

    assert fault(text) is None
    assert "text was changed" in fault(text.replace("1.5", "1.6"))
    assert "text was changed" in fault(text.replace("\n\n<!--", "\n\nmore\n\n<!--"))
    assert "does not end" in fault(text.split("\n\n<!--")[0])
    assert "does not end" in fault(text + "more\n")
    assert "does not write it" in fault(text, ["benchmarks/speed/scale.py"])
    code = measure["code_digest"](script)
    assert "has changed since" in fault(text.replace(code, code[::-1]))
    package = measure["AT_START"][1]
    assert "does not end" in fault(text.replace(f"of src/precede: {package}; ", ""))
    assert "does not end" in fault(text.replace(package, "recent"))
    source = script.read_text(encoding="utf-8")
    for number, (old, new, same) in enumerate([
        ("import os", "import os  # a comment", True), ("import os", "import os, re", True),
        ("default=40", "default=41", False), ("np.median", "np.mean", False),
    ]):  # fmt: skip
        assert old in source
        copy = tmp_path / f"{number}.py"
        copy.write_text(source.replace(old, new), encoding="utf-8")
        assert (measure["code_digest"](copy) == code) is same


def test_a_page_names_the_contents_of_the_package_that_it_measured(tmp_path):
    """Also of files that git does not know yet, and of pages that keep earlier measurements."""
    measure = runpy.run_path(str(ROOT / "benchmarks" / "measure.py"))
    measure["write_page"].__globals__["RESULTS"] = tmp_path
    assert measure["imported_package"]() == Path(precede.__file__).parent
    script, package = ROOT / "benchmarks" / "speed" / "push.py", measure["AT_START"][1]
    for _ in range(2):  # the second time, parts of the page are kept
        measure["write_page"](script, "a.md", "# A\n")
        last = (tmp_path / "a.md").read_text(encoding="utf-8").splitlines()[-1]
        kept = "-and-earlier" * ("a.md" in measure["COLLECTED"])
        assert f"; of src/precede: {package}{kept}; " in last
        measure["read_page"]("a.md")
    assert kept == "-and-earlier"

    digest = measure["package_digest"]
    folder = tmp_path / "package"
    (folder / "engine" / "__pycache__").mkdir(parents=True)
    (folder / "engine" / "a.py").write_text("1")
    found = {digest(folder)}
    (folder / "engine" / "__pycache__" / "a.nbi").write_text("1")
    assert digest(folder) in found
    (folder / "engine" / "kernels.cu").write_text("1")
    found.add(digest(folder))
    (folder / "engine" / "kernels.cu").rename(folder / "kernels.cu")
    found.add(digest(folder))
    (folder / "engine" / "a.py").write_text("2")
    assert len(found | {digest(folder)}) == 4


def test_a_page_that_claims_a_commit_has_the_package_of_that_commit(measure):
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, cwd=ROOT
    ).stdout.decode()
    if not (package := package_at(commit.strip())):
        pytest.skip("this is no git repository")
    script = "benchmarks/speed/push.py"
    code, text = measure["code_digest"](ROOT / script), measure["digest"]("# A")
    for claimed, fault in ((package, None), (package + "-and-earlier", None), ("0" * 16, "is")):
        stamp = measure["STAMP"].format(
            script=script, commit=commit.strip(), code=code, package=claimed, text=text
        )
        found = fault_of_page(f"# A\n\n{stamp}\n", [script], measure)
        assert (found is None) if fault is None else (f"is {package}, not" in found)


def test_files_shown_on_pages_are_those_that_run():
    shown = re.findall(r'--8<-- "(.*?)[:\d]*"', "".join(map(text_of, ROOT.glob("docs/*.md"))))
    assert {"examples/add_a_loss.py", "examples/add_a_weak_ranker.py"} < set(shown)
    run = {f"examples/{path.name}" for path in ROOT.glob("examples/*.py")}
    assert set(shown) <= run | {f"benchmarks/results/{path.name}" for path in RESULTS}


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("material", "mkdocstrings"))),
    reason="needs what make test installs: pip install -e .[docs]",
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
        # Sessions in docstrings are code: as Markdown, >>> would quote.
        assert page.parent.name != "reference" or "<blockquote>" not in text, page
    # The files that pages show are on the page, docstrings in the reference, and links lead there.
    assert "SmoothHinge" in (tmp_path / "extend.html").read_text(encoding="utf-8")
    reference = (tmp_path / "reference" / "algorithms.rankboost.html").read_text(encoding="utf-8")
    assert 'id="precede.algorithms.rankboost.RankBoost"' in reference
    overview = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert "algorithms.rankboost.html#precede.algorithms.rankboost.RankBoost" in overview
    architecture = (tmp_path / "architecture.html").read_text(encoding="utf-8")
    assert "<td><code>risks</code></td>" in architecture


def test_ci_builds_the_site():
    """`make test` installs what the test above needs, so that it is not skipped there."""
    assert "make test" in text_of(".ci/run")
    assert re.search(r"^test:.*\$\(VENV\)/docs", text_of("Makefile"), re.M)


@pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")
def test_the_readme_runs(tmp_path, monkeypatch):
    """The code blocks and commands of the README in order, with names for data it does not make."""
    import numpy as np
    from sklearn.model_selection import GroupKFold, cross_validate

    from precede.datasets import search_results

    sample = search_results(30, features=6, informative=3, per_query=15, random_state=0)
    names = {
        "X": sample.X, "y": sample.y, "qid": sample.qid, "grade": sample.y,
        "pairs": [(0, 1)], "weight": np.ones(len(sample.y)),
        "GroupKFold": GroupKFold, "cross_validate": cross_validate,
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^( *)```(python|console)\n(.*?)^ *```", text_of("README.md"), re.S | re.M)
    assert [language for _, language, _ in blocks].count("python") == 4
    commands = 0
    for indent, language, block in blocks:
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        if language == "console":
            commands += sum(map(runs_as_written, lines))
            continue
        code = "\n".join(lines)
        if "auc(" in code:
            names |= {"y": (sample.y > 0).astype(int), "scores": sample.truth}
            names |= {"scores_a": sample.truth, "scores_b": sample.X[:, 0]}
        exec(compile(code, "README.md", "exec"), names)
    assert commands == 5
    assert {"report.html", "ranker.py", "model.json"} <= {path.name for path in tmp_path.iterdir()}


def runs_as_written(line):
    """Run a command of this package or of Python; others (pip, make) set up what tests have."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    program = {"precede": ["-m", "precede.cli"], "python": []}.get(words[0])
    if program is None:
        return False
    done = subprocess.run(
        [sys.executable, *program, *words[1:]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return True


def test_the_readme_begins_with_installation_and_a_complete_path():
    """Install, fit, evaluate, report and export on one screen, right after the picture."""
    beginning = text_of("README.md").split("## Features")[0]
    assert beginning.find("## Installation") < 900
    assert beginning.count("\n") < 90
    steps = ["pip install", "precede fit", "precede evaluate", "precede report", "precede export"]
    places = [beginning.find(step) for step in [*steps, "make demo", "make test"]]
    assert -1 not in places
    assert places == sorted(places)
