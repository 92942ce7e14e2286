"""Documents: sections of text, tables and charts, written as a page or as Markdown.

A section is a list of blocks. Each block can be written as HTML and as lines of Markdown, from
which charts and controls are left out. Texts are escaped; those of type `Markup` may hold tags.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape

from precede.engine.arrays import Json
from precede.plots.drawing import Chart
from precede.report.wording import Value, number


class Block:
    """A part of a section; one that Markdown leaves out defines `html` only."""

    def html(self) -> Markup:
        """Return HTML."""
        raise NotImplementedError

    def markdown(self) -> list[str]:
        """Return lines of Markdown."""
        return []


@dataclass(frozen=True)
class Heading(Block):
    """A heading inside a section."""

    text: str

    def html(self) -> Markup:
        """Return a heading of the third level."""
        return Markup("<h3>{}</h3>\n").format(self.text)

    def markdown(self) -> list[str]:
        """Return a heading of the third level."""
        return [f"### {_escaped(self.text)}", ""]


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph; `kind` is its CSS class, such as "note"."""

    text: str
    kind: str = ""

    def html(self) -> Markup:
        """Return a paragraph."""
        return Markup("<p{}>{}</p>\n").format(_class(self.kind), self.text)

    def markdown(self) -> list[str]:
        """Return a paragraph."""
        return [_escaped(self.text), ""]


