"""Console output: data on stdout, messages on stderr, and exit codes."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NoReturn

import typer
from typer.core import TyperOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from precede.engine.arrays import Json
    from precede.engine.parameters import Argument


# 0 is success and 2 wrong usage, as in click.
BAD_VALUE = 1
NO_FILE = 3
NO_PACKAGE = 4
NOT_REACHED = 5
INTERRUPTED = 130
_BROKEN_PIPE = 141

_MAX_UNFOLDED_WIDTH = 30  # longer cells may be folded
_MAX_TRANSPOSED_ROWS = 4  # longer tables are not transposed

# Control characters, which begin escape codes, and changes of text direction.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_state = {"quiet": False}
_options: dict[str, TyperOption] = {}  # of the running command, by parameter of its function


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape the control characters of a text, so that a terminal does not interpret them.

    >>> print(printable("speed [km/h]\x1b[2J"), printable("a\nb", lines=True))
    speed [km/h]\x1b[2J a
    b
    """

    def escape(found: re.Match[str]) -> str:
        kept = lines and found[0] == "\n"
        return found[0] if kept else found[0].encode("unicode_escape").decode()

    return _CONTROL.sub(escape, text)


def set_up(options: Iterable[object], *, quiet: bool) -> None:
    """Set the options of the command, for messages, and whether only errors are printed."""
    _state["quiet"] = quiet
    _options.clear()
    _options.update({each.name: each for each in options if isinstance(each, TyperOption)})


def is_interactive() -> bool:
    """Return whether stderr is a terminal and messages are on."""
    return sys.stderr.isatty() and not _state["quiet"]


def say(text: str) -> None:
    """Print a message to stderr."""
    if not _state["quiet"]:
        _print_message(text)


def _print_message(text: str) -> None:
    """Print to stderr; on a terminal, lines end between words, except in commands to copy."""
    if sys.stderr.isatty():
        width = max(shutil.get_terminal_size().columns, 40)
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(
            line if line.startswith("precede ") else wrapper.fill(line) for line in text.split("\n")
        )
    print(printable(text, lines=True), file=sys.stderr)


