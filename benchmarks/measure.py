"""What the benchmarks share: the machine they ran on, processes of their own, medians, pages."""

import ast
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("precede", "lightgbm", "xgboost", "catboost", "scikit-learn", "ranx", "numpy", "numba")


def about(threads):
    """Date, machine, threads, commit and versions: what a figure means nothing without."""
    return {
        "date": str(date.today()),
        "commit": _commit(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
        **{name: _version(name) for name in PACKAGES},
    }


def _commit():
    """The commit, marked where code differs from it; pages of results may differ."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return commit + "-dirty" * bool(_git("status", "--porcelain", "--", "*.py", "src/precede"))


def _git(*words):
    done = subprocess.run(["git", *words], check=False, capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip()


def _version(name):
    for package in (name, f"{name}-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "absent"


def _processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def in_a_process(code, **environment):
    """What a fresh Python prints when it runs the code."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


@contextmanager
def source_at(commit):
    """The folder `src` as it was at a commit, for PYTHONPATH; removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        _unpack(commit, folder, "src")
        yield Path(folder) / "src"


def tree_at(commit):
    """All files of a commit, in a temporary folder that is kept, and compiled kernels with it."""
    folder = Path(tempfile.gettempdir()) / "precede_commits" / _git("rev-parse", commit)
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        made = tempfile.mkdtemp(dir=folder.parent)
        _unpack(commit, made)
        Path(made).rename(folder)
    return folder


def _unpack(commit, folder, *paths):
    done = subprocess.run(
        ["git", "archive", commit, *paths], check=True, capture_output=True, cwd=ROOT
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def append(name, row):
    """Add one line to a file of results; no line is ever changed."""
    with open(RESULTS / name, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def last(name):
    """The last line of a file of results."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8").splitlines()[-1])


STAMP = (
    "<!-- written by {script} at commit {commit}; "
    "sha256 of its code: {code}; of src/precede: {package}; of the text above: {text} -->"
)
# Pages made of lines that are kept from run to run, which other versions may have measured.
COLLECTED = {"benchmarks.md", "connamacher2019.md", "glassbox.md", "leaderboard.md",
             "quality.md", "structure.md"}  # fmt: skip


def write_page(script, name, text):
    """Write a page of results; its last line says which code wrote it, and seals the text.

    The line names the script, the commit, and the contents of the package when the script started,
    followed by "-and-earlier" where the page keeps what earlier runs measured. `tests/test_docs.py`
    finds pages that were edited by hand, and pages whose script has changed since. Call it as
    ``write_page(__file__, "name.md", text)``.
    """
    script = Path(script).resolve()
    stamp = STAMP.format(
        script=script.relative_to(ROOT).as_posix(), commit=AT_START[0], code=code_digest(script),
        package=AT_START[1] + "-and-earlier" * (name in COLLECTED), text=digest(text),
    )  # fmt: skip
    (RESULTS / name).write_text(f"{text.rstrip()}\n\n{stamp}\n", encoding="utf-8")


def read_page(name):
    """The text of a page without the line that seals it, for a script that keeps parts of it."""
    COLLECTED.add(name)
    text = (RESULTS / name).read_text(encoding="utf-8")
    return text.rpartition("\n<!-- written by ")[0] or text


def digest(text):
    return hashlib.sha256(text.rstrip().encode()).hexdigest()[:16]


def code_digest(script):
    """A digest of what a script does: comments, layout and imports leave it as it is."""
    words = []
    for node in ast.walk(ast.parse(Path(script).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.alias):
            words.append(type(node).__name__)
            words += [repr(value) for _, value in ast.iter_fields(node)
                      if isinstance(value, str | int | float)]  # fmt: skip
    return digest(" ".join(words))


def package_digest(folder):
    """A digest of the files of a package: their paths and contents, without compiled ones."""
    paths = sorted(path for path in Path(folder).rglob("*")
                   if path.is_file() and "__pycache__" not in path.parts)  # fmt: skip
    whole = hashlib.sha256()
    for path in paths:
        contents = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()} {contents}\n".encode())
    return whole.hexdigest()[:16]


def imported_package():
    """The folder of the package that an import would load; not always the one beside us."""
    found = find_spec("precede")
    return Path(found.origin).parent if found and found.origin else ROOT / "src" / "precede"


# Taken when a script starts: files may change while it runs.
AT_START = (_commit(), package_digest(imported_package()))


def middle(values):
    return float(np.median(values))


def spread(values, digits=0):
    """Median, and in brackets the least and the greatest."""
    low, high = min(values), max(values)
    return f"{middle(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
