"""Readers of LETOR files beside scikit-learn's, and how long help takes.

    python benchmarks/speed/readers.py [--bytes 1e9] [--folder /tmp]  # some five minutes
    python benchmarks/speed/readers.py --quick  # small, to see that it runs; nothing is written

Every reading runs in a process of its own, after a small file has been read (so that kernels
are compiled); memory is the peak of that process less its peak before. scikit-learn, which reads a
few MB a second, gets a file of a fifth of the size.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import write_page

BLOCK = 10_000  # rows made at a time

READ = """
import json, resource, sys, time
path, how, small = sys.argv[1:4]
def read(name):
    if how == "scikit-learn":
        from sklearn.datasets import load_svmlight_file
        X, y, qid = load_svmlight_file(name, query_id=True)
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes + qid.nbytes
    from precede.files import read
    data = read(name, n_jobs=int(how))
    return data.X.nbytes + data.y.nbytes + data.qid.nbytes + sum(map(sys.getsizeof, data.docid))
read(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu = time.perf_counter(), time.process_time()
size = read(path)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"wall": wall, "cpu": cpu, "size": size, "peak": 1024 * (peak - before)}))
"""


def write_file(path, target, digits):
    """136 features, half of them whole numbers, as in MSLR; 0.8 KB to 3 KB a row."""
    generator = np.random.default_rng(0)
    written = row = 0
    with open(path, "w", encoding="utf-8") as file:
        while written < target:
            values = generator.random((BLOCK, 136))
            grade = generator.integers(0, 5, BLOCK)
            lines = []
            for each in range(BLOCK):
                cells = " ".join(
                    f"{k + 1}:{v:.{digits}f}" if k % 2 else f"{k + 1}:{int(1000 * v)}"
                    for k, v in enumerate(values[each].tolist())
                )
                lines.append(f"{grade[each]} qid:{row // 120 + 1} {cells} #docid = GX{row:08d}\n")
                row += 1
            text = "".join(lines)
            # Making text is slow: each block stands there several times, 20 blocks in all.
            for _ in range(1 + int(target / 20 / len(text))):
                file.write(text)
                written += len(text)
    return path


def measure(path, how, small):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), how, str(small)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def help_seconds(times=9):
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "precede.cli", "--help"], capture_output=True, check=True
        )
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), max(seconds)


def rows_for(folder, target):
    small = write_file(folder / "small.txt", 1e5, 6)
    for digits in (6, 17):
        for share, readers in ((1.0, ("1", "2")), (0.2, ("scikit-learn",))):
            path = write_file(folder / f"letor{digits}.txt", share * target, digits)
            for how in readers:
                yield row_of(digits, how, os.path.getsize(path), measure(path, how, small))
            path.unlink()


def row_of(digits, how, size, found):
    name = how if how == "scikit-learn" else f"precede, {how} thread{'s'[: how != '1']}"
    return (
        f"| {digits} | {name} | {size / 1e6:.0f} | {found['wall']:.1f} | "
        f"{size / 1e6 / found['wall']:.0f} | {size / 1e6 / found['cpu']:.0f} | "
        f"{found['size'] / 1e6:.0f} | {found['peak'] / 1e6:.0f} | "
        f"{found['peak'] / found['size']:.2f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--quick", action="store_true", help="small; writes nothing")
    options = parser.parse_args()
    if options.quick:
        options.bytes = 1e6
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = list(rows_for(Path(folder), options.bytes))
    median, slowest = help_seconds()
    load = os.getloadavg()[0]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    head = ["decimals", "reader", "file, MB", "seconds", "MB/s", "MB per CPU second", "result, MB",
            "peak memory, MB", "peak / result"]  # fmt: skip
    table = "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])
    text = f"""# Readers

`python benchmarks/speed/readers.py` writes LETOR files of {options.bytes / 1e9:g} GB, and of a
fifth of it for scikit-learn (136 features, half whole numbers, half with the number of decimals
shown, queries of 120, document names), and reads each in a process of its own. {machine}; load of
the machine at the end {load:.1f}.

{table}

scikit-learn's result is a sparse matrix (12 bytes a cell) without document names; ours is dense
(8 bytes a cell), with them. Memory is the peak of the process less its peak before reading.

`precede --help`: {median:.2f} s (median of 9), {slowest:.2f} s at most, Python's start included.
"""
    print(text)
    if not options.quick:
        write_page(__file__, "readers.md", text)


if __name__ == "__main__":
    main()
