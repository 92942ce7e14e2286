"""What MkDocs is told beyond mkdocs.yml: which files outside docs/ belong to the site.

Results, examples and the pages at the root stay where they are and are linked to as they lie in
the repository, so that links work there too. Here they become pages of the site, and the links
to them lead there. A link to any other file of the repository becomes the plain text of the link:
the site does not have that file. A link to nothing stays, and fails the build.

The notebooks of docs/gallery, Python files with cells, are executed here. Their pages show the
output; an error in a cell fails the build.

The reference is made here too: one page for each module with public names, which mkdocstrings
fills with their docstrings. Names in the tables of api.md lead to it. The matrix of imports on
architecture.md is the one that tests/test_conventions.py enforces.
"""

import ast
import inspect
import posixpath
import re
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import jupytext
from griffe import Extension, Function, Parameter, ParameterKind, Parameters
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor

from precede import BaseRanker

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^( *```)python\n(?= *>>>)", re.M)
SESSION = re.compile(r"^>>> .*(?:\n.+)*", re.M)

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
    for path in sorted(ROOT.glob("docs/gallery/*.py")):
        found[f"docs/gallery/{path.name}"] = f"gallery/{path.stem}.md"
    return found


def executed(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook after execution: its Markdown, and the figures that it shows by name."""
    notebook = jupytext.read(path)
    with TemporaryDirectory() as folder:  # cells may write files
        notebook, _ = ExecutePreprocessor(timeout=600, kernel_name="python3").preprocess(
            notebook, {"metadata": {"path": folder}}
        )
    names = {"unique_key": path.stem, "output_files_dir": "figures"}
    text, resources = MarkdownExporter().from_notebook_node(notebook, names)
    return text, resources["outputs"]


def names_in_stub(package: str = "") -> dict[str, list[str]]:
    """Return the names that the stub of a package lists, by the module that defines them."""
    stub = ROOT / "src/precede" / package / "__init__.pyi"
    found: dict[str, list[str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            module = f"{package}.{node.module}".lstrip(".")
            found.setdefault(module, []).extend(alias.name for alias in node.names)
    return found


def names_in_all(module: str) -> list[str]:
    """Return `__all__` of a module."""
    path = ROOT / "src/precede" / f"{module.replace('.', '/')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError(f"{path} is a public module without __all__")


def public_names() -> dict[str, str]:
    """Return the module of every name of `precede`."""
    return {name: module for module, names in names_in_stub().items() for name in names}


def documented_names() -> dict[str, list[str]]:
    """Return the names on the pages of the reference, by module.

    Modules of packages show the names that stubs list; modules that the second table of api.md
    names, and those outside of packages, show their `__all__`.
    """
    table = (ROOT / "docs/api.md").read_text(encoding="utf-8").partition("## Modules")[2]
    in_table = set(re.findall(r"^\| `precede\.([\w.]+)`", table, re.M))
    found = names_in_stub()
    for stub in sorted(ROOT.glob("src/precede/*/__init__.pyi")):
        package = stub.parent.name
        for module, names in names_in_stub(package).items():
            if package in in_table or module in found:
                found[module] = sorted({*found.get(module, []), *names})
    for module in in_table | {module for module in found if "." not in module}:
        if not (ROOT / "src/precede" / module.replace(".", "/")).is_dir():
            found[module] = names_in_all(module)
    return found


def reference() -> dict[str, str]:
    """Return the pages of the reference: their path and their text."""
    return {
        f"reference/{module}.md": f"# precede.{module}\n\n::: precede.{module}\n"
        f"    options:\n      members: [{', '.join(names)}]\n"
        for module, names in sorted(documented_names().items())
    }


def import_matrix() -> str:
    """A table of what each folder may import."""
    tree = ast.parse((ROOT / "tests/test_conventions.py").read_text(encoding="utf-8"))
    sets = [node for node in tree.body if isinstance(node, ast.Assign)
            and node.targets[0].id in ("BASE", "CORE", "MAY_IMPORT")]  # fmt: skip
    found: dict = {}
    exec(compile(ast.Module(sets, []), "test_conventions", "exec"), found)
    rows = [f"| `{name}` | {', '.join(f'`{each}`' for each in sorted(allowed)) or 'none of ours'} |"
            for name, allowed in found["MAY_IMPORT"].items()]  # fmt: skip
    return "\n".join(["| this | may import |", "|---|---|", *rows])


class Sessions(Extension):
    """Docstrings whose sessions stand in a code block, also outside a section "Examples".

    As plain Markdown, `>>>` would quote, and a list below a comprehension would be a reference.
    Estimators get the `__init__` that their base class makes from the declared parameters.
    """

    def on_class(self, *, cls, **_) -> None:
        """Add the parameters of an estimator, with their defaults, to its signature."""
        made = getattr(import_module(cls.module.path), cls.name, None)
        if isinstance(made, type) and issubclass(made, BaseRanker) and made is not BaseRanker:
            declared = inspect.signature(made).parameters.values()
            parameters = [
                Parameter(each.name, annotation=str(each.annotation),
                          kind=ParameterKind.keyword_only, default=repr(each.default))
                for each in declared
            ]  # fmt: skip
            cls.set_member("__init__", Function("__init__", parameters=Parameters(*parameters)))

    def on_object(self, *, obj, **_) -> None:
        """Put the sessions of one docstring into blocks."""
        if obj.docstring:
            before, heading, after = obj.docstring.value.partition("Examples\n--------\n")
            fenced = SESSION.sub(r"\n```pycon\n\g<0>\n```", before)
            obj.docstring.value = fenced + heading + after


def on_config(config):
    """Write out `results/*.md` and `reference/*.md` in the navigation."""
    results = [place for place in places().values() if place.startswith("results/")]
    gallery = [place for place in places().values() if place.startswith("gallery/")]
    patterns = {
        "gallery/*.md": gallery,
        "results/*.md": results,
        "reference/*.md": list(reference()),
    }
    config.nav = [_spelt_out(entry, patterns) for entry in config.nav]
    return config


def _spelt_out(entry, patterns):
    if not isinstance(entry, dict):
        return entry
    [(title, content)] = entry.items()
    if isinstance(content, list):
        content = [x for e in content for x in patterns.get(str(e), [e])]
    return {title: content}


def on_files(files, config):
    """Add the files from outside docs/."""
    for path, place in places().items():
        if place.startswith("gallery/"):
            text, figures = executed(ROOT / path)
            for name, figure in figures.items():
                files.append(File.generated(config, f"gallery/{name}", content=figure))
            files.append(File.generated(config, place, content=text))
        elif files.get_file_from_path(place) is None:
            text = (ROOT / path).read_text(encoding="utf-8")
            if path.endswith(".py"):
                text = f"# {path}\n\n```python\n{text}```\n"
            added = File.generated(config, place, content=text)
            if path.endswith(".py"):
                added.inclusion = added.inclusion.NOT_IN_NAV
            files.append(added)
    for place, text in reference().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Let links lead to where files stand on the site; mark Python sessions as such."""
    known = places()
    here = page.file.src_uri
    if here.startswith("reference/"):
        return markdown
    if here == "api.md":
        markdown = _with_references(markdown)
    if here == "architecture.md":
        markdown = re.sub("<!-- the matrix of imports.*?-->", import_matrix(), markdown)
    origin = {place: path for path, place in known.items() if path != "README.md"}[here]

    def lead(match):
        text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if path in known:
            target = posixpath.relpath(known[path], posixpath.dirname(here) or ".")
            return f"[{text}]({target}{anchor or ''})"
        return text if (ROOT / path).exists() else match[0]

    return LINK.sub(lead, FENCE.sub(r"\1pycon\n", markdown))


def _with_references(markdown):
    """Let names in the first column of the tables lead to their docstrings."""
    names = public_names()
    pages = reference()

    def lead(match):
        name = match[1]
        if name in names:
            return f"[`{name}`][precede.{names[name]}.{name}]"
        module = name.removeprefix("precede.")
        return f"[`{name}`]({page})" if (page := f"reference/{module}.md") in pages else match[0]

    return re.sub(
        r"^\|[^|]*", lambda cell: re.sub(r"`([\w.]+)`", lead, cell[0]), markdown, flags=re.M
    )
