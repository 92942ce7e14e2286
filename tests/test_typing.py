"""What a user's type checker sees of the package: the types of `py.typed`, by mypy --strict."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import precede

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "precede"

RIGHT = '''
"""Fit, evaluate, compare, save and load; a ranker, a family and an algorithm of one's own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import precede
from precede import (
    BaseRanker, BoostedRanker, Family, SearchResult, Judgments, Logistic, PairRisk, RankBoost,
    WeakRanker,
)
from precede.boosting import ExactStep, Plan, Progress, Stop
from precede.datasets import search_results
from precede.engine.table import Table
from precede.metrics import Evaluation, Evaluator
from precede.weak_rankers import family


@dataclass(frozen=True)
class AtMost(WeakRanker):
    feature: int
    threshold: float
    name: ClassVar[str] = "at most, of test_typing"

    def __call__(self, X: NDArray[np.float64]) -> NDArray[np.uint8]:
        return (X[:, self.feature] <= self.threshold).astype(np.uint8)


class Negatives(Family):
    def search(self, table: Table, pull: NDArray[np.float64]) -> SearchResult | None:
        best: SearchResult | None = None
        for feature in range(table.n_features):
            ranker = AtMost(feature, 0.0)
            edge = float(pull @ ranker(table.rows()))
            if best is None or abs(edge) > abs(best.edge):
                best = SearchResult(ranker, edge)
        return best


class LogisticBoost(BaseRanker):
    weak_rankers: str | Family = "stumps"
    n_estimators: int = 5

    def plan(self, stop: Stop) -> Plan:
        return Plan(PairRisk(Logistic()), family(self.weak_rankers), ExactStep(), stop)


def enough(progress: Progress) -> bool:
    return progress.round >= 3 and len(progress.ensemble.weak_rankers) > 2


sample = search_results(10, features=3, informative=2, per_query=10, random_state=0)
X, y, qid = sample.X, sample.y, sample.qid
plain: RankBoost = RankBoost(n_estimators=5, step="bound").fit(X, y, qid=qid)
short: RankBoost = RankBoost(n_estimators=9, callbacks=[enough]).fit(X, y, qid=qid)
trees: BoostedRanker = BoostedRanker(n_estimators=2, num_leaves=4, n_jobs=1).fit(X, y, qid=qid)
mine: LogisticBoost = LogisticBoost(weak_rankers=Negatives()).fit(X, Judgments(y, qid))
scores: NDArray[np.float64] = plain.predict(X)
share: float = plain.score(X, y, qid)
steps: list[float] = plain.ensemble_.weights
first: WeakRanker = mine.ensemble_.weak_rankers[0]
reason: str = plain.stop_reason_
risks: NDArray[np.float64] = plain.history_["risk"]
last: float = plain.history_[-1]["risk"]

result: Evaluation = precede.evaluate(y, scores, qid, metrics=["ndcg@5", "map"])
ndcg: float = result.mean["ndcg@5"]
again: float = Evaluator(y, qid, metrics="ndcg@5").evaluate(scores).mean["ndcg@5"]
names: tuple[str, ...] = precede.metrics.default_metrics()
difference: float = precede.compare(y, scores, trees.predict(X), qid, metric="ndcg@5").difference

path = Path(sys.argv[1], "model.json")
plain.save(path)
loaded: BaseRanker = precede.load(path)
assert np.array_equal(loaded.predict(X), scores)
assert ndcg == again
'''

# Each mistake, and the kind of error that mypy has to report for its line. The last ones are of
# types that a decorator or a lazily loaded name would lose.
WRONG = {
    "precede.RankBost()": "attr-defined",
    "from precede.weak_rankers import Stumpf": "attr-defined",
    "precede.metrics.evaluation": "attr-defined",
    "RankBoost(n_estimators='many')": "arg-type",
    "RankBoost(estimators=10)": "call-arg",
    "RankBoost(weak_rankers=precede.Stump(0, 0.5))": "arg-type",
    "precede.Stump(0, 0.5).treshold": "attr-defined",
    "precede.PairRisk(loss=1.0)": "arg-type",
    "precede.load(1.5)": "arg-type",
    "precede.compare([0, 1], [0, 1])": "call-arg",
    "text: str = precede.evaluate([0, 1], [0, 1]).mean['auc']": "assignment",
    "RankBoost().fit([[0], [1]], [0, 1], query=[0, 0])": "call-arg",
    "RankBoost().fit([[0], [1]], [0, 1]).predict()": "call-arg",
    "RankBoost().ensemble_.weak_ranker": "attr-defined",
    "column: str = RankBoost().history_['risk']": "assignment",
    "words: list[str] = RankBoost().predict([[0], [1]])": "assignment",
    "shares: str = RankBoost().predict_proba([[0], [1]])": "assignment",
}
HEAD = ["import precede", "from precede import RankBoost"]


def errors(folder, **scripts):
    """What `mypy --strict` says of scripts that see this checkout: file, line and kind."""
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    # The package itself is checked under its own settings, by `make test`.
    command = ["--strict", "--follow-imports=silent", "--config-file=", "--no-error-summary"]
    command += [f"--cache-dir={folder / 'cache'}", *(f"{name}.py" for name in scripts)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode < 2, done.stdout + done.stderr
    found = re.findall(r"^(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert len(found) == done.stdout.count(": error: "), done.stdout
    return [(name, int(line), kind) for name, line, kind in found], done.stdout


def test_types_of_the_package_are_right_and_mistakes_are_found(tmp_path):
    pytest.importorskip("mypy")
    found, told = errors(tmp_path, right=RIGHT, wrong="\n".join([*HEAD, *WRONG, ""]))
    assert [each for each in found if each[0] == "right"] == [], told
    expected = [("wrong", line, kind) for line, kind in enumerate(WRONG.values(), len(HEAD) + 1)]
    assert found == expected, told


def test_the_script_that_is_checked_also_runs(tmp_path, monkeypatch):
    script = tmp_path / "right.py"
    script.write_text(RIGHT, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])
    done = runpy.run_path(str(script))
    assert 0 < done["ndcg"] <= 1


def shown_to_checkers(package):
    """Names that the stub of a package imports, and those that are not re-exported."""
    tree = ast.parse((package / "__init__.pyi").read_text(encoding="utf-8"))
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom)
                for alias in node.names]  # fmt: skip
    return {each.name for each in imported}, {e.name for e in imported if e.asname != e.name}


PACKAGES = [SOURCE, *sorted(path.parent for path in SOURCE.glob("*/__init__.pyi"))]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_names_that_are_loaded_lazily_are_shown_to_checkers(package):
    names, hidden = shown_to_checkers(package)
    module = precede if package == SOURCE else getattr(precede, package.name)
    assert names == set(module.__all__)
    assert hidden == set()
    for name in names:
        assert getattr(module, name) is not None


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").exists()
