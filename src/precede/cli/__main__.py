"""Entry point of ``python -m precede.cli``, the same as ``precede``."""

from precede.cli import main

if __name__ == "__main__":
    main()
