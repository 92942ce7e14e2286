"""Estimators on a Dask cluster; models are equal to those of the local estimators, bit for bit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
