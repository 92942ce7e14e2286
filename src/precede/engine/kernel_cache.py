"""A folder for compiled kernels, also where the package and the home folder are read-only.

numba keeps compiled kernels in the folder that ``NUMBA_CACHE_DIR`` names, else beside their source,
else in the user's cache folder. It takes only folders that can be written, even to read from them,
and where there is none, kernels cannot even be declared. Then a temporary folder is named instead.
If ``NUMBA_CACHE_DIR`` names a read-only folder that has been filled before, the temporary one gets
links to its files.
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
# Compiled kernels in a folder that numba was told of, or in the user's. Either may hold much else,
# such as all temporary files.
KERNELS = "*/*.nb[ic]"
# Where memory is shared: writable in containers whose every other folder is read-only.
SHARED_MEMORY = Path("/dev/shm")


def provide_cache() -> None:
    """Name a temporary folder if numba could write to none; call it before kernels are declared.

    The folder belongs to the user. Processes share it, and may come here at the same time.
    """
    named, users = _named(), user_cache()
    filled = [] if named is None else sorted(named.glob(KERNELS))
    if named is not None and _is_writable(named, {path.parent for path in filled}):
        return
    in_users = (path.parent for path in users.glob(KERNELS))
    if not filled and (
        _is_writable(PACKAGE, PACKAGE.rglob("__pycache__")) or _is_writable(users, in_users)
    ):
        return
    folder = _own_folder() / (_stamp(filled) if filled else "kernels")
    for path in filled:
        _link(path, folder / path.parent.name / path.name)
    folder.mkdir(exist_ok=True)
    os.environ[VARIABLE] = str(folder)  # for numba, and for processes that this one starts
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    if not filled:
        warnings.warn(
            f"compiled code is kept in {folder} for now, because neither {named or PACKAGE} nor "
            f"{users} can be written; set {VARIABLE} to a folder that can be, or to one "
            "that `precede warmup` has filled",
            RuntimeWarning,
            stacklevel=3,
        )


def _named() -> Path | None:
    """Folder that the user has named."""
    numba = sys.modules.get("numba")
    named = os.environ.get(VARIABLE) if numba is None else numba.config.CACHE_DIR
    return Path(named).absolute() if named else None


def user_cache() -> Path:
    """Folder that numba takes where it cannot write beside the source."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "numba"


def _is_writable(folder: Path, inside: Iterable[Path] = ()) -> bool:
    """Whether files can be made in a folder and in some inside it, or the folder can be made."""
    if not folder.is_absolute():  # a user without a home: "~" stays what it is
        return False
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return all(os.access(each, os.W_OK | os.X_OK) for each in (there, *inside))


def _own_folder() -> Path:
    """A temporary folder that only this user can write to, because its contents are run."""
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        folder = SHARED_MEMORY
    user = os.getuid() if hasattr(os, "getuid") else 0  # elsewhere users have folders of their own
    own = folder / f"precede-{user}"
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
        safe = stat.S_ISDIR(found.st_mode) and (os.name == "nt" or found.st_uid == user)
        inside = (each for each in own.rglob("*") if each.is_dir())
        if safe and not found.st_mode & 0o022 and _is_writable(own, inside):
            return own
        return Path(tempfile.mkdtemp(prefix="precede-", dir=folder))  # another user's, or read-only
    except OSError as error:
        raise RuntimeError(
            f"precede keeps compiled code in a folder and can write to none, not to {folder} "
            f"either; set {VARIABLE} to a folder that can be written"
        ) from error


def _stamp(filled: list[Path]) -> str:
    """A name for the contents of a folder, which changes when they do."""
    found = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in filled]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def _link(path: Path, link: Path) -> None:
    """Link to a file, or copy it where there are no links; numba replaces what it changes."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(link):
        return
    try:
        link.symlink_to(path)
    except FileExistsError:  # another process was quicker
        pass
    except OSError:
        part = link.with_name(f"{link.name}.{os.getpid()}")
        shutil.copyfile(path, part)
        part.replace(link)