@dataclass(frozen=True)
class Bullets(Block):
    """A list of texts; `kind` is its CSS class."""

    items: Sequence[str]
    kind: str = "note"

    def html(self) -> Markup:
        """Return a list."""
        items = Markup("").join(Markup("<li>{}</li>\n").format(each) for each in self.items)
        return Markup('<ul class="{}">\n{}</ul>\n').format(self.kind, items)

    def markdown(self) -> list[str]:
        """Return a list."""
        return [*(f"* {_escaped(each)}" for each in self.items), ""]


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than a value.

    Parameters
    ----------
    text : text or number of the cell
    detail : small print after the text, which is then bold
    unseen : text for screen readers and Markdown only
    tip : tooltip
    key : value by which the rows are sorted
    kind : CSS class, if not that of the column
    """

    text: object
    detail: str = ""
    unseen: str = ""
    tip: str = ""
    key: Value = None
    kind: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{number(self.text)}{detail}{self.unseen}"


@dataclass(frozen=True)
class Table(Block):
    """A table of texts, numbers and cells.

    Parameters
    ----------
    head : titles of the columns
    rows : cells of each row; numbers are formatted, None is a dash
    kinds : CSS classes of the columns, separated by blanks: "name" for texts, "n" for numbers,
        "span" for intervals, "head" for headers of the rows; by default a name and numbers
    marked : indices of the rows to highlight
    sorted_by : index of the column by which the rows are sorted; on the page, rows of such a
        table can be sorted by another column, filtered and opened
    ascending : direction of that order
    most : maximum number of rows in Markdown
    """

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    kinds: str = ""
    marked: Collection[int] = ()
    sorted_by: int | None = None
    ascending: bool = True
    most: int | None = None

    def html(self) -> Markup:
        """Return a table that scrolls sideways."""
        kinds = self._kinds()
        titles = zip(self.head, kinds, strict=True)
        head = "".join(self._title(k, title, kind) for k, (title, kind) in enumerate(titles))
        body = "\n".join(self._row(k, row, kinds) for k, row in enumerate(self.rows))
        tall, attributes = "", ""
        if self.sorted_by is not None:
            tall, attributes = " tall", f' id="query-table" data-main="{self.sorted_by}"'
        return Markup(
            f'<div class="scroll{tall}" tabindex="0"><table{attributes}><thead><tr>{head}</tr>'
            f"</thead><tbody>\n{body}\n</tbody></table></div>\n"
        )

    def _kinds(self) -> list[str]:
        return self.kinds.split() or ["name", *["n"] * (len(self.head) - 1)]

    def _title(self, column: int, title: str, kind: str) -> str:
        numbers = ' class="n"' if kind == "n" else ""
        if self.sorted_by is None or kind == "grades":
            return f'<th scope="col"{numbers}>{escape(title)}</th>'
        order = "ascending" if self.ascending else "descending"
        shown = f' aria-sort="{order}"' if column == self.sorted_by else ""
        button = f'<button type="button">{escape(title)}</button>'
        return f'<th scope="col"{numbers}{shown}>{button}</th>'

    def _row(self, at: int, row: Sequence[object], kinds: Sequence[str]) -> str:
        cells = [_cell(each, kind) for each, kind in zip(row, kinds, strict=True)]
        attributes = ' class="wrong"' if at in self.marked else ""
        if self.sorted_by is not None:
            attributes = f' data-at="{at}"'
        return f"<tr{attributes}>{''.join(cells)}</tr>"

    def markdown(self) -> list[str]:
        """Return a table."""
        rows = [[_escaped(_shown(each)) for each in row] for row in self.rows[: self.most]]
        head = [_escaped(each) for each in self.head]
        lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
        return [lines[0], f"|{'---|' * len(head)}", *lines[1:], ""]


def _shown(cell: object) -> str:
    return str(cell) if isinstance(cell, Cell) else number(cell)


def _cell(cell: object, kind: str) -> str:
    if kind == "head":
        return f'<th scope="row">{escape(_shown(cell))}</th>'
    if not isinstance(cell, Cell):
        return f'<td class="{kind}">{escape(number(cell))}</td>'
    text = escape(number(cell.text))
    if cell.detail:
        text = Markup("<strong>{}</strong> <small>{}</small>").format(text, cell.detail)
    elif kind == "open":
        text = Markup('<button type="button" class="open" aria-expanded="false">{}</button>'
                      ).format(text)  # fmt: skip
    if cell.unseen:
        text += Markup('<span class="hidden-text">{}</span>').format(cell.unseen)
    key = "" if cell.key is None else f' data-value="{escape(cell.key)}"'
    tip = f' title="{escape(cell.tip)}"' if cell.tip else ""
    return f'<td class="{cell.kind or kind}"{key}{tip}>{text}</td>'


@dataclass(frozen=True)
class Figure(Block):
    """A chart between a title or heading and a caption; nothing if the chart is empty."""

    chart: Chart
    caption: str = ""
    title: str = ""
    heading: str = ""
    kind: str = ""

    def html(self) -> Markup:
        """Return a figure."""
        drawn = self.chart.svg()
        if not drawn:
            return drawn
        parts = []
        if self.heading:
            parts.append(Heading(self.heading).html())
        if self.title:
            title = Markup("<figcaption><strong>{}</strong></figcaption>")
            parts.append(title.format(self.title))
        parts.append(drawn)
        if self.caption:
            parts.append(Markup("<figcaption>{}</figcaption>").format(self.caption))
        inside = Markup("").join(parts)
        return Markup("<figure{}>{}</figure>\n").format(_class(self.kind), inside)


@dataclass(frozen=True)
class Html(Block):
    """HTML for the page only, such as controls."""

    text: Markup

    def html(self) -> Markup:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Group(Block):
    """Blocks in one element of the page; `kind` is its CSS class."""

    blocks: Sequence[Block]
    kind: str = ""

    def html(self) -> Markup:
        """Return an element with the blocks."""
        return Markup("<div{}>\n{}</div>\n").format(_class(self.kind), html_of(self.blocks))

    def markdown(self) -> list[str]:
        """Return the blocks."""
        return _markdown_of(self.blocks)


def side_by_side(*sides: Sequence[Block] | Group, kind: str = "") -> Group:
    """Return blocks in columns, if the page is wide enough."""
    columns = [side if isinstance(side, Group) else Group(side) for side in sides]
    return Group(columns, f"two {kind}".rstrip())


def unseen(*blocks: Block) -> Group:
    """Return blocks for screen readers and Markdown only."""
    return Group(blocks, "hidden-text")


@dataclass(frozen=True)
class Fold(Block):
    """Blocks below a title, which opens and closes them."""

    title: str
    blocks: Sequence[Block]
    detail: str = ""
    kind: str = ""
    is_open: bool = False

    def html(self) -> Markup:
        """Return details with a summary."""
        detail = Markup(' <span class="soft">{}</span>').format(self.detail) if self.detail else ""
        return Markup("<details{}{}><summary><h3>{}</h3>{}</summary>\n{}</details>\n").format(
            _class(self.kind), " open" if self.is_open else "", self.title, detail,
            html_of(self.blocks),
        )  # fmt: skip

    def markdown(self) -> list[str]:
        """Return a heading and the blocks."""
        detail = Paragraph(self.detail).markdown() if self.detail else []
        return [*Heading(self.title).markdown(), *detail, *_markdown_of(self.blocks)]


@dataclass(frozen=True)
class Section(Block):
    """A part of a document, with the name of its tab."""

    name: str
    tab: str
    title: str
    blocks: Sequence[Block]

    def html(self) -> Markup:
        """Return the blocks."""
        return html_of(self.blocks)

    def markdown(self) -> list[str]:
        """Return the heading and the blocks."""
        return [f"## {_escaped(self.title)}", "", *_markdown_of(self.blocks)]


@dataclass(frozen=True)
class Document:
    """A title, the blocks of the first screen, and sections."""

    title: str
    date: str | None
    first: Sequence[Block]
    sections: Sequence[Section]

    def html(self, facts: Json, version: str) -> str:
        """Return a page with the facts, whose security policy allows no script but its own."""
        script = _resource("report.js")
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        return _template().render(
            document=self, first=html_of(self.first), style=Markup(_resource("report.css")),
            script=Markup(script), digest=digest, facts=_embedded_json(facts), version=version,
        )  # fmt: skip

    def markdown(self) -> str:
        """Return the text and the tables."""
        lines = [f"# {_escaped(self.title)}", ""]
        if self.date:
            lines += Paragraph(self.date).markdown()
        lines += _markdown_of([*self.first, *self.sections])
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def html_of(blocks: Iterable[Block]) -> Markup:
    """Return blocks as HTML."""
    return Markup("").join(each.html() for each in blocks)


def _markdown_of(blocks: Iterable[Block]) -> list[str]:
    return [line for each in blocks for line in each.markdown()]


def _class(kind: str) -> Markup:
    return Markup(' class="{}"').format(kind) if kind else Markup("")


def _escaped(text: str) -> str:
    """Return a text on one line, without tags, with the special characters of Markdown escaped."""
    flat = text.striptags() if isinstance(text, Markup) else " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|])", r"\\\1", flat)


@lru_cache
def _template() -> Template:
    """Return the compiled template, cached since compiling is slower than rendering."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("report.html.j2"))


def _resource(name: str) -> str:
    return resources.files("precede.report").joinpath(name).read_text(encoding="utf-8")


def _embedded_json(facts: Json) -> Markup:
    """Return JSON that is safe inside a <script> element."""
    text = json.dumps(facts, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
