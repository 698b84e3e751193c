"""What all optimizers are made of: a chain of small steps from gradients to updates.

A step has a state for the parameters together, and turns gradients into updates: `Step.init(parameters)` gives the
state, `Step.apply(updates, state, parameters, count)` the next updates and the next state. Lists of tensors go in and
out, one per parameter that is neither fixed nor frozen; parameters know their names. An optimizer runs its steps one
after the other, and takes the last updates, times the learning rate, off the parameters. All of it is plain tensor
code, so that under `jit` each parameter's update becomes part of the kernel of its gradient.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeVar

from smelt import runtime, tree
from smelt.dtypes import DType, float32, float64, int32
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import shape_text
from smelt.names import missing_attribute, understood
from smelt.shown import Shown
from smelt.tensor import Tensor, realize, zeros
from smelt.transform.waiting import take_waiting

T = TypeVar("T")

Schedule = Callable[[Tensor], Any]  # the rate at a count of updates that are done
Rate = float | Tensor | Schedule


class Parameters(list[Tensor]):
    """The parameters of an update, and their names: attributes, keys and numbers on the way to each, joined by dots, as
    in `Module.state_dict`.
    """

    def __init__(self, tensors: Sequence[Tensor], names: Sequence[str]) -> None:
        super().__init__(tensors)
        self.names = names

    def some(self, numbers: Sequence[int]) -> Parameters:
        """Some of them."""
        return Parameters([self[k] for k in numbers], [self.names[k] for k in numbers])


class FreeParameters(Parameters):
    """The parameters of a tree: tensors at some places among its leaves."""

    def __init__(self, leaves: Sequence[Tensor], structure: tree.Structure, places: tuple[int, ...]) -> None:
        super().__init__([leaves[place] for place in places], _names(structure, places))
        self.leaves, self.structure, self.places = leaves, structure, places

    def replaced(self, new: Sequence[Tensor]) -> Any:
        """The tree, with others in their places."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, new, strict=True):
            leaves[place] = tensor
        return tree.unflatten(self.structure, leaves)

    def in_tree(self, other: Any, name: str, hint: str = "") -> list[Tensor]:
        """What another tree of the same structure, the gradients say, has in their places."""
        leaves, structure = tree.flatten(other)
        found = leaves if tree.alike(structure, self.structure) else self._without_notes(leaves, structure)
        if found is None:
            raise ArgumentError(
                f"{name}: the structure is {structure}",
                rule=f"it must be that of the parameters: {self.structure}.",
                hint=hint,
            )
        found = [found[place] for place in self.places]
        for k, (parameter, tensor) in enumerate(zip(self, found, strict=True)):
            if not isinstance(tensor, Tensor) or tensor.shape != parameter.shape:
                shape = f"shape {shape_text(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
                raise ShapeError(
                    f"{name} of {self.names[k] or 'the parameter'}: {shape}",
                    rule=f"it must be a tensor of shape {shape_text(parameter.shape)}.",
                )
        return found

    def _without_notes(self, leaves: list[Any], structure: tree.Structure) -> list[Any] | None:
        """The leaves of a tree from before a call that has added tensors to a module, in their places among those now;
        None if it differs in more.
        """
        places = {path: k for k, path in enumerate(tree.paths(self.structure))}
        names = tree.paths(structure)
        if structure.kind is not self.structure.kind or not {*names} <= {*places}:
            return None
        found: dict[int, Any] = {places[name]: leaf for name, leaf in zip(names, leaves, strict=True)}
        return [found.get(k) for k in range(len(places))] if found.keys() >= {*self.places} else None


def _is_gradient(tensor: Tensor) -> bool:
    return getattr(tensor, "_known_as", "") == "gradient"


@functools.lru_cache(maxsize=256)
def _names(structure: tree.Structure, places: tuple[int, ...]) -> tuple[str, ...]:
    paths = tree.paths(structure)
    return tuple([re.sub(r"\[(['\"]?)(.*?)\1\]", r".\2", paths[place]).lstrip(".") for place in places])


@dataclass(frozen=True)
class Names:
    """The names of the parameters that a state is of. They are part of the state's structure, and hold no tensors."""

    all: tuple[str, ...]


tree.register(Names, lambda names: ((), names), lambda names, _: names)


class State(NamedTuple):
    """What an optimizer remembers: how many updates are done, what each of its steps remembers, and of which
    parameters.
    """

    done: Tensor
    steps: tuple[Any, ...]
    names: Names


