"""The boosting loop: trainers, step rules, stopping rules, history and monitors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
