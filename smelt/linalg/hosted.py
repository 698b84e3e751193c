"""Calls of LAPACK through NumPy as nodes, with their derivatives and batches.

Takes the routines that the families register; gives `host` nodes. Always holds: a routine is known by its name and
options, so equal calls on equal matrices are one node, and what a derivative needs of a value is what is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType
from smelt.errors import LinearAlgebraError
from smelt.graph import Hosted, IndexLike, Node, Shape, build, items, values_of
from smelt.tensor import Tensor, wrap

Array = NDArray[Any]
Tensors = list[Tensor]


class Applied(NamedTuple):
    """A call: what it was given, what it gives, and with which options."""

    sources: Tensors
    values: Tensors
    options: tuple[Any, ...]


class Rules(NamedTuple):
    """What is known of a routine.

    `compute` takes batches of matrices as arrays, and the options. `forward` gives the tangents of the values for those
    of the sources; the way back is its transpose, unless there is `back`. `again` is the same for sources that have a
    further axis in front, of size 1 where all elements of a batch share them.
    """

    compute: Callable[..., Any]
    failure: str  # what is wrong with a matrix that LAPACK refuses
    rule: str
    forward: Callable[[Applied, list[Tensor | None]], Sequence[Tensor | None]]
    again: Callable[[Tensors, tuple[Any, ...]], Sequence[Tensor]]
    back: Callable[[Applied, Mapping[int, Tensor]], Sequence[Tensor | None]] | None = None
    hint: str = ""


_ROUTINES: Final[dict[str, Rules]] = {}
_derived: Final = ContextVar("derived", default="")  # the function whose derivative is being written down
SINGULAR: Final = "is singular"  # routines that fail like that in a derivative say whose


def register(name: str, rules: Rules) -> None:
    """Say what a routine is."""
    _ROUTINES[name] = rules


@dataclass(frozen=True, slots=True)
class Routine:
    """The function of a `host` node. Equal ones compute the same."""

    name: str
    options: tuple[Any, ...]
    derived: str = ""

    def __call__(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        dtype = arrays[0].dtype
        with np.errstate(all="ignore"):
            try:
                found = _ROUTINES[self.name].compute(*arrays, *self.options)
            except np.linalg.LinAlgError:
                raise self._refusal(arrays) from None
        values = found if isinstance(found, tuple) else (found,)
        return [np.ascontiguousarray(value, dtype).reshape(shape) for value, shape in zip(values, shapes, strict=True)]

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
            with self._deriving():
                return _nodes(back(self._applied(node), {k: wrap(ct) for k, ct in given.items()}))

        return pulled

    def push_forward(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        moving = [None if tangent is None else wrap(tangent) for tangent in tangents]
        if all(tangent is None for tangent in moving):
            return [None] * len(node.attribute.types)
        with self._deriving():
            return _nodes(_ROUTINES[self.name].forward(self._applied(node), moving))

    def batched(self, sources: Sequence[Node], found: Sequence[Node | None], size: IndexLike) -> Sequence[Node]:
        whole = [
            wrap(build.reshape(x, (1, *x.shape)) if new is None else new) for x, new in zip(sources, found, strict=True)
        ]
        return [value._node for value in _ROUTINES[self.name].again(whole, self.options)]

    @contextmanager
    def _deriving(self) -> Iterator[None]:
        token = _derived.set(self.derived or _public(self.name))
        try:
            yield
        finally:
            _derived.reset(token)

    def _applied(self, node: Node) -> Applied:
        return Applied([wrap(x) for x in node.sources], [wrap(x) for x in items(node)], self.options)


def _public(name: str) -> str:
    """The function that a routine belongs to: `det` of `det pairs`."""
    return name.partition(" ")[0]


def _nodes(tensors: Sequence[Tensor | None]) -> list[Node | None]:
    return [None if tensor is None else tensor._node for tensor in tensors]


def called(name: str, sources: Sequence[Tensor], shapes: Sequence[Shape], options: tuple[Any, ...] = ()) -> Tensors:
    """The values of a routine, which have the dtype of its first source."""
    dtype: DType = sources[0]._node.dtype
    derived = _derived.get() if _ROUTINES[name].failure == SINGULAR else ""
    hosted = Hosted(Routine(name, options, derived), tuple((dtype, shape) for shape in shapes))
    return [wrap(node) for node in values_of(hosted, [x._node for x in sources])]
