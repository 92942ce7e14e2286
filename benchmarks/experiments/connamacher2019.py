"""RB-D, RB-C and RankBoost+ compared as in Connamacher et al. (2019), section 5.

    python benchmarks/experiments/connamacher2019.py                 # everything, resumable
    python benchmarks/experiments/connamacher2019.py --users 60      # so many users of MovieLens
    python benchmarks/experiments/connamacher2019.py --only movielens
    python benchmarks/experiments/connamacher2019.py --page          # tables and figures only

Every finished task is a line of results/connamacher2019.jsonl; a task that is there already is
not done again. MovieLens: each user with at least 100 ratings is a task of its own, the movies
of the user are the items, the ratings of other users the features; features missing on more
than half of the movies are removed and missing ratings stand below all others. Five folds: three
to train, one to choose the number of rounds by the metric itself, one to test. MQ2008: its own
folds; the rounds of NDCG are chosen by mean average precision, as the paper says. The ranking
sample of LightGBM is not in the paper: five folds of queries, rounds chosen as for MQ2008.

E1 and E2 are measured on the training pairs after every round. E2 of RB-D and RB-C is that of
the paper's section 5: over the rankers that were linearly independent of all earlier ones when
they were chosen, with weights that give the same scores.
"""

import argparse
import gzip
import json
import os
import sys
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import problems
from measure import write_page
from precede import Judgments, RankBoost, RankBoostPlus, staged_e2_loss
from precede.boosting.steps import SmoothedStepWarning
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
COURSE = ("R1", "R2", "NDCG@5", "E1", "E2")  # of figure 2
LETOR = ("MAP", "NDCG@3", "NDCG@5", "NDCG@7")  # as LETOR's tool computes them
ALGORITHMS = {
    "RankBoost+": lambda rounds: RankBoostPlus(n_estimators=rounds, n_jobs=1),
    "RB-C": lambda rounds: RankBoost(step="bound", n_estimators=rounds, n_jobs=1),
    "RB-D": lambda rounds: RankBoost(n_estimators=rounds, n_jobs=1),
}
SPEED = {
    "optimal RankBoost+": lambda rounds: RankBoostPlus(
        search="optimal", n_estimators=rounds, n_jobs=1
    ),
    "efficient RankBoost+": ALGORITHMS["RankBoost+"],
    "RB-C": ALGORITHMS["RB-C"],
    "RB-D": ALGORITHMS["RB-D"],
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


def letor(y, qid, scores):
    """MAP and NDCG@3, 5 and 7 as LETOR's tool computes them; see `ranklib`.

    Gains 2^g - 1 with discounts 1, 1, 1/log2(3), 1/log2(4), ...; a query without a relevant
    document counts 0, and so does NDCG@k of a query of fewer than k documents; ties stay in
    the order of the file.
    """
    rows = []
    for query in dict.fromkeys(qid.tolist()):
        here = qid == query
        ranked = y[here][np.argsort(-scores[here], kind="stable")]
        relevant, place = ranked > 0, np.arange(1, ranked.size + 1)
        discount = 1 / np.log2(np.maximum(place, 2))
        found = [np.mean((np.cumsum(relevant) / place)[relevant]) if relevant.any() else 0.0]
        for k in (3, 5, 7):
            most = (2.0 ** np.sort(ranked)[::-1] - 1)[:k] @ discount[:k]
            got = (2.0**ranked - 1)[:k] @ discount[:k]
            found.append(got / most if relevant.any() and ranked.size >= k else 0.0)
        rows.append(found)
    return np.mean(rows, axis=0)


def trained(algorithm, X, y, qid, rounds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmoothedStepWarning)
        return ALGORITHMS[algorithm](rounds).fit(X, y, qid=qid)


def losses(algorithm, model, X, y, qid):
    """E1 and E2 on the training pairs, after every round."""
    if not len(model.history_):
        return np.ones((2, 1))
    if algorithm == "RankBoost+":
        return np.array([model.history_["e1"], model.history_["risk"]])
    course = staged_e2_loss(model, X, Judgments(y, qid), independent=True, n_jobs=1)
    return np.array([model.history_["risk"], course])


def halting_round(model):
    """The first round of RB-D whose exact step is infinite (0: none)."""
    where = np.flatnonzero(model.history_["smoothed"]) if len(model.history_) else []
    return int(where[0]) + 1 if len(where) else 0


def fit(algorithm, fold, rounds, by_map):
    """Test values at the round that the validation set likes best, those rounds, the course."""
    train, valid, test = fold
    model = trained(algorithm, *train, rounds)
    seen = []
    for data in (valid, test):
        judge = Judge(data[1], data[2], letor=by_map)
        stages = [judge.look(scores) for scores in model.staged_predict(data[0])]
        seen.append(np.array(stages or [judge.look(np.zeros(len(data[1])))]))
    better = np.array([-1, -1, 1, 1, 1, 1.0])
    chosen = np.argmax(seen[0] * better, axis=0)
    if by_map:
        chosen[2:5] = chosen[5]
    points = np.array([point for point in CURVE if point <= rounds]) - 1
    test_course = seen[1][np.minimum(points, len(seen[1]) - 1)][:, [0, 1, 3]].T
    both = losses(algorithm, model, *train)
    found = {
        "values": seen[1][chosen[:5], np.arange(5)],
        "rounds": chosen[:5] + 1,
        "course": np.concatenate([test_course, both[:, np.minimum(points, both.shape[1] - 1)]]),
    }
    if algorithm == "RB-D":
        found["halts"] = halting_round(model)
    if by_map:
        scores = model.ensemble_.first(int(chosen[5]) + 1).predict(test[0])
        found["letor"] = letor(test[1], test[2], np.round(scores, 10))
    return found


def run(data, users):
    """Do the tasks that are not done yet."""
    done = {(line["data"], line["task"]) for line in read()}
    tasks = TASKS[data]() if data != "movielens" else islice(movielens(), users)
    for name, folds in tasks:
        if (data, name) in done:
            continue
        line = {"data": data, "task": name, "rounds": ROUNDS[data]}
        for algorithm in ALGORITHMS:
            fits = [fit(algorithm, fold, ROUNDS[data], data != "movielens") for fold in folds]
            courses = np.minimum([found["course"] for found in fits], 1e300)
            # E2 can differ by orders of magnitude from fold to fold.
            course = np.concatenate(
                [courses[:, :3].mean(axis=0), np.median(courses[:, 3:], axis=0)]
            )
            line[algorithm] = {
                "values": np.mean([found["values"] for found in fits], axis=0).round(6).tolist(),
                # of each metric, fold by fold
                "rounds": np.array([found["rounds"] for found in fits]).T.tolist(),
                **{name: [float(f"{v:.5g}") for v in course[j]] for j, name in enumerate(COURSE)},
                "largest E2": float(f"{courses[:, 4, -1].max():.4g}"),
                **{
                    key: [np.round(found[key], 6).tolist() for found in fits]
                    for key in ("halts", "letor")
                    if key in fits[0]
                },
            }
        write(line)


def speed(rounds=100, repeats=5):
    """CPU seconds of every round on synthetic data, the four algorithms taking turns.

    Features of few values, so that many candidates are linear combinations of others. The
    first round is left out: it cannot be told from the preparations.
    """
    if any(line["data"] == "speed" for line in read()):
        return
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (400, 30)).astype(float)
    y = np.digitize(X[:, :5].sum(axis=1) + rng.normal(0, 4, 400), [14, 18, 22])
    seconds = {name: [] for name in SPEED}
    for repeat in range(repeats + 1):
        for name, make in SPEED.items():
            stamps = []
            note = [lambda _, stamps=stamps: stamps.append(time.process_time())]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SmoothedStepWarning)
                make(rounds).set_params(callbacks=note).fit(X, y)
            if repeat:  # the first only compiles
                seconds[name].append(np.diff(stamps))
    write({
        "data": "speed", "task": "synthetic", "rows": 400, "features": 30, "rounds": rounds,
        "repeats": repeats, "pairs": Judgments(y).n_pairs, "load": round(os.getloadavg()[0], 1),
        "seconds": {n: np.median(s, axis=0).round(7).tolist() for n, s in seconds.items()},
    })  # fmt: skip


