"""The command line, ``precede --help``. Nothing heavy is imported before a command runs."""

from precede.cli.commands import app, main

__all__ = ["app", "main"]
