"""Readers by the book: regular expressions and `float`, a line at a time."""

import re

import numpy as np

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
WORDS = {"nan": np.nan, "na": np.nan, "null": np.nan, "none": np.nan, "true": 1.0, "false": 0.0}
BLANKS = " \t\r"


def number(text):
    """A finite number or a word for one; anything else is a ValueError."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned.lower() in WORDS:
        return WORDS[unsigned.lower()]
    if not re.fullmatch(NUMBER, text):
        raise ValueError(text)
    value = float(text)
    if np.isinf(value):
        raise ValueError(text)
    return value


def letor(content, most_features=1 << 24):
    """Rows (grade, qid or None, {feature: value}, docid) of a LETOR text."""
    rows = []
    for line in content.split("\n"):
        body, mark, comment = line.partition("#")
        words = re.split(f"[{BLANKS}]+", body.strip(BLANKS))
        if words == [""]:
            continue
        if mark and body[-1:] not in BLANKS and len(words) == 1:
            raise ValueError("a grade is followed by a blank")
        grade = number(words[0])
        if np.isnan(grade):
            raise ValueError("grade")
        qid, cells = None, {}
        if len(words) > 1 and words[1].startswith("q"):
            if not re.fullmatch(r"qid:-?[0-9]{1,18}", words[1]):
                raise ValueError(words[1])
            qid = int(words.pop(1)[4:])
        for word in words[1:]:
            feature, value = cell(word)
            if feature in cells or feature >= most_features:
                raise ValueError(word)
            cells[feature] = value
        rows.append((grade, qid, cells, document(comment)))
    if not rows or len({qid is None for _, qid, _, _ in rows}) > 1:
        raise ValueError("rows")
    return rows


def cell(word):
    feature, colon, value = word.partition(":")
    if not colon or not re.fullmatch("[0-9]+", feature):
        raise ValueError(word)
    return int(feature), number(value)


def document(comment):
    named = re.match(rf"[{BLANKS}]*docid[{BLANKS}]*=(.*)", comment)
    words = re.split(f"[{BLANKS}]+", (named.group(1) if named else comment).strip(BLANKS))
    return words[0]


def matrix(rows):
    """Features, and the number of the first column."""
    used = [feature for _, _, cells, _ in rows for feature in cells]
    first = 0 if 0 in used else 1
    X = np.zeros((len(rows), max(1, max(used, default=0) + 1 - first)))
    for row, (_, _, cells, _) in enumerate(rows):
        for feature, value in cells.items():
            X[row, feature - first] = value
    return X, first
