"""What differs between the supported versions of other packages, in one place.

Estimators support the callbacks of scikit-learn 1.9. With an older scikit-learn (`has_callbacks`
is False) everything else works, and `set_callbacks` says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import sklearn

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CallbackSupportMixin", "has_callbacks", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _Silence:
    """In place of the context that scikit-learn keeps during a fit: nobody listens."""

    def subcontext(self, *, task_name: str) -> Self:  # noqa: ARG002  (scikit-learn's signature)
        return self

    def call_on_fit_task_begin(self, **_: Any) -> None:
        return None

    def call_on_fit_task_end(self, **_: Any) -> bool:
        return False


class _NoCallbacks:
    """In place of scikit-learn's mixin."""

    def set_callbacks(self, *_: Any) -> Self:
        """Refuse callbacks, which this version of scikit-learn does not have."""
        raise NotImplementedError(
            f"set_callbacks needs scikit-learn 1.9 or later, and this is {sklearn.__version__}; "
            "use the parameter callbacks of the estimator, or update scikit-learn"
        )

    def _init_callback_context(self, *, max_subtasks: int) -> _Silence:  # noqa: ARG002
        return _Silence()


has_callbacks = find_spec("sklearn.callback") is not None
_callbacks = import_module("sklearn.callback") if has_callbacks else None
_Mixin: Any = _NoCallbacks if _callbacks is None else _callbacks.CallbackSupportMixin


class CallbackSupportMixin(_Mixin):
    """scikit-learn's mixin of the same name, where there is one."""


def with_callbacks(method: Method) -> Method:
    """scikit-learn's decorator of the same name, where there is one."""
    return method if _callbacks is None else _callbacks.with_callbacks(method)
