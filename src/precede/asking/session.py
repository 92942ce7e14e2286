"""Votes on pairs: the file that they are appended to, and what to ask next.

Every vote is a line that is on the disk before the next pair is shown. To undo a vote, the file is
cut before that line, so that it holds the votes that count and nothing else.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from precede.engine.arrays import Json
from precede.engine.parameters import pluralize
from precede.files.data import installed_frame, quoted
from precede.files.streams import FileName, flush_folder, require_folder
from precede.files.text import object_array
from precede.leaderboard import Leaderboard

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

COLUMNS = ("a", "b", "outcome", "voter", "order")  # `precede.files.read_votes` knows them
OUTCOMES = {"a": "left", "b": "right", "tie": "tie"}
PLANNED = 10  # pairs to ask while the strengths are fitted again
OUTDATED = "Not saved: another window has answered meanwhile. Here is the pair to compare now."
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class VoteFile:
    """A CSV file of votes on known items, to which one process at a time appends.

    `rows` are the cells of all votes. An incomplete last line is that of a vote that was not
    confirmed before the machine stopped, and is removed.
    """

    def __init__(self, path: FileName, items: Mapping[str, object]):
        self.path, self.rows = Path(path), list[list[str]]()
        if self.path.suffix.lower() != ".csv":
            raise ValueError(
                f"{path}: votes are appended to a CSV file; name one that ends in .csv"
            )
        require_folder(path)
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            self._lock()
            self._read(items)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _lock(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process
        except BlockingIOError as error:
            raise ValueError(
                f"{self.path} is in use by another precede ask; stop it, or name another file"
            ) from error

    def _read(self, items: Mapping[str, object]) -> None:
        content, self._ends = self.path.read_bytes(), [0]  # size before each vote, and now
        if _line(COLUMNS).startswith(content.removeprefix(codecs.BOM_UTF8)):  # new, or only begun
            os.ftruncate(self._file, 0)
            self._append(COLUMNS)
            flush_folder(self.path.parent)
            return
        head, *lines = content.splitlines(keepends=True)
        if (found := _cells(head)) != [*COLUMNS]:
            raise ValueError(
                f"{self.path} has the columns {quoted(found)}; precede ask appends to files with "
                f"{quoted(COLUMNS)} that it began: name another file"
            )
        self._ends = [len(head)]
        for number, line in enumerate(lines, 1):
            row, where = _cells(line), f"{self.path}, row {number}"
            if not line.endswith(b"\n") and row[4:] != ["a"]:
                warnings.warn(f"{where} was incomplete and is removed: {line!r}", stacklevel=2)
                os.ftruncate(self._file, self._ends[-1])
                return
            if len(row) != len(COLUMNS) or row[2] not in OUTCOMES:
                raise ValueError(f"{where} is no vote of {quoted(COLUMNS)}; remove the line")
            if unknown := [name for name in row[:2] if name not in items]:
                raise ValueError(
                    f"{where} is on {unknown[0]!r}, which is not among the items; list it, or name "
                    "another file of votes"
                )
            if not line.endswith(b"\n"):  # an editor left it out
                os.write(self._file, b"\n")
            self.rows.append(row)
            self._ends.append(self._ends[-1] + len(line.rstrip(b"\n")) + 1)

    def add(self, row: Sequence[str]) -> None:
        """Append a vote and wait until it is on the disk; after an error, nothing is appended."""
        self._require_unchanged()
        self._append(row)
        self.rows.append([*row])

    def _append(self, cells: Sequence[str]) -> None:
        line = _line(cells)
        try:
            if os.write(self._file, line) < len(line):
                raise OSError(f"{self.path}: the vote was not saved, the disk is full")
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self._ends[-1])
            raise
        self._ends.append(self._ends[-1] + len(line))

    def undo(self) -> list[str]:
        """Remove the last vote, and return it."""
        self._require_unchanged()
        os.ftruncate(self._file, self._ends[-2])
        os.fsync(self._file)
        self._ends.pop()
        return self.rows.pop()

    def _require_unchanged(self) -> None:
        ours, named = os.fstat(self._file), os.stat(self.path)
        same = (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)
        if not same or ours.st_size != self._ends[-1]:
            raise OSError(f"{self.path} was changed by another program; start precede ask again")


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode("utf-8")


def _cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")], strict=True), [])
    except (csv.Error, UnicodeDecodeError):
        return []


class Session:
    """The votes of one voter: the pair to compare now, and the board.

    Every change has a number, the `turn`. A page says which turn it answers, so that two of them
    cannot vote on the same pair. A vote is answered from a plan of some pairs, while the page asks
    for the board, which fits the strengths again and renews the plan.

    Parameters
    ----------
    items : HTML of the items by name
    votes : the file of votes
    goal : what votes are to settle, see `Leaderboard.next_pairs`
    voter : name that goes with every vote
    level : confidence level of ranks
    """

    def __init__(
        self, items: Mapping[str, str], votes: VoteFile, *, goal: str, voter: str, level: float
    ):
        if len(voter.splitlines()) != 1:
            raise ValueError(f"voter={voter!r} is not one line; give the name of who votes")
        self.items, self.votes, self.goal = items, votes, goal
        self.voter, self.level = voter, level
        self.turn, self._fitted_turn = 0, -1
        self._shown: tuple[str, str] | None = None
        self._planned: list[tuple[str, str]] = []
        self._state, self._fitting = threading.Lock(), threading.Lock()  # the latter is taken first
        self._fit()

    def pair(self, note: str = "") -> Json:
        """Return the pair to compare now."""
        while True:
            with self._state:
                if self._shown is not None:
                    left, right = (self.items[name] for name in self._shown)
                    votes = pluralize(len(self.votes.rows), "vote")
                    return {"turn": self.turn, "left": left, "right": right, "votes": votes,
                            "undoable": self._undoable(), "note": note}  # fmt: skip
            self._fit()  # the plan is used up

    def vote(self, turn: int, outcome: str) -> tuple[bool, Json]:
        """Append a vote; return whether this was done, and the pair that comes next."""
        if outcome not in OUTCOMES:
            raise ValueError(f"{outcome!r} is no outcome; use {quoted([*OUTCOMES])}")
        with self._state:
            shown = self._shown if turn == self.turn else None
            if shown is not None:
                self.votes.add([*shown, outcome, self.voter, "a"])
                self.turn += 1
                self._show_next()
        note = OUTDATED if shown is None else f"Saved: {OUTCOMES[outcome]}."
        return shown is not None, self.pair(note)

    def undo(self, turn: int) -> tuple[bool, Json]:
        """Remove the last vote, if it is of this voter, and show its pair again."""
        note = OUTDATED
        with self._state:
            done = turn == self.turn and self._undoable()
            if done:
                a, b, outcome, *_ = self.votes.undo()
                note = f"Undone: {OUTCOMES[outcome]}. Here is the pair again."
                self._planned[:0] = [self._shown] if self._shown else []
                self.turn, self._shown = self.turn + 1, (a, b)
            elif turn == self.turn:
                note = "There is no vote of yours to undo."
        return done, self.pair(note)

    def _undoable(self) -> bool:
        return bool(self.votes.rows) and self.votes.rows[-1][3] == self.voter

    def _show_next(self) -> None:
        """Show the next pair of the plan, with each item as often on the left as on the right."""
        self._shown = None
        if self._planned:
            one, other = self._planned.pop(0)
            lead, rows = Counter[str](), self.votes.rows
            lead.update(row[0] for row in rows)
            lead.subtract(row[1] for row in rows)
            turned = (lead[one], len(rows) % 2) > (lead[other], 0)
            self._shown = (other, one) if turned else (one, other)

    def _fit(self) -> None:
        """Fit the strengths to the votes of now, unless this is done, and plan."""
        with self._fitting:
            with self._state:
                turn, rows = self.turn, [*self.votes.rows]
                if turn == self._fitted_turn and self._shown is not None:
                    return
            cells = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
            columns = zip(COLUMNS, map(object_array, cells), strict=True)
            board = Leaderboard().fit(installed_frame(dict(columns)), items=self.items)
            planned = board.next_pairs(PLANNED, self.goal, level=self.level)
            with self._state:
                # A second vote of a voter on a pair says less than the first one.
                seen = Counter(
                    frozenset(row[:2]) for row in self.votes.rows if row[3] == self.voter
                )
                seen[frozenset(self._shown or ())] += len(rows) + 1
                self._planned = sorted(planned, key=lambda pair: seen[frozenset(pair)])
                self._board, self._fitted_turn = board, turn
                if self._shown is None:
                    self._show_next()

    def board(self) -> Json:
        """Return the ranking by all votes, and how far the goal is settled."""
        self._fit()
        board, names = self._board, ("item", "rank", "rank_low", "rank_high")
        rows = [{name: row[name] for name in names} for row in board.rows(self.level)]
        return {"settled": settled(self.goal, board.confidence(self.goal)), "rows": rows}


def settled(goal: str, confidence: float) -> str:
    """Return a sentence on how far a goal is settled, which does not round up.

    >>> settled("top@5", 0.909), settled("first", 1.0)
    ('the first five are settled to 90 %', 'the first is settled to over 99 %')
    """
    what = "the order is" if goal == "order" else "the first is"
    if goal.startswith("top@") and (number := int(goal[4:])) > 1:
        what = f"the first {_NUMBERS[number - 2] if number <= 10 else number} are"
    return f"{what} settled to {'over 99' if confidence >= 1 else int(100 * confidence)} %"
