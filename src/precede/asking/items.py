"""The items to compare: a table of names with texts, Markdown and pictures, as safe HTML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from precede.engine.parameters import pluralize
from precede.files.arrow import delimited_blocks
from precede.files.data import quoted
from precede.files.reading import DELIMITERS, format_of_name, read_header
from precede.files.streams import FileName, opened

CONTENT = ("text", "markdown", "image")
PICTURES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".avif": "image/avif", ".svg": "image/svg+xml",
}  # fmt: skip

_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")  # tags are shown as text


def read_items(path: FileName, folder: Path) -> dict[str, Markup]:
    """Return the HTML of each item of a CSV or TSV file by its name, in the order of the file.

    Pictures are files inside `folder`. Items with nothing but a name are shown by their names.
    """
    found: dict[str, Markup] = {}
    missing: list[str] = []
    for number, row in enumerate(_rows(path), 1):
        name, where = row["item"], f"{path}, row {number}"
        if name in found or len(name.splitlines()) != 1:
            why = "is that of another row too" if name in found else "is not one line"
            raise ValueError(f"{where}: the name {name!r} {why}; give each item a name of its own")
        image = row.get("image")
        if image and find_picture(folder, image) is None:
            raise ValueError(
                f"{where}: {image!r} is not a picture inside {folder}; put a file there that ends "
                f"in {', '.join(PICTURES)}, or name another folder"
            )
        if len(row) > 1 and not any(row[column] for column in row if column != "item"):
            raise ValueError(f"{where}: {name!r} is empty; give it one of {quoted(CONTENT)}")
        found[name] = _html(row if len(row) > 1 else {"text": name}, folder, missing)
    if len(found) < 2:
        raise ValueError(f"{path} has {pluralize(len(found), 'item')}; list at least 2 to compare")
    if missing:
        warnings.warn(
            f"{path}: {pluralize(len(missing), 'picture')} in Markdown cannot be shown, such as "
            f"{missing[0]!r}: only files inside {folder} are", stacklevel=2,
        )  # fmt: skip
    return found


def _rows(path: FileName) -> Iterator[dict[str, str]]:
    form = format_of_name(path) or "csv"
    if form not in DELIMITERS:
        raise ValueError(f"{path}: items are read from CSV and TSV files, not {form}")
    with opened(path) as stream:
        names, _ = read_header(stream.readline(), str(path), DELIMITERS[form], True)
        unknown = [name for name in names if name not in ("item", *CONTENT)]
        if unknown or "item" not in names:
            why = f"has a column {unknown[0]!r}" if unknown else "has no column 'item'"
            raise ValueError(
                f"{path} {why}; name the columns item and any of {quoted(CONTENT)}, drop others"
            )
        for block in delimited_blocks(
            stream, str(path), DELIMITERS[form], names, numbers=(), texts=names
        ):
            for cells in zip(*(block.texts[name] for name in names), strict=True):
                yield dict(zip(names, cells, strict=True))


def find_picture(folder: Path, name: str) -> Path | None:
    """Return the file of a picture, or None unless it is one inside a folder, which is resolved.

    Links and .. are followed first: what counts is where they lead.
    """
    try:
        path = (folder / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # absent; a circle of links; a null byte
        return None
    inside = path.is_relative_to(folder) and path.is_file() and path.suffix.lower() in PICTURES
    return path if inside else None


def _html(row: Mapping[str, str], folder: Path, missing: list[str]) -> Markup:
    """Return an item as HTML; add the pictures that cannot be shown to `missing`."""
    html = Markup("")
    if image := row.get("image"):
        described = "" if row.get("text") else "a picture without a description"
        html += Markup('<img src="{}" alt="{}">').format(_address(image), described)
    if text := row.get("text"):
        html += Markup('<p class="plain" dir="auto">{}</p>').format(text)
    if text := row.get("markdown"):
        tokens = _markdown.parse(text)
        missing += _make_safe(tokens, folder)
        rendered = _markdown.renderer.render(tokens, _markdown.options, {})
        html += Markup('<div dir="auto">{}</div>').format(Markup(rendered))
    return html


def _make_safe(tokens: Iterable[Token], folder: Path) -> Iterator[str]:
    """Keep links to the web and pictures inside the folder; yield the names of other pictures."""
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs["href"])
            goes_out = re.match("(https?|mailto):", target, re.IGNORECASE)
            token.attrs = (
                {"href": target, "target": "_blank", "rel": "noopener"} if goes_out else {}
            )
        elif token.type == "image":
            name = unquote(str(token.attrs["src"]))
            if find_picture(folder, name) is not None:
                token.attrs["src"] = _address(name)
            else:
                token.type, token.tag, token.children = "text", "", None
                token.content = f"[a picture that cannot be shown: {token.content or name}]"
                yield name
        yield from _make_safe(token.children or (), folder)


def _address(name: str) -> str:
    return f"picture/{quote(name)}"
