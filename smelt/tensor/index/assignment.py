"""Item assignment, off unless asked for: `x[key] = values` gives the tensor x another value.

Only that one handle changes, to what `x.at[key].set(values)` is: nodes never do, so tensors computed from x before,
among them slices and transposes, keep their values. While a function is traced, differentiated or batched, it may
assign to tensors that it has made: others have values outside of it, which would be left out of what is compiled.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from smelt import runtime
from smelt.errors import ArgumentError, TraceError
from smelt.tensor.arguments import flag
from smelt.tensor.handle import follow_scopes, is_following_scopes
from smelt.tensor.index.read_write import changed

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = ["item_assignment"]


class item_assignment:
    """Whether `x[key] = values` is allowed, from now on or inside a `with` block. It is not unless this says so.

    The name x, and every other name of the same tensor, then stands for the values of `x.at[key].set(values)`. No other
    tensor changes, also none that is a part of x. Functions under `jit`, `grad` or `vmap` may assign to tensors that
    they have made, and not to arguments.

    >>> x = sm.zeros(3)
    >>> with sm.item_assignment(True):
    ...     x[1:] = 5
    >>> x.tolist()
    [0.0, 5.0, 5.0]
    """

    __slots__ = ("_before",)

    def __init__(self, allowed: bool = True) -> None:
        allowed = flag(allowed, "item_assignment", "allowed")
        self._before = is_following_scopes()
        follow_scopes(allowed)

    def __enter__(self) -> None:
        """Inside the block it is as was said."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        follow_scopes(self._before)


def assign(x: Tensor, key: Any, values: Any, /) -> None:
    """x[key] = values."""
    if not is_following_scopes():
        raise ArgumentError(
            "item assignment: tensors never change",
            hint="Use x.at[...].set(...) for a changed copy. Or allow x[...] = ... with sm.item_assignment(True).",
        )
    if getattr(x, "_scope", 0) < runtime.scope():
        raise TraceError(
            "item assignment: the function that runs has not made this tensor",
            rule="what jit, grad, vmap or a loop calls may change what it has made, and the state of the loop.",
            hint="Take a copy first: x = sm.asarray(x, copy=True); or write y = x.at[...].set(...).",
        )
    x._node = changed(x, key, "set", values, "item assignment")._node
