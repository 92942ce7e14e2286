"""Markdown renderer of a report: the page as text, without its charts and controls."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = re.compile(r"<(head|figure|footer|script)\b.*?</\1>", re.DOTALL)
_CONTROLS = {"needs-script", "picker"}  # classes of elements that are of use on the page only
_HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### "}
_BLOCKS = {*_HEADINGS, "p", "li", "figcaption", "summary"}


def to_markdown(page: str) -> str:
    """Turn the page of a report into Markdown.

    >>> print(to_markdown("<h2>The data</h2><p>10 rows <small>of 20</small></p>"), end="")
    ## The data
    <BLANKLINE>
    10 rows (of 20)
    """
    reader = _Reader()
    reader.feed(_UNSEEN.sub("", page))
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(reader.lines)).strip() + "\n"


class _Reader(HTMLParser):
    """Collects the lines of Markdown. A table shows at most as many rows as its data-rows says."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.text = ""
        self.cells: list[str] = []
        self.rows = 0  # of the current table
        self.most = 0
        self.unseen: list[str] = []  # open elements inside a control

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        given = dict(attrs)
        if self.unseen or _CONTROLS & {*(given.get("class") or "").split()}:
            self.unseen += [] if tag == "input" else [tag]
        elif tag == "table":
            self.rows, self.most = 0, int(given.get("data-rows") or 1_000_000)
            self.lines.append("")
        elif tag in _BLOCKS or tag in ("td", "th"):
            self.text = ""
        elif tag == "small":
            self.text += "("

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if self.unseen:
            self.unseen.pop()
        elif tag == "small":
            self.text += ")"
        elif tag in ("td", "th"):
            self.cells.append(self._escaped())
        elif tag == "tr":
            self._end_row()
        elif tag in _BLOCKS and self.text.strip():
            mark = _HEADINGS.get(tag, "* " if tag == "li" else "")
            self.lines += [mark + self._escaped(), *([] if tag == "li" else [""])]
            self.text = ""
        elif tag in ("ul", "table"):
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        """Add text."""
        if not self.unseen:
            self.text += data

    def _end_row(self) -> None:
        if self.rows <= self.most:
            self.lines.append(f"| {' | '.join(self.cells)} |")
        if self.rows == 0:
            self.lines.append(f"|{'---|' * len(self.cells)}")
        self.rows, self.cells = self.rows + 1, []

    def _escaped(self) -> str:
        flat = re.sub(r"\s+", " ", self.text).strip().replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(r"([\\`*\[\]|])", r"\\\1", flat.replace(">", "&gt;"))
