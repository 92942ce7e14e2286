"""Leaderboards: exactness, coverage, votes saved, and the crowd of llmfao.

    python benchmarks/experiments/leaderboard.py [exact] [coverage] [asking] [llmfao]

Each part is a line of `benchmarks/results/leaderboard.jsonl`; the page `leaderboard.md` is made of
the last line of each, and of that of the speed part, which `benchmarks/speed/leaderboard.py`
writes. `exact` needs choix and evalica, which precede does not depend on. Coverage takes about ten
minutes of one core, asking five, llmfao five.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from measure import RESULTS, append, write_page  # noqa: E402
from precede import BoostedRanker, Judgments, Leaderboard  # noqa: E402
from precede.files import read_votes  # noqa: E402
from problems import SHARED  # noqa: E402

FILE = "leaderboard.jsonl"
BOARDS = 400
OUTCOMES = np.array(["a", "b", "tie"])


# -- simulated votes -----------------------------------------------------------------------------


def draw(theta, a, b, extra, nu, rng):
    """Outcomes by Davidson's model, as text."""
    d = theta[a] - theta[b] + extra
    weight = np.stack([np.exp(d / 2), np.exp(-d / 2), np.full(d.size, nu)], axis=1)
    chance = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)
    return OUTCOMES[np.minimum((rng.random(d.size)[:, None] > chance).sum(axis=1), 2)]


def simulated(theta, voters, per_voter, taste, rng, nu=0.5):
    """Votes of voters whose strengths of the items differ from theta by N(0, taste²)."""
    n = theta.size
    sizes = np.maximum(1, np.round(per_voter * rng.lognormal(-0.18, 0.6, voters))).astype(int)
    voter = np.repeat(np.arange(voters), sizes)
    a = rng.integers(0, n, voter.size)
    b = (a + rng.integers(1, n, voter.size)) % n
    own = taste * rng.standard_normal((voters, n))
    outcome = draw(theta, a, b, own[voter, a] - own[voter, b], nu, rng)
    names = np.array([f"item {i:02d}" for i in range(n)])
    return pd.DataFrame({"a": names[a], "b": names[b], "outcome": outcome, "voter": voter})


# -- coverage ------------------------------------------------------------------------------------


ITEMS, VOTERS, PER_VOTER = 15, 100, 60
METHODS = (
    "clusters", "without clusters", "plain bootstrap of votes", "overlap of intervals, no clusters",
)  # fmt: skip


def coverage():
    found = {}
    for taste, name in ((0.0, "independent votes"), (1.0, "votes clustered by voter")):
        theta = 0.3 * np.sort(np.random.default_rng(1).standard_normal(ITEMS))[::-1]
        # What a board of endless votes shows: tastes move the strengths of the average voter.
        many = simulated(theta, 30_000, PER_VOTER, taste, np.random.default_rng(2))
        truth = Leaderboard(cluster=None).fit(many)
        known = dict(zip(truth.items_, truth.strengths_, strict=True))
        rank = {item: place for place, item in enumerate(truth.items_, 1)}
        covered = {method: [] for method in METHODS}
        for number in range(BOARDS):
            votes = simulated(theta, VOTERS, PER_VOTER, taste, np.random.default_rng(100 + number))
            for method, (strength, ranks) in one_board(votes, known, rank, number).items():
                covered[method].append((strength, ranks))
            if number % 50 == 49:
                shares = {m: np.mean(c, axis=0).round(3).tolist() for m, c in covered.items()}
                print(name, number + 1, shares, flush=True)
        found[name] = {m: np.mean(c, axis=0).tolist() for m, c in covered.items()}
    return found


