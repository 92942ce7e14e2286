"""Weak rankers, families of weak rankers, and the search for the best weak ranker of a family."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
