"""The file of votes, which loses nothing, and the pairs that are asked."""

import os
import subprocess
import sys
import threading
from collections import Counter

import pandas as pd
import pytest

from precede import Leaderboard
from precede.asking import session as module
from precede.asking.session import COLUMNS, Session, VoteFile, settled
from precede.files import read_votes

ITEMS = {f"item {k}": f"<p>{k}</p>" for k in range(7)} | {'"quoted", <i>': "<p>q</p>"}
HEAD = ",".join(COLUMNS) + "\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "votes.csv"


@pytest.fixture
def begin(path):
    """A function that begins a session on a file, after ending the one before."""
    files = []

    def begin(items=ITEMS, goal="top@5", voter="ann"):
        for file in files:
            file.close()
        files[:] = [VoteFile(path, items)]
        return Session(items, files[0], goal=goal, voter=voter, level=0.9)

    yield begin
    for file in files:
        file.close()


def records(path):
    return read_votes(path).to_dict("records")


def test_every_vote_is_a_line_that_read_votes_reads(path, begin):
    session = begin()
    asked = []
    for turn, outcome in enumerate(["a", "b", "tie", "a"]):
        asked.append(session._shown)
        done, state = session.vote(turn, outcome)
        assert done
        assert state["turn"] == turn + 1
        assert state["votes"] == f"{turn + 1} vote{'s' if turn else ''}"
    assert [(each["a"], each["b"]) for each in records(path)] == asked
    assert [each["outcome"] for each in records(path)] == ["a", "b", "tie", "a"]
    assert {each["voter"] for each in records(path)} == {"ann"}


def test_a_vote_is_on_the_disk_before_it_is_confirmed(path, begin, monkeypatch):
    session, flushed = begin(), []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (real(file), flushed.append(path.read_bytes())))
    session.vote(0, "a")
    assert flushed == [path.read_bytes()]
    assert flushed[0].count(b"\n") == 2
    session.undo(1)
    assert flushed[1:] == [HEAD.encode()]


def test_undo_leaves_the_file_as_if_the_vote_had_not_been(path, begin):
    session = begin()
    before = [path.read_bytes()]
    for turn in range(3):
        session.vote(turn, "a")
        before.append(path.read_bytes())
    for turn in range(3, 6):
        shown = session._shown
        done, state = session.undo(turn)
        assert done
        assert session._shown != shown
        assert path.read_bytes() == before[5 - turn]
    assert not state["undoable"]
    assert session.undo(6) == (False, session.pair("There is no vote of yours to undo."))
    assert path.read_text() == HEAD


def test_undo_shows_the_pair_again_and_keeps_the_next_one(begin):
    session = begin()
    first = session._shown
    session.vote(0, "b")
    second = session._shown
    session.undo(1)
    assert session._shown == first
    session.vote(2, "a")
    assert set(session._shown) == set(second)


def test_votes_of_others_are_not_undone(path, begin):
    begin().vote(0, "a")
    session = begin(voter="bob")
    assert session.undo(0)[0] is False
    assert len(records(path)) == 1
    assert begin().undo(0)[0] is True


def test_a_second_start_goes_on(path, begin):
    session = begin()
    for turn in range(4):
        session.vote(turn, "a")
    content = path.read_bytes()
    again = begin()
    assert path.read_bytes() == content
    assert again.pair()["votes"] == "4 votes"
    again.vote(0, "tie")
    assert len(records(path)) == 5
    assert path.read_bytes().startswith(content)


TORN = [b"item 1,ite", b"item 1,item 2,a,ann,", b'"quoted"", <', b"\xc3"]


@pytest.mark.parametrize("torn", TORN)
def test_an_incomplete_last_line_is_removed_with_a_warning(path, begin, torn):
    begin().vote(0, "a")
    content = path.read_bytes()
    path.write_bytes(content + torn)
    with pytest.warns(UserWarning, match=r"row 2 was incomplete and is removed"):
        session = begin()
    assert session.pair()["votes"] == "1 vote"
    assert path.read_bytes() == content


