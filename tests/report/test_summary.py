"""The first screen: sentences with the right numbers, and the warnings that matter."""

import html
import re

import numpy as np
import pytest

from precede import RankBoost, Report

pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def plain(text):
    return text.replace("\u00a0", " ")


def test_queries_are_summed_up(ranked):
    facts = ranked[1].facts
    quality = facts["quality"]
    main = quality["metrics"][0]
    assert plain(facts["summary"]["sentences"][0]) == (
        f"On the {main['units']} of 14 queries that can be measured, RankBoost puts "
        f"{100 * quality['pairs_in_order']:.1f} % of "
        f"the pairs in the right order (chance: 50 %); NDCG@10 is {main['value']:.3f} "
        f"({main['low']:.3f} to {main['high']:.3f})."
    )


def test_two_classes_are_summed_up_in_the_words_of_the_task(two_classes):
    model, X, y, _ = two_classes
    report = Report(model, X, y, item="borrower", good="repaid")
    [sentence, *_] = map(plain, report.facts["summary"]["sentences"])
    row = report.facts["quality"]["metrics"][0]
    assert re.match(
        r"On 143 borrowers \(\d+\.\d % repaid\) RankBoost puts the repaid one", sentence
    )
    assert f"first in {100 * row['value']:.1f} %" in sentence
    page = report.to_html()
    assert "first borrowers" in page
    assert "document" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert "borrower" in report.to_markdown()


@pytest.mark.parametrize("word", ["", " ", 3])
def test_what_is_no_word_is_refused(two_classes, word):
    model, X, y, _ = two_classes
    with pytest.raises(ValueError, match="item="):
        Report(model, X, y, item=word)


def test_no_number_stands_under_two_names(two_classes, ranked):
    """The share of pairs in order, the AUC and the pair error of one list are one number."""
    report = two_classes[3]
    facts = report.facts
    assert [row["metric"] for row in facts["quality"]["metrics"]] == ["auc"]
    assert "auc" not in {m["measure"] for m in facts["list"]["top"]}
    page = re.sub(r"<script.*?</script>", "", report.to_html(), flags=re.S)
    for text in (page, report.to_markdown()):
        assert "pair_error" not in text
        assert f"{1 - facts['quality']['pairs_in_order']:.3f}" not in text
    # Two conventions are explained where both are shown.
    note = "so that long ones count more; the mean over queries counts each alike"
    assert note in ranked[1].to_html()


def test_few_queries_and_chance_are_warned_of(search):
    _, y, qid = search
    noise = np.random.default_rng(3).normal(size=len(y))
    warnings = " ".join(map(plain, Report(scores={"noise": noise}, y=y, qid=qid)
                            .facts["summary"]["warnings"]))  # fmt: skip
    assert "Only 1" in warnings
    assert "no better than chance" in warnings


@pytest.mark.parametrize("relevant", [None, 1])
def test_an_auc_is_compared_with_chance(relevant):
    y, noise = np.arange(300) % 2, np.arange(300) % 7
    report = Report(scores={"noise": noise}, y=y, metrics=["auc"], relevant=relevant)
    assert "chance: 50" in report.facts["summary"]["sentences"][0]
    assert "no better than chance" in " ".join(report.facts["summary"]["warnings"])
    assert "Gini" in report.to_html()


def test_ties_and_queries_left_out_are_warned_of():
    generator = np.random.default_rng(0)
    y, qid = generator.integers(0, 2, 400), np.repeat(np.arange(100), 4)
    report = Report(scores={"coarse": np.round(generator.normal(size=400))}, y=y, qid=qid)
    facts = report.facts
    warnings = " ".join(map(plain, facts["summary"]["warnings"]))
    assert f"{100 * facts['ties']:.1f} % of the pairs have equal scores" in warnings
    assert (
        f"{facts['quality']['metrics'][0]['skipped']} of 100 queries cannot be measured" in warnings
    )


def test_ties_are_counted():
    y, qid = np.array([0, 1, 1, 0, 1, 2]), np.array([1, 1, 1, 2, 2, 2])
    scores = np.array([1.0, 1, 2, 3, 3, 3])
    pairs = [(i, j) for i in range(6) for j in range(i) if qid[i] == qid[j] and y[i] != y[j]]
    tied = np.mean([scores[i] == scores[j] for i, j in pairs])
    assert Report(scores={"a": scores}, y=y, qid=qid).facts["ties"] == tied


def test_the_weakest_slice_is_named():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(4000, 2))
    group = generator.integers(0, 2, 4000)
    y = (X[:, 0] * (1 - 2 * group) + 0.3 * generator.normal(size=4000) > 0).astype(int)
    report = Report(
        scores={"a": X[:, 0]}, y=y, slices={"region": np.array(["north", "south"])[group]}
    )
    [*_, last] = report.facts["summary"]["sentences"]
    assert last.startswith("It is weakest where region is south: AUC 2.7")