def one_board(votes, known, rank, seed):
    """Share of the strengths covered, and whether all ranks are, by method."""
    boards = {"clusters": Leaderboard(random_state=seed).fit(votes)}
    boards["without clusters"] = alone = Leaderboard(cluster=None, random_state=seed).fit(votes)
    frames = {name: board.to_frame() for name, board in boards.items()}
    plain = Leaderboard(cluster=None, intervals="bootstrap", resamples=100, random_state=seed)
    frames["plain bootstrap of votes"] = plain.fit(votes).to_frame()
    overlap = alone.to_frame()
    low, high = overlap["low"].to_numpy(), overlap["high"].to_numpy()
    overlap["rank_low"] = [1 + int((low > each).sum()) for each in high]
    overlap["rank_high"] = [len(low) - int((high < each).sum()) for each in low]
    frames["overlap of intervals, no clusters"] = overlap
    found = {}
    for name, frame in frames.items():
        truth = frame["item"].map(known)
        places = frame["item"].map(rank)
        inside = (frame["low"] <= truth) & (truth <= frame["high"])
        ranked = (frame["rank_low"] <= places) & (places <= frame["rank_high"])
        found[name] = (float(inside.mean()), float(ranked.all()))
    return found


# -- exactness -----------------------------------------------------------------------------------


def exact():
    """Largest differences to peers and to a general optimizer; needs choix and evalica."""
    import choix
    import evalica

    rng = np.random.default_rng(0)
    theta = np.sort(rng.standard_normal(12))[::-1]
    votes = simulated(theta, 60, 40, 0.0, rng)
    decisive = votes[votes["outcome"] != "tie"]
    names = sorted({*votes["a"]})
    number = {name: index for index, name in enumerate(names)}
    won = [(number[a], number[b]) if outcome == "a" else (number[b], number[a])
           for a, b, outcome in decisive[["a", "b", "outcome"]].to_numpy()]  # fmt: skip

    def ours(table, **settings):
        board = Leaderboard(cluster=None, **settings).fit(table)
        found = dict(zip(board.items_, board.strengths_, strict=True))
        return np.array([found[name] for name in names]), board

    def gap(one, other):
        return float(np.abs((one - one.mean()) - (other - other.mean())).max())

    plain = ours(decisive)[0]
    half = ours(votes, ties="half")[0]
    winners = [{"a": evalica.Winner.X, "b": evalica.Winner.Y, "tie": evalica.Winner.Draw}[outcome]
               for outcome in votes["outcome"]]  # fmt: skip
    peer = evalica.bradley_terry(
        votes["a"], votes["b"], winners, tolerance=1e-15, limit=100_000
    ).scores
    davidson, board = ours(votes)
    fitted, nu = general_davidson(votes, number)
    return {
        "choix ilsr_pairwise, decisive votes": gap(plain, choix.ilsr_pairwise(
            len(names), won, max_iter=10_000, tol=1e-14)),
        "evalica bradley_terry, a tie half a win": gap(half, np.log(peer.loc[names].to_numpy())),
        "SciPy's trust-exact on Davidson's likelihood": gap(davidson, fitted),
        "the same, log ν": abs(float(np.log(board.tie_)) - nu),
    }  # fmt: skip


def general_davidson(votes, number):
    """Strengths and log ν by a general optimizer on the likelihood, vote by vote."""
    a = votes["a"].map(number).to_numpy()
    b = votes["b"].map(number).to_numpy()
    n, outcome = len(number), votes["outcome"].to_numpy()
    value = np.where(outcome == "a", 0, np.where(outcome == "b", 1, 2))

    def parts(z):
        d = z[a] - z[b]
        logits = np.stack([d / 2, -d / 2, np.full(d.size, z[n])], axis=1)
        total = np.logaddexp.reduce(logits, axis=1)
        return logits, total, np.exp(logits - total[:, None])

    def jacobian():
        rows = np.zeros((3, a.size, n + 1))
        every = np.arange(a.size)
        for kind, sign in ((0, 0.5), (1, -0.5)):
            rows[kind, every, a], rows[kind, every, b] = sign, -sign
        rows[2, :, n] = 1
        return rows

    J = jacobian()

    def objective(z):
        logits, total, _ = parts(z)
        return -(logits[np.arange(a.size), value] - total).sum() + 0.5 * z[:n].sum() ** 2

    def gradient(z):
        p = parts(z)[2]
        chosen = np.eye(3)[value] - p
        back = -np.einsum("vk,kvp->p", chosen, J)
        back[:n] += z[:n].sum()
        return back

    def hessian(z):
        p = parts(z)[2]
        mean = np.einsum("vk,kvp->vp", p, J)
        back = np.einsum("vk,kvp,kvq->pq", p, J, J) - mean.T @ mean
        back[:n, :n] += 1
        return back

    found = minimize(objective, np.zeros(n + 1), jac=gradient, hess=hessian, method="trust-exact",
                     options={"gtol": 1e-11})  # fmt: skip
    return found.x[:n], found.x[n]


