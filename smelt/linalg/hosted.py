"""Calls of LAPACK through NumPy as nodes, with their derivatives and batches.

Takes the routines that the families register; gives `host` nodes. Always holds: a routine is known by its name and
options, so equal calls on equal matrices are one node, and what a derivative needs of a value is what is there already.

A complex matrix is two sources, its parts, or two values. Rules see whole ones: `_Kinds` says which belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType
from smelt.errors import LinearAlgebraError
from smelt.graph import Hosted, IndexLike, Named, Node, Shape, build, items, pairs, values_of
from smelt.tensor import Tensor, wrap

Array = NDArray[Any]
Tensors = list[Tensor]
Part = TypeVar("Part")


class Applied(NamedTuple):
    """A call: what it was given, what it gives, and with which options."""

    sources: Tensors
    values: Tensors
    options: tuple[Any, ...]


class Rules(NamedTuple):
    """What is known of a routine.

    `compute` takes batches of matrices as arrays, and the options. `forward` gives the tangents of the values for those
    of the sources; the way back is its transpose, unless there is `back`. `again` is the same for sources that have a
    further axis in front, of size 1 where all elements of a batch share them. Values that are `real` are so of complex
    matrices as well; of what `forward` gives for them, the real part counts. `back` takes and gives the slopes by the
    real and by the imaginary part as one complex number, so it is the adjoint of `forward`.
    """

    compute: Callable[..., Any]
    failure: str  # what is wrong with a matrix that LAPACK refuses
    rule: str
    forward: Callable[[Applied, list[Tensor | None]], Sequence[Tensor | None]]
    again: Callable[[Tensors, tuple[Any, ...]], Sequence[Tensor]]
    back: Callable[[Applied, Mapping[int, Tensor]], Sequence[Tensor | None]] | None = None
    hint: str = ""
    real: tuple[int, ...] = ()


_ROUTINES: Final[dict[str, Rules]] = {}
_derived: Final = ContextVar("derived", default="")  # the function whose derivative is being written down
SINGULAR: Final = "is singular"  # routines that fail like that in a derivative say whose


class _Kinds(NamedTuple):
    """Of each source and each value, whether it is complex: two parts."""

    sources: tuple[bool, ...]
    values: tuple[bool, ...]


def _together(kinds: tuple[bool, ...], parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """The parts of each: one, or two."""
    rest = iter(parts)
    return [(next(rest), next(rest)) if is_complex else (next(rest),) for is_complex in kinds]


def _tensor(parts: Sequence[Node | None]) -> Tensor | None:
    """A tensor of its parts, of which one may be missing: it is 0."""
    known = next((part for part in parts if part is not None), None)
    if known is None:
        return None
    nodes = [build.const(0, known.dtype, known.shape) if part is None else part for part in parts]
    return wrap(nodes[0] if len(nodes) == 1 else pairs.paired(*nodes))


def _nodes(kinds: tuple[bool, ...], tensors: Sequence[Tensor | None]) -> list[Node | None]:
    """The parts of tensors; the real one of what must not be complex."""
    found: list[Node | None] = []
    for is_complex, tensor in zip(kinds, tensors, strict=True):
        both = (None, None) if tensor is None else pairs.parts(tensor._node)
        found += both if is_complex else both[:1]
    return found


def register(name: str, rules: Rules) -> None:
    """Say what a routine is."""
    _ROUTINES[name] = rules


@dataclass(frozen=True, slots=True)
class Routine:
    """The function of a `host` node. Equal ones compute the same."""

    name: str
    options: tuple[Any, ...]
    derived: str
    kinds: _Kinds

    def __call__(self, parts: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        dtype = parts[0].dtype
        arrays = [pairs.joined(*x) if len(x) == 2 else x[0] for x in _together(self.kinds.sources, parts)]
        with np.errstate(all="ignore"):
            try:
                found = _ROUTINES[self.name].compute(*arrays, *self.options)
            except np.linalg.LinAlgError:
                raise self._refusal(arrays) from None
        values = found if isinstance(found, tuple) else (found,)
        whole = zip(self.kinds.values, values, strict=True)
        given = [part for both, value in whole for part in ((value.real, value.imag) if both else (value,))]
        return [value.astype(dtype, copy=False).reshape(shape) for value, shape in zip(given, shapes, strict=True)]

    @property
    def keeps_nothing(self) -> bool:
        """Arrays that it is given are only read until it returns."""
        return True

    @property
    def named(self) -> Named:
        """What it is in texts, where `by_name` finds it."""
        options = tuple((f"option{k}", option) for k, option in enumerate(self.options))
        return Named(f"linalg.{self.name}", options, self.kinds.sources, self.kinds.values)

    def _refusal(self, arrays: Sequence[Array]) -> LinearAlgebraError:
        """The error that names the first matrix that is refused."""
        rules, batch = _ROUTINES[self.name], arrays[0].shape[:-2]
        which = "the matrix"
        for place in np.ndindex(*batch) if batch else ():
            try:
                rules.compute(*(array[place] for array in arrays), *self.options)
            except np.linalg.LinAlgError:
                which = f"matrix [{', '.join(map(str, place))}] of the batch"
                break
        name = f"{self.derived}: in its derivative, " if self.derived else f"{_public(self.name)}: "
        return LinearAlgebraError(f"{name}{which} {rules.failure}", rule=rules.rule, hint=rules.hint)

    # --- what `derive` asks for

    @property
    def pull_back(self) -> Callable[[Node, Mapping[int, Node]], Sequence[Node | None]] | None:
        back = _ROUTINES[self.name].back
        if back is None:
            return None

        def pulled(node: Node, given: Mapping[int, Node]) -> Sequence[Node | None]:
            count = len(node.attribute.types)
            slopes = map(_tensor, _together(self.kinds.values, [given.get(k) for k in range(count)]))
            with self._deriving():
                found = back(self._applied(node), {k: x for k, x in enumerate(slopes) if x is not None})
                return _nodes(self.kinds.sources, found)

        return pulled

    def push_forward(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        moving = [_tensor(parts) for parts in _together(self.kinds.sources, tangents)]
        if all(tangent is None for tangent in moving):
            return [None] * len(node.attribute.types)
        with self._deriving():
            return _nodes(self.kinds.values, _ROUTINES[self.name].forward(self._applied(node), moving))

    def batched(self, sources: Sequence[Node], found: Sequence[Node | None], size: IndexLike) -> Sequence[Node]:
        parts = [build.reshape(x, (1, *x.shape)) if new is None else new for x, new in zip(sources, found, strict=True)]
        whole = _tensors(self.kinds.sources, parts)
        values = _nodes(self.kinds.values, _ROUTINES[self.name].again(whole, self.options))
        return [value for value in values if value is not None]

    @contextmanager
    def _deriving(self) -> Iterator[None]:
        token = _derived.set(self.derived or _public(self.name))
        try:
            yield
        finally:
            _derived.reset(token)

    def _applied(self, node: Node) -> Applied:
        sources, values = _tensors(self.kinds.sources, node.sources), _tensors(self.kinds.values, items(node))
        return Applied(sources, values, self.options)


def _public(name: str) -> str:
    """The function that a routine belongs to: `det` of `det pairs`."""
    return name.partition(" ")[0]


def _tensors(kinds: tuple[bool, ...], parts: Sequence[Node]) -> Tensors:
    return [wrap(found[0] if len(found) == 1 else pairs.paired(*found)) for found in _together(kinds, parts)]


def called(name: str, sources: Sequence[Tensor], shapes: Sequence[Shape], options: tuple[Any, ...] = ()) -> Tensors:
    """The values of a routine, which have the dtype of its first source, or are the real ones of a complex one."""
    dtype: DType = sources[0]._node.dtype
    rules = _ROUTINES[name]
    derived = _derived.get() if rules.failure == SINGULAR else ""
    kinds = _Kinds(
        tuple(x._node.dtype.is_complex for x in sources),
        tuple(dtype.is_complex and k not in rules.real for k in range(len(shapes))),
    )
    types = [(dtype.part, shape) for shape, both in zip(shapes, kinds.values, strict=True) for _ in range(1 + both)]
    parts = [part for node in (x._node for x in sources) for part in pairs.parts(node)[: 1 + node.dtype.is_complex]]
    return _tensors(kinds.values, values_of(Hosted(Routine(name, options, derived, kinds), tuple(types)), parts))


def by_name(name: str, sources: Sequence[Node], options: Sequence[Any]) -> list[Node] | None:
    """The values of the routine that is called so in texts; None if there is none."""
    rules = _ROUTINES.get(name.removeprefix("linalg."))
    if rules is None or not name.startswith("linalg."):
        return None
    return [tensor._node for tensor in rules.again([wrap(x) for x in sources], tuple(options))]
