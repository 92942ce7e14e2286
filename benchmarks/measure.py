"""What the benchmarks share: the machine they ran on, processes of their own, medians."""

import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
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
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=RESULTS)
    return done.stdout.strip() or "unknown"


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
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


def append(name, row):
    """Add one line to a file of results; no line is ever changed."""
    with open(RESULTS / name, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def last(name):
    """The last line of a file of results."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8").splitlines()[-1])


def middle(values):
    return float(np.median(values))


def spread(values, digits=0):
    """Median, and in brackets the least and the greatest."""
    low, high = min(values), max(values)
    return f"{middle(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
