"""Open files, gzip files and standard streams for reading, and write files atomically."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import stat
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

FileName = str | os.PathLike[str]
STANDARD = "-"  # names standard input and standard output
_GZIP = b"\x1f\x8b"
_UNSUPPORTED_ARCHIVES = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}


@contextlib.contextmanager
def opened(path: FileName) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes; ``-`` is standard input, gzip is detected and unpacked.

    A truncated or damaged gzip file raises a ValueError that names it.

    >>> import gzip, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "packed")
    ...     with gzip.open(name, "wb") as file:
    ...         _ = file.write(b"1 qid:1 1:0.5")
    ...     with opened(name) as file:
    ...         file.read()
    b'1 qid:1 1:0.5'
    """
    with contextlib.ExitStack() as stack:
        if str(path) == STANDARD:
            raw = cast(Any, sys.stdin.buffer)
            if not hasattr(raw, "peek"):
                raw = io.BufferedReader(raw)
                stack.callback(raw.detach)  # do not close a stream that we did not open
        else:
            raw = stack.enter_context(open(path, "rb"))
        beginning = raw.peek(6)[:6]
        for signature, what in _UNSUPPORTED_ARCHIVES.items():
            if beginning.startswith(signature):
                raise ValueError(f"{path} is {what}; extract it first, or compress it with gzip")
        if beginning[:2] != _GZIP:
            yield raw
            return
        packed = stack.enter_context(gzip.GzipFile(fileobj=raw))
        try:
            yield io.BufferedReader(cast(Any, packed), 1 << 18)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{path} is not a whole gzip file ({error}); compress or copy it again"
            ) from error


def size_of(path: FileName) -> int:
    """Return the bytes of a plain file; 0 if unknown (standard input, pipes, gzip)."""
    if not is_plain(path):
        return 0
    with open(path, "rb") as file:
        return 0 if file.read(2) == _GZIP else os.fstat(file.fileno()).st_size


def is_plain(path: FileName) -> bool:
    """Return whether a path is a regular file, which can be read more than once.

    >>> is_plain("-"), is_plain(os.devnull)
    (False, False)
    """
    return str(path) != STANDARD and Path(path).is_file()


def require_folder(path: FileName) -> None:
    """Raise FileNotFoundError if the folder of a file to be written does not exist.

    >>> require_folder("model.json")
    """
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: the folder {folder} does not exist; create it first")


def flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk (POSIX only).

    >>> flush_folder(Path())
    """
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def suffix_of(path: FileName) -> str:
    """Return the suffix of a file name in lower case, ignoring ``.gz``.

    >>> suffix_of("Report.HTML"), suffix_of("model.json.gz"), suffix_of("-")
    ('.html', '.json', '')
    """
    name = PurePath(path)
    packed = name.suffix.lower() == ".gz"
    return (name.with_suffix("") if packed else name).suffix.lower()


@contextlib.contextmanager
def writing(path: FileName) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    ``-`` is standard output; a name that ends in ``.gz`` is compressed. After an error an
    existing file is unchanged. A file that is replaced keeps its mode.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = os.path.join(folder, "scores.txt")
    ...     with writing(name) as file:
    ...         _ = file.write(b"0.5")
    ...         os.listdir(folder) == ["scores.txt"]  # not yet
    ...     os.listdir(folder)
    False
    ['scores.txt']
    """
    if str(path) == STANDARD:
        plain = cast(BinaryIO, sys.stdout.buffer)
        yield cast(BinaryIO, _Terminal(plain)) if sys.stdout.isatty() else plain
        sys.stdout.buffer.flush()
        return
    require_folder(path)
    target = Path(path).resolve()  # write through a symbolic link
    if target.exists() and not target.is_file():  # a device or a pipe is written to, not replaced
        with open(target, "wb") as device:
            yield device
        return
    temporary = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(temporary, "xb") as file:
            if target.exists() and os.name == "posix":  # a private file stays private
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            with _compressed(file, target.suffix.lower() == ".gz") as out:
                yield out
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class _Terminal(io.BufferedIOBase):
    """A stream to a terminal that escapes control characters."""

    _CONTROL = re.compile(
        rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c"
        rb"|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
    )

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        data = bytes(content)
        self._stream.write(
            self._CONTROL.sub(lambda found: found[0].decode().encode("unicode_escape"), data)
        )
        return len(data)


@contextlib.contextmanager
def _compressed(file: BinaryIO, pack: bool) -> Iterator[BinaryIO]:
    """Compress a file without name and time stamp, so that equal data make equal files."""
    if not pack:
        yield file
        return
    with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
        yield cast(BinaryIO, packed)
