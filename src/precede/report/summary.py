"""The first screen of a report: a few sentences and the most important warnings."""

from __future__ import annotations

from typing import Any

from precede.report.quality import IN_ORDER, larger_is_better
from precede.report.wording import (
    Words,
    difference,
    difference_interval,
    in_units,
    interval,
    metric_name,
    p_value,
    shown_interval,
    shown_value,
)
from precede.report.wording import share as share_of

_CHANCE = "chance: 50\u00a0%"
_FEW_QUERIES = 30
_MIN_SHARE = 0.05  # share of affected queries or rows from which a warning is on the first screen


def summary_facts(facts: dict[str, Any], words: Words) -> dict[str, Any]:
    """Return sentences and warnings that summarize the other facts."""
    sentences = [_how_good(facts, words), _compared(facts, words), _weakest(facts, words)]
    return {
        "sentences": [each for each in sentences if each],
        "warnings": _warnings(facts, words),
        "note": _held_out_note(facts, words),
    }


def _is_held_out(facts: dict[str, Any]) -> bool:
    train = facts["training"]
    if train is None or train["shared_queries"]:
        return False
    return train["shared_rows"] <= _MIN_SHARE * facts["data"]["rows"]


def _how_good(facts: dict[str, Any], words: Words) -> str:
    quality, data, name = facts["models"][0]["quality"], facts["data"], facts["models"][0]["name"]
    share = quality["pairs_in_order"]
    if share is None:
        return (
            f"Nothing can be measured: no two {words.items} that may be compared differ in grade."
        )
    held = "held-out " if _is_held_out(facts) else ""
    where = f"On {data['rows']:,} {held}{words.items}"
    if data["queries"]:
        where = _on_queries(facts, words, held)
    if facts["list"]:
        return f"{where} {_of_two_classes(facts, words, name, share)}"
    main: dict[str, Any] = {"metric": None, "unit": None}
    if quality["metrics"]:
        main = quality["metrics"][0]
    if main["unit"] == "pair":
        where = f"On {main['units']:,} {held}pairs of {words.items}"
    chance = _CHANCE
    if main["metric"] == IN_ORDER and main["unit"] != "query" and main["low"] is not None:
        chance = f"{interval(main, share_of)}; {_CHANCE}"
    text = f"{where} {name} puts {share_of(share)} of the pairs in the right order ({chance})"
    rows = [row for row in quality["metrics"] if row["metric"] != IN_ORDER]
    if not rows:
        return f"{text}."
    ends = "" if rows[0]["low"] is None else f" ({shown_interval(rows[0])})"
    return f"{text}; {metric_name(rows[0]['metric'])} is {shown_value(rows[0])}{ends}."


def _on_queries(facts: dict[str, Any], words: Words, held: str) -> str:
    """Say which queries the numbers are means of, where some have no value."""
    count, rows = facts["data"]["queries"]["count"], facts["models"][0]["quality"]["metrics"]
    units = rows[0]["units"] if rows and rows[0]["unit"] == "query" else count
    if units == count:
        counted = words.count_queries(count).replace(" ", f" {held}", 1)
        return f"On {counted} ({words.count_items(facts['data']['rows'])})"
    return f"On the {units:,} of {count:,} {held}{words.queries} that can be measured,"


def _of_two_classes(facts: dict[str, Any], words: Words, name: str, share: float) -> str:
    found, row = facts["list"], facts["models"][0]["quality"]["metrics"][0]
    good = words.good or f"“{found['good']}”"
    ends = ""
    if row["metric"] == "auc" and row["low"] is not None:
        ends = f" ({interval(row, share_of)}; {_CHANCE})"
    return (
        f"({share_of(found['share'])} {good}) {name} puts the {good} one first in "
        f"{share_of(share)}{ends} of the pairs of one {good} and one not {good}. "
        "This share is the AUC."
    )


def _compared(facts: dict[str, Any], words: Words) -> str:
    compared = facts["comparison"]
    if compared is None:
        return ""
    texts = [_against(compared, row, words) for row in compared["rows"][:2]]
    more = len(compared["rows"]) - 2
    return " ".join(texts) + (f" {more} more are compared below." if more > 0 else "")


def _against(compared: dict[str, Any], row: dict[str, Any], words: Words) -> str:
    main = row["differences"][0]
    name, metric = row["name"], metric_name(main["metric"])
    metric = "the share of " + metric if main["metric"] == IN_ORDER else metric
    if main["difference"] is None:
        return f"It is not compared with {name}: {main['reason']}."
    gap = main["difference"] if compared["better_high"] else -main["difference"]
    sure = row["adjusted"] is not None and row["adjusted"] <= 1 - compared["level"] + 1e-12
    ends = ""
    if main["low"] is not None:
        between = difference_interval(main["low"], main["high"], main["metric"])
        ends = f" ({between}, {p_value(row['adjusted'])})"
    wins = ""
    if row["won"] is not None:
        wins = f"; it wins {words.count_queries(row['won'])}, loses {row['lost']:,} and ties " \
               f"{row['tied']:,}"  # fmt: skip
    size = difference(abs(main["difference"]), main["metric"]).removeprefix("+")
    side = "higher" if main["difference"] > 0 else "lower"
    text = f"{metric} is {size} {side}{ends}{wins}"
    if main["difference"] == 0:
        text = f"{metric} is the same{ends}{wins}"
    if not sure:
        return f"It cannot be told apart from {name}: {text}."
    return f"It is {'better' if gap > 0 else 'worse'} than {name}: {text}."


