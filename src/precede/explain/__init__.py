"""Explanations of scores and of pairs of rows, and additive models as functions of features."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
