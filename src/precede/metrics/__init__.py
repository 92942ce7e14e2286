"""Ranking metrics, computed per query and averaged, with explicit conventions.

A `Metric` is a value that prints and parses as itself, a `Policy` holds the conventions, an
`Evaluation` carries both with the numbers. The formulas are in ``docs/metrics.md``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
