"""PDF files: printed where there is a browser, refused with the remedy where there is none."""

import os
import stat

import pytest

from precede import Report
from precede.report import report as report_module

FAKE = """#!/bin/sh
for each in "$@"; do
  case "$each" in --print-to-pdf=*) {act};; esac
done
"""


@pytest.fixture
def report():
    return Report(scores={"a": [1.0, 2.0, 3.0, 4.0]}, y=[0, 1, 0, 1])


def browser(folder, act):
    path = folder / "chromium"
    path.write_text(FAKE.format(act=act))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_a_browser_the_remedy_is_named(report, monkeypatch, tmp_path):
    monkeypatch.setattr(report_module, "find_chromium", lambda: None)
    with pytest.raises(ImportError, match=r"install one, set CHROMIUM to its path, or write the"):
        report.to_pdf(tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_the_browser_is_found_and_asked(report, monkeypatch, tmp_path):
    made = browser(
        tmp_path,
        'printf %s "%PDF-1.4" > "${{each#--print-to-pdf=}}"'.replace("{{", "{").replace("}}", "}"),
    )
    monkeypatch.setenv("CHROMIUM", made)
    assert report_module.find_chromium() == made
    report.to_pdf(tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes() == b"%PDF-1.4"
    monkeypatch.delenv("CHROMIUM")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert report_module.find_chromium() == made
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "nothing"))
    assert report_module.find_chromium() is None


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_a_browser_that_prints_nothing_is_named(report, monkeypatch, tmp_path):
    monkeypatch.setenv("CHROMIUM", browser(tmp_path, "echo broken >&2"))
    with pytest.raises(ValueError, match="wrote no PDF: broken"):
        report.to_pdf(tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


def test_a_browser_that_is_not_there_is_named(report, monkeypatch, tmp_path):
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "nothing"))
    with pytest.raises(ImportError, match=r"CHROMIUM='.*nothing' is not a program; install one"):
        report.to_pdf(tmp_path / "r.pdf")
