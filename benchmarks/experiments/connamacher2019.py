"""RB-D, RB-C and RankBoost+ compared as in Connamacher et al. (2019), section 5.

    python benchmarks/experiments/connamacher2019.py                 # everything, resumable
    python benchmarks/experiments/connamacher2019.py --only movielens
    python benchmarks/experiments/connamacher2019.py --page          # tables and figures only

Every finished task is a line of results/connamacher2019.jsonl; a task that is there already is
not done again. MovieLens: each user with at least 100 ratings is a task of its own, the movies
of the user are the items, the ratings of other users the features; features missing on more
than half of the movies are removed and missing ratings stand below all others. Five folds: three
to train, one to choose the number of rounds by the metric itself, one to test. MQ2008: its own
folds; the rounds of NDCG are chosen by mean average precision, as the paper says. The ranking
sample of LightGBM is not in the paper: five folds of queries, rounds chosen as for MQ2008.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import problems
from measure import write_page
from precede import RankBoost, RankBoostPlus
from precede.boost import SmoothedStepWarning
from precede.inference import friedman
from precede.judgments import number_queries
from precede.metrics import Evaluator

RESULTS = Path(__file__).parents[1] / "results"
FIGURES = Path(__file__).parents[2] / "docs" / "figures"
LINES = RESULTS / "connamacher2019.jsonl"
METRICS = ("R1", "R2", "NDCG@3", "NDCG@5", "NDCG@7")
ERRORS = ("R1", "R2")
ROUNDS = {"movielens": 150, "mq2008": 300, "lightgbm": 300}
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
ALGORITHMS = {
    "RankBoost+": lambda rounds: RankBoostPlus(n_estimators=rounds, n_jobs=1),
    "RB-C": lambda rounds: RankBoost(step="bound", n_estimators=rounds, n_jobs=1),
    "RB-D": lambda rounds: RankBoost(n_estimators=rounds, n_jobs=1),
}


# -- tasks: name, and for each fold (X, y, qid) of train, validation and test ------------------


def movielens(least=100, folds=5):
    """One task for each user with enough ratings; the folds of a user depend on nothing else."""
    data = np.load(problems.SHARED / "movielens100k" / "ratings.npz")
    user, item, rating = (data[name].astype(np.int64) for name in ("user", "item", "rating"))
    ratings = np.zeros((user.max() + 1, item.max() + 1))  # 0: missing, below all others
    ratings[user, item] = rating
    users = np.flatnonzero((ratings > 0).sum(axis=1) >= least)
    # In random order, so that the tasks done so far are a fair sample of all.
    for one in np.random.default_rng(0).permutation(users):
        movies = np.flatnonzero(ratings[one])
        X = np.delete(ratings[:, movies], one, axis=0).T
        X = X[:, (X > 0).mean(axis=0) >= 0.5]
        y = ratings[one, movies]
        part = np.random.default_rng(int(one)).permutation(np.arange(movies.size) % folds)
        if X.shape[1]:
            yield (
                f"user {one}",
                [
                    [(X[rows], y[rows], np.zeros(rows.sum(), int)) for rows in _rotated(part, fold)]
                    for fold in range(folds)
                ],
            )


def _rotated(part, fold):
    """Rows of train, validation and test: the test is `fold`, the validation the next."""
    test, valid = part == fold, part == (fold + 1) % (part.max() + 1)
    return ~(test | valid), valid, test


def mq2008():
    """Each of the five folds is a task, as in table 2."""
    for fold in range(1, 6):
        yield f"fold {fold}", [list(problems.mq2008(fold))]


def lightgbm(folds=5):
    """The training and the test file together, cut anew by queries."""
    files = [
        np.load(problems.SHARED / "lightgbm_rank" / f"{name}.npz") for name in ("train", "test")
    ]
    X = np.concatenate([file["X"] for file in files])
    y = np.concatenate([file["y"] for file in files]).astype(float)
    qid = np.concatenate([files[0]["qid"], files[1]["qid"] + files[0]["qid"].max() + 1])
    number = number_queries(qid)[0]
    part = np.random.default_rng(0).permutation(np.arange(number.max() + 1) % folds)[number]
    for fold in range(folds):
        yield f"fold {fold + 1}", [[(X[r], y[r], qid[r]) for r in _rotated(part, fold)]]


TASKS = {"movielens": movielens, "mq2008": mq2008, "lightgbm": lightgbm}


# -- one fit ------------------------------------------------------------------------------------


class Judge:
    """R1, R2, NDCG and MAP of many vectors of scores on the same rows.

    NDCG has the gains of LETOR's tool (2^g - 1, and 0 for queries with nothing relevant), or
    the grades themselves as gains, as in the paper that C19 cite for it.
    """

    def __init__(self, y, qid, letor):
        order = np.lexsort((y, qid))
        pairs = []
        for query in np.unique(qid):
            rows = order[qid[order] == query]
            above = y[rows][:, None] > y[rows][None, :]
            winner, loser = np.nonzero(above)
            pairs.append(np.stack([rows[winner], rows[loser]]))
        self.winner, self.loser = np.concatenate(pairs, axis=1)
        self.lists = Evaluator(
            y, qid, metrics=("ndcg@3", "ndcg@5", "ndcg@7", "map"), ties="average",
            gains="exp" if letor else "linear", no_relevant="zero" if letor else "skip",
        )  # fmt: skip

    def look(self, scores):
        """Values of the five metrics, then MAP; scores within rounding of each other tie."""
        # Two models that add the same weights in another order differ in the last digit.
        scores = np.round(scores, 10)
        margin = scores[self.winner] - scores[self.loser]
        reversed_, tied = np.mean(margin < 0), np.mean(margin == 0)
        lists = self.lists.evaluate(scores).mean
        return [reversed_ + tied, reversed_ + tied / 2, *lists.values()]


def fit(algorithm, fold, rounds, by_map):
    """Test values at the round that the validation set likes best, those rounds, the curve."""
    (X, y, qid), valid, test = fold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        model = ALGORITHMS[algorithm](rounds).fit(X, y, qid=qid)
    seen = []
    for data in (valid, test):
        judge = Judge(data[1], data[2], letor=by_map)
        stages = [judge.look(scores) for scores in model.staged_predict(data[0])]
        stages = stages or [judge.look(np.zeros(len(data[1])))]
        seen.append(np.array(stages))
    better = np.array([-1, -1, 1, 1, 1, 1.0])
    chosen = np.argmax(seen[0] * better, axis=0)
    if by_map:
        chosen[2:5] = chosen[5]
    columns = np.arange(5)
    values = seen[1][chosen[:5], columns]
    points = [min(point, len(seen[1])) - 1 for point in CURVE if point <= rounds]
    risk = model.history_["risk"] if len(model.history_) else np.ones(1)
    return (
        values,
        chosen[:5] + 1,
        seen[1][points][:, [1, 3]],
        risk[np.minimum(points, len(risk) - 1)],
    )


def run(data):
    """Do the tasks that are not done yet."""
    done = {(line["data"], line["task"]) for line in read()}
    for name, folds in TASKS[data]():
        if (data, name) in done:
            continue
        began = time.perf_counter()
        line = {"data": data, "task": name, "rounds": ROUNDS[data]}
        for algorithm in ALGORITHMS:
            fits = [fit(algorithm, fold, ROUNDS[data], data != "movielens") for fold in folds]
            values, chosen, curve, risk = (np.array(part) for part in zip(*fits, strict=True))
            curve = curve.mean(axis=0)
            line[algorithm] = {
                "values": values.mean(axis=0).round(6).tolist(),
                "rounds": chosen.T.tolist(),  # of each metric, fold by fold
                "R2": curve[:, 0].round(5).tolist(),
                "NDCG@5": curve[:, 1].round(5).tolist(),
                "risk": risk.mean(axis=0).round(5).tolist(),
            }
        line["seconds"] = round(time.perf_counter() - began, 2)
        with open(LINES, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read():
    if not LINES.exists():
        return []
    return [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()]


# -- the page -----------------------------------------------------------------------------------

# Tables 1 to 4 of the paper: RankBoost+, RB-C, RB-D.
# Ranks with the median rounds; those of MQ2008 are over the folds of MQ2007 and MQ2008 together.
PAPER_RANKS = {
    "movielens": ["1.314 (32), 1.938 (31), 2.748 (26)", "1.356 (25), 1.952 (21), 2.692 (18)",
                  "1.696 (4), 2.125 (2), 2.179 (3)", "1.559 (7), 2.211 (2), 2.230 (4)",
                  "1.476 (11), 2.268 (2), 2.256 (4)"],
    "mq2008": ["1.3, 1.9, 2.8", "1.1, 2.1, 2.8", "1.9, 1.8, 2.3", "1.7, 1.6, 2.7",
               "1.5 and 1.7 (which is which could not be read), 2.8"],
}  # fmt: skip
PAPER_MEANS = {
    "movielens": [(0.3100, 0.3218, 0.3394), (0.3114, 0.3218, 0.3376), (0.7920, 0.7642, 0.7620),
                  (0.8019, 0.7684, 0.7675), (0.8104, 0.7744, 0.7749)],
    "mq2008": [(0.2082, 0.2153, 0.2190), (0.2027, 0.2161, 0.2192), (0.4190, 0.4250, 0.4185),
               (0.4684, 0.4702, 0.4582), (0.4887, 0.4899, 0.4819)],
}  # fmt: skip
TITLES = {
    "movielens": "MovieLens-100K",
    "mq2008": "MQ2008",
    "lightgbm": "LightGBM's ranking sample",
}


def comparisons(lines):
    """Friedman and Nemenyi for every metric."""
    found = {}
    for number, metric in enumerate(METRICS):
        table = [[line[a]["values"][number] for a in ALGORITHMS] for line in lines]
        found[metric] = friedman(
            table, names=list(ALGORITHMS), larger_is_better=metric not in ERRORS
        )
    return found


def tables(data, lines):
    count = len(lines)
    rows = [f"## {TITLES[data]}: {count} tasks, up to {lines[0]['rounds']} rounds", ""]
    found = comparisons(lines)
    reach = next(iter(found.values())).critical_difference
    told = f"Average ranks (1 is best; median rounds in brackets). Critical difference {reach:.3f}."
    rows += [told,
             "", "| metric | " + " | ".join(ALGORITHMS) + " | Friedman p | the paper |",
             "|---|" + "--:|" * (len(ALGORITHMS) + 2)]  # fmt: skip
    for number, metric in enumerate(METRICS):
        ranks = dict(zip(found[metric].names, found[metric].average_ranks, strict=True))
        rounds = {a: np.concatenate([line[a]["rounds"][number] for line in lines]) for a in ranks}
        told = [f"{ranks[a]:.3f} ({np.median(rounds[a]):.0f})" for a in ALGORITHMS]
        beside = PAPER_RANKS[data][number] if data in PAPER_RANKS else ""
        rows.append(f"| {metric} | {' | '.join(told)} | {found[metric].p_value:.2g} | {beside} |")
    rows += ["", "Means.", "", "| metric | " + " | ".join(ALGORITHMS) + " | the paper |",
             "|---|" + "--:|" * (len(ALGORITHMS) + 1)]  # fmt: skip
    for number, metric in enumerate(METRICS):
        means = [
            f"{np.mean([line[a]['values'][number] for line in lines]):.4f}" for a in ALGORITHMS
        ]
        paper = PAPER_MEANS.get(data)
        beside = ", ".join(f"{mean:.4f}" for mean in paper[number]) if paper else ""
        rows.append(f"| {metric} | {' | '.join(means)} | {beside} |")
    return [*rows, ""]


def draw(data, lines):
    """Critical-difference diagram of R2, and the course of R2 and NDCG@5 over rounds."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from precede.plots import draw_critical_difference

    matplotlib.rcParams["svg.hashsalt"] = "precede"
    FIGURES.mkdir(exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(11, 2.4), layout="constrained")
    found = comparisons(lines)
    for ax, metric in zip(axes, ("R2", "NDCG@5"), strict=True):
        draw_critical_difference(found[metric], ax=ax)
        ax.set_title(f"{TITLES[data]}, {metric}", fontsize=10)
    figure.savefig(FIGURES / f"connamacher2019_{data}_ranks.svg", metadata={"Date": None})
    plt.close(figure)
    points = [point for point in CURVE if point <= lines[0]["rounds"]]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    for ax, (column, label) in zip(
        axes,
        (("R2", "test R2"), ("NDCG@5", "test NDCG@5"), ("risk", "training loss")),
        strict=True,
    ):
        for algorithm in ALGORITHMS:
            mean = np.mean([line[algorithm][column] for line in lines], axis=0)
            ax.plot(points, mean, marker=".", label=algorithm)
        ax.set_xscale("log")
        ax.set_xlabel("rounds")
        ax.set_ylabel(label)
    axes[0].legend(frameon=False)
    axes[2].set_title("E2 of RankBoost+, E1 of the others", fontsize=10)
    figure.savefig(FIGURES / f"connamacher2019_{data}_course.svg", metadata={"Date": None})
    plt.close(figure)


def page():
    rows = ["# RB-D, RB-C and RankBoost+ (Connamacher et al. 2019, section 5)", "",
            "The figures of the paper are those of RankBoost+, RB-C, RB-D; its ranks on MQ2008 are "
            "over the folds of MQ2007 and MQ2008 together (critical difference 1.048), on "
            "MovieLens over 367 tasks (0.1754).", ""]  # fmt: skip
    everything = read()
    for data in TASKS:
        lines = [line for line in everything if line["data"] == data]
        if len(lines) > 1:
            rows += tables(data, lines)
            draw(data, lines)
    text = "\n".join(rows)
    write_page(__file__, "connamacher2019.md", text)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        for data in TASKS if options.only is None else [options.only]:
            run(data)
    page()


if __name__ == "__main__":
    main()
