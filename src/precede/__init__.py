"""precede: learning to rank by boosting, exact and without enumerating pairs.

Names are loaded when they are first used, so that ``import precede`` and the command line's
help are quick.
"""

import lazy_loader

__version__ = "0.1.0"

# The names are listed in __init__.pyi, for this call and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