def _weakest(facts: dict[str, Any], words: Words) -> str:
    slices = facts["slices"]
    if not slices or not slices["worst"]:
        return ""
    row = slices["worst"][0]
    if slices["unit"] == "query":
        here, rest = f"on {words.count_queries(row['units'])}", "elsewhere"
    else:
        here, rest = f"among these {words.count_items(row['units'])}", "among the others"
    by = f"the {row['by']}" if row["by"].startswith("number of ") else row["by"]
    return (
        f"It is weakest where {by} is {row['label']}: {metric_name(slices['metric'])} "
        f"{in_units(row['value'], slices['metric'])} {here} against "
        f"{in_units(row['rest'], slices['metric'])} {rest} "
        f"({p_value(row['adjusted'])}, adjusted for {slices['tested']} slices)."
    )


# -- warnings --------------------------------------------------------------------------------


def _warnings(facts: dict[str, Any], words: Words) -> list[str]:
    """Return the warnings that may change a decision; the others are shown with the data."""
    quality, data, train = facts["models"][0]["quality"], facts["data"], facts["training"]
    found = []
    if train and train["shared_queries"]:
        found.append(f"{words.count_queries(train['shared_queries'])} of the report are in the "
                     "training data too: the numbers flatter the model.")  # fmt: skip
    elif train and train["shared_rows"] > _MIN_SHARE * data["rows"]:
        found.append(f"{words.count_items(train['shared_rows'])} have exactly the features of a "
                     "training row: the numbers may flatter the model.")  # fmt: skip
    units = 0
    if quality["metrics"] and quality["metrics"][0]["unit"] == "query":
        units = int(quality["metrics"][0]["units"])
    if data["queries"] and 0 < units < _FEW_QUERIES:
        found.append(f"Only {words.count_queries(units)} can be measured: the intervals are wide, "
                     "and rough.")  # fmt: skip
    skipped = quality["metrics"][0]["skipped"] if quality["metrics"] else 0
    if data["queries"] and skipped > _MIN_SHARE * data["queries"]["count"]:
        found.append(
            f"{skipped:,} of {data['queries']['count']:,} {words.queries} cannot be measured: "
            f"all their {words.items} have the same grade, or none is relevant."
        )
    found += _no_better_than_chance(quality, words)
    found += _overfitted(facts)
    if facts["ties"] and facts["ties"] > _MIN_SHARE:
        found.append(f"{share_of(facts['ties'])} of the pairs have equal scores and count half.")
    found += [f"{w['count']:,} {w['text']}." for w in data["warnings"]
              if "left out" in w["text"] and w["count"] > _MIN_SHARE * data["rows"]]  # fmt: skip
    if data["pairs"] == 0:
        why = f"no two {words.items} that may be compared differ in grade"
        found.insert(0, f"There is no pair at all: {why}.")
    return found


def _no_better_than_chance(quality: dict[str, Any], words: Words) -> list[str]:
    for row in quality["metrics"]:
        if row["metric"] in (IN_ORDER, "auc") and row["low"] is not None and row["low"] <= 0.5:
            over = f", averaged over {words.queries}," if row["unit"] == "query" else ""
            return [f"The interval of the pairs in order{over} reaches down to "
                    f"{share_of(row['low'])}: the model may be no better than chance."]  # fmt: skip
    return []


def _overfitted(facts: dict[str, Any]) -> list[str]:
    """Warn if the training metric is better than the held-out one by half an interval or more."""
    train, quality = facts["training"], facts["models"][0]["quality"]
    fitted = [] if train is None else train["models"]
    same = [each for each in fitted if each["name"] == facts["models"][0]["name"]]
    if not same or not same[0]["metrics"] or not quality["metrics"]:
        return []
    held_out, training = quality["metrics"][0], same[0]["metrics"][0]
    if held_out["value"] is None or training["value"] is None or held_out["low"] is None:
        return []
    sign = 1 if larger_is_better(held_out["metric"]) else -1
    gap = sign * (training["value"] - held_out["value"])
    if gap <= (held_out["high"] - held_out["low"]) / 2:
        return []
    return [f"{metric_name(held_out['metric'])} is {shown_value(training)} on the training data "
            f"and {shown_value(held_out)} here: part of what the model has learned holds for its "
            "training data only."]  # fmt: skip


def _held_out_note(facts: dict[str, Any], words: Words) -> str:
    if facts["training"] is not None:
        return ""
    return (
        f"The report does not know whether the model was fitted on these {words.items}. If it "
        "was, the numbers flatter it. Give the training data as well (train=, --train) to see both "
        "side by side."
    )
