"""``python -m precede.cli`` is ``precede``."""

from precede.cli.commands import main

if __name__ == "__main__":
    main()
