"""The kernel cache: after changes of other files, with several processes, in read-only folders."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

import precede
from precede.engine import compiling, kernel_cache
from precede.engine.kernel_cache import PREFIX, kernel_folder

# Sums numbers; prints which kernels were compiled, and the warnings.
SUM = """
import warnings
import numpy as np
from numba.core import event
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from precede.engine.exact import exact_sum
class Count(event.Listener):
    def on_start(self, event): print("compiled", event.data["dispatcher"].__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
assert exact_sum(np.ones(3)) == 3
for each in told:
    print(each.category.__name__, each.message)
"""
# Also calls another kernel, which is not in the cache yet.
MORE = SUM + "from precede.engine.portable import exp; exp(np.ones(9))\n"
FIT = """
import precede
assert precede.RankBoost(n_estimators=3).fit([[0.0], [1.0], [2.0]], [0, 1, 1]).n_estimators_
"""


def bound_by_permissions():
    """Return a command prefix that makes file permissions apply to the superuser too."""
    if os.name != "posix":
        pytest.skip("folders are made read-only by permissions of POSIX")
    if os.geteuid() != 0:
        return []
    given = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    if shutil.which("setpriv") is None or subprocess.run([*given, "true"], check=False).returncode:
        pytest.skip("the superuser writes everywhere, and setpriv cannot take that away here")
    return given


def protect(folder, mode):
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(mode)


class Container:
    """A read-only copy of the package, a read-only home folder, and a temporary folder."""

    def __init__(self, folder):
        self.site, self.home, self.temporary = folder / "site", folder / "home", folder / "tmp"
        source = Path(precede.__file__).parent
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, self.site / "precede", ignore=ignored)
        self.home.mkdir()
        self.temporary.mkdir()
        protect(self.site, 0o555)
        protect(self.home, 0o555)

    def start(self, code, **more):
        hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {
            "PYTHONPATH": str(self.site), "HOME": str(self.home), "TMPDIR": str(self.temporary),
            **more,
        }  # fmt: skip
        return subprocess.Popen(
            [*bound_by_permissions(), sys.executable, "-c", code], env=environment,
            cwd=self.home, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code, **more):
        return ended(self.start(code, **more))


def ended(process):
    out, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    return out.splitlines()


@pytest.fixture
def container(tmp_path):
    made = Container(tmp_path)
    yield made
    protect(tmp_path, 0o755)


def test_a_temporary_folder_is_used_if_no_other_is_writable(container):
    """Warns once, with the remedy; the next process finds the kernels of the first."""
    first = container.run(SUM)
    assert first[0].startswith("compiled")
    (told,) = [line for line in first if line.startswith("RuntimeWarning")]
    assert "set NUMBA_CACHE_DIR to a folder that can be" in told
    (again,) = container.run(SUM)
    assert again == told
    (kept,) = container.temporary.glob("precede-*")
    assert kept.stat().st_mode & 0o777 == 0o700
    assert any(kept.rglob("*.nbc"))


@pytest.mark.parametrize("inside", ["", "kernels", "kernels/engine"])
def test_a_read_only_folder_of_another_process_is_not_used(container, inside):
    own = container.temporary / f"precede-{os.getuid()}"
    (own / inside).mkdir(parents=True)
    protect(own, 0o700)
    (own / inside).chmod(0o500)
    assert "RuntimeWarning compiled code is kept in" in container.run(SUM)[-1]
    (other,) = {*container.temporary.glob("precede-*")} - {own}
    assert any(other.rglob("*.nbc"))


@pytest.mark.slow
def test_fits_work_without_a_writable_folder(container):
    assert container.run(FIT) == []


def test_a_read_only_cache_is_linked_to_from_a_writable_one(container, tmp_path):
    """As filled by `precede warmup`; numba alone would not read it."""
    cache = tmp_path / "cache"
    assert container.run(SUM, NUMBA_CACHE_DIR=str(cache))[0].startswith("compiled")
    protect(cache, 0o555)
    before = sorted(cache.rglob("*"))
    assert container.run(SUM, NUMBA_CACHE_DIR=str(cache)) == []
    assert container.run(MORE, NUMBA_CACHE_DIR=str(cache)) != []
    assert container.run(MORE, NUMBA_CACHE_DIR=str(cache)) == []
    assert sorted(cache.rglob("*")) == before
    # New files in the cache get a new folder of links.
    for each in cache.rglob("*.nbi"):
        os.utime(each, (0, 0))
    assert container.run(SUM, NUMBA_CACHE_DIR=str(cache)) == []
    assert len([*container.temporary.glob("precede-*/*")]) == 2


def test_an_empty_read_only_cache_gives_a_warning(container, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o555)
    assert str(cache) in container.run(SUM, NUMBA_CACHE_DIR=str(cache))[-1]


def test_several_processes_may_start_at_once(container, tmp_path):
    cache = tmp_path / "cache"
    container.run(SUM, NUMBA_CACHE_DIR=str(cache))
    protect(cache, 0o555)
    for given in ({}, {"NUMBA_CACHE_DIR": str(cache)}):
        together = [container.start(MORE, **given) for _ in range(3)]
        told = [ended(each) for each in together]  # a late one may find all kernels compiled
        assert any("compiled" in line for lines in told for line in lines)
    assert container.run(MORE, NUMBA_CACHE_DIR=str(cache)) == []


@pytest.fixture
def nothing_writable(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_cache, "_is_writable", lambda *_: False)
    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    return kernel_folder.__wrapped__  # without its cache


def test_a_folder_that_other_users_can_write_to_is_not_used(nothing_writable, tmp_path):
    """Its contents are executed."""
    own = tmp_path / f"precede-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="compiled code is kept in"):
        taken = nothing_writable("")
    assert taken.is_relative_to(tmp_path)
    assert not taken.is_relative_to(own)
    assert taken.parent.stat().st_mode & 0o777 == 0o700
    own.rmdir()
    own.symlink_to(taken.parent)
    with pytest.warns(RuntimeWarning):
        again = nothing_writable("")
    assert again.parent not in (own, taken.parent)


def test_without_any_folder_the_remedy_is_named(nothing_writable, monkeypatch, tmp_path):
    def none():
        raise FileNotFoundError("no usable temporary directory found")

    monkeypatch.setattr(kernel_cache.tempfile, "gettempdir", none)
    monkeypatch.setattr(kernel_cache, "SHARED_MEMORY", tmp_path / "none")
    with pytest.raises(RuntimeError, match="set NUMBA_CACHE_DIR to a folder that can be written"):
        nothing_writable("")


def test_a_user_without_a_home_has_no_folder(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(kernel_cache.os.path, "expanduser", lambda path: path)
    assert not kernel_cache._is_writable(kernel_cache.user_cache())


def test_other_folders_beside_the_kernels_do_not_matter(monkeypatch, tmp_path):
    name = PREFIX + kernel_cache.hash_of_sources(kernel_cache.PACKAGE)
    for each in (f"{name}/engine", "of others"):
        (tmp_path / each).mkdir(parents=True)
    locked = {tmp_path / "of others"}
    monkeypatch.setattr(kernel_cache.os, "access", lambda path, _: Path(path) not in locked)
    assert kernel_folder.__wrapped__(str(tmp_path)) == tmp_path / name
    locked.add(tmp_path / name / "engine")
    assert not kernel_folder.__wrapped__(str(tmp_path)).is_relative_to(tmp_path)


# A kernel and the kernel of another file that it calls; the result is printed.
CALLER = """
from precede.engine.compiling import njit
from precede.engine.temporary_helper import helper

@njit(cache=True, nogil=True)
def caller(x):
    return helper(x) + 1.0
"""
HELPER = """
from precede.engine.compiling import INNER, njit

@njit(**INNER)
def helper(x):
    return {factor} * x
"""
CALL = """
from precede.risks.temporary_caller import caller
print(caller(1.0), sum(caller.stats.cache_hits.values()))
"""


def write_kernels(site, factor):
    (site / "precede" / "engine" / "temporary_helper.py").write_text(HELPER.format(factor=factor))
    (site / "precede" / "risks" / "temporary_caller.py").write_text(CALLER)


@pytest.mark.parametrize("place", ["package", "home", "NUMBA_CACHE_DIR", "nowhere"])
def test_a_changed_kernel_of_another_file_is_noticed(container, place):
    """Wherever kernels are cached; those of the former version are still found."""
    given = {}
    if place == "home":
        protect(container.home, 0o755)
    elif place == "NUMBA_CACHE_DIR":
        given = {place: str(container.temporary / "cache")}
    elif place == "nowhere":
        given = {"PYTHONWARNINGS": "ignore"}
    for factor, hits in [(2.0, 0), (2.0, 1), (100.0, 0), (100.0, 1), (2.0, 1)]:
        protect(container.site, 0o755)
        write_kernels(container.site, factor)
        protect(container.site, 0o755 if place == "package" else 0o555)
        assert container.run(CALL, **given) == [f"{factor + 1} {hits}"]
    parent = {
        "package": container.site / "precede" / "__pycache__",
        "home": container.home / ".cache" / "numba",
        "NUMBA_CACHE_DIR": container.temporary / "cache",
        "nowhere": container.temporary / f"precede-{os.getuid()}",
    }
    assert len(list(parent[place].glob(f"{PREFIX}*/risks_*/*.nbi"))) == 2
    assert len(list(container.site.parent.rglob("*.nbi"))) == 4  # beside no source


def test_processes_with_different_versions_of_a_kernel_may_run_at_once(container):
    """One that has imported the former version, and compiles after the change, spoils nothing."""
    protect(container.site, 0o755)
    write_kernels(container.site, 2.0)
    wait = "import sys; from precede.risks.temporary_caller import caller; print(1, flush=True)\n"
    early = [container.start(wait + "sys.stdin.readline()\n" + CALL) for _ in range(2)]
    assert [each.stdout.readline() for each in early] == ["1\n"] * 2
    write_kernels(container.site, 100.0)
    late = [container.start(CALL) for _ in range(2)]
    for each in early:
        each.stdin.write("\n")
        each.stdin.flush()
    assert {ended(each)[-1].split()[0] for each in late} == {"101.0"}
    assert {ended(each)[-1].split()[0] for each in early} == {"3.0"}
    assert container.run(CALL) == ["101.0 1"]


def test_idle_folders_of_other_versions_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "N_KEPT", 4)
    hour = kernel_cache.MIN_IDLE_SECONDS
    for i in range(8):
        folder = tmp_path / f"{PREFIX}{i}"
        (folder / "engine").mkdir(parents=True)
        (folder / "engine" / "a.nbi").touch()
        os.utime(folder, (0, time.time() - (i + 0.5) * hour))
    os.utime(tmp_path / f"{PREFIX}6")  # a process has started
    (tmp_path / "other").mkdir()
    kernel_cache._create(tmp_path / f"{PREFIX}new")
    names = {each.name.removeprefix(PREFIX) for each in tmp_path.iterdir()}
    assert names == {"0", "1", "2", "6", "new", "other"}
    kernel_cache._create(tmp_path / f"{PREFIX}new")  # exists


def test_kernels_of_other_packages_stay_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling.config, "CACHE_DIR", str(tmp_path))
    declared = compiling.njit(cache=True)(bound_by_permissions)
    assert Path(declared.stats.cache_path).parent == compiling.cache_folder()
    assert Path(numba.njit(cache=True)(protect).stats.cache_path).parent == tmp_path
    with pytest.raises(TypeError):
        compiling.njit(cache=True)(None)
    assert str(tmp_path) == compiling.config.CACHE_DIR


def test_the_hash_is_quick_and_covers_kernels_only(tmp_path):
    start = time.process_time()
    kernel_cache.hash_of_sources(kernel_cache.PACKAGE)
    assert time.process_time() - start < 0.05  # 4 ms, with room for a busy machine
    hashes = [kernel_cache.hash_of_sources(tmp_path)]
    for name, text in [("a", "njit"), ("b", "x"), ("c", "intrinsic"), ("a", "njit(1)")]:
        (tmp_path / f"{name}.py").write_text(text)
        hashes.append(kernel_cache.hash_of_sources(tmp_path))
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 4