@contextmanager
def progress_bar(what: str, steps: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar in a terminal; yield its `advance` function.

    >>> with progress_bar("counting", 3) as advance:
    ...     advance()
    """
    if not is_interactive():
        yield lambda: None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=steps)
        yield lambda: bar.advance(task)


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Turn errors that users can fix into a message and an exit code, without traceback."""
    try:
        with _warnings_as_messages():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(_BROKEN_PIPE) from None
    except KeyboardInterrupt as error:
        _fail(str(error) or "interrupted", INTERRUPTED)
    except ImportError as error:
        _fail(str(error), NO_PACKAGE)
    except OSError as error:
        if error.errno == errno.EBADF:
            _discard_output()
            _fail("standard output is closed; name a file, or open it", NO_FILE)
        known = error.filename is not None and error.strerror
        _fail(f"{error.filename}: {known.lower()}" if known else str(error), NO_FILE)
    except (ValueError, MemoryError) as error:
        _fail(_with_options(error) or type(error).__name__, BAD_VALUE)


def _discard_output() -> None:
    """Redirect the rest of the output to the null device, after a broken pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Open the standard streams that the process was started without.

    Python sets them to None, and the next opened file would get their descriptors. Writing to
    stdout is then an error; no output is lost silently.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            found = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if found != number:
                os.dup2(found, number)
                os.close(found)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115


# Options that take the place of arguments of another name.
_OPTION_OF_ARGUMENT = {
    "early_stopping_rounds": "early_stopping",
    "eval_metric": "metric",
    "eval_qid": "qid",
    "eval_set": "valid",
    "n_jobs": "jobs",
    "random_state": "seed",
}


def _fail(message: str, code: int) -> NoReturn:
    _print_message(f"precede: {message}")
    raise typer.Exit(code) from None


def _with_options(message: Exception | str) -> str:
    """Return the text of an error or a warning, with options in place of arguments."""
    from precede.engine.parameters import ParameterMessage

    return message.render(_write_option) if isinstance(message, ParameterMessage) else str(message)


def _write_option(argument: Argument) -> str:
    """Return the option of the running command for an argument of a Python function."""
    option = _options.get(_OPTION_OF_ARGUMENT.get(argument.name, argument.name))
    if option is None:
        return f"-s {argument.name}={argument.value}" if "settings" in _options else str(argument)
    if option.is_flag:
        return (option.opts if argument.value else option.secondary_opts)[0]
    value = option.metavar or "NAME" if argument.value is None else argument.value
    return f"{option.opts[0]} {value}"


@contextmanager
def _warnings_as_messages() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"note: {_with_options(message)}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        # Columns are matched to the model by name before they are passed as arrays.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = show
        yield


def write_json(content: object) -> None:
    """Write an object as one line of JSON; NaN and infinities become null.

    >>> write_json({"value": float("nan"), "n": 3})
    {"value": null, "n": 3}
    """
    from precede.results import plain

    text = json.dumps(plain(content, spell=False), ensure_ascii=False, allow_nan=False)
    # JSON only escapes characters below 32.
    print(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def write_rows(
    rows: Sequence[Json],
    *,
    as_json: bool,
    title: str = "",
    drawn: Sequence[Json] | None = None,
) -> None:
    """Write a table: JSON lines, a drawn table on a terminal, tab-separated otherwise.

    `drawn` are narrower rows for a terminal, if given.
    """
    if as_json:
        for row in rows:
            write_json(row)
    elif sys.stdout.isatty():
        _draw(rows if drawn is None else drawn, title)
    elif rows:
        print(*map(format_cell, rows[0]), sep="\t")
        for row in rows:
            print(*(format_cell(value, 6) for value in row.values()), sep="\t")


def _draw(rows: Sequence[Json], title: str) -> None:
    """Draw a table; if too wide, transpose it, or cut it between columns, never inside a cell."""
    from rich.console import Console

    # Names are not markup: [/b] and the unit in "speed [km/h]" are text, and so is ":smile:".
    console, title = Console(markup=False, emoji=False), printable(title)
    texts = any(
        len(format_cell(value)) > _MAX_UNFOLDED_WIDTH for row in rows for value in row.values()
    )
    if texts or _width(_table(rows, title), console) <= console.width:
        console.print(_table(rows, title))
        return
    transposed = _table(rows, title, transposed=True)
    if len(rows) <= _MAX_TRANSPOSED_ROWS and _width(transposed, console) <= console.width:
        console.print(transposed)
        return
    first, *others = rows[0]
    while others:
        columns = [first, others.pop(0)]
        while others:
            wider = [{name: row[name] for name in [*columns, others[0]]} for row in rows]
            if _width(_table(wider, title), console) > console.width:
                break
            columns.append(others.pop(0))
        console.print(_table([{name: row[name] for name in columns} for row in rows], title))
        title = ""


def _table(rows: Sequence[Json], title: str, *, transposed: bool = False) -> Table:
    """Return a table with a head, or a transposed one, whose first column holds the names."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        pad_edge=False, title=title or None, title_justify="left", box=SIMPLE,
        show_header=not transposed,
    )  # fmt: skip
    names = list(rows[0]) if rows else []
    if transposed:
        for name in names:
            table.add_row(format_cell(name), *(format_cell(row[name]) for row in rows))
        return table
    for name in names:
        numbers = all(isinstance(row[name], int | float | None) for row in rows)
        whole = all(len(format_cell(row[name])) <= _MAX_UNFOLDED_WIDTH for row in rows)
        side: Literal["left", "right"] = "right" if numbers else "left"
        table.add_column(format_cell(name), justify=side, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*map(format_cell, row.values()))
    return table


def _width(table: Table, console: Console) -> int:
    """Return the width of a table without a limit."""
    from rich.measure import Measurement

    boundless = console.options.update(max_width=10_000)
    return Measurement.get(console, boundless, table).maximum


def format_cell(value: object, digits: int = 4) -> str:
    r"""Format a cell of a table.

    >>> format_cell(0.123456), format_cell(None), format_cell(12)
    ('0.1235', '', '12')
    >>> print(format_cell("a\tb\x1b[31m"))
    a\tb\x1b[31m
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else printable(str(value))
