"""What MkDocs is told beyond mkdocs.yml: which files outside docs/ belong to the site.

Results, examples and the pages at the root stay where they are and are linked to as they lie in
the repository, so that links work there too. Here they become pages of the site, and the links
to them lead there. A link to any other file of the repository becomes the plain text of the link:
the site does not have that file. A link to nothing stays, and fails the build.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^( *```)python\n(?= *>>>)", re.M)

PAGES = {
    "CHANGES.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "benchmarks/README.md": "benchmarks.md",
}


def places() -> dict[str, str]:
    """Where the files of the repository stand on the site."""
    found = dict(PAGES)
    for folder, pattern in (
        ("docs", "*.md"),
        ("docs", "figures/*"),
        ("benchmarks", "results/*.md"),
    ):
        for path in sorted((ROOT / folder).glob(pattern)):
            place = path.relative_to(ROOT / folder).as_posix()
            found[f"{folder}/{place}"] = place
    for path in sorted(ROOT.glob("examples/*.py")):
        found[f"examples/{path.name}"] = f"examples/{path.stem}.md"
    return found


def on_config(config):
    """Write out `results/*.md` in the navigation."""
    results = [place for place in places().values() if place.startswith("results/")]
    config.nav = [_spelt_out(entry, results) for entry in config.nav]
    return config


def _spelt_out(entry, results):
    if not isinstance(entry, dict):
        return entry
    [(title, content)] = entry.items()
    if isinstance(content, list):
        content = [x for e in content for x in (results if e == "results/*.md" else [e])]
    return {title: content}


def on_files(files, config):
    """Add the files from outside docs/."""
    for path, place in places().items():
        if files.get_file_from_path(place) is None:
            text = (ROOT / path).read_text(encoding="utf-8")
            if path.endswith(".py"):
                text = f"# {path}\n\n```python\n{text}```\n"
            added = File.generated(config, place, content=text)
            if path.endswith(".py"):
                added.inclusion = added.inclusion.NOT_IN_NAV
            files.append(added)
    return files


def on_page_markdown(markdown, page, config, files):
    """Let links lead to where files stand on the site; mark Python sessions as such."""
    known = places()
    here = page.file.src_uri
    origin = {place: path for path, place in known.items() if path != "README.md"}[here]

    def lead(match):
        text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if path in known:
            target = posixpath.relpath(known[path], posixpath.dirname(here) or ".")
            return f"[{text}]({target}{anchor or ''})"
        return text if (ROOT / path).exists() else match[0]

    return LINK.sub(lead, FENCE.sub(r"\1pycon\n", markdown))
