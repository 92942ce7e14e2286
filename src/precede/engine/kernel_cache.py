"""The folder of compiled kernels, one for each version of the kernels' sources.

numba compares a cached kernel with its own source file only, so a change of a kernel that it calls
in another file would go unnoticed. The name of the folder therefore has a hash of the sources of
all kernels::

    precede-kernels-5f2b9c01d3a7/
        engine_1c6f.../
            exact._fixed_point_sum-395.py311.nbi, .nbc ...

It is in ``NUMBA_CACHE_DIR`` if set, else in the package's ``__pycache__``, else in the user's cache
folder. numba only accepts writable folders, even for reading. If none is writable, a temporary
folder is used. If ``NUMBA_CACHE_DIR`` is a read-only folder with compiled kernels, the temporary
folder gets links to them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGE = Path(__file__).resolve().parents[1]
PREFIX = "precede-kernels-"
# More folders of other versions than this are removed if they have been idle for so long.
N_KEPT = 8
MIN_IDLE_SECONDS = 3600
# Writable even in containers whose other folders are read-only.
SHARED_MEMORY = Path("/dev/shm")


@functools.cache
def kernel_folder(configured: str) -> Path:
    """Return the folder of this version's compiled kernels, and create it if need be.

    `configured` is the value of ``NUMBA_CACHE_DIR``, or "". The folder is shared by processes,
    which may call this function at the same time.
    """
    name = PREFIX + hash_of_sources(PACKAGE)
    folders = [PACKAGE / "__pycache__" / name, user_cache() / name]
    compiled = []
    if configured:
        folders.insert(0, Path(configured).absolute() / name)
        compiled = sorted(folders[0].glob("*/*.nb[ic]"))
    for folder in folders[:1] if compiled else folders:
        if _is_writable(folder, _subfolders(folder)):
            with contextlib.suppress(OSError):  # such as a full disk
                return _create(folder)
    if compiled:
        folder = _create(_private_folder() / f"{name}-{_hash_of_files(compiled)}")
        for path in compiled:
            link = folder / path.parent.name / path.name
            link.parent.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # exists, or links are not supported
                link.symlink_to(path)
        return folder
    folder = _create(_private_folder() / name)
    warnings.warn(
        f"compiled code is kept in {folder} for now, because neither {configured or PACKAGE} "
        f"nor {user_cache()} can be written; set {VARIABLE} to a folder that can be, or to one "
        "that `precede warmup` has filled",
        RuntimeWarning,
        stacklevel=3,
    )
    return folder


def hash_of_sources(package: Path) -> str:
    """Return a hash of the files of a package that define kernels.

    It takes 4 ms. Times and sizes take 0.6 ms, but differ between equal copies of the package.
    """
    total = hashlib.sha256()
    for folder, subfolders, names in os.walk(package):
        subfolders[:] = sorted(set(subfolders) - {"__pycache__"})
        for name in sorted(names):
            if name.endswith(".py"):
                path = Path(folder, name)
                source = path.read_bytes()
                if is_hashed(source):
                    relative = path.relative_to(package).as_posix()
                    total.update(f"{relative} {len(source)} ".encode() + source)
    return total.hexdigest()[:12]


def is_hashed(source: bytes) -> bool:
    """Return whether a file defines kernels or what is compiled into them."""
    return b"njit" in source or b"intrinsic" in source


def _create(folder: Path) -> Path:
    """Create a folder of kernels, or mark it as used."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile; numba creates it again
            os.utime(folder)
    else:
        _remove_idle(folder)
    return folder


def _subfolders(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the folders in a folder, which need not exist."""
    return [each for each in folder.glob(pattern) if each.is_dir()]


def _remove_idle(used: Path) -> None:
    """Remove folders of other versions that no process has used for a while.

    A process that has been running for longer creates its folder again when it compiles.
    """
    last_use = {}
    for folder in used.parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # removed by another process
            last_use[folder] = folder.stat().st_mtime
    last_use.pop(used, None)
    newest_first = sorted(last_use, key=lambda folder: -last_use[folder])
    for folder in newest_first[N_KEPT:]:
        if time.time() - last_use[folder] > MIN_IDLE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)  # may be another user's


def user_cache() -> Path:
    """Return the cache folder of numba for this user."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "numba"


def _is_writable(folder: Path, inside: Iterable[Path] = ()) -> bool:
    """Return whether the folder (or its nearest existing parent) and `inside` are writable."""
    if not folder.is_absolute():  # without a home folder "~" is not expanded
        return False
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return all(os.access(each, os.W_OK | os.X_OK) for each in (existing, *inside))


def _private_folder() -> Path:
    """Return a temporary folder only this user can write to: its contents are executed."""
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        folder = SHARED_MEMORY
    user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows temporary folders are private
    private = folder / f"precede-{user}"
    try:
        private.mkdir(mode=0o700, exist_ok=True)
        status = private.lstat()
        safe = stat.S_ISDIR(status.st_mode) and (os.name == "nt" or status.st_uid == user)
        safe = safe and not status.st_mode & 0o022
        if safe and _is_writable(private, _subfolders(private, "**/*")):
            return private
        return Path(tempfile.mkdtemp(prefix="precede-", dir=folder))  # another user's, or read-only
    except OSError as error:
        raise RuntimeError(
            f"precede keeps compiled code in a folder and can write to none, not to {folder} "
            f"either; set {VARIABLE} to a folder that can be written"
        ) from error


def _hash_of_files(kernels: list[Path]) -> str:
    """Return a hash of the names, times and sizes of files."""
    files = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in kernels]
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16]
