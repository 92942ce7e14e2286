"""``python -m precede.cli`` is ``precede``."""

from precede.cli.commands import main

__all__ = []

if __name__ == "__main__":
    main()