# -- asking --------------------------------------------------------------------------------------


ASKED, PAIRS, VOTES, MOST, RUNS, SURE = 12, 5, 5, 3000, 10, 0.9


def asking():
    """Votes until a goal is settled, by the way in which pairs are chosen."""
    found = {}
    for goal in ("first", "top@5"):
        for how in ("next_pairs", "random", "closest"):
            needed = [votes_needed(goal, how, seed) for seed in range(RUNS)]
            found[f"{goal}, {how}"] = needed
            print(goal, how, needed, flush=True)
    return found


def votes_needed(goal, how, seed):
    """Votes of independent voters until the goal is settled to 90 %, at most `MOST`."""
    rng = np.random.default_rng(seed)
    theta = np.sort(rng.standard_normal(ASKED))[::-1]
    theta[[0, 4]] += 0.25  # first from second, fifth from sixth: not too close to be told apart
    names = [f"item {i:02d}" for i in range(ASKED)]
    every = [(i, k) for i in range(ASKED) for k in range(i + 1, ASKED)]
    rows = []
    while len(rows) < MOST:
        table = pd.DataFrame(rows, columns=["a", "b", "outcome"], dtype=object)
        board = Leaderboard(cluster=None, ties="half").fit(table, items=names)
        if board.confidence(goal) >= SURE:
            return len(rows)
        if how == "next_pairs":
            pairs = [(names.index(a), names.index(b))
                     for a, b in board.next_pairs(PAIRS, goal, level=SURE)]  # fmt: skip
        elif how == "random":
            pairs = [every[each] for each in rng.integers(0, len(every), PAIRS)]
        else:
            pairs = closest(rows, names, every)
        a, b = np.repeat(pairs, VOTES, axis=0).T
        told = draw(theta, a, b, np.zeros(len(a)), 0.3, rng)
        rows += [(names[i], names[k], each) for i, k, each in zip(a, b, told, strict=True)]
    return MOST


