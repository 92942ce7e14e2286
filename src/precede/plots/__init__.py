"""Figures, first computed, then drawn, as SVG for reports or onto matplotlib's axes.

``figures`` has the ``..._info`` functions, which compute, and the ``draw_...`` functions, which
draw onto matplotlib's axes; ``drawing`` has the charts and layers that they and reports share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