def test_words_are_plain():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    report = Report(RankBoost(n_estimators=2, step="bound").fit(X, y), X, y)
    assert len(report.facts["summary"]["sentences"]) == 1
    assert "train=" in report.facts["summary"]["note"]


def test_queries_that_can_all_be_measured_are_counted_once():
    y, qid = [1, 0, 0, 1], [0, 0, 1, 1]
    [sentence, *_] = Report(scores=[2, 1, 1, 2], y=y, qid=qid).facts["summary"]["sentences"]
    assert sentence.startswith("On 2 queries (4 documents) scores puts")
    y, qid = [1, 0, 1, 0, 0], [0, 0, 1, 1, 2]
    [sentence, *_] = Report(scores=[2, 1, 1, 2, 0], y=y, qid=qid).facts["summary"]["sentences"]
    assert sentence.startswith("On the 2 of 3 queries that can be measured, scores puts")


def seen(report):
    """What a reader of the page sees, and what one of the Markdown does."""
    page = re.sub(r"<(script|style|svg).*?</\1>", "", report.to_html(), flags=re.S)
    return [plain(html.unescape(re.sub(r"<[^>]*>", " ", page))), plain(report.to_markdown())]


@pytest.fixture(scope="module")
def three_tasks():
    """Reports on queries, on one list of 1000 rows and on listed pairs, without coincidences."""
    generator = np.random.default_rng(5)
    X = generator.normal(size=(1000, 3))
    noisy = X[:, 0] + generator.normal(size=1000)
    rare = (noisy > 1.3).astype(int)
    grade, qid = np.digitize(noisy, [0.3, 1.2]), np.repeat(np.arange(50), 20)
    pairs = generator.integers(0, 1000, (700, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.where((noisy[pairs[:, 0]] > noisy[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    scores = {"a": np.round(X[:, 0], 1), "b": noisy + generator.normal(size=1000)}
    return [
        Report(scores=scores, y=grade, qid=qid),
        Report(scores=scores, y=rare),
        Report(scores=scores, y=1 - rare),
        Report(scores=scores, pairs=pairs),
    ]


def test_no_number_is_told_twice(three_tasks):
    """Neither as itself, nor as what it lacks to 1, under another name."""
    for report in three_tasks:
        facts = report.facts
        told = {row["metric"]: row["value"] for row in facts["quality"]["metrics"]}
        share = facts["quality"]["pairs_in_order"]
        if facts["data"]["queries"]:  # elsewhere it is the AUC or the only row, under one name
            told["pooled"] = share
        if facts["list"]:
            told |= {each["measure"]: each["value"] for each in facts["list"]["top"]}
            told["ks"] = facts["list"]["separation"]["values"]["a"]
            for each in facts["list"]["depths"][:-1]:
                told |= {f"{name} {each['depth']}": each[name] for name in ("gain", "share")}
        names = [name for name, value in told.items() if value not in (0, 1)]
        for at, name in enumerate(names):
            for other in names[:at]:
                assert abs(told[name] - told[other]) > 1e-9, (name, other)
                assert abs(told[name] + told[other] - 1) > 1e-9, (name, other)


def test_shares_of_pairs_have_one_form(three_tasks):
    """As percentages only: 86.1 % is nowhere 0.861, and nothing tells its complement."""
    for report in three_tasks:
        quality = report.facts["quality"]
        shares = [row["value"] for row in quality["metrics"]
                  if row["metric"] in ("auc", "pairs_in_order")]  # fmt: skip
        for text in seen(report):
            assert f"{100 * quality['pairs_in_order']:.1f} %" in text
            for value in {*shares, quality["pairs_in_order"]}:
                for wrong in (f"{value:.3f}", f"{1 - value:.3f}", f"{100 * (1 - value):.1f} %"):
                    assert not re.search(rf"(?<![\d.]){re.escape(wrong)}(?!\d)", text), wrong


def test_classes_have_the_word_for_the_good_one(three_tasks):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 1))
    y = (X[:, 0] + generator.normal(size=60) > 0).astype(int)
    report = Report(scores={"a": X[:, 0]}, y=y, item="borrower", good="repaid")
    page, text = seen(report)
    pair = report.facts["wrong"]["queries"][0]["pairs"][0]
    standing = f"{pair['upper']['document']} (not repaid"
    assert standing in re.sub(r"\s+", " ", page)
    assert standing in text
    assert "class 0" not in page
    assert "grade" not in text
