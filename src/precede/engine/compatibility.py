"""Differences between the supported versions of scikit-learn.

Estimators support the callbacks of scikit-learn 1.9. With an older version `has_callbacks` is
False, and `set_callbacks` raises an error that names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import sklearn

if TYPE_CHECKING:  # scikit-learn ships no types
    from sklearn.utils import Tags
    from typing_extensions import Self

    class BaseEstimator:
        """What scikit-learn's class of the same name defines."""

        def get_params(self, deep: bool = True) -> dict[str, object]:
            """Return the parameters by name."""

        def set_params(self, **parameters: object) -> Self:
            """Set parameters by name."""

        def __sklearn_tags__(self) -> Tags: ...

else:
    from sklearn.base import BaseEstimator

__all__ = ["BaseEstimator", "CallbackSupportMixin", "has_callbacks", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., object])


class _NullContext:
    """Stand-in for scikit-learn's callback context: every event is ignored."""

    def subcontext(self, *, task_name: str) -> Self:  # noqa: ARG002  (scikit-learn's signature)
        return self

    def call_on_fit_task_begin(self, **_: object) -> None:
        return None

    def call_on_fit_task_end(self, **_: object) -> bool:
        return False


class _NoCallbacks:
    """Stand-in for scikit-learn's `CallbackSupportMixin`."""

    def set_callbacks(self, *_: object) -> Self:
        """Raise NotImplementedError: this version of scikit-learn has no callbacks."""
        raise NotImplementedError(
            f"set_callbacks needs scikit-learn 1.9 or later, and this is {sklearn.__version__}; "
            "use the parameter callbacks of the estimator, or update scikit-learn"
        )

    def _init_callback_context(self, *, max_subtasks: int | None) -> _NullContext:  # noqa: ARG002
        return _NullContext()


has_callbacks = find_spec("sklearn.callback") is not None
_callbacks = import_module("sklearn.callback") if has_callbacks else None
if TYPE_CHECKING or _callbacks is None:
    CallbackSupportMixin = _NoCallbacks
else:
    CallbackSupportMixin = _callbacks.CallbackSupportMixin


def with_callbacks(method: Method) -> Method:
    """Apply scikit-learn's decorator of the same name if available."""
    return method if _callbacks is None else _callbacks.with_callbacks(method)