def closest(rows, names, every):
    """The pairs of the smallest difference of strengths, shrunk a little so that all have one."""
    if not rows:
        return every[:: len(every) // PAIRS][:PAIRS]
    table = pd.DataFrame(rows, columns=["a", "b", "outcome"])
    board = Leaderboard(cluster=None, ties="half", ridge=0.25).fit(table, items=names)
    strength = dict(zip(board.items_, board.strengths_, strict=True))
    s = np.array([strength[name] for name in names])
    return sorted(every, key=lambda pair: abs(s[pair[0]] - s[pair[1]]))[:PAIRS]


# -- llmfao --------------------------------------------------------------------------------------


def llmfao():
    votes, data = with_features()
    board = Leaderboard(cluster="voter").fit(votes)
    even = Leaderboard(cluster="voter", controls="curves", features=["length"]).fit(votes)
    line = Leaderboard(cluster="voter", controls="linear", features=["length"]).fit(votes)
    others = {"independent votes": Leaderboard(cluster=None).fit(votes), "voters": board,
              "voters and prompts": Leaderboard().fit(votes)}  # fmt: skip
    plain, level = board.to_frame(), even.to_frame()
    curve = even.curves_["length"]
    at = np.quantile(even.control_values("length"), [0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95])
    error = curve.errors[np.searchsorted(curve.breakpoints, at)]
    middle = curve(at[4:5])[0]
    return {
        "votes": len(votes),
        "units": {name: [each.inflation_, width(each), [len(tier) for tier in each.tiers()],
                         each.clusters_] for name, each in others.items()},
        "tie": board.tie_, "effects": line.effects_, "effect_errors": line.effect_errors_,
        "curve": [[float(x), float(curve([x])[0] - middle), float(e)]
                  for x, e in zip(at, error, strict=True)],
        "first": {"without": first_rows(board), "with": first_rows(even)},
        "moved": moved(plain, level), "checks": board.checks(),
        "held out": {unit: held_out(votes, data, unit) for unit in ("prompt", "voter", "item")},
    }  # fmt: skip


def width(board):
    """Mean number of ranks that an item may have."""
    return float(np.mean([row["rank_high"] - row["rank_low"] + 1 for row in board.rows()]))


def first_rows(board):
    return [[row["item"], row["rank_low"], row["rank_high"]] for row in board.rows()[:5]]


def with_features():
    """The votes, with the length of each answer in characters."""
    data = np.load(SHARED / "llmfao" / "comparisons_with_surface_features.npz", allow_pickle=False)
    votes = read_votes(SHARED / "llmfao" / "crowd-comparisons.csv.gz")
    lengths = [name for name in data["feature_names"] if "char" in str(name)]
    column = int(np.flatnonzero(data["feature_names"] == lengths[0])[0])
    words = np.array(["b", "tie", "a"])[data["outcome"].astype(int) + 1]
    assert (words == votes["outcome"].to_numpy()).all()  # the two files list the same votes
    votes["length_a"] = data["X"][data["left"].astype(int), column]
    votes["length_b"] = data["X"][data["right"].astype(int), column]
    return votes, data


def moved(plain, level):
    """The items whose rank changes most at equal length."""
    one, other = (frame.set_index("item")["rank"] for frame in (plain, level))
    change = (one - other).dropna().astype(int)
    order = change.abs().sort_values(ascending=False, kind="stable").index[:6]
    return [[item, int(one[item]), int(other[item])] for item in order]


def held_out(votes, data, unit):
    """Share of the decisive votes on held-out prompts, voters or items that are in order."""
    groups = {"prompt": votes["prompt"], "voter": votes["voter"]}
    methods = ("without controls", "linear length", "curve of length", "features alone",
               "features and strengths")  # fmt: skip
    right = {method: [] for method in methods}
    rng = np.random.default_rng(0)
    if unit == "item":
        names = sorted({*votes["a"], *votes["b"]})
        part = dict(zip(names, rng.permutation(np.arange(len(names)) % 6), strict=True))
        sides = np.stack([votes["a"].map(part), votes["b"].map(part)], axis=1)
        folds = [(~(sides == fold).any(axis=1), (sides == fold).sum(axis=1) == 1)
                 for fold in range(6)]  # fmt: skip
    else:
        names = sorted({*groups[unit]})
        folds_of = np.arange(len(names)) % 6 if unit == "voter" else np.arange(len(names))
        part = dict(zip(names, rng.permutation(folds_of), strict=True))
        fold_of = groups[unit].map(part).to_numpy()
        folds = [(fold_of != fold, fold_of == fold) for fold in range(fold_of.max() + 1)]
    for seen, held in folds:
        for method, odds in log_odds(votes, data, seen, held).items():
            told = votes["outcome"].to_numpy()[held]
            sign = np.select([told == "a", told == "b"], [1, -1], 0)
            right[method] += np.where(odds == 0, 0.5, (odds * sign > 0))[sign != 0].tolist()
    return {method: [float(np.mean(each)), len(each)] for method, each in right.items()}


def log_odds(votes, data, seen, held):
    """Log-odds that a wins each held-out vote; an item without a strength has the mean."""
    train, test = votes[seen], votes[held]
    found = {}
    for name, controls in (("without controls", None), ("linear length", "linear"),
                           ("curve of length", "curves")):  # fmt: skip
        board = Leaderboard(
            controls=controls, features=["length"], bags=1, ties="half", cluster=None
        ).fit(train)
        finite = np.nan_to_num(board.strengths_, nan=0.0, posinf=4.0, neginf=-4.0)
        known = dict(zip(board.items_, finite, strict=True))
        one, other = (test[side].map(known).fillna(0.0).to_numpy() for side in "ab")
        odds = one - other
        if controls == "linear":
            odds += board.effects_["length"] * (test["length_a"] - test["length_b"]).to_numpy()
        elif "length" in board.curves_:
            curve = board.curves_["length"]
            odds += curve(test["length_a"].to_numpy()) - curve(test["length_b"].to_numpy())
        found[name] = odds
        if controls is None:
            author = np.array([known.get(item, 0.0) for item in item_of_answer(votes, data)])
    found |= by_features(data, seen, held, author)
    return found


def item_of_answer(votes, data):
    """The item that gave each answer."""
    items = np.full(len(data["X"]), "", dtype=object)
    items[data["left"].astype(int)] = votes["a"]
    items[data["right"].astype(int)] = votes["b"]
    return items


def by_features(data, seen, held, author):
    """Log-odds of boosted trees on the text of the answers, alone and on top of the strengths."""
    X = data["X"][:, :24]
    pair = np.stack([data["left"], data["right"]], axis=1).astype(int)
    outcome = data["outcome"].astype(int)
    decided = np.where(outcome[:, None] >= 0, pair, pair[:, ::-1])
    judged = Judgments(
        pairs=decided[seen & (outcome != 0)], ties=pair[seen & (outcome == 0)], n=len(X)
    )
    shape = {"n_estimators": 150, "min_child_samples": 10, "num_leaves": 8, "balance": "pairs"}
    found = {}
    for name, start in (("features alone", None), ("features and strengths", author)):
        scores = BoostedRanker(**shape).fit(X, judged, init_score=start).predict(X)
        scores = scores if start is None else scores + start
        found[name] = scores[pair[held, 0]] - scores[pair[held, 1]]
    return found


# -- the page ------------------------------------------------------------------------------------


def page(parts):
    """The page, from the last line of each part."""
    lines = ["# Leaderboards", ""]
    for name, write in (("exact", exact_section), ("speed", speed_section),
                        ("coverage", coverage_section), ("asking", asking_section),
                        ("llmfao", llmfao_section)):  # fmt: skip
        if name in parts:
            took = f"Measured on {parts[name]['date']}, {parts[name]['seconds']:.0f} s."
            lines += [*write(parts[name]["found"]), "", took, ""]
    return "\n".join(lines)


def exact_section(found):
    rows = [f"| {name} | {gap:.1e} |" for name, gap in found.items()]
    return ["## The same strengths", "",
            "Largest difference of the strengths of 12 items after 2,400 votes.", "",
            "| beside | difference |", "|---|--:|", *rows]  # fmt: skip


def speed_section(found):
    head = [
        "## Speed", "",
        f"{found['machine']}. Seconds, the best of three, each library in a process of its own; "
        "names are text in a data frame. *Strengths* are from names to strengths, *errors* "
        "to standard errors as well; of precede clustered by voter (a tenth as many as "
        "votes), of arena-rank for independent votes, and evalica and choix have none but by "
        "bootstrap. A dash: not there, or longer than 150 seconds with its warm-up.", "",
        "| votes | items | " + " | ".join(found["columns"]) + " |",
        "|--:|--:|" + "--:|" * len(found["columns"]),
    ]  # fmt: skip
    rows = []
    for row in found["rows"]:
        cells = ["–" if each is None else f"{each:.2f}" for each in row["seconds"]]
        rows.append(f"| {row['votes']:,} | {row['items']:,} | {' | '.join(cells)} |")
    return [*head, *rows, "", *found["notes"]]


def coverage_section(found):
    lines = [
        "## Coverage", "",
        f"{BOARDS} simulated boards of {ITEMS} items and about {VOTERS * PER_VOTER:,} votes of "
        f"{VOTERS} voters, who all share the same strengths, or have tastes of their own that move "
        "each strength by a standard deviation of 1. Nominal 95 %: the share of strengths inside "
        "their intervals, and of boards on which all ranks are inside their sets. By the overlap "
        "rule an item is below those whose interval lies above its own.", "",
        "| intervals | independent votes: strengths | all ranks | clustered votes: strengths "
        "| all ranks |", "|---|--:|--:|--:|--:|",
    ]  # fmt: skip
    for method in METHODS:
        cells = [f"{100 * value:.1f}" for each in found.values() for value in each[method]]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return [*lines, "", "The standard error of a share of 95 % of 400 boards is 1.1 points."]


def asking_section(found):
    lines = [
        "## Votes saved by asking", "",
        f"Votes until a goal is settled to {100 * SURE:g} %, among {ASKED} items of normal "
        f"strengths, {VOTES} votes on each of {PAIRS} pairs at a time: the median of {RUNS} "
        f"boards and the quartiles. A board that is not settled after {MOST:,} votes counts as "
        f"{MOST:,}.", "",
        "| goal | next_pairs | random pairs | closest pairs |", "|---|--:|--:|--:|",
    ]  # fmt: skip
    for goal in ("first", "top@5"):
        cells = []
        for how in ("next_pairs", "random", "closest"):
            low, middle, high = np.quantile(found[f"{goal}, {how}"], [0.25, 0.5, 0.75])
            cells.append(f"{middle:,.0f} ({low:,.0f} to {high:,.0f})")
        lines.append(f"| {goal} | {' | '.join(cells)} |")
    return lines


def llmfao_section(found):
    lines = [
        "## llmfao", "",
        f"{found['votes']:,} votes of a crowd on answers of 59 language models; Davidson's ν is "
        f"{found['tie']:.2f}. What depends on each other, how many votes are then worth an "
        "independent one, how many ranks an item may have on average (95 % for all together), and "
        "the sizes of the tiers:", "",
        "| clusters | votes worth one | ranks | tiers |", "|---|--:|--:|---|",
    ]  # fmt: skip
    for name, (inflation, ranks, tiers, sizes) in found["units"].items():
        kinds = "".join(f", {size} {kind}s" for kind, size in sizes.items())
        lines.append(f"| {name}{kinds} | {inflation:.1f} | {ranks:.1f} "
                     f"| {', '.join(map(str, tiers))} |")  # fmt: skip
    lines += ["", "The first five, with votes clustered by voter:", "",
              "| rank | without controls | ranks | at equal length | ranks |",
              "|--:|---|---|---|---|"]  # fmt: skip
    both = zip(found["first"]["without"], found["first"]["with"], strict=True)
    for place, (one, other) in enumerate(both, 1):
        lines.append(f"| {place} | {one[0]} | {one[1]} to {one[2]} | {other[0]} "
                     f"| {other[1]} to {other[2]} |")  # fmt: skip
    lines.append("")
    lines += [f"{text}" for text in found["checks"].values()]
    lines += ["", "Ranks that equal length moves most: " + ", ".join(
        f"{item} {one} → {other}" for item, one, other in found["moved"]) + ".", "",
        "The curve of length, relative to the median length:", "",
        "| characters | log-odds | standard error |", "|--:|--:|--:|"]  # fmt: skip
    lines += dict.fromkeys(f"| {x:,.0f} | {y:+.2f} | {e:.2f} |" for x, y, e in found["curve"])
    effect, error = found["effects"]["length"], found["effect_errors"]["length"]
    lines += ["", f"As a line: {1000 * effect:+.3f} ± {1000 * error:.3f} per 1,000 characters.", "",
              "Share of the decisive held-out votes in order, all votes of a prompt, of a sixth of "
              "the voters, or of a sixth of the items being held out; a new item has the mean "
              "strength. *Features* are boosted trees "
              "on 24 features of the text of an answer.", "",
              "| | held-out prompts | held-out voters | new items |",
              "|---|--:|--:|--:|"]  # fmt: skip
    for method in found["held out"]["prompt"]:
        cells = [f"{each[method][0]:.3f}" for each in found["held out"].values()]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    counts = [f"{found['held out'][unit]['features alone'][1]:,}"
              for unit in ("prompt", "voter", "item")]  # fmt: skip
    return [*lines, "", f"Of {', '.join(counts)} votes."]


def main():
    wanted = sys.argv[1:] or ["exact", "coverage", "asking", "llmfao"]
    for name in wanted:
        if name != "page":
            start = time.perf_counter()
            found = globals()[name]()
            append(FILE, {"part": name, "date": time.strftime("%Y-%m-%d"),
                          "seconds": time.perf_counter() - start, "found": found})  # fmt: skip
    lines = (RESULTS / FILE).read_text(encoding="utf-8").splitlines()
    parts = {row["part"]: row for row in map(json.loads, lines)}
    write_page(__file__, "leaderboard.md", page(parts))


if __name__ == "__main__":
    main()
