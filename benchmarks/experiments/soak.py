"""Memory, threads and open files of a process that works for minutes.

    python benchmarks/experiments/soak.py [SECONDS]

The rounds are those of tests/test_soak.py. Writes results/soak.md.
"""

import os
import platform
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import test_soak  # noqa: E402 - its rounds
from measure import write_page  # noqa: E402


def main(seconds):
    readings = test_soak.soaked(seconds=seconds)
    lines = [
        "# A process that keeps working", "",
        f"For {seconds:.0f} seconds one process fits `RankBoost`, `PushRanker` and "
        "`BoostedRanker` (two threads each), saves, loads, predicts and explains, fits in four "
        "other ways (also with a checkpoint, from a file and from a table on disk), and has some "
        "files and one fit refused. A table of features takes 1.1 MiB. "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; load "
        f"at the end {os.getloadavg()[0]:.1f}. Four rounds come before the first reading.", "",
        "| rounds | memory (MiB) | threads | open files | Python objects |",
        "|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    lines += [
        f"| {each.rounds} | {each.memory:.1f} | {each.threads} | {each.descriptors} "
        f"| {each.objects} |"
        for each in readings
    ]
    lines += ["", "Memory is resident memory, from `/proc`."]
    write_page(__file__, "soak.md", "\n".join(lines))
    print("\n".join(lines))
    test_soak.check(readings)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 420.0)
