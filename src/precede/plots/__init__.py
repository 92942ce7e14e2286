"""Figures, computed first and drawn second, by one engine for pages and for matplotlib.

``figures`` has the ``..._info`` functions, which compute, and the ``draw_...`` functions, which
draw onto matplotlib's axes; ``drawing`` has the charts and their layers, which both these and
reports are made of.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
