"""The page on paper: Chromium turns it into a PDF file."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from precede.model import write_file

__all__ = ["find_chromium", "write_pdf"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
          "microsoft-edge", "msedge")  # fmt: skip
_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
_SECONDS = 120


def find_chromium() -> str | None:
    """The browser that CHROMIUM names, or one with a usual name or path; None without."""
    given = os.environ.get("CHROMIUM")
    if given:
        return shutil.which(given)
    found = (shutil.which(name) for name in _NAMES)
    return next(filter(None, found), next((path for path in _PATHS if Path(path).exists()), None))


def write_pdf(page: str, path: str | os.PathLike[str]) -> None:
    """Print a page into a file, whole or not at all; ImportError where there is no browser."""
    browser = find_chromium()
    if browser is None:
        given = os.environ.get("CHROMIUM")
        found = f"CHROMIUM={given!r} is not a program" if given else "none was found"
        raise ImportError(
            f"a PDF file needs Chromium, Chrome or Edge, and {found}; install one, set "
            "CHROMIUM to its path, or write the report as .html and print it from a browser"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "report.html", Path(folder) / "report.pdf"
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
            f"--user-data-dir={Path(folder) / 'profile'}", f"--print-to-pdf={made}",
            *(["--no-sandbox"] if _is_root() else []), source.as_uri(),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"{browser} did not print within {_SECONDS} s; try .html") from error
        if not made.exists() or not made.stat().st_size:
            message = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise ValueError(f"{browser} wrote no PDF: {' '.join(message) or 'no message'}")
        write_file(path, made.read_bytes())


def _is_root() -> bool:
    """Chromium refuses its sandbox to root; the page is our own and loads nothing."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