def write(line):
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
# Where the paper has RankBoost+ first (NDCG@7 of its table 2 could not be read).
PAPER_FIRST = {"movielens": METRICS, "mq2008": ("R1", "R2")}
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
    if data == "movielens":
        every = sum(1 for _ in movielens())
        rows += [f"{every} users have at least 100 ratings and a feature (the paper has 367); "
                 f"{'all' if count == every else f'a random sample of {count}'} are tasks here.",
                 ""]  # fmt: skip
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
    return [*rows, "", *verdict(data, found), ""]


def verdict(data, found):
    """Where RankBoost+ is first, and where it can be told apart from the others."""
    first, apart = [], {"RB-C": [], "RB-D": []}
    for metric, each in found.items():
        ranks = dict(zip(each.names, each.average_ranks, strict=True))
        if ranks["RankBoost+"] < min(ranks["RB-C"], ranks["RB-D"]):
            first.append(metric)
        for other, metrics in apart.items():
            if ranks[other] - ranks["RankBoost+"] > each.critical_difference:
                metrics.append(metric)
    told = f"RankBoost+ has the best average rank on {listed(first)}"
    for other, metrics in apart.items():
        told += f"; it is ahead of {other} by more than the critical difference on "
        told += listed(metrics)
    told += "."
    if data in PAPER_FIRST:
        missed = [metric for metric in PAPER_FIRST[data] if metric not in first]
        told += f" The paper has RankBoost+ first on {listed(list(PAPER_FIRST[data]))}: "
        told += f"**not reproduced** on {listed(missed)}." if missed else "reproduced."
    return [told]


