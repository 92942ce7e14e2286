"""The library again, by plain enumeration: every pair is listed, every stump is tried.

Slow and obvious. The risk is computed with 50 decimal digits and no limit of the exponent, so
that a difference from it is an error of the library; the algorithms are transcribed from the
papers over an explicit list of pairs and an explicit list of candidates.
"""

import decimal
import math
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from precede import Judgments

DIGITS = decimal.Context(prec=50, Emax=10**15, Emin=-(10**15))

# -- pairs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Row `winner` should precede row `loser`; `gap` is the difference of their grades, or tau.

    The weight of the pair is inner * item weight of the loser * balance of the loser's query.
    """

    winner: int
    loser: int
    inner: float
    gap: float


def item_weights(judgments):
    n = len(judgments)
    return [1.0] * n if judgments.weight is None else [float(w) for w in judgments.weight]


def list_pairs(judgments):
    """Every crucial pair with a positive weight: graded ones, then listed ones, then ties.

    A tie is half a pair in each direction.
    """
    n, weight = len(judgments), item_weights(judgments)
    pairs = []
    if judgments.grade is not None:
        for i in range(n):
            for k in range(n):
                same = judgments.qid is None or judgments.qid[i] == judgments.qid[k]
                if same and judgments.grade[i] > judgments.grade[k]:  # false where one is NaN
                    gap = float(judgments.grade[i] - judgments.grade[k])
                    pairs.append(Pair(i, k, weight[i], gap))
    for j, (i, k) in enumerate([] if judgments.pairs is None else judgments.pairs):
        own = 1.0 if judgments.pair_weight is None else float(judgments.pair_weight[j])
        asked = 1.0 if judgments.pair_margin is None else float(judgments.pair_margin[j])
        pairs.append(Pair(int(i), int(k), weight[i] * own, asked))
    for j, (i, k) in enumerate([] if judgments.ties is None else judgments.ties):
        own = 1.0 if judgments.tie_weight is None else float(judgments.tie_weight[j])
        pairs.append(Pair(int(i), int(k), weight[i] * own / 2, 1.0))
        pairs.append(Pair(int(k), int(i), weight[k] * own / 2, 1.0))
    return [pair for pair in pairs if pair.inner > 0 and weight[pair.loser] > 0]


def pair_count(judgments):
    """Pairs by their weights, balance apart, but no fewer than by number.

    A pair that is both graded and listed is two; one listed twice is one; a tie is one.
    """
    weight, pairs = item_weights(judgments), list_pairs(judgments)
    by_weight = math.fsum(pair.inner * weight[pair.loser] for pair in pairs)

    def counted(rows, own):
        rows = [] if rows is None else [(int(i), int(k)) for i, k in rows]
        own = [1.0] * len(rows) if own is None else own
        weighed = zip(rows, own, strict=True)
        return [(i, k) for (i, k), w in weighed if w > 0 and weight[i] > 0 and weight[k] > 0]

    listed = counted(judgments.pairs, judgments.pair_weight)
    ties = counted(judgments.ties, judgments.tie_weight)
    graded = len(pairs) - len(listed) - 2 * len(ties)
    return max(by_weight, graded + len(set(listed)) + len({frozenset(tie) for tie in ties}))


def loser_weights(judgments, balance="pairs"):
    """v_k: the item weight; balanced, over the total of its query, and times its items."""
    weight = item_weights(judgments)
    if balance == "pairs":
        return weight
    query = [0] * len(judgments) if judgments.qid is None else list(judgments.qid)
    total = defaultdict(float)
    for pair in list_pairs(judgments):
        total[query[pair.loser]] += pair.inner * weight[pair.loser]
    items = defaultdict(lambda: 1.0)
    if balance == "items":
        items = defaultdict(float)
        for row in {row for pair in list_pairs(judgments) for row in (pair.winner, pair.loser)}:
            items[query[row]] += weight[row]
    return [w / total[q] * items[q] if total[q] else w for w, q in zip(weight, query, strict=True)]


def total_weight(judgments, balance="pairs"):
    loser_weight = loser_weights(judgments, balance)
    return math.fsum(pair.inner * loser_weight[pair.loser] for pair in list_pairs(judgments))


def without_ties(judgments):
    return Judgments(
        judgments.grade, judgments.qid, pairs=judgments.pairs, pair_weight=judgments.pair_weight,
        weight=judgments.weight, label=judgments.label, n=len(judgments),
    )  # fmt: skip


def share_in_order(judgments, scores):
    """Share of the weight of the pairs in order, equal scores counting half; no judged ties."""
    judgments, weight = without_ties(judgments), item_weights(judgments)
    good = total = 0.0
    for pair in list_pairs(judgments):
        mass = pair.inner * weight[pair.loser]
        difference = scores[pair.winner] - scores[pair.loser]
        good += mass * (1.0 if difference > 0 else 0.5 if difference == 0 else 0.0)
        total += mass
    return good / total


# -- losses and prices, in decimals ----------------------------------------------------------


def _log1p(x):
    """log(1 + x) for a small x too."""
    return x - x * x / 2 + x * x * x / 3 if x < Decimal("1e-20") else (1 + x).ln()


def _positive_part(x):
    return x if x > 0 else Decimal(0)


def _power(x, exponent):
    return Decimal(1) if exponent == 0 else x**exponent


def exponential(rate=1):
    """l(m) = exp(-rate m): value, slope, curvature."""
    return (
        lambda m: (-rate * m).exp(),
        lambda m: -rate * (-rate * m).exp(),
        lambda m: rate**2 * (-rate * m).exp(),
    )


LOGISTIC = (
    lambda m: _log1p((-m).exp()),
    lambda m: -1 / (1 + m.exp()),
    lambda m: 1 / ((1 + m.exp()) * (1 + (-m).exp())),
)


def hinge(degree, knot=Decimal(1)):
    """l(m) = (knot - m)_+^degree; on the kink the slope is 0."""

    def left(m):
        return m < knot

    return (
        lambda m: _power(_positive_part(knot - m), degree) if left(m) else Decimal(0),
        lambda m: -degree * _power(knot - m, degree - 1) if left(m) else Decimal(0),
        lambda m: (
            degree * (degree - 1) * _power(knot - m, max(degree - 2, 0)) if left(m) else Decimal(0)
        ),
    )


HYPERBOLIC = (
    lambda m: (1 + m * m).sqrt() - m,
    lambda m: m / (1 + m * m).sqrt() - 1,
    lambda m: 1 / ((1 + m * m) * (1 + m * m).sqrt()),
)


def power_price(p):
    """g(u) = u^p: value, slope, curvature."""
    return (
        lambda u: _power(u, p),
        lambda u: p * _power(u, p - 1),
        lambda u: p * (p - 1) * _power(u, max(p - 2, 0)),
    )


EXP_PRICE = (lambda u: u.exp(),) * 3
QUADRATIC_PRICE = (lambda u: u + u * u, lambda u: 1 + 2 * u, lambda u: Decimal(2))


# -- risk ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Risk:
    """R, its pull and curvature for every row, and the pair mass, all in decimals."""

    value: Decimal
    mass: Decimal
    pull: list
    curvature: list

    @property
    def log_value(self):
        with decimal.localcontext(DIGITS):
            return float(self.value.ln()) if self.value > 0 else -math.inf

    @property
    def normalized_pull(self):
        with decimal.localcontext(DIGITS):
            return np.array([float(p / self.mass) if self.mass else 0.0 for p in self.pull])

    @property
    def normalized_curvature(self):
        with decimal.localcontext(DIGITS):
            return np.array([float(c / self.mass) if self.mass else 0.0 for c in self.curvature])


def divisors(judgments, balance):
    """n_k by which the losses of k are divided before the price: 1, or balanced those above k."""
    above = defaultdict(float)
    for pair in list_pairs(judgments):
        above[pair.loser] += pair.inner
    return above if balance != "pairs" else dict.fromkeys(above, 1.0)


def divided(price, divisor):
    """n g(u / n): value, slope, curvature."""
    value, slope, curvature = price
    return (
        lambda u: divisor * value(u / divisor),
        lambda u: slope(u / divisor),
        lambda u: curvature(u / divisor) / divisor,
    )


def risk(judgments, scores, loss, price, *, gap=False, balance="pairs"):
    """R(s) = sum_k v_k g(sum_i w_ik l(s_i - s_k)), differentiated by hand, pair by pair.

    Balanced, ``v_k n_k g(... / n_k)``: the price is of the mean loss of k.
    """
    with decimal.localcontext(DIGITS):
        return _risk(judgments, [Decimal(float(s)) for s in scores], loss, price, gap, balance)


def _risk(judgments, scores, loss, price, gap, balance):
    loser_weight = [Decimal(v) for v in loser_weights(judgments, balance)]
    divisor = divisors(judgments, balance)
    terms_of = defaultdict(list)
    for pair in list_pairs(judgments):
        margin = scores[pair.winner] - scores[pair.loser]
        if gap:
            margin -= Decimal(pair.gap)
        terms = [Decimal(pair.inner) * part(margin) for part in loss]
        terms_of[pair.loser].append((pair.winner, *terms))

    value = mass = Decimal(0)
    pull = [Decimal(0)] * len(judgments)
    curvature = [Decimal(0)] * len(judgments)
    for k, terms in terms_of.items():
        loss_sum = sum(term[1] for term in terms)
        cost, price_slope, price_curvature = (
            loser_weight[k] * part(loss_sum) for part in divided(price, Decimal(divisor[k]))
        )
        slope = sum(term[2] for term in terms)
        value += cost
        mass -= price_slope * slope
        pull[k] += price_slope * slope
        curvature[k] += price_curvature * slope**2 + price_slope * sum(term[3] for term in terms)
        by_winner = defaultdict(lambda: [Decimal(0), Decimal(0)])
        for winner, _, first, second in terms:
            by_winner[winner][0] += first
            by_winner[winner][1] += second
        for i, (first, second) in by_winner.items():
            pull[i] -= price_slope * first
            curvature[i] += price_curvature * first**2 + price_slope * second
    return Risk(value, mass, pull, curvature)


def edge_weights(judgments, scores, ranker, loss, price, *, gap=False, balance="pairs"):
    """Shares of the pair mass that a ranker puts in order, reverses, ties."""
    with decimal.localcontext(DIGITS):
        scores = [Decimal(float(s)) for s in scores]
        loser_weight = [Decimal(v) for v in loser_weights(judgments, balance)]
        pairs = list_pairs(judgments)
        margin = [scores[p.winner] - scores[p.loser] - Decimal(gap and p.gap) for p in pairs]
        loss_sum, divisor = defaultdict(Decimal), divisors(judgments, balance)
        for pair, m in zip(pairs, margin, strict=True):
            loss_sum[pair.loser] += Decimal(pair.inner) * loss[0](m)
        sums = [Decimal(0)] * 3
        for pair, m in zip(pairs, margin, strict=True):
            side = int(ranker[pair.winner]) - int(ranker[pair.loser])
            _, slope, _ = divided(price, Decimal(divisor[pair.loser]))
            price_slope = loser_weight[pair.loser] * slope(loss_sum[pair.loser])
            sums[{1: 0, -1: 1, 0: 2}[side]] -= price_slope * Decimal(pair.inner) * loss[1](m)
        total = sum(sums)
        return tuple(float(s / total) if total else 0.0 for s in sums)


# -- bins and stumps -------------------------------------------------------------------------


def exact_cuts(values):
    """Cuts halfway between neighboring distinct values, NaN left out."""
    distinct = sorted({float(v) for v in values if not math.isnan(v)})
    cuts = []
    for a, b in pairwise(distinct):
        cut = a / 2 + b / 2
        cuts.append(cut if a <= cut < b else a + 0.0)  # 0.0, never -0.0
    return cuts


def quantile_cuts(values, weights, max_bins):
    """Cuts between bins of about equal weight; between all neighbors if they are few."""
    held = {}
    for value, weight in zip(values, weights, strict=True):
        if not math.isnan(value):
            held[float(value)] = held.get(float(value), 0) + int(weight)
    distinct = sorted(held)
    if len(distinct) <= max_bins:
        return exact_cuts(distinct)
    total = left = sum(held.values())
    cuts, here = [], 0
    for a, b in pairwise(distinct):
        here += held[a]
        bins = max_bins - len(cuts)
        if bins > 1 and (here * bins >= left or held[b] * max_bins >= total):
            cuts += exact_cuts([a, b])
            left, here = left - here, 0
    return cuts


@dataclass(frozen=True)
class Candidate:
    """h(x) = 1 if x[feature] > threshold else 0, `missing` where x is NaN."""

    feature: int
    threshold: float
    missing: int

    def values(self, X):
        column = np.asarray(X)[:, self.feature]
        return [self.missing if math.isnan(x) else int(float(x) > self.threshold) for x in column]


def candidates(X, cuts=None, one_way=False):
    """All stumps that differ on X, in the order in which ties are broken.

    With `one_way` no weight is negative, and "is missing" is another ranker than "is present".
    """
    X = np.asarray(X)
    found = []
    for feature in range(X.shape[1]):
        column = X[:, feature]
        missing = bool(np.isnan(column).any())
        own = exact_cuts(column) if cuts is None else [float(c) for c in cuts[feature]]
        if missing and not np.isnan(column).all():
            found.append(Candidate(feature, -math.inf, 0))
        for cut in own:
            found += [Candidate(feature, cut, side) for side in range(2 if missing else 1)]
        if one_way and missing and not np.isnan(column).all():
            found.append(Candidate(feature, math.inf, 1))
    return found


def first_of_the_best(worth, tie):
    """Number of the first whose worth is within a share `tie` of the largest."""
    largest = max(worth, default=0.0)
    if largest <= 0:
        return None
    return next(j for j, w in enumerate(worth) if w >= largest * (1 - tie))


def edge(pull, values):
    return math.fsum(p * h for p, h in zip(pull, values, strict=True))


def best_stump(X, pull, cuts=None, tie=2.0**-40):
    """The stump of the largest absolute edge, and its edge."""
    stumps = candidates(X, cuts)
    edges = [edge(pull, stump.values(X)) for stump in stumps]
    # Edges of 1e-16 are what rounding leaves of 0.
    chosen = first_of_the_best([abs(e) if abs(e) > 1e-15 else 0.0 for e in edges], tie)
    return (None, 0.0) if chosen is None else (stumps[chosen], edges[chosen])


# -- RankBoost, over a list of pairs and a list of rankers -----------------------------------


@dataclass
class Boosted:
    """What a transcription of the papers gives: rankers by number, weights, Z of each round."""

    chosen: list
    weights: list
    normalizers: list
    log_risk: list
    smoothed: list


def split_mass(pairs, mass, values):
    """d+, d-, d0: masses of the pairs in order, reversed, tied by a ranker of 0s and 1s."""
    parts = ([], [], [])
    for pair, m in zip(pairs, mass, strict=True):
        side = values[pair.winner] - values[pair.loser]
        parts[0 if side > 0 else 1 if side < 0 else 2].append(m)
    return tuple(math.fsum(part) for part in parts)


def normalizer(right, wrong, tied, alpha):
    """Z = d+ e^-alpha + d- e^alpha + d0."""
    return right * math.exp(-alpha) + wrong * math.exp(alpha) + tied


def decrease(right, wrong, half_a_pair, step="exact"):
    """1 - Z after the step taken, which is smoothed where one of the masses is 0."""
    alpha, _ = _alpha(right, wrong, step, half_a_pair)
    return right * -math.expm1(-alpha) + wrong * -math.expm1(alpha)


def orders_all(pairs, values):
    """Whether a ranker, or its opposite, puts every pair in order without a tie."""
    sides = [values[pair.winner] - values[pair.loser] for pair in pairs]
    return min(sides) > 0 or max(sides) < 0


def last_step(pairs, scores, values, step, half_a_pair):
    """Step along such a ranker: every pair ends with a margin of log(1 + 1/e) at least."""
    sign = math.copysign(1.0, step)
    margin = min(sign * (values[pair.winner] - values[pair.loser]) for pair in pairs)
    behind = min(0.0, *(scores[pair.winner] - scores[pair.loser] for pair in pairs))
    return sign * max(abs(step), (math.log(1 + 1 / half_a_pair) - behind) / margin)


def rankboost(
    judgments, weak_rankers, *, rounds, select="slope", step="exact", learning_rate=1.0,
    balance="pairs",
    positive_only=False, tie=2.0**-40,
):  # fmt: skip
    """Algorithm 1 of C19 / RS09 figure 1 over lists of 0s and 1s, one list a ranker.

    `select` is "slope" (RS09 eq. 3, C19 eq. 13) or "decrease" (RS09 eq. 5); `step` is
    "exact" (C19 eq. 14) or "bound" (C19 section 2.3). Where d- (or d+) is 0 half a pair is
    added to both.
    """
    pairs, loser_weight = list_pairs(judgments), loser_weights(judgments, balance)
    initial = [pair.inner * loser_weight[pair.loser] for pair in pairs]
    total = math.fsum(initial)
    half_a_pair = 0.5 / pair_count(judgments)
    log_initial = [math.log(m) for m in initial]
    scores = [0.0] * len(judgments)
    result = Boosted([], [], [], [], [])
    for _ in range(rounds):
        mass = _normalized(log_initial, pairs, scores)
        split = [split_mass(pairs, mass, values) for values in weak_rankers]
        if select == "slope":
            worth = [(r - w) if positive_only else abs(r - w) for r, w, _ in split]
        else:
            worth = [decrease(r, w, half_a_pair, step) for r, w, _ in split]
            if positive_only:
                worth = [x if r > w else 0.0 for x, (r, w, _) in zip(worth, split, strict=True)]
        chosen = first_of_the_best([w if w > 1e-15 else 0.0 for w in worth], tie)
        if chosen is None:
            break
        right, wrong, tied = split[chosen]
        alpha, smoothed = _alpha(right, wrong, step, half_a_pair)
        perfect = orders_all(pairs, weak_rankers[chosen])
        alpha *= learning_rate
        if perfect:  # no round follows
            alpha = last_step(
                pairs, scores, weak_rankers[chosen], alpha / learning_rate, half_a_pair
            )
        for row, value in enumerate(weak_rankers[chosen]):
            scores[row] += alpha * value
        result.chosen.append(chosen)
        result.weights.append(alpha)
        result.smoothed.append(smoothed and not perfect)
        result.normalizers.append(normalizer(right, wrong, tied, alpha))
        result.log_risk.append(_log_risk(log_initial, pairs, scores) - math.log(total))
        if perfect:
            break
    return result


def _alpha(right, wrong, step, half_a_pair):
    if step == "bound":
        r = right - wrong
        smoothing = 2 * half_a_pair if abs(r) >= 1 - 1e-15 else 0.0
        return 0.5 * math.log((1 + r + smoothing) / (1 - r + smoothing)), False
    if min(right, wrong) == 0:
        return 0.5 * math.log((right + half_a_pair) / (wrong + half_a_pair)), True
    return 0.5 * math.log(right / wrong), False


def _exponents(log_initial, pairs, scores):
    return [
        m - (scores[pair.winner] - scores[pair.loser])
        for m, pair in zip(log_initial, pairs, strict=True)
    ]


def _normalized(log_initial, pairs, scores):
    exponents = _exponents(log_initial, pairs, scores)
    largest = max(exponents)
    terms = [math.exp(e - largest) for e in exponents]
    total = math.fsum(terms)
    return [term / total for term in terms]


def _log_risk(log_initial, pairs, scores):
    exponents = _exponents(log_initial, pairs, scores)
    largest = max(exponents)
    return largest + math.log(math.fsum(math.exp(e - largest) for e in exponents))
