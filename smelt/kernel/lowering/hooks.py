"""The hook points of lowering: where an action may step in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from smelt.kernel.lowering.plan import Loop
from smelt.kernel.region import Expression, Output

if TYPE_CHECKING:
    from smelt.kernel.lowering.state import Reload, State


class Phase(NamedTuple):
    """Reductions that are made in one scope, by a function that is told its depth."""

    members: tuple[Expression, ...]
    make: Callable[[int], None]


class Extra(NamedTuple):
    """What the loops of a reduction do besides: in each step, and after the last."""

    each: Callable[[], None]
    after: Callable[[], None]


class Handler:
    """What one kind of action does. Each method is a hook point; here, nothing happens at any of them.

    There is one handler for each kind of action that a schedule has, made before lowering starts.
    """

    def __init__(self, state: State) -> None:
        self.state = state

    def opened(self, loop: Loop) -> None:
        """A loop has just been entered."""

    def phase(self, reduction: Expression) -> Phase | None:
        """A reduction is asked for that has not been made: another way to make it, maybe with others."""

    def extra(self, members: tuple[Expression, ...], depth: int) -> Extra | None:
        """Reductions are made in the present scope, which is the one at `depth`: what their loops do besides."""

    def walking(self, members: tuple[Expression, ...]) -> None:
        """The axes of reductions have just begun, and their loops are opened next."""

    def held(self, node: Expression, reload: Reload | None = None) -> None:
        """A node is put into memory ahead of the loops that read it, or read from where it lies."""

    def storing(self, outputs: tuple[Output, ...], put: Callable[[], None]) -> bool:
        """The innermost body of outputs is reached, where `put` stores them; True if the handler has seen to it."""
        return False

    def finished(self) -> None:
        """All outputs are lowered: the place to refuse an action that has come to nothing."""