def listed(names):
    if not names:
        return "no metric"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def plotting():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "precede"
    FIGURES.mkdir(exist_ok=True)
    return plt


def saved(plt, figure, name, told):
    """Save a figure; gives the line of the page that shows it."""
    figure.savefig(FIGURES / f"connamacher2019_{name}.svg", metadata={"Date": None})
    plt.close(figure)
    return f"![{told}](../../docs/figures/connamacher2019_{name}.svg)"


def draw_ranks(data, lines):
    """Critical-difference diagrams, as figure 3."""
    plt = plotting()
    from precede.plots import draw_critical_difference

    figure, axes = plt.subplots(1, 2, figsize=(11, 2.4), layout="constrained")
    found = comparisons(lines)
    for ax, metric in zip(axes, ("R2", "NDCG@5"), strict=True):
        draw_critical_difference(found[metric], ax=ax)
        ax.set_title(f"{TITLES[data]}, {metric}", fontsize=10)
    return saved(plt, figure, f"{data}_ranks", f"Average ranks on {TITLES[data]}")


def figure_2(lines):
    """R1, R2 and NDCG@5 on test data, E1 and E2 on training data, over rounds."""
    plt = plotting()
    points = [point for point in CURVE if point <= lines[0]["rounds"]]
    means = {
        (a, name): (np.median if name in ("E1", "E2") else np.mean)(
            [line[a][name] for line in lines], axis=0
        )
        for a in ALGORITHMS
        for name in COURSE
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    panels = ((("R1", "R2"), "test R1, R2"), (("E1", "E2"), "training E1, E2"),
              (("NDCG@5",), "test NDCG@5"))  # fmt: skip
    for ax, (columns, label) in zip(axes, panels, strict=True):
        for number, algorithm in enumerate(ALGORITHMS):
            for column, style in zip(columns, ("-", "--"), strict=False):
                name = algorithm if style == "-" else None
                ax.plot(points, means[algorithm, column], style, color=f"C{number}", label=name)
        ax.set_xscale("log")
        ax.set_xlabel("rounds")
        ax.set_title(label, fontsize=10)
    axes[1].set_yscale("log")
    axes[0].legend(frameon=False)
    shown = saved(plt, figure, "movielens_course", "Course over rounds on MovieLens")
    at = [points.index(point) for point in (1, 5, 10, 20, 50, 150)]
    rows = ["## Figure 2: the course over rounds, MovieLens-100K", "", shown, "",
            "R1 and E1 solid, R2 and E2 dashed; R1, R2 and NDCG@5 on test rows, E1 and E2 on "
            f"training rows. Means over {len(lines)} tasks of five folds, but medians of E1 and "
            "E2 (the paper shows means): the largest E2 after the last round is "
            + ", ".join(f"{max(line[a]['largest E2'] for line in lines):.2g} ({a})"
                        for a in ALGORITHMS) + ".", "",
            "| | after round | " + " | ".join(str(points[j]) for j in at) + " |",
            "|---|---|" + "--:|" * len(at)]  # fmt: skip
    for name in COURSE:
        for a in ALGORITHMS:
            cells = " | ".join(f"{means[a, name][j]:.4g}" for j in at)
            rows.append(f"| {name} | {a} | {cells} |")
    return [*rows, "", *course_verdict(points, means), ""]


def course_verdict(points, means):
    """Each statement of the paper about figure 2, and whether it holds here."""
    e1, e2, r2 = ({a: means[a, name] for a in ALGORITHMS} for name in ("E1", "E2", "R2"))
    turn, least = int(np.argmin(e2["RB-C"])), int(np.argmin(e2["RB-D"]))
    last = points[-1]
    statements = [
        ("RankBoost+ lowers E2 throughout", bool((np.diff(e2["RankBoost+"]) <= 0).all()),
         f"from {e2['RankBoost+'][0]:.3f} after one round to {e2['RankBoost+'][-1]:.3f}"),
        ("RB-D increases E2", e2["RB-D"][-1] > e2["RB-D"][0],
         f"{e2['RB-D'][0]:.3f} after one round, least ({e2['RB-D'][least]:.3f}) after "
         f"{points[least]}, {e2['RB-D'][-1]:.3g} after {last}"),
        ("RB-C lowers E2 at first, then increases it", 0 < turn < len(points) - 1,
         f"least ({e2['RB-C'][turn]:.3f}) after {points[turn]} rounds, {e2['RB-C'][-1]:.3g} "
         f"after {last}"),
        ("RB-D and RB-C reach a lower E1 than RankBoost+",
         max(e1["RB-D"][-1], e1["RB-C"][-1]) < e1["RankBoost+"][-1],
         f"{e1['RB-D'][-1]:.3f} and {e1['RB-C'][-1]:.3f}, RankBoost+ {e1['RankBoost+'][-1]:.3f}"),
        ("the test R2 of RankBoost+ rises least after its best round",
         min(ALGORITHMS, key=lambda a: r2[a][-1] - r2[a].min()) == "RankBoost+",
         ", ".join(f"{a} {r2[a][-1] - r2[a].min():+.4f}" for a in ALGORITHMS)),
    ]  # fmt: skip
    rows = ["What the paper says of its figure, and what is seen here:", ""]
    return rows + [
        f"* {told}: {'yes' if holds else '**no**'} ({numbers})"
        for told, holds, numbers in statements
    ]


def figure_4(lines):
    """RB-D stops where its exact step is infinite: how often, and one example."""
    halts = {(line["task"], fold): at for line in lines
             for fold, at in enumerate(line["RB-D"]["halts"])}  # fmt: skip
    found = [at for at in halts.values() if at]
    rows = ["## Figure 4: RB-D halting, MovieLens-100K", "",
            "A stump that reverses no pair but ties some has an infinite weight in RB-D "
            "(eq. 14). The paper then halts RB-D and keeps the rounds before. "
            f"Here RB-D meets such a stump within {lines[0]['rounds']} rounds in {len(found)} of "
            f"{len(halts)} fits"]  # fmt: skip
    if not found:
        return [rows[0], "", rows[2] + ": there is no example to show.", ""]
    rows[2] += f" (in the median in round {np.median(found):.0f}, at the earliest in round "
    rows[2] += f"{min(found)})."
    task, fold = min((key for key, at in halts.items() if at), key=halts.get)
    folds = next(folds for name, folds in movielens() if name == task)
    X, y, qid = folds[fold][0]
    rounds = lines[0]["rounds"]
    models = {a: trained(a, X, y, qid, rounds) for a in ("RB-C", "RB-D")}
    e1 = {a: losses(a, model, X, y, qid)[0] for a, model in models.items()}
    halted = halting_round(models["RB-D"]) - 1
    kept = e1["RB-D"][halted - 1] if halted else 1.0
    plt = plotting()
    figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
    ax.plot(np.arange(1, e1["RB-C"].size + 1), e1["RB-C"], color="C1", label="RB-C")
    ax.plot(np.arange(1, halted + 1), e1["RB-D"][:halted], color="C2", label="RB-D, halted")
    ax.plot([halted], [kept], "x", color="C2")
    ax.plot(np.arange(1, e1["RB-D"].size + 1), e1["RB-D"], ":", color="C2",
            label="RB-D, finite step")  # fmt: skip
    ax.set_yscale("log")
    ax.set_xlabel("rounds")
    ax.set_ylabel("training E1")
    ax.legend(frameon=False)
    shown = saved(plt, figure, "halting", "E1 of RB-D halted, of RB-D with finite steps, of RB-C")
    lower = [a for a in ("RB-C", "RB-D") if e1[a].min() < kept]
    rows += ["", shown, "",
             f"The earliest ({task}, fold {fold + 1}, {len(y)} movies): RB-D halts after {halted} "
             f"rounds at E1 = {kept:.4f}; after {rounds} rounds RB-C is at {e1['RB-C'][-1]:.4f}, "
             "RB-D with half a pair added on both sides (as in this library) at "
             f"{e1['RB-D'][-1]:.4f}. In the paper RB-C ends below the halted RB-D, which so is not "
             f"at the least E1: {'the same is' if 'RB-C' in lower else '**this is not**'} seen here"
             f"{', and' if 'RB-D' in lower else ', but not'} with the finite steps of RB-D."
             ]  # fmt: skip
    return [*rows, ""]


def figure_1(line):
    """Time of every round on synthetic data, relative to RB-C."""
    seconds = {name: np.array(each) for name, each in line["seconds"].items()}
    unit = float(np.median(seconds["RB-C"]))
    plt = plotting()
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    for name, each in seconds.items():
        ax.plot(np.arange(2, each.size + 2), each / unit, label=name)
    ax.set_yscale("log")
    ax.set_xlabel("round")
    ax.set_ylabel("CPU time / median round of RB-C")
    ax.legend(frameon=False, fontsize=8)
    shown = saved(plt, figure, "speed", "Time of every round on synthetic data")
    rows = ["## Figure 1: time per iteration, synthetic data", "", shown, "",
            f"{line['rows']} items, {line['features']} features of eight values, "
            f"{line['pairs']:,} pairs, {line['rounds']} rounds, one thread; the four took turns, "
            f"median of {line['repeats']} repetitions for each round but the first. The machine "
            f"was shared (load {line['load']} on {os.cpu_count()} cores), so these are ratios of "
            "CPU time. The paper's "
            "synthetic data are not described; its figure has no table.", "",
            "| | median round / RB-C | slowest round / RB-C | whole fit / RB-C |",
            "|---|--:|--:|--:|"]  # fmt: skip
    for name, each in seconds.items():
        whole = each.sum() / seconds["RB-C"].sum()
        rows.append(
            f"| {name} | {np.median(each) / unit:.2f} | {each.max() / unit:.1f} | {whole:.2f} |"
        )
    efficient = np.median(seconds["efficient RankBoost+"]) / unit
    optimal = np.median(seconds["optimal RankBoost+"]) / unit
    slowest = seconds["efficient RankBoost+"].max() / np.median(seconds["efficient RankBoost+"])
    close = efficient < 2
    rows += ["", "In the paper the efficient search has one long round (about the 30th), in which "
             "an independent subset is chosen, and then runs about as fast as RB-D and RB-C. Here "
             "independence is tested one candidate at a time, and the slowest of its "
             f"rounds takes {slowest:.1f} times the median one. "
             f"A median efficient round takes {efficient:.1f} times as long as a round of RB-C "
             f"({'comparable, as in' if close else 'which is not the parity of'} the paper), an "
             f"optimal one {optimal:.0f} times."]  # fmt: skip
    return [*rows, ""]


def ranklib(lines):
    """Beside RankLib's RankBoost on MQ2008, with the conventions of LETOR's tool."""
    folder = problems.SHARED / "mq2008_reference"
    if not folder.exists():
        return []
    text = (folder / "ranklib21_RankBoost_MAP_Mq2008.txt").read_text(encoding="utf-8")
    tables_ = [line.split() for line in text.split("Performance on validation")[0].splitlines()]
    folds = [row for row in tables_ if row and row[0].startswith("Fold") and row[0] != "Folds"]
    printed = np.array([  # first five rows NDCG@1 to 10, then P@1 to 10 and MAP
        [float(folds[5 + f][11]), *(float(folds[f][k]) for k in (3, 5, 7))] for f in range(5)
    ])  # fmt: skip
    again = []
    for fold in range(1, 6):
        _, y, qid = problems.mq2008(fold)[2]
        name = f"ranklib21_RankBoost_Mq2008_Fold{fold}_test_score.gz"
        with gzip.open(folder / name, "rt", encoding="ascii") as file:
            again.append(letor(y, qid, np.array([float(line) for line in file])))
    off = np.abs(np.array(again) - printed).max()
    ours = {a: np.array([line[a]["letor"][0] for line in lines]) for a in ALGORITHMS}
    rows = ["## MQ2008 beside RankLib's RankBoost", "",
            "RankLib 2.1's figures and test scores are one person's runs, rounds chosen by MAP on "
            "the validation part, as here. They follow LETOR's evaluation tool: queries without a "
            "relevant document count 0, the second place is not discounted, and NDCG@k is 0 where "
            "a query has fewer than k documents. Recomputed from the scores with these "
            f"conventions they agree with the printed figures to {off:.1g}, the rounding of four "
            "digits. NDCG elsewhere on this page has the usual discount, so its values are lower.",
            "", "| | " + " | ".join(LETOR) + " |", "|---|" + "--:|" * len(LETOR)]  # fmt: skip
    for name, values in {"RankLib RankBoost": printed, **ours}.items():
        rows.append(f"| {name} | " + " | ".join(f"{v:.4f}" for v in values.mean(axis=0)) + " |")
    rows += ["", "Difference from RankLib, mean over the folds ± standard error of five paired "
             "differences:", "", "| | " + " | ".join(LETOR) + " |",
             "|---|" + "--:|" * len(LETOR)]  # fmt: skip
    for name, values in ours.items():
        gap = values - printed
        error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
        cells = [f"{m:+.4f} ± {e:.4f}" for m, e in zip(gap.mean(axis=0), error, strict=True)]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def pair_counts():
    """The pairs of MQ2008, counted; the paper states about 37,500."""
    data = np.load(problems.SHARED / "mq2008" / "mq2008.npz", allow_pickle=False)
    y, qid, part = data["y"], data["qid"], data["part"]
    parts = {f"part {p}": Judgments(y[part == p], qid[part == p]).n_pairs for p in np.unique(part)}
    trains = {
        f"training rows of fold {f}": Judgments(*problems.mq2008(f)[0][1:]).n_pairs
        for f in range(1, 6)
    }
    grades = {
        f"grades {low} and {high}": Judgments(
            y[np.isin(y, (low, high))], qid[np.isin(y, (low, high))]
        ).n_pairs
        for low, high in ((0, 1), (0, 2), (1, 2))
    }
    counts = {**parts, **trains, **grades}
    name = min(counts, key=lambda each: abs(counts[each] - 37_500))
    rows = ["## Pairs in MQ2008", "",
            "The paper states about 37,500 critical pairs in MQ2008. The files (LETOR 4.0, "
            f"QueryLevelNorm) have {Judgments(y, qid).n_pairs:,}: {y.size:,} documents, "
            f"{np.unique(qid).size} queries."]  # fmt: skip
    for told, found in (("By part", parts), ("By training set", trains), ("By grades", grades)):
        rows.append(f"{told}: " + ", ".join(f"{c:,} ({n})" for n, c in found.items()) + ".")
    rows.append(
        f"None of these counts is near 37,500 (the nearest, {name}, is {counts[name]:,}), so how "
        "the paper arrived at its number is not known."
    )
    return ["\n\n".join(["\n".join(rows[:2]).strip(), *rows[2:]]), ""]


def page():
    rows = ["# RB-D, RB-C and RankBoost+ (Connamacher et al. 2019)", "",
            "Output of `benchmarks/experiments/connamacher2019.py`. Columns \"the paper\" list "
            "RankBoost+, RB-C, RB-D; the paper's ranks on MQ2008 are over the folds of MQ2007 and "
            "MQ2008 together (critical difference 1.048), on MovieLens over 367 tasks (0.1754). "
            "MSLR-WEB10K and MQ2007 were not at hand.", ""]  # fmt: skip
    everything = read()
    for data in TASKS:
        lines = [line for line in everything if line["data"] == data]
        if len(lines) < 2:
            continue
        rows += tables(data, lines)
        if data == "movielens":
            rows += [draw_ranks(data, lines), "", *figure_2(lines), *figure_4(lines)]
        if data == "mq2008":
            rows += [*ranklib(lines), *pair_counts()]
    for line in everything:
        if line["data"] == "speed":
            rows += figure_1(line)
    text = "\n".join(rows)
    write_page(__file__, "connamacher2019.md", text)
    print(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*TASKS, "speed"])
    parser.add_argument("--users", type=int, help="so many users of MovieLens, not all of them")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if not options.page:
        for data in [*TASKS, "speed"] if options.only is None else [options.only]:
            if data == "speed":
                speed()
            else:
                run(data, options.users)
    page()


if __name__ == "__main__":
    main()