def test_a_whole_last_line_without_an_end_is_kept(path, begin):
    begin().vote(0, "a")
    content = path.read_bytes()
    path.write_bytes(content.removesuffix(b"\n"))
    session = begin()
    assert path.read_bytes() == content
    session.vote(0, "b")
    session.undo(1)
    assert path.read_bytes() == content
    session.undo(2)
    assert path.read_text() == HEAD


@pytest.mark.parametrize("beginning", ["", HEAD[:7], HEAD, "\ufeff" + HEAD[:-1]])
def test_a_file_that_was_only_begun_is_begun_again(path, begin, beginning):
    path.write_text(beginning, encoding="utf-8")
    begin()
    assert path.read_text() == HEAD


def test_lines_that_windows_programs_saved_are_read(path, begin):
    path.write_bytes(b"\xef\xbb\xbf" + HEAD.encode() + b"item 1,item 2,a,ann,a\r\n")
    session = begin()
    content = path.read_bytes()
    session.vote(0, "b")
    assert len(records(path)) == 2
    session.undo(1)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_a,model_b,winner\nx,y,a\n", r"has the columns 'model_a', .*: name another file"),
        ("some notes", r"has the columns 'some notes'; .*: name another file"),
        (HEAD + "item 1,item 9,a,ann,a\n", r"row 1 is on 'item 9', which is not among the items; "),
        (HEAD + "item 1,item 2,a,ann,a\nitem 1,item 2\n", r"row 2 is no vote of .*; remove the li"),
        (HEAD + "item 1,item 2,c,ann,a\n", r"row 1 is no vote of"),
    ],
)
def test_other_files_are_refused_and_left_alone(path, text, message):
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        VoteFile(path, ITEMS)
    assert path.read_text() == text


def test_names_of_files_and_voters_are_checked(tmp_path, begin):
    with pytest.raises(ValueError, match=r"votes.parquet: votes are appended to a CSV file; name"):
        VoteFile(tmp_path / "votes.parquet", ITEMS)
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist; create it first"):
        VoteFile(tmp_path / "none" / "votes.csv", ITEMS)
    for voter in ("", "two\nlines"):
        with pytest.raises(ValueError, match=r"voter=.* is not one line; give the name"):
            begin(voter=voter)


@pytest.mark.skipif(module.fcntl is None, reason="this system has no locks of files")
def test_one_process_at_a_time_appends(path, begin):
    begin()
    code = f"from precede.asking.session import VoteFile; VoteFile({str(path)!r}, [])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is in use by another precede ask; stop it, or name another file" in done.stderr


@pytest.mark.parametrize("change", ["append", "replace", "remove"])
def test_a_file_that_another_program_changed_is_not_written(path, begin, change):
    session = begin()
    session.vote(0, "a")
    content = path.read_text()
    if change == "append":
        path.write_text(content + "item 1,item 2,a,bob,a\n")
    else:
        path.unlink()
    if change == "replace":
        path.write_text(content)
    now = path.read_text() if path.exists() else None
    for refused in (lambda: session.vote(1, "a"), lambda: session.undo(1)):
        with pytest.raises(OSError, match=r"changed by another program; start|No such file"):
            refused()
    assert (path.read_text() if path.exists() else None) == now
    assert session.turn == 1


@pytest.mark.parametrize("fault", ["write", "fsync"])
def test_a_vote_that_cannot_be_saved_is_no_vote(path, begin, monkeypatch, fault):
    session = begin()
    session.vote(0, "a")
    content, shown = path.read_bytes(), session._shown
    real = os.write

    def failing_fsync(file):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        if fault == "write":
            patch.setattr(os, "write", lambda file, line: real(file, line[:5]))
        else:
            patch.setattr(os, "fsync", failing_fsync)
        with pytest.raises(OSError, match=r"disk is full|no space left"):
            session.vote(1, "b")
    assert path.read_bytes() == content
    assert (session.turn, session._shown) == (1, shown)
    assert session.vote(1, "b")[0] is True
    assert len(records(path)) == 2


