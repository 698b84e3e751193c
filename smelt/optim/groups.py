"""Groups of parameters, each with an optimizer of its own."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from smelt.errors import ArgumentError
from smelt.names import listed
from smelt.optim.core import Optimizer, Parameters, Step
from smelt.tensor import Tensor

__all__ = ["Groups", "groups"]

Choice = str | Callable[[str, Tensor], bool]


class Groups(Step):
    """For each parameter, the change that the first group makes of its update whose choice it is.

    A choice is a pattern of names (`"head.*"`), or a function of a name and a parameter. The rates are those of the
    groups' optimizers: the optimizer around them has the rate 1, or a factor for all.
    """

    def __init__(self, *pairs: tuple[Choice, Optimizer]) -> None:
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Optimizer):
                raise ArgumentError(f"groups: {pair!r:.80} is no group", rule="a group is (choice, optimizer).")
            if not isinstance(pair[0], str) and not callable(pair[0]):
                raise ArgumentError(
                    f"groups: {pair[0]!r:.80} is no choice", rule="it is a pattern of names, or a function."
                )
        self.pairs = pairs

    def init(self, parameters: Parameters) -> Any:
        members = self._members(parameters)
        for (choice, _), found in zip(self.pairs, members, strict=True):
            if not found and isinstance(choice, str):
                raise ArgumentError(
                    f"groups: no parameter is named {choice!r}",
                    hint=f"Free to change are: {listed(parameters.names)}. Frozen ones belong to no group.",
                )
        return tuple(
            tuple(step.init(parameters.some(found)) for step in optimizer.steps) if found else ()
            for (_, optimizer), found in zip(self.pairs, members, strict=True)
        )

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        result, remembered = list(updates), []
        if not isinstance(state, tuple) or len(state) != len(self.pairs):
            raise ArgumentError("groups: the state is one of other groups", hint="Begin with state = opt.init(model).")
        for (_, optimizer), found, old in zip(self.pairs, self._members(parameters), state, strict=True):
            if found:
                own = [updates[k] for k in found]
                changes, old = optimizer.changes(own, old, parameters.some(found), count)
                for k, change in zip(found, changes, strict=True):
                    result[k] = change
            remembered.append(old)
        return result, tuple(remembered)

    def _members(self, parameters: Parameters) -> list[list[int]]:
        """For each group, the numbers of its parameters."""
        found: list[list[int]] = [[] for _ in self.pairs]
        for k, (name, parameter) in enumerate(zip(parameters.names, parameters, strict=True)):
            for (choice, _), members in zip(self.pairs, found, strict=True):
                if picks(choice, name, parameter):
                    members.append(k)
                    break
            else:
                raise ArgumentError(
                    f"groups: {name!r} is in no group", hint="Give an optimizer for all others as the last argument."
                )
        return found


def groups(*parts: tuple[Choice, Optimizer] | Optimizer) -> Optimizer:
    """An optimizer for each group of parameters. One without a choice comes last, and takes all others.

    >>> import smelt as sm
    >>> optimizer = sm.optim.groups(("*.bias", sm.optim.SGD(lr=0.5)), sm.optim.SGD(lr=0.1))
    >>> layer = {"l": {"weight": sm.ones(1), "bias": sm.ones(1)}}
    >>> layer, state = optimizer.update(layer, layer, optimizer.init(layer))
    >>> layer["l"]["bias"].item(), round(layer["l"]["weight"].item(), 4)
    (0.5, 0.9)
    """
    if parts and isinstance(parts[-1], Optimizer):
        parts = (*parts[:-1], (everything, parts[-1]))
    return Optimizer(Groups(*parts), lr=1.0)  # type: ignore[arg-type]


def picks(choice: Choice, name: str, parameter: Tensor) -> bool:
    """Whether a choice is for a parameter."""
    return fnmatchcase(name, choice) if isinstance(choice, str) else bool(choice(name, parameter))


def everything(name: str, parameter: Tensor) -> bool:
    """The choice of all parameters that are in no group before."""
    return True
