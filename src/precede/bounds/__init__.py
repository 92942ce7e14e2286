"""Bounds with every term shown, and the sample size from which they would not be vacuous."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