class Step(Shown):
    """One step of a chain. This one changes nothing."""

    def init(self, parameters: Parameters) -> Any:
        """What the step remembers before the first update."""
        return ()

    def apply(
        self, updates: list[Tensor], state: Any, parameters: Parameters, count: Tensor
    ) -> tuple[list[Tensor], Any]:
        """The next updates, and what to remember; `count` is 1 in the first update."""
        return updates, state


class Updater:
    """What all optimizers are: something that advances parameters, and remembers a state."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__ and cls.__module__.startswith("smelt."):
            cls.__init__ = understood(cls.__init__)  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # a type checker must not take every name for one that is there

        def __getattr__(self, name: str) -> Never:
            raise missing_attribute(self, name, "Updater")

    def init(self, parameters: Any) -> Any:
        """What to remember before the first update of a module, or another tree of tensors."""
        raise NotImplementedError

    def advance(
        self, parameters: Parameters, updates: list[Tensor], state: Any, lr: Any = None
    ) -> tuple[list[Tensor], Any]:
        """The next parameters, and what to remember; nothing is computed yet."""
        raise NotImplementedError

    def update(self, parameters: T, gradients: Any, state: Any, lr: float | Tensor | None = None) -> tuple[T, Any]:
        """The parameters after one step down, and what to remember. Outside of `jit` both are computed at once.

        `lr` is a rate for this update only. Inside `jit` it may be a tensor that changes from call to call, while the
        optimizer itself is part of the program.
        """
        from smelt.optim.programs import advance

        own = free_parameters(parameters)
        hint = "Write model, state = opt.update(model, grads, state)."
        slopes = own.in_tree(gradients, f"{type(self).__name__}: the gradient", hint)
        if own and all(map(_is_gradient, own)) and not any(map(_is_gradient, slopes)):
            name = type(self).__name__
            raise ArgumentError(f"{name}: the gradients come in the place of the parameters", hint=hint)
        new, remembered = advance(self, own, slopes, state, lr)
        return own.replaced(new), remembered


class Optimizer(Updater):
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
                raise ArgumentError(
                    f"Optimizer: {step!r:.80} is not a step",
                    hint="Steps are sm.optim.ClipNorm(1.0), sm.optim.Momentum(0.9) and their like.",
                )
        check_rate(lr, type(self).__name__)
        self.steps, self.lr = steps, lr

    def what_may_change(self) -> Any:
        """A rate that is set later is seen by functions that `jit` has compiled before."""
        return self.lr

    def __repr__(self) -> str:
        steps = " → ".join(type(step).__name__ for step in self.steps)
        rate = f"lr={'a schedule' if callable(self.lr) else self.lr}"
        return f"{type(self).__name__}({', '.join(filter(None, (steps, rate)))})"

    def init(self, parameters: Any) -> State:
        """What the optimizer remembers before the first update of a module, or another tree of tensors."""
        own = free_parameters(parameters)
        if not own:
            raise ArgumentError(f"{type(self).__name__}: there is nothing to update", hint="Is everything frozen?")
        first = tuple([step.init(own) for step in self.steps])
        return at_once(State(zeros((), dtype=int32), first, Names(tuple(own.names))))

    def rate(self, count: Tensor) -> Any:
        """The learning rate after so many updates."""
        return self.lr(count) if callable(self.lr) else self.lr

    def advance(
        self, parameters: Parameters, updates: list[Tensor], state: Any, lr: Any = None
    ) -> tuple[list[Tensor], State]:
        self._check(state, parameters)
        count = state.done + 1
        changes, steps = self.changes(updates, state.steps, parameters, count, lr)
        new = [(p - change).astype(p.dtype) for p, change in zip(parameters, changes, strict=True)]
        return new, State(count, steps, state.names)

    def _check(self, state: Any, parameters: Parameters) -> None:
        """That a state is of these parameters: by their names, and, where it costs nothing at the calls to come, by
        the shapes of what is remembered.
        """
        check_kind(self, state, State)
        if len(state.steps) != len(self.steps):
            raise ArgumentError(f"{type(self).__name__}: the state is one of another optimizer", hint=_BEGIN)
        if state.names.all != tuple(parameters.names):
            raise _wrong_state(type(self).__name__)
        if runtime.is_tracing():
            for step, remembered in zip(self.steps, state.steps, strict=True):
                if type(step).__module__.startswith("smelt."):  # what others remember may come to be something else
                    check_state(type(self).__name__, remembered, step.init(parameters))

    def changes(
        self, updates: list[Tensor], states: Sequence[Any], parameters: Parameters, count: Tensor, lr: Any = None
    ) -> tuple[list[Tensor], tuple[Any, ...]]:
        """What is taken off the parameters, and what the steps remember."""
        remembered: list[Any] = []
        for step, old in zip(self.steps, states, strict=True):
            updates, new = step.apply(updates, old, parameters, count)
            remembered.append(new)
        rate = self.rate(count - 1) if lr is None else lr
        return [rate * update for update in updates], tuple(remembered)


def chain(*steps: Step | Optimizer) -> Optimizer:
    """Steps in front of an optimizer, which comes last.

    >>> import smelt as sm
    >>> optimizer = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.AdamW(lr=1e-3))
    >>> len(optimizer.steps)
    3
    """
    *before, last = steps or (None,)
    if not isinstance(last, Optimizer):
        raise ArgumentError(f"chain: the last part is {last!r:.80}", rule="it must be an optimizer.")
    return Optimizer(*before, *last.steps, lr=last.lr)  # type: ignore[arg-type]


def check_rate(lr: Any, name: str) -> None:
    """A learning rate is a number that is not negative, a tensor, or a schedule."""
    is_number = isinstance(lr, int | float) and not isinstance(lr, bool)
    if not callable(lr) and not isinstance(lr, Tensor) and not (is_number and lr >= 0):
        parameters = isinstance(lr, list | dict) or hasattr(lr, "__next__")
        raise ArgumentError(
            f"{name}: lr is {lr!r:.80}",
            rule="a learning rate is a number that is not negative.",
            hint=f"Parameters come later: opt = sm.optim.{name}(lr=1e-3), then state = opt.init(model)."
            if parameters
            else "",
        )


def free_parameters(parameters: Any) -> FreeParameters:
    """The tensors of a tree that optimizers change: floats that are neither buffers nor frozen."""
    leaves, structure = tree.flatten(parameters)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"an optimizer met a leaf of type {type(leaf).__name__}", rule="parameters are trees of tensors."
            )
    fixed = tree.fixed(structure)
    places = tuple([k for k, leaf in enumerate(leaves) if leaf.dtype.is_float and not fixed[k]])
    return FreeParameters(leaves, structure, places)


def check_state(name: str, state: Any, first: Any) -> None:
    """That a state has the structure and the shapes of the one that its parameters would have at first."""
    (has, is_), (would_have, would_be) = tree.flatten(state), tree.flatten(first)
    if not tree.alike(is_, would_be) or [x.shape for x in has] != [x.shape for x in would_have]:
        raise _wrong_state(name)


_BEGIN = "Begin with state = opt.init(model), then model, state = opt.update(model, grads, state)."


def check_kind(optimizer: Updater, state: Any, kind: type) -> None:
    """That a state is of the kind that an optimizer gives."""
    if not isinstance(state, kind) or (isinstance(state, State) and not isinstance(state.names, Names)):
        raise ArgumentError(
            f"{type(optimizer).__name__}: the state is a {type(state).__name__}",
            rule="it is what this optimizer's init, or its last update, has given.",
            hint=_BEGIN,
        )


def _wrong_state(name: str) -> ArgumentError:
    return ArgumentError(
        f"{name}: the state is not one of these parameters",
        rule="it remembers something of each parameter that was free to change when it was made.",
        hint="After freeze() or unfreeze(), begin with state = opt.init(model) again.",
    )


def at_once(value: T) -> T:
    """Compute a tree of tensors, unless it is being traced; in the same graph the losses that gradients were taken of,
    which would have to be computed once more later.
    """
    if not runtime.is_tracing() and not runtime.is_transforming():
        leaves, _ = tree.flatten(value)
        realize(*(leaf for leaf in (*leaves, *take_waiting()) if isinstance(leaf, Tensor)))
    return value


def zeros_like_each(parameters: Sequence[Tensor]) -> list[Tensor]:
    """A tensor of zeros for each parameter; float32 for narrower ones."""
    return [zeros(p.shape, dtype=wide(p.dtype)) for p in parameters]


def wide(dtype: DType) -> DType:
    """The dtype in which sums over many updates are kept."""
    return dtype if dtype.itemsize >= 4 else float32


def widest(tensors: Sequence[Tensor]) -> DType:
    """The dtype for numbers that all parameters share."""
    return float64 if any(x.dtype is float64 for x in tensors) else float32
