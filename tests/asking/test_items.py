"""Items: what their files may hold, and what their HTML may not."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("markdown_it", reason="precede[ask] is not installed")

from precede.asking.items import find_picture, read_items

TAGS = {
    "p", "div", "em", "strong", "code", "pre", "a", "img", "ul", "ol", "li", "blockquote", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "br", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"href", "target", "rel", "src", "alt", "title", "class", "dir", "start", "style"}


class Elements(HTMLParser):
    """The elements of a text of HTML, with their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def is_harmless(html):
    for tag, attributes in Elements(html).found:
        assert tag in TAGS, html
        assert {*attributes} <= ATTRIBUTES, html
        assert attributes.get("href", "https:").lower().startswith(("http:", "https:", "mailto:"))
        assert attributes.get("src", "picture/").startswith("picture/"), html
        assert attributes.get("class", "plain").startswith(("plain", "language-")), html
        assert attributes.get("style", "text-align:").startswith("text-align:"), html
    return True


PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "</p>", "<",
    ">", '"', "'", "`", "```", "[", "]", "(", ")", "![", "](", "](javascript:alert(1))", "&#x0A;",
    "java&#10;script:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,<script>alert(1)</script>",
    "vbscript:x", "file:///etc/passwd", "<javascript:alert(1)>", "<https://a.b>", "//evil.example",
    "![x](https://evil.example/x.png)", "![x](../secret.png)", "[x]: javascript:alert(1)\n", "\n",
    "\n\n", "    ", "| a | b |\n|--:|---|\n| ", " | ", "<!--", "-->", "<![CDATA[", "<?php", "\\",
    '[x](https://a.b "onload=alert(1)")', "<svg/onload=alert(1)>", "~~~ x onclick=alert(1)\n", "# ",
    "&lt;script&gt;", "\x00", "\u202e", "word",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*picture.* in Markdown cannot be shown")
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12))
def test_markdown_makes_no_harmful_element(tmp_path_factory, pieces):
    from precede.asking.items import _html

    text = "".join(pieces)
    for column in ("markdown", "text"):
        assert is_harmless(_html({column: text}, tmp_path_factory.getbasetemp(), []))


def test_items_are_text_markdown_and_pictures(folder):
    items = read_items(folder / "items.csv", folder)
    assert [*items][:5] == ["plain", "marked", "dot", "drawing", "<b>name</b> & co"]
    assert all(map(is_harmless, items.values()))
    assert "Two lines,\n&lt;script&gt;" in items["plain"]
    found = Elements(items["marked"]).found
    assert [tag for tag, _ in found if tag in ("h1", "strong", "a", "img")] == [
        "h1", "strong", "a", "img"
    ]  # fmt: skip
    assert ("img", {"src": "picture/dots/one%20dot.png", "alt": "a dot"}) in found
    assert "[no link](javascript:alert(3))" in items["marked"]
    assert Elements(items["dot"]).found[0] == (
        "img",
        {"src": "picture/dots/one%20dot.png", "alt": ""},
    )


def test_items_with_names_only_are_shown_by_them(tmp_path):
    (tmp_path / "i.tsv").write_text("item\n<i>a</i>\nb\n")
    items = read_items(tmp_path / "i.tsv", tmp_path)
    assert items["<i>a</i>"] == '<p class="plain" dir="auto">&lt;i&gt;a&lt;/i&gt;</p>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1 is empty"),
        ("item,text\n", r"has 0 items; list at least 2"),
        ("item,text\nx,1\n", r"has 1 item; list at least 2"),
        ("item,text\nx,1\nx,2\n", r"row 2: the name 'x' is that of another row too; give each"),
        ("item,text\nx,1\n,2\n", r"row 2: the name '' is not one line; give each"),
        ('item,text\n"x\ny",1\nz,2\n', r"row 1: the name 'x\\ny' is not one line"),
        ("name,text\nx,1\n", r"has a column 'name'; name the columns item and any of 'text', 'm"),
        ("text\n1\n", r"has no column 'item'; name the columns"),
        ("item,text,color\nx,1,red\n", r"has a column 'color'; name the columns item .* drop"),
        ("item,text\nx,1\ny,\n", r"row 2: 'y' is empty; give it one of 'text', 'markdown', 'im"),
        ("item,image\nx,out.png\n", r"row 1: 'out.png' is not a picture inside .*; put a file"),
        ("item,image\nx,no.png\n", r"row 1: 'no.png' is not a picture inside"),
        ("item,image\nx,items.csv\n", r"row 1: 'items.csv' is not a picture inside"),
    ],
)
def test_a_bad_file_is_refused_with_the_remedy(folder, text, message):
    (folder / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_items(folder / "bad.csv", folder)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"i.parquet: items are read from CSV and TSV files, not"):
        read_items(tmp_path / "i.parquet", tmp_path)


def test_pictures_in_markdown_that_are_not_in_the_folder_are_named(folder):
    (folder / "m.csv").write_text(
        "item,markdown\nx,![far](https://a.b/c.png) ![up](../secret.png)\ny,1\n"
    )
    with pytest.warns(
        UserWarning, match=r"2 pictures .* cannot be shown, such as 'https://a.b/c.p"
    ):
        items = read_items(folder / "m.csv", folder)
    assert "<img" not in items["x"]
    assert "[a picture that cannot be shown: far]" in items["x"]


@pytest.mark.parametrize("target", ["//a.b", "up/secret.png", "/", "#x", "java&#x0A;script:x", "?"])
def test_links_lead_to_the_web_or_nowhere(tmp_path, target):
    (tmp_path / "l.csv").write_text(f"item,markdown\nx,[l]({target})\ny,[m](HTTPS://a.b/?c)\n")
    items = read_items(tmp_path / "l.csv", tmp_path)
    assert ("a", {}) in Elements(items["x"]).found
    (_, link) = Elements(items["y"]).found[-1]
    assert link == {"href": "HTTPS://a.b/?c", "target": "_blank", "rel": "noopener"}


@pytest.mark.parametrize(
    "name",
    ["../secret.png", "out.png", "up/secret.png", "dots/../../secret.png", "items.csv", "dots", "",
     ".", "dots/one dot.png\x00", "x" * 5000 + ".png", "circle.png", "/etc/hostname"],
)  # fmt: skip
def test_nothing_outside_the_folder_and_nothing_but_pictures_is_found(folder, name):
    (folder / "circle.png").symlink_to(folder / "circle.png")
    assert find_picture(folder, name) is None
    assert find_picture(folder, str(folder.parent / "secret.png")) is None


def test_pictures_inside_the_folder_are_found(folder):
    dot = folder / "dots" / "one dot.png"
    for name in ("dots/one dot.png", "in.png", "dots/../in.png", str(dot)):
        assert find_picture(folder, name) == dot == Path(dot)
