"""Leaderboards: items ranked by votes on pairs, with intervals of strengths and of ranks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
