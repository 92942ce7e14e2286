"""A cache folder for compiled kernels, even if the package and the home folder are read-only.

numba caches kernels in ``NUMBA_CACHE_DIR`` if set, else beside their source, else in the user's
cache folder. It only accepts writable folders, even for reading, and without one kernels cannot be
declared. In that case ``NUMBA_CACHE_DIR`` is set to a temporary folder. If it named a read-only
folder with compiled kernels, the temporary folder gets links to them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

__all__ = ["provide_cache", "user_cache"]

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGE = Path(__file__).resolve().parents[1]
# Pattern of compiled kernels in NUMBA_CACHE_DIR and in the user's cache folder. It is not
# recursive, since either may be a large folder such as /tmp.
KERNELS = "*/*.nb[ic]"
# Writable even in containers whose other folders are read-only.
SHARED_MEMORY = Path("/dev/shm")


def provide_cache() -> None:
    """Set ``NUMBA_CACHE_DIR`` to a temporary folder if numba has no writable cache folder.

    Must be called before kernels are declared. The folder belongs to the user and is shared by
    processes, which may call this function at the same time.
    """
    configured, user_folder = _configured_folder(), user_cache()
    kernels = [] if configured is None else sorted(configured.glob(KERNELS))
    if configured is not None and _is_writable(configured, {path.parent for path in kernels}):
        return
    user_subfolders = (path.parent for path in user_folder.glob(KERNELS))
    if not kernels and (
        _is_writable(PACKAGE, PACKAGE.rglob("__pycache__"))
        or _is_writable(user_folder, user_subfolders)
    ):
        return
    folder = _private_folder() / (_hash_of_files(kernels) if kernels else "kernels")
    for path in kernels:
        _link(path, folder / path.parent.name / path.name)
    folder.mkdir(exist_ok=True)
    os.environ[VARIABLE] = str(folder)  # for numba, and for child processes
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    if not kernels:
        warnings.warn(
            f"compiled code is kept in {folder} for now, because neither {configured or PACKAGE} "
            f"nor {user_folder} can be written; set {VARIABLE} to a folder that can be, or to one "
            "that `precede warmup` has filled",
            RuntimeWarning,
            stacklevel=3,
        )


def _configured_folder() -> Path | None:
    """Return the folder that the user has configured, if any."""
    numba = sys.modules.get("numba")
    configured = os.environ.get(VARIABLE) if numba is None else numba.config.CACHE_DIR
    return Path(configured).absolute() if configured else None


def user_cache() -> Path:
    """Return the folder that numba uses if it cannot write beside the source."""
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
        inside = (each for each in private.rglob("*") if each.is_dir())
        if safe and not status.st_mode & 0o022 and _is_writable(private, inside):
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


def _link(path: Path, link: Path) -> None:
    """Link to a file, or copy it if links are not supported.

    numba replaces files instead of changing them, so the original is never written.
    """
    link.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(link):
        return
    try:
        link.symlink_to(path)
    except FileExistsError:  # created by another process in the meantime
        pass
    except OSError:
        part = link.with_name(f"{link.name}.{os.getpid()}")
        shutil.copyfile(path, part)
        part.replace(link)
