"""What all optimizers are made of: a chain of small steps from gradients to updates.

A step has a state for the parameters together, and turns gradients into updates: `Step.init(parameters)` gives the
state, `Step.apply(updates, state, parameters, count)` the next updates and the next state. Lists of tensors go in and
out, one per parameter that is neither fixed nor frozen. An optimizer runs its steps one after the other, and takes the
last updates, times the learning rate, off the parameters. All of it is plain tensor code, so that under `jit` each
parameter's update becomes part of the kernel of its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from smelt import runtime, tree
from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError
from smelt.tensor import Tensor
from smelt.tensor.creation import zeros
from smelt.tensor.interop import realize
from smelt.transform.waiting import take_waiting

T = TypeVar("T")

Schedule = Callable[[Tensor], Any]  # the rate at a count of updates that are done
Rate = float | Tensor | Schedule


class State(NamedTuple):
    """What an optimizer remembers: how many updates are done, and what each of its steps remembers."""

    done: Tensor
    steps: tuple[Any, ...]


class Step:
    """One step of a chain. This one changes nothing."""

    def init(self, parameters: Sequence[Tensor]) -> Any:
        """What the step remembers before the first update."""
        return ()

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Sequence[Tensor], count: Tensor
    ) -> tuple[list[Tensor], Any]:
        """The next updates, and what to remember; `count` is 1 in the first update."""
        return updates, state


class Optimizer:
    """A chain of steps and a learning rate: a number, a tensor, or a schedule.

    >>> import smelt as sm
    >>> optimizer = sm.optim.Optimizer(sm.optim.ClipNorm(1.0), sm.optim.Momentum(0.9), lr=0.1)
    >>> parameters = {"w": sm.ones(2)}
    >>> state = optimizer.init(parameters)
    >>> parameters, state = optimizer.update(parameters, {"w": sm.asarray([3.0, 4.0])}, state)
    >>> [round(x, 4) for x in parameters["w"].tolist()]
    [0.94, 0.92]
    """

    def __init__(self, *steps: Step, lr: Rate) -> None:
        for step in steps:
            if not isinstance(step, Step):
                raise ArgumentError(f"Optimizer: {step!r:.80} is not a step", hint="See smelt.optim.steps.")
        if not callable(lr) and not isinstance(lr, Tensor) and (isinstance(lr, bool) or not lr >= 0):
            raise ArgumentError(f"{type(self).__name__}: lr is {lr!r}", rule="a learning rate is not negative.")
        self.steps, self.lr = steps, lr

    def what_may_change(self) -> Any:
        """A rate that is set later is seen by functions that `jit` has compiled before."""
        return self.lr

    def init(self, parameters: Any) -> State:
        """What the optimizer remembers before the first update of a module, or another tree of tensors."""
        own = [leaf for leaf, fixed in _leaves(parameters) if not fixed]
        if not own:
            raise ArgumentError(f"{type(self).__name__}: there is nothing to update", hint="Is everything frozen?")
        return _at_once(State(zeros((), dtype=int32), tuple([step.init(own) for step in self.steps])))

    def rate(self, count: Tensor) -> Any:
        """The learning rate after so many updates."""
        return self.lr(count) if callable(self.lr) else self.lr

    def update(self, parameters: T, gradients: Any, state: State) -> tuple[T, State]:
        """The parameters after one step down, and what to remember. Outside of `jit` both are computed at once."""
        leaves = _leaves(parameters)
        structure = tree.flatten(parameters)[1]
        slopes, given = tree.flatten(gradients)
        if given != structure:
            raise ArgumentError(
                f"{type(self).__name__}: the gradients have the structure {given}", rule=f"it must be {structure}."
            )
        free = [k for k, (_, fixed) in enumerate(leaves) if not fixed]
        own = [leaves[k][0] for k in free]
        updates = [slopes[k] for k in free]
        count = state.done + 1
        remembered: list[Any] = []
        for step, old in zip(self.steps, state.steps, strict=True):
            updates, new = step.apply(updates, old, own, count)
            remembered.append(new)
        rate = self.rate(state.done)
        result = [leaf for leaf, _ in leaves]
        for k, parameter, update in zip(free, own, updates, strict=True):
            result[k] = (parameter - rate * update).astype(parameter.dtype)
        return _at_once((tree.unflatten(structure, result), State(count, tuple(remembered))))


def chain(*steps: Step | Optimizer) -> Optimizer:
    """Steps in front of an optimizer, which comes last.

    >>> import smelt as sm
    >>> optimizer = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=1e-3))
    >>> len(optimizer.steps)
    3
    """
    *before, last = steps
    if not isinstance(last, Optimizer):
        raise ArgumentError(f"chain: the last part is {last!r:.80}", rule="it must be an optimizer.")
    return Optimizer(*before, *last.steps, lr=last.lr)  # type: ignore[arg-type]


def _leaves(parameters: Any) -> list[tuple[Tensor, bool]]:
    """The tensors of a tree, and whether each stays as it is."""
    leaves, structure = tree.flatten(parameters)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"an optimizer met a leaf of type {type(leaf).__name__}", rule="parameters are trees of tensors."
            )
    fixed = tree.fixed(structure)
    return [(leaf, flag or not leaf.dtype.is_float) for leaf, flag in zip(leaves, fixed, strict=True)]


def _at_once(value: T) -> T:
    """Compute a tree of tensors, unless it is being traced; in the same graph the losses that gradients were taken of,
    which would have to be computed once more later.
    """
    if not runtime.is_tracing() and not runtime.is_transforming():
        leaves, _ = tree.flatten(value)
        realize(*(leaf for leaf in (*leaves, *take_waiting()) if isinstance(leaf, Tensor)))
    return value


def zeros_like_each(parameters: Sequence[Tensor]) -> list[Tensor]:
    """A tensor of zeros for each parameter; float32 for narrower ones."""
    return [zeros(p.shape, dtype=p.dtype if p.dtype.itemsize >= 4 else float32) for p in parameters]
