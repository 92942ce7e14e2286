"""Differences between the supported versions of scikit-learn.

Estimators support the callbacks of scikit-learn 1.9. With an older version `has_callbacks` is
False, and `set_callbacks` raises an error that names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import sklearn

if TYPE_CHECKING:
    from typing_extensions import Self


Method = TypeVar("Method", bound=Callable[..., Any])


class _NullContext:
    """Stand-in for scikit-learn's callback context: every event is ignored."""

    def subcontext(self, *, task_name: str) -> Self:  # noqa: ARG002  (scikit-learn's signature)
        return self

    def call_on_fit_task_begin(self, **_: Any) -> None:
        return None

    def call_on_fit_task_end(self, **_: Any) -> bool:
        return False


class _NoCallbacks:
    """Stand-in for scikit-learn's `CallbackSupportMixin`."""

    def set_callbacks(self, *_: Any) -> Self:
        """Raise NotImplementedError: this version of scikit-learn has no callbacks."""
        raise NotImplementedError(
            f"set_callbacks needs scikit-learn 1.9 or later, and this is {sklearn.__version__}; "
            "use the parameter callbacks of the estimator, or update scikit-learn"
        )

    def _init_callback_context(self, *, max_subtasks: int) -> _NullContext:  # noqa: ARG002
        return _NullContext()


has_callbacks = find_spec("sklearn.callback") is not None
_callbacks = import_module("sklearn.callback") if has_callbacks else None
_Mixin: Any = _NoCallbacks if _callbacks is None else _callbacks.CallbackSupportMixin


class CallbackSupportMixin(_Mixin):
    """scikit-learn's mixin of the same name if available, else a stand-in."""


def with_callbacks(method: Method) -> Method:
    """Apply scikit-learn's decorator of the same name if available."""
    return method if _callbacks is None else _callbacks.with_callbacks(method)