def test_one_of_many_votes_on_a_pair_counts(path, begin):
    session = begin()
    replies = []
    barrier = threading.Barrier(8)

    def vote():
        barrier.wait()
        replies.append(session.vote(0, "a"))

    threads = [threading.Thread(target=vote) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done for done, _ in replies) == [False] * 7 + [True]
    assert {state["note"] for done, state in replies if not done} == {module.OUTDATED}
    assert len(records(path)) == 1


def test_pairs_are_those_of_the_board(begin):
    """Of the plan, a pair that the voter has not compared comes first, the one shown now last."""
    session = begin()
    for turn in range(12):
        session._fit()
        votes = pd.DataFrame(session.votes.rows, columns=COLUMNS)
        board = Leaderboard().fit(votes, items=ITEMS)
        planned = board.next_pairs(module.PLANNED, "top@5", level=0.9)
        if turn == 0:
            assert {*session._shown} == {*planned.pop(0)}
        seen = Counter(frozenset(row[:2]) for row in session.votes.rows)
        seen[frozenset(session._shown)] += 100
        planned.sort(key=lambda pair, seen=seen: seen[frozenset(pair)])
        assert session._planned == planned
        session.vote(turn, "a" if session._shown[0] < session._shown[1] else "b")
        assert {*session._shown} == {*planned[0]}


def test_votes_are_answered_from_a_plan_that_is_made_again_when_it_is_used_up(begin):
    session = begin()
    for turn in range(3 * module.PLANNED):
        done, state = session.vote(turn, "tie")
        assert done
        assert state["left"] != state["right"]
    assert session._fitted_turn > 0


def test_items_are_on_both_sides_alike(begin):
    session = begin()
    for turn in range(30):
        session.vote(turn, "tie")
    rows = session.votes.rows
    left, right = (Counter(row[side] for row in rows) for side in (0, 1))
    assert all(abs(left[name] - right[name]) <= 3 for name in ITEMS)


def test_two_items_are_asked_again_and_again(begin):
    session = begin({"x": "1", "y": "2"}, goal="order")
    for turn in range(25):
        assert session.vote(turn, "a" if session._shown[0] == "x" else "b")[0]
    board = session.board()
    assert [row["item"] for row in board["rows"]] == ["x", "y"]


def test_the_board_is_that_of_the_file(path, begin):
    session = begin()
    assert session.board()["settled"] == "the first five are settled to 0 %"
    for turn in range(25):
        session.vote(turn, "a" if session._shown[0] < session._shown[1] else "b")
    found = session.board()
    fitted = Leaderboard().fit(read_votes(path), items=ITEMS)
    assert [row["item"] for row in found["rows"]] == fitted.items_
    for row, expected in zip(found["rows"], fitted.rows(0.9), strict=True):
        assert row == {name: expected[name] for name in row}
    assert found["settled"] == settled("top@5", fitted.confidence("top@5"))


@pytest.mark.parametrize(
    ("goal", "confidence", "sentence"),
    [
        ("top@5", 0.9, "the first five are settled to 90 %"),
        ("top@5", 0.89999, "the first five are settled to 89 %"),
        ("top@12", 0.999, "the first 12 are settled to 99 %"),
        ("top@1", 0.5, "the first is settled to 50 %"),
        ("first", 1.0, "the first is settled to over 99 %"),
        ("order", 0.0, "the order is settled to 0 %"),
    ],
)
def test_how_far_a_goal_is_settled_is_not_rounded_up(goal, confidence, sentence):
    assert settled(goal, confidence) == sentence


def test_outcomes_are_checked(path, begin):
    session = begin()
    with pytest.raises(ValueError, match=r"'both bad' is no outcome; use 'a', 'b', 'tie'"):
        session.vote(0, "both bad")
    assert path.read_text() == HEAD
