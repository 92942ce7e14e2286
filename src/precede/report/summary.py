"""The first screen of a report: a few sentences, the most important warnings, and a chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from precede.report.document import Block, Bullets, Figure, Group, Paragraph
from precede.report.one_list import OneList
from precede.report.quality import (
    IN_ORDER,
    Against,
    Comparison,
    MetricValue,
    in_order_chart,
    is_auc,
    larger_is_better,
)
from precede.report.wording import (
    difference,
    difference_interval,
    in_units,
    interval,
    metric_name,
    p_value,
    percent,
)
from precede.report.wording import share as share_of

if TYPE_CHECKING:
    from precede.report.report import Facts

_CHANCE = "chance: 50\u00a0%"
_FEW_QUERIES = 30
_MIN_SHARE = 0.05  # share of affected queries or rows from which a warning is on the first screen


@dataclass(frozen=True)
class Summary:
    """Sentences, warnings, and a note on what is not known."""

    sentences: list[str]
    warnings: list[str]
    note: str

    def blocks(self) -> list[Block]:
        """Return the sentences, the warnings and the note."""
        blocks: list[Block] = [Paragraph(each) for each in self.sentences]
        if self.warnings:
            blocks.append(Bullets(self.warnings, "warnings"))
        return [*blocks, Paragraph(self.note, "note")] if self.note else blocks


def summarize(facts: Facts) -> Summary:
    """Return sentences and warnings that summarize the facts."""
    sentences = [_how_good(facts), _compared(facts), _weakest(facts)]
    return Summary([each for each in sentences if each], _warnings(facts), _note(facts))


def first_screen(facts: Facts) -> list[Block]:
    """Return the summary beside a chart: the top of queries or of a list, or the pairs."""
    blocks, level = facts.summary.blocks(), facts.quality.level
    if facts.first is not None:
        table, figure = facts.first.first_screen(facts.words, level)
        blocks.append(table)
    elif facts.list is not None:
        figure = facts.list.first_figure(facts.words, level)
    else:
        caption = f"With {percent(level)} intervals; the dashed line is chance."
        figure = Figure(in_order_chart([each.quality for each in facts.models]), caption)
    return [Group([Group(blocks, "sentences"), figure], "first")]


# -- sentences -------------------------------------------------------------------------------


def _how_good(facts: Facts) -> str:
    quality, words = facts.quality, facts.words
    share, main = quality.pairs_in_order, quality.main
    if share is None:
        return (f"Nothing can be measured: no two {words.items} that may be compared differ in "
                "grade.")  # fmt: skip
    where = _where(facts)
    if facts.list is not None and main is not None:
        return f"{where} {_of_two_classes(facts, facts.list, main, share)}"
    chance = _CHANCE
    if main and main.metric == IN_ORDER and main.unit != "query" and main.low is not None:
        chance = f"{interval(main.low, main.high, share_of)}; {_CHANCE}"
    text = (f"{where} {quality.name} puts {share_of(share)} of the pairs in the right order "
            f"({chance})")  # fmt: skip
    row = next((row for row in quality.metrics if row.metric != IN_ORDER), None)
    if row is None:
        return f"{text}."
    ends = "" if row.low is None else f" ({row.shown_interval})"
    return f"{text}; {metric_name(row.metric)} is {row.shown}{ends}."


def _where(facts: Facts) -> str:
    """Describe the data that the numbers refer to: rows, pairs, or queries with a value."""
    words, data, main = facts.words, facts.data, facts.quality.main
    held = "held-out " if _is_held_out(facts) else ""
    if data.queries is None or (main is not None and main.unit == "pair"):
        if main is not None and main.unit == "pair":
            return f"On {main.units:,} {held}pairs of {words.items}"
        return f"On {data.rows:,} {held}{words.items}"
    count = data.queries.count
    units = main.units if main is not None and main.unit == "query" else count
    if units == count:
        counted = words.count_queries(count).replace(" ", f" {held}", 1)
        return f"On {counted} ({words.count_items(data.rows)})"
    return f"On the {units:,} of {count:,} {held}{words.queries} that can be measured,"


def _is_held_out(facts: Facts) -> bool:
    train = facts.training
    if train is None or train.shared_queries:
        return False
    return train.shared_rows <= _MIN_SHARE * facts.data.rows


def _of_two_classes(facts: Facts, found: OneList, main: MetricValue, share: float) -> str:
    good = facts.words.good or f"“{found.good}”"
    ends = ""
    if is_auc(main.metric) and main.low is not None:
        ends = f" ({interval(main.low, main.high, share_of)}; {_CHANCE})"
    return (
        f"({share_of(found.share)} {good}) {facts.quality.name} puts the {good} one first in "
        f"{share_of(share)}{ends} of the pairs of one {good} and one not {good}. "
        "This share is the AUC."
    )


def _compared(facts: Facts) -> str:
    compared = facts.comparison
    if compared is None:
        return ""
    texts = [_against(facts, compared, row) for row in compared.rows[:2]]
    more = len(compared.rows) - 2
    return " ".join(texts) + (f" {more} more are compared below." if more > 0 else "")


def _against(facts: Facts, compared: Comparison, row: Against) -> str:
    main, name = row.differences[0], row.name
    metric = "the share of " * (main.metric == IN_ORDER) + metric_name(main.metric)
    if main.difference is None:
        return f"It is not compared with {name}: {main.reason}."
    gap = main.difference if compared.better_high else -main.difference
    sure = row.adjusted is not None and row.adjusted <= 1 - compared.level + 1e-12
    ends, wins = "", ""
    if main.low is not None:
        between = difference_interval(main.low, main.high, main.metric)
        ends = f" ({between}, {p_value(row.adjusted)})"
    if row.won is not None:
        won = facts.words.count_queries(row.won)
        wins = f"; it wins {won}, loses {row.lost:,} and ties {row.tied:,}"
    size = difference(abs(main.difference), main.metric).removeprefix("+")
    side = f"{size} {'higher' if main.difference > 0 else 'lower'}"
    text = f"{metric} is {'the same' if main.difference == 0 else side}{ends}{wins}"
    if not sure:
        return f"It cannot be told apart from {name}: {text}."
    return f"It is {'better' if gap > 0 else 'worse'} than {name}: {text}."


def _weakest(facts: Facts) -> str:
    slices, words = facts.slices, facts.words
    if slices is None or not slices.worst:
        return ""
    row = slices.worst[0]
    if slices.unit == "query":
        here, rest = f"on {words.count_queries(row.units)}", "elsewhere"
    else:
        here, rest = f"among these {words.count_items(row.units)}", "among the others"
    by = f"the {row.by}" if row.by.startswith("number of ") else row.by
    return (
        f"It is weakest where {by} is {row.label}: {metric_name(slices.metric)} "
        f"{in_units(row.value, slices.metric)} {here} against "
        f"{in_units(row.rest, slices.metric)} {rest} "
        f"({p_value(row.adjusted)}, adjusted for {slices.tested} slices)."
    )


def _note(facts: Facts) -> str:
    if facts.training is not None:
        return ""
    return (
        f"The report does not know whether the model was fitted on these {facts.words.items}. "
        "If it was, the numbers flatter it. Give the training data as well (train=, --train) "
        "to see both side by side."
    )


# -- warnings --------------------------------------------------------------------------------


def _warnings(facts: Facts) -> list[str]:
    """Return the warnings that may change a decision; the others are shown with the data."""
    found = [*_shared(facts), *_unmeasured(facts), *_no_better_than_chance(facts),
             *_overfitted(facts)]  # fmt: skip
    if facts.ties and facts.ties > _MIN_SHARE:
        text = f"{share_of(facts.ties)} of the pairs have equal scores and count half."
        found.append(text)
    found += [f"{each.count:,} {each.text}." for each in facts.data.warnings
              if "left out" in each.text and each.count > _MIN_SHARE * facts.data.rows
              ]  # fmt: skip
    if facts.data.pairs == 0:
        why = f"no two {facts.words.items} that may be compared differ in grade"
        found.insert(0, f"There is no pair at all: {why}.")
    return found


def _shared(facts: Facts) -> list[str]:
    train, words = facts.training, facts.words
    if train is not None and train.shared_queries:
        return [f"{words.count_queries(train.shared_queries)} of the report are in the "
                "training data too: the numbers flatter the model."]  # fmt: skip
    if train is not None and train.shared_rows > _MIN_SHARE * facts.data.rows:
        return [f"{words.count_items(train.shared_rows)} have exactly the features of a "
                "training row: the numbers may flatter the model."]  # fmt: skip
    return []


def _unmeasured(facts: Facts) -> list[str]:
    """Warn of few queries with a value, and of many without."""
    main, queries, words = facts.quality.main, facts.data.queries, facts.words
    if main is None or queries is None:
        return []
    found = []
    if main.unit == "query" and 0 < main.units < _FEW_QUERIES:
        found.append(f"Only {words.count_queries(main.units)} can be measured: the intervals "
                     "are wide, and rough.")  # fmt: skip
    if main.skipped > _MIN_SHARE * queries.count:
        found.append(
            f"{main.skipped:,} of {queries.count:,} {words.queries} cannot be measured: "
            f"all their {words.items} have the same grade, or none is relevant."
        )
    return found


def _no_better_than_chance(facts: Facts) -> list[str]:
    for row in facts.quality.metrics:
        in_order = row.metric == IN_ORDER or is_auc(row.metric)
        if in_order and row.low is not None and row.low <= 0.5:
            averaged = f", averaged over {facts.words.queries}," * (row.unit == "query")
            return [f"The interval of the pairs in order{averaged} reaches down to "
                    f"{share_of(row.low)}: the model may be no better than "
                    "chance."]  # fmt: skip
    return []


def _overfitted(facts: Facts) -> list[str]:
    """Warn if the training metric is better than the held-out one by half an interval."""
    fitted = [] if facts.training is None else facts.training.models
    same = next((each.main for each in fitted if each.name == facts.quality.name), None)
    here = facts.quality.main
    if same is None or here is None or same.value is None or here.value is None:
        return []
    if here.low is None or here.high is None:
        return []
    gap = (1 if larger_is_better(here.metric) else -1) * (same.value - here.value)
    if gap <= (here.high - here.low) / 2:
        return []
    return [f"{metric_name(here.metric)} is {same.shown} on the training data and "
            f"{here.shown} here: part of what the model has learned holds for its training "
            "data only."]  # fmt: skip
