"""Rounds and leaves chosen on held-out queries."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from precede import (
    AdaBoostRanker,
    BoostedRanker,
    Judgments,
    PushRanker,
    QBRank,
    RankBoost,
    load,
    pairs_in_order,
    write_table,
)
from precede.boosting import holdout, selection
from precede.boosting.holdout import TooFewError, Units
from precede.boosting.selection import (
    Candidate,
    CurveRecorder,
    HeldOutMetric,
    LearningCurve,
    Selection,
    Size,
    choose_size,
    held_out_curve,
    is_evaluated,
)
from precede.datasets import search_results, two_normals
from precede.engine.execution import Context
from precede.model import Ensemble

data = search_results(40, features=5, informative=3, per_query=12, random_state=1)
small = {"n_estimators": "auto", "learning_rate": 0.3, "min_child_samples": 5}


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr(selection, "MAX_ROUNDS", 25)
    monkeypatch.setattr(holdout, "PATIENCE", 8)


# -- the rule ---------------------------------------------------------------------------------


def naive_error(values, others, weight):
    apart = [a - b for a, b in zip(values, others, strict=True)]
    total = math.fsum(weight)
    mean = math.fsum(w * d for w, d in zip(weight, apart, strict=True)) / total
    if len(apart) < 2:
        return mean, 0.0
    squares = math.fsum((w * (d - mean)) ** 2 for w, d in zip(weight, apart, strict=True))
    return mean, len(apart) / total * math.sqrt(squares / (len(apart) - 1) / len(apart))


def naive_choice(curves, weight):
    """Number of the size, and its rounds."""

    def mean(values):
        return math.fsum(w * v for w, v in zip(weight, values, strict=True)) / math.fsum(weight)

    tops = [max(range(len(curve)), key=lambda t: mean(curve[t])) for curve in curves]
    best = max(range(len(curves)), key=lambda s: mean(curves[s][tops[s]]))
    for size, curve in enumerate(curves):
        behind, error = naive_error(curves[best][tops[best]], curve[tops[size]], weight)
        if behind <= error + 1e-12:
            within = [
                naive_error(curve[tops[size]], curve[t], weight) for t in range(tops[size] + 1)
            ]
            last_outside = max(
                (t for t, (off, error) in enumerate(within) if off > error + 1e-12), default=-1
            )
            return size, last_outside + 2
    raise AssertionError


@given(st.data())
def test_the_choice_is_that_of_the_twin(drawn):
    units = drawn.draw(st.integers(1, 5))
    value = st.integers(0, 40)
    column = st.lists(value, min_size=units, max_size=units)
    curves = [
        np.array(drawn.draw(st.lists(column, min_size=1, max_size=6)), float) for _ in range(3)
    ]
    weight = np.array(
        drawn.draw(st.lists(st.integers(1, 3), min_size=units, max_size=units)), float
    )
    seen = [
        LearningCurve([3 * t + 3 for t in range(len(curve))], curve, weight) for curve in curves
    ]
    sizes = choose_size([Candidate(2), Candidate(4), Candidate(8)], seen, fixed_rounds=False)
    chosen = [number for number, size in enumerate(sizes) if size.chosen]
    expected, rounds = naive_choice([curve.tolist() for curve in curves], weight.tolist())
    means = [size.value for size in sizes]
    if len({*np.round(means, 9)}) == 3:  # ties of means are broken by rounding
        assert chosen == [expected]
        top = np.average(curves[expected], axis=1, weights=weight)
        if np.sum(np.isclose(top, top.max())) == 1:
            assert sizes[expected].rounds <= sizes[expected].best_rounds
            assert sizes[expected].rounds == 3 * rounds
            assert sizes[expected].best_rounds == 3 * int(np.argmax(top)) + 3


@pytest.mark.parametrize("units", [3, 7, 50])
def test_a_difference_of_a_single_unit_is_one_standard_error(units):
    """Its mean and its standard error are the same number: rounding must not decide."""
    random, weight = np.random.default_rng(0), np.ones(units)
    for _ in range(50):
        less = random.integers(0, 1000, units) / 1000
        best = less + np.where(np.arange(units) == 0, random.integers(1, 1000) / 1000, 0.0)
        curve = LearningCurve([1, 2], np.array([less, best]), weight)
        assert choose_size([Candidate(None)], [curve], fixed_rounds=False)[0].rounds == 1
        small, large = (LearningCurve([1], row[None], weight) for row in (less, best))
        assert choose_size([Candidate(2), Candidate(4)], [small, large], fixed_rounds=False)[
            0
        ].chosen


def naive_end(curve, rounds, incumbent, rival_rounds, most):
    """Rounds after which a size is left, by the words of the documentation."""
    means = [float(np.mean(row)) for row in curve]
    others = [float(np.mean(row)) for row in incumbent]
    top = others.index(max(others))
    for now, done in enumerate(rounds):
        best = means.index(max(means[: now + 1]))
        if done - rounds[best] >= max(8, done // 3):
            return done
        if done < 32 or done < rival_rounds[top]:
            continue
        here, half, quarter = (
            max(means[: sum(each <= done // part for each in rounds)]) for part in (1, 2, 4)
        )
        factor = min((here - half) / (half - quarter), 1.0) if half > quarter else 1.0
        doublings = math.ceil(math.log2(most / done))
        reached = here + math.fsum((here - half) * factor ** (t + 1) for t in range(doublings))
        _, error = naive_error(incumbent[top], curve[best], [1.0] * len(incumbent[top]))
        if others[top] - reached > 2 * error + 1e-9:
            return done
    return rounds[-1]


@given(st.data())
def test_a_size_is_left_where_the_twin_leaves_it(drawn):
    """Curves that rise, some of them too slowly, with a little noise in every unit."""
    random = np.random.default_rng(drawn.draw(st.integers(0, 1000)))
    rate, height = drawn.draw(st.sampled_from([5, 30, 200])), random.uniform(0.5, 1.5)
    rounds = list(range(1, 91))
    rise = 1 - np.exp(-np.array(rounds) / rate)
    curve = height * rise[:, None] + random.normal(0, 0.02, (90, 7))
    incumbent = random.uniform(0.8, 1.2) + random.normal(0, 0.02, (30, 7))
    growing = CurveRecorder(np.ones(7), 300, LearningCurve(rounds[:30], incumbent, np.ones(7)))
    for done, row in zip(rounds, curve, strict=True):
        growing.add(done, row)
        if growing.is_over():
            break
    assert done == naive_end(curve, rounds, incumbent.tolist(), rounds[:30], 300)


class Rising:
    """Stands for a method, its monitor and what is held out: the value is a function of rounds."""

    def __init__(self, value, ends=10**9):
        self.rounds, self._value, self._ends = 0, value, ends
        self.looks, self.weight, self.scores = [], np.ones(3), None
        self.context, self.state, self.ensemble = Context(1), None, Ensemble([], [], 1)

    def boost_round(self):
        self.rounds += 1
        return "ended" if self.rounds >= self._ends else self

    stop_reason = None

    def values(self, scores):
        self.looks.append(self.rounds)
        return self._value(self.rounds) + np.array([0.0, 0.01, 0.02])


def grown(most, *stubs, **options):
    return held_out_curve([(each, each, each) for each in stubs], most, **options)


def test_later_rounds_are_looked_at_in_steps_of_two_percent():
    stub = Rising(lambda done: done)
    curve = grown(700, stub, early_stopping=True)
    assert curve.rounds == stub.looks
    assert curve.rounds[:100] == [*range(1, 101)]
    assert curve.rounds[-1] == 700
    assert all(is_evaluated(done) for done in curve.rounds)
    steps = np.diff(curve.rounds)
    assert (steps <= np.maximum(1, np.array(curve.rounds[:-1]) / 50 + 1)).all()
    assert len(curve.rounds) < 220
    given_rounds = Rising(lambda done: done)
    assert grown(700, given_rounds, early_stopping=False).rounds == given_rounds.looks == [700]
    short = Rising(lambda done: done, ends=4)
    assert grown(700, short, early_stopping=False).rounds == [4]


def test_a_size_that_cannot_catch_up_is_given_up():
    """With equal gains in all doublings, by what it would have gained after the last of them."""
    incumbent = grown(25, Rising(lambda done: 2.0 + min(done, 5)), early_stopping=True)
    slow = grown(
        2000, Rising(lambda done: 0.6 * math.log2(done)), early_stopping=True, incumbent=incumbent
    )
    assert slow.rounds[-1] == 32  # 3.0 there, 6 doublings to go, and the rival has 7
    late = grown(
        2000, Rising(lambda done: 0.9 * math.log2(done)), early_stopping=True, incumbent=incumbent
    )
    assert late.rounds[-1] == 2000


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_in_order_is_a_mean_over_queries(weighted):
    generator = np.random.RandomState(0)
    weight = generator.randint(1, 4, data.y.size) if weighted else None
    judgments = Judgments(data.y, data.qid, weight=weight)
    units = Units.of(judgments, lambda kind: np.zeros(data.y.size, np.uint64))
    held = HeldOutMetric(None, units, 1)
    scores = generator.randint(0, 5, data.y.size).astype(float)
    values = held.values(scores)
    known = held.weight > 0
    mean = np.average(values[known], weights=held.weight[known])
    assert mean == pytest.approx(pairs_in_order(judgments, scores), abs=1e-12)


def test_a_metric_of_which_less_is_better_turns_round():
    kwargs = {**small, "num_leaves": 4}
    one = BoostedRanker(**kwargs, eval_metric="pairwise_accuracy")
    other = BoostedRanker(**kwargs, eval_metric="pair_error")
    first, second = (
        model.fit(data.X, data.y, qid=data.qid).selection_.chosen for model in (one, other)
    )
    assert first.rounds == second.rounds
    assert first.value == pytest.approx(1 - second.value)
    assert first.difference == second.difference == 0


# -- fits -------------------------------------------------------------------------------------


def test_the_model_is_the_fit_with_what_was_chosen(tmp_path):
    model = BoostedRanker(**small, num_leaves="auto", eval_metric="ndcg@10")
    model.fit(data.X, data.y, qid=data.qid)
    sizes = model.selection_.sizes
    assert [size.num_leaves for size in sizes] == [2, 4, 8, 16, 31]
    named = model.selection_.parameters
    assert named["num_leaves"] == model.selection_.chosen.num_leaves
    by_hand = BoostedRanker(**{**small, **named}).fit(data.X, data.y, qid=data.qid)
    assert by_hand.ensemble_.to_dict() == model.ensemble_.to_dict()
    assert model.n_estimators_ == named["n_estimators"]
    assert model.n_estimators == model.num_leaves == "auto"
    assert clone(model).get_params() == model.get_params()
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.selection_ == model.selection_
    assert again.num_leaves == "auto"
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    frame = model.selection_.to_frame()
    assert frame["chosen"].sum() == 1
    assert len(frame) == 5
    assert "held-out queries" in str(model.selection_)
    assert "<table>" in model.selection_._repr_html_()
    model.set_params(n_estimators=3, num_leaves=4).fit(data.X, data.y, qid=data.qid)
    assert model.selection_ is None


@pytest.mark.parametrize("one_list", [False, True])
def test_row_order_names_and_threads_leave_no_trace(one_list):
    rows = np.random.RandomState(2).permutation(data.y.size)
    qid = None if one_list else data.qid
    options = {**small, "num_leaves": 4, "random_state": 3}
    first = BoostedRanker(**options, n_jobs=1).fit(data.X, data.y, qid=qid)
    renamed = None if one_list else (data.qid[rows] * 7919 + 13) % 1009
    second = BoostedRanker(**options, n_jobs=2).fit(data.X[rows], data.y[rows], qid=renamed)
    assert first.selection_ == second.selection_
    assert first.ensemble_.to_dict() == second.ensemble_.to_dict()


@pytest.mark.parametrize("metric", [None, "ndcg@5"])
def test_no_order_of_queries_changes_a_bit_of_the_table(metric):
    """Means over queries are sums of integers, whatever the queries are called."""
    many = search_results(60, features=3, informative=3, per_query=6, random_state=1)
    weight = np.random.default_rng(0).choice([0.3, 1.0, 2.7], many.y.size)
    found = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        rows, names = random.permutation(many.y.size), random.permutation(1000)
        model = BoostedRanker(n_estimators="auto", num_leaves=2, eval_metric=metric)
        model.fit(many.X[rows], many.y[rows], qid=names[many.qid[rows]], sample_weight=weight[rows])
        found.append(model.selection_)
    assert found == found[:1] * 4


def test_the_seed_chooses_the_queries():
    fits = [
        RankBoost(n_estimators="auto", random_state=seed).fit(data.X, data.y, qid=data.qid)
        for seed in (0, 0, 1, None, None, np.random.RandomState(0))
    ]
    values = [model.selection_.chosen.value for model in fits]
    assert values[0] == values[1] == values[5] != values[2]
    assert values[3] == values[4]


def test_a_given_number_of_rounds_is_kept():
    model = BoostedRanker(**{**small, "n_estimators": 7}, num_leaves="auto")
    model.fit(data.X, data.y, qid=data.qid)
    assert model.n_estimators_ == 7
    assert {size.best_rounds for size in model.selection_.sizes} == {7}


def test_an_evaluation_set_is_what_is_held_out():
    train = data.qid < 25
    model = BoostedRanker(**small, num_leaves="auto", eval_metric="ndcg@5")
    model.fit(
        data.X[train], data.y[train], qid=data.qid[train],
        eval_set=(data.X[~train], data.y[~train]), eval_qid=data.qid[~train],
    )  # fmt: skip
    chosen = model.selection_.chosen
    assert chosen.best_rounds >= chosen.rounds == model.n_estimators_
    if chosen.rounds == chosen.best_rounds:
        assert model.evals_result_["valid_0"]["ndcg@5"][-1] == pytest.approx(chosen.value)
    assert model.selection_.n_held_out <= np.unique(data.qid[~train]).size


@pytest.mark.parametrize(
    "model",
    [
        RankBoost(n_estimators="auto", step="bound"),
        PushRanker(n_estimators="auto"),
        AdaBoostRanker(n_estimators="auto"),
        BoostedRanker(**small, num_leaves=4, loss="exponential"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_single_list_has_parts_instead_of_queries(model):
    sample = two_normals(120, features=3, random_state=0)
    model.fit(sample.X, sample.y)
    assert model.selection_.unit == "parts"
    assert model.selection_.n_held_out == 5
    assert model.n_estimators_ == model.selection_.chosen.rounds


def test_listed_pairs_labels_offsets_and_functions():
    pairs = np.array([(i, i + 1) for i in range(0, 200, 2)])
    model = RankBoost(n_estimators="auto").fit(data.X, pairs=pairs)
    assert model.selection_.unit == "parts"
    both = Judgments(data.y, data.qid, label=data.y.astype(float))
    model = QBRank(**small, num_leaves="auto").fit(data.X, both)
    assert model.n_estimators_ <= model.selection_.chosen.rounds + 1  # the constant is a ranker
    start = data.y * 0.1
    model = BoostedRanker(**small, num_leaves=4)
    plain = model.fit(data.X, data.y, qid=data.qid).selection_.chosen.value
    model.fit(data.X, data.y, qid=data.qid, init_score=start)
    assert model.selection_.chosen.value > plain

    def correlation(y, scores, _):
        return "correlation", float(np.dot(y, scores)), True

    model = BoostedRanker(**small, num_leaves=4, eval_metric=correlation)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.selection_.metric == "correlation"
    assert model.selection_.n_held_out == 5


def test_much_data_is_held_out_once(monkeypatch):
    monkeypatch.setattr(selection, "MIN_HELD_OUT_QUERIES", 7)
    model = RankBoost(n_estimators="auto").fit(data.X, data.y, qid=data.qid)
    assert 6 <= model.selection_.n_held_out <= 8


def test_one_round_is_no_plural():
    sizes = (Size(2, 7, 0.7, -0.1, 0.2, 7, True), Size(4, 1, 0.8, 0.0, 0.0, 1, False))
    assert "best with 4 leaves and 1 round;" in Selection("map", 9, "queries", sizes).summary()


def test_progress_and_choice_are_shown(capsys):
    RankBoost(n_estimators="auto", verbose=1).fit(data.X, data.y, qid=data.qid)
    assert "auto: n_estimators=" in capsys.readouterr().err


# -- losses, time limit, Ctrl-C -----------------------------------------------------------------


def test_the_loss_is_chosen_with_the_size():
    model = BoostedRanker(**small, num_leaves="auto", loss="auto", eval_metric="ndcg@10")
    model.fit(data.X, data.y, qid=data.qid)
    tried = {(size.num_leaves, size.loss) for size in model.selection_.sizes}
    assert tried == {(n, loss) for n in (2, 4, 8, 16, 31) for loss in ("logistic", "query_rmse")}
    named = model.selection_.parameters
    assert list(named) == ["loss", "num_leaves", "n_estimators"]
    by_hand = BoostedRanker(**{**small, **named}).fit(data.X, data.y, qid=data.qid)
    assert by_hand.ensemble_.to_dict() == model.ensemble_.to_dict()
    assert Selection.from_dict(model.selection_.to_dict()) == model.selection_
    alone = BoostedRanker(**{**small, "n_estimators": 7}, loss="auto")
    alone.fit(data.X, data.y, qid=data.qid)
    assert [size.loss for size in alone.selection_.sizes] == ["query_rmse", "logistic"]
    assert "num_leaves" not in alone.selection_.rows()[0]


@pytest.mark.parametrize("options", [{"rank_weight": "gap"}, {"price": 2}])
def test_losses_of_lists_have_no_pairs_to_weigh(options):
    model = BoostedRanker(**small, num_leaves=4, loss="auto", **options)
    model.fit(data.X, data.y, qid=data.qid)
    assert model.selection_.parameters["loss"] == "logistic"


def test_listed_pairs_leave_the_loss_of_pairs():
    pairs = np.array([(i, i + 1) for i in range(0, 200, 2)])
    model = BoostedRanker(**small, num_leaves=4, loss="auto").fit(data.X, pairs=pairs)
    assert model.selection_.parameters["loss"] == "logistic"


def test_a_time_limit_ends_the_choice_with_what_was_tried(monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(selection.time, "monotonic", lambda: float(next(clock)))
    model = BoostedRanker(**small, num_leaves="auto", time_limit=30, eval_metric="ndcg@10")
    with pytest.warns(UserWarning, match="time_limit reached: 'auto' chose") as warned:
        model.fit(data.X, data.y, qid=data.qid)
    leaves = [size.num_leaves for size in model.selection_.sizes]
    assert 1 < len(leaves) < 5
    assert leaves == [2, 4, 8, 16, 31][-len(leaves) :]
    assert f"chose among {len(leaves)} of 5" in str(warned[0].message)
    assert model.n_estimators_ == model.selection_.chosen.rounds


def test_a_time_limit_that_is_over_at_once_leaves_one_round():
    model = BoostedRanker(**small, num_leaves="auto", time_limit=1e-9)
    with pytest.warns(UserWarning, match="chose among 1 of 5"):
        model.fit(data.X, data.y, qid=data.qid)
    assert model.selection_.parameters == {"num_leaves": 31, "n_estimators": 1}


def interrupting(monkeypatch, *, after):
    """Let Ctrl-C come in a round of boosting."""
    rounds, improves = iter(range(10**6)), selection._improves

    def improves_or_not(trainer):
        if next(rounds) == after:
            raise KeyboardInterrupt
        return improves(trainer)

    monkeypatch.setattr(selection, "_improves", improves_or_not)


@pytest.mark.parametrize("rounds_as_given", [False, True])
def test_ctrl_c_keeps_the_best_so_far(monkeypatch, rounds_as_given):
    """Within a curve with the rounds so far; between fixed rounds without the unfinished size."""
    interrupting(monkeypatch, after=5 * 9 + 3)
    rounds = {"n_estimators": 7} if rounds_as_given else {}
    model = BoostedRanker(**{**small, **rounds}, num_leaves="auto", eval_metric="ndcg@10")
    with pytest.warns(UserWarning, match="interrupted: 'auto' chose among 1 of 5"):
        model.fit(data.X, data.y, qid=data.qid)
    [size] = model.selection_.sizes
    assert size.num_leaves == 31
    assert model.n_estimators_ == size.rounds <= 9


def test_ctrl_c_before_there_is_a_choice_is_raised(monkeypatch):
    interrupting(monkeypatch, after=2)
    with pytest.raises(KeyboardInterrupt):
        BoostedRanker(**small, num_leaves="auto").fit(data.X, data.y, qid=data.qid)


def test_the_bar_moves_with_every_evaluation(monkeypatch):
    shown = []
    monkeypatch.setattr(
        selection.ProgressBar,
        "show",
        lambda self, done, text: shown.append((done, text)),
    )
    model = BoostedRanker(**small, num_leaves="auto", loss="auto", eval_metric="ndcg@10")
    model.fit(data.X, data.y, qid=data.qid)
    done = [each for each, _ in shown]
    assert done == sorted(set(done))
    assert done[0] == 1
    assert len(done) > 10 * 8
    assert shown[0][1].startswith("logistic, 31 leaves: best ndcg@10 0.")


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BoostedRanker(n_estimators="auto", early_stopping_rounds=5), "stops by itself"),
        (BoostedRanker(n_estimators="auto", warm_start=True), "give n_estimators as a number"),
        (BoostedRanker(num_leaves="auto", weak_rankers="stumps"), "weak_rankers='trees'"),
        (BoostedRanker(n_estimators="many"), "n_estimators='many'"),
        (BoostedRanker(num_leaves="many"), "num_leaves='many'"),
        (PushRanker(n_estimators="auto", price="cv"), "price='cv'"),
        (BoostedRanker(num_leaves="auto", time_limit=0), "time_limit=0 is not a number"),
        (BoostedRanker(num_leaves="auto", time_limit="1 h"), "time_limit='1 h'"),
        (BoostedRanker(time_limit=9.0), "no parameter is 'auto'"),
    ],
)
def test_what_makes_no_sense_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(data.X, data.y, qid=data.qid)


def test_a_table_on_disk_is_refused(tmp_path):
    table = write_table(tmp_path / "table", [(data.X, data.y, data.qid)])
    with pytest.raises(ValueError, match="a DiskTable does not allow"):
        RankBoost(n_estimators="auto").fit(table)


def test_a_cluster_is_refused():
    pytest.importorskip("distributed")
    from precede.dask import DaskRankBoost

    with pytest.raises(ValueError, match="not done on a cluster"):
        DaskRankBoost(n_estimators="auto")._check_distributable()


def test_a_record_that_makes_no_sense_is_refused():
    model = RankBoost(n_estimators="auto").fit(data.X, data.y, qid=data.qid)
    fields = model.selection_.to_dict()
    assert Selection.from_dict(fields) == model.selection_
    bad = [None, [], {}, {**fields, "sizes": []}, {**fields, "metric": 3}]
    wrong = (("chosen", False), ("rounds", "x"), ("num_leaves", True))
    bad += [{**fields, "sizes": [{**fields["sizes"][0], name: value}]} for name, value in wrong]
    for each in bad:
        with pytest.raises(ValueError, match=r"'auto'|'selection'"):
            Selection.from_dict(each)


def test_a_record_without_a_parameter_that_was_chosen_is_refused(tmp_path):
    path = tmp_path / "model.json"
    model = BoostedRanker(**small, num_leaves=4, loss="auto").fit(data.X, data.y, qid=data.qid)
    model.save(path)
    fields = json.loads(path.read_text())
    for size in fields["selection"]["sizes"]:
        size["loss"] = None
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="lacks a parameter"):
        load(path)


@pytest.mark.parametrize("positives", [1, 2, 4])
def test_too_few_positives_to_hold_out_are_refused(positives):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.arange(60) < positives
    with pytest.raises(TooFewError):
        RankBoost(n_estimators="auto").fit(X, y)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (RankBoost(n_estimators="auto"), "n_estimators as a number"),
        (BoostedRanker(n_estimators="auto"), "n_estimators as a number"),
        (BoostedRanker(n_estimators="auto", num_leaves="auto"), "num_leaves as a number"),
    ],
)
def test_the_message_of_auto_names_the_parameters_that_asked(model, named):
    """RankBoost has no num_leaves."""
    with pytest.raises(TooFewError, match=named) as raised:
        model.fit([[0.0], [1.0]], [0, 1], qid=[1, 1])
    assert ("num_leaves" in str(raised.value)) == ("num_leaves" in named)


def test_the_standard_error_of_a_mean():
    values = np.array([1.0, 3.0, 2.0, 2.0])
    error = values.std(ddof=1) / 2
    for weight in (None, np.full(4, 7.0)):
        np.testing.assert_allclose(holdout.mean_and_error(values, weight), (2.0, error), rtol=1e-15)
    assert holdout.mean_and_error(values[:1]) == (1.0, 0.0)
