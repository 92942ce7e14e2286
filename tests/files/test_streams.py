"""Streams: standard ones, devices, packed files, and files that are kept when a write fails."""

import gzip
import io
import os
import subprocess
import sys

import pytest

from files.test_reading import put
from precede.cli.console import printable
from precede.files.streams import opened, writing


def test_standard_streams(tmp_path):
    code = (
        "from precede.files import read, write\ndata = read('-')\nwrite('-', data, format='csv')\n"
    )
    for content in (b"1 qid:3 1:2 # a\n", gzip.compress(b"1 qid:3 1:2 # a\n")):
        done = subprocess.run(
            [sys.executable, "-c", code], input=content, capture_output=True, check=True
        )
        assert done.stdout == b"grade,qid,docid,1\n1,3,a,2\n"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = put(tmp_path / "old", "old")
    with pytest.raises(AttributeError), writing(path) as file:
        file.write(b"new").fails()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_links_and_devices_are_written_through(tmp_path):
    path = put(tmp_path / "old", "old")
    (tmp_path / "link").symlink_to(path)
    with writing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert path.read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    with writing(tmp_path / "pipe") as file:
        file.write(b"through")
    assert reader.communicate()[0] == b"through"
    with pytest.raises(FileNotFoundError, match="does not exist"), writing(tmp_path / "a" / "b"):
        pass


def test_packed_files_do_not_depend_on_the_clock(tmp_path, monkeypatch):
    for name, now in (("a.gz", 1.0), ("b.gz", 1e9)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        with writing(tmp_path / name) as file:
            file.write(b"same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    with opened(tmp_path / "a.gz") as file:
        assert file.read() == b"same"


def test_the_suffix_of_packed_files_may_be_in_capitals(tmp_path):
    with writing(tmp_path / "x.csv.GZ") as file:
        file.write(b"packed")
    assert gzip.decompress((tmp_path / "x.csv.GZ").read_bytes()) == b"packed"


@pytest.mark.skipif(os.name != "posix", reason="files have modes on POSIX")
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path):
    """A private model does not become public; a new file follows the umask."""
    umask = os.umask(0o027)
    try:
        for mode in (0o600, 0o644, 0o664, None):
            path = tmp_path / f"model{mode}"
            if mode is not None:
                put(path, "old")
                path.chmod(mode)
            with writing(path) as file:
                file.write(b"new")
                (temporary,) = tmp_path.glob(".model*")  # not even while it is written
                assert temporary.stat().st_mode & 0o777 == (0o640 if mode is None else mode)
            assert path.stat().st_mode & 0o777 == (0o640 if mode is None else mode)
    finally:
        os.umask(umask)


def test_a_terminal_gets_no_character_that_it_would_obey(monkeypatch):
    """The same ones as in tables and messages; tabs and ends of lines are those of the file."""
    screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout", screen)
    obeyed = [chr(code) for code in range(0x3000) if printable(chr(code)) != chr(code)]
    text = "é" + "".join(each for each in obeyed if each not in "\t\n\r")
    with writing("-") as file:
        file.write(text.encode())
    assert screen.buffer.getvalue().decode() == printable(text)
