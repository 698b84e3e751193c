"""`vmap`: a function of one element, applied to all elements of a batch at once.

A call runs the function once, on stand-ins for one element of each mapped argument, and batches the graph that comes
out. Nothing is computed by that: results are as lazy as those of the function itself.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from smelt import runtime, tree
from smelt.derive import batch_dependent
from smelt.dtypes import uint32
from smelt.errors import ArgumentError, AxisError, ShapeError
from smelt.graph import Index, IndexLike, Node, build, row_major, shape_text
from smelt.runtime import Placeholder
from smelt.tensor import Tensor, node_of, wrap
from smelt.transform.arguments import flattened, function_name
from smelt.transform.bodies import keeping_modules

P = ParamSpec("P")
T = TypeVar("T")

# What all elements share, wherever it stands: it has no axes to map over.
_SHARED = (bool, int, float, str, bytes, np.generic)


def vmap(
    function: Callable[P, T], in_axes: Any = 0, out_axes: Any = 0, axis_size: IndexLike | None = None
) -> Vmap[P, T]:
    """Apply a function of one element to all elements of a batch at once.

    `in_axes` says along which axis of each argument the elements lie, and None that all elements share it: one value
    for all arguments, or a tuple with one for each. Arguments may be nested tuples, lists and dicts; an entry for an
    argument is then a value for all of it, or nested the same way. Keyword arguments are mapped over axis 0. Python
    numbers and strings are always shared. `out_axes` says in the same way where the batch axis goes in the results;
    with None a result must be the same for all elements. `axis_size` is the size of the batch, needed where nothing is
    mapped.

    >>> rows = sm.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> sm.vmap(lambda row: row / row.sum())(rows).shape
    (3, 2)
    >>> sm.vmap(sm.vecdot, in_axes=(0, None))(rows, sm.asarray([1.0, 10.0])).tolist()
    [21.0, 43.0, 65.0]
    >>> sm.vmap(lambda model, x: x @ model["w"], in_axes=({"w": 0}, None))({"w": sm.ones((5, 2, 4))}, rows).shape
    (5, 3, 4)

    The function runs once, on tensors without values: asking for one inside raises `TraceError`. Random
    draws inside are new ones for each element; with a key they are the same for all, and those of keys that are mapped:

    >>> keys = sm.random.split(sm.random.key(0), 3)
    >>> sm.vmap(lambda key: sm.random.normal((2,), key=key))(keys).shape
    (3, 2)
    """
    if not callable(function):
        raise ArgumentError(f"vmap: {function!r} is not a function")
    return Vmap(function, in_axes, out_axes, axis_size)


class Vmap(Generic[P, T]):
    """A batched function; the original is `__wrapped__`."""

    def __init__(self, function: Callable[P, T], in_axes: Any, out_axes: Any, axis_size: IndexLike | None) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        self._in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        self._out_axes = out_axes
        self._axis_size = _checked_size(axis_size)

    def __repr__(self) -> str:
        return f"vmap({function_name(self.__wrapped__)}, in_axes={self._in_axes!r}, out_axes={self._out_axes!r})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        leaves, structure = flattened((args, kwargs))
        axes = tree.spread((self._in_axes, 0), structure, "vmap: in_axes")
        mapped = _mapped(leaves, axes, structure)
        size = _batch_size(mapped, self._axis_size)
        stand_ins: dict[Node, Node] = {}
        for one in mapped:
            stand_in = _stand_in(one.node)
            stand_ins[stand_in] = one.node
            leaves[one.place] = wrap(stand_in)
        own_args, own_kwargs = tree.unflatten(structure, leaves)
        numbers = build.iota(size, uint32)  # for random numbers, which each element has its own of
        element = _stand_in(numbers)
        stand_ins[element] = numbers
        effects: list[Node] = []
        around = keeping_modules("vmap", shared=True)
        with runtime.transforming(), runtime.batching(element), runtime.noting_effects(effects), around:
            result = self.__wrapped__(*own_args, **own_kwargs)
        batched: T = self._batched(result, stand_ins, size)
        for node, every in zip(effects, batch_dependent(effects, stand_ins, size), strict=True):
            runtime.effect(every or node)
        return batched

    def _batched(self, result: Any, stand_ins: dict[Node, Node], size: IndexLike) -> Any:
        """What the function gave for one element, for all of them."""
        leaves, structure = tree.flatten(result)
        axes = tree.spread(self._out_axes, structure, "vmap: out_axes")
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        found = dict(zip(places, batch_dependent([leaves[k]._node for k in places], stand_ins, size), strict=True))
        names = tree.paths(structure)
        results = [
            _placed(leaf, found.get(k), size, axis, f"the result{name}")
            for k, (leaf, axis, name) in enumerate(zip(leaves, axes, names, strict=True))
        ]
        return tree.unflatten(structure, results)


# --- the way in


class _Mapped(NamedTuple):
    """An argument that is mapped over: the number of its leaf, its name, and its node with the mapped axis in front."""

    place: int
    name: str
    axis: int
    node: Node


def _checked_size(size: Any) -> IndexLike | None:
    if size is None or isinstance(size, Index):
        return size
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ArgumentError(f"vmap: axis_size must be an integer that is not negative, or a Dim, got {size!r:.80}")
    return size


def _mapped(leaves: Sequence[Any], axes: Sequence[Any], structure: tree.Structure) -> list[_Mapped]:
    """All leaves that differ from element to element."""
    found: list[_Mapped] = []
    for place, (name, leaf, axis) in enumerate(zip(_argument_names(structure), leaves, axes, strict=True)):
        _check_axis(axis, "in_axes")
        node = None if axis is None else _node(leaf, name)
        if node is not None:
            number = _normalized(axis, node.rank, name, node)
            found.append(_Mapped(place, name, number, _moved(node, number, 0)))
    return found


def _argument_names(structure: tree.Structure) -> list[str]:
    """What messages call the leaves of (args, kwargs)."""
    positional, named = structure.children
    keys: Any = named.data
    parts = [*enumerate(positional.children), *zip(keys, named.children, strict=True)]
    return [f"argument {key}{path}" for key, child in parts for path in tree.paths(child)]


def _check_axis(axis: Any, which: str) -> None:
    if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
        raise ArgumentError(
            f"vmap: {which} has {axis!r:.80}", rule="it must be made of integers and None, nested like the values."
        )


def _node(leaf: Any, name: str) -> Node | None:
    """The node of a tensor or array; None for what all elements share."""
    if isinstance(leaf, Tensor):
        return None if runtime.is_weak(leaf._node) else leaf._node  # in a jit, Python numbers are tensors
    if isinstance(leaf, _SHARED):
        return None
    if isinstance(leaf, np.ndarray):
        return node_of(leaf, "vmap")
    raise ArgumentError(
        f"vmap: {name} is a {type(leaf).__name__}, which has no axes",
        rule="only tensors are mapped over.",
        hint="Give None for it in in_axes: all elements share it then.",
    )


def _normalized(axis: int, rank: int, name: str, node: Node) -> int:
    """An axis counted from the front."""
    if -rank <= axis < rank:
        return axis % rank
    allowed = f"the axes are {-rank} to {rank - 1}." if rank else "it has no axes: it is a scalar."
    raise AxisError(
        f"vmap: axis {axis} is out of range for {name}, of shape {shape_text(node.shape)}",
        rule=allowed,
        hint="" if rank else "Give None for it in in_axes: all elements share it then.",
    )


def _batch_size(mapped: Sequence[_Mapped], given: IndexLike | None) -> IndexLike:
    """How many elements there are; everything that says so must say the same."""
    if not mapped:
        if given is None:
            raise ArgumentError(
                "vmap: no argument is mapped over",
                rule="the number of elements is that of a mapped axis.",
                hint="Give an axis to one of the arguments in in_axes, or the number of elements as axis_size=.",
            )
        return given
    first = mapped[0]
    size = first.node.shape[0] if given is None else given
    for one in mapped:
        if one.node.shape[0] != size:
            other = _described(first) if given is None else f"axis_size is {given}"
            raise ShapeError(
                f"vmap: the sizes of mapped axes differ: {other}, {_described(one)}",
                rule="all mapped axes must have the same size.",
                hint="Give None in in_axes for what all elements share.",
            )
    return size


def _described(one: _Mapped) -> str:
    return f"axis {one.axis} of {one.name} is {one.node.shape[0]}"


def _stand_in(node: Node) -> Node:
    """What stands for one element of a node whose first axis is mapped over."""
    shape = node.shape[1:]
    return Placeholder(node.dtype, shape, row_major(shape)).node()


def _moved(node: Node, axis: int, to: int) -> Node:
    """A node with one of its axes in another place."""
    order = [k for k in range(node.rank) if k != axis]
    order.insert(to, axis)
    return build.permute(node, order)


# --- the way out


def _placed(leaf: Any, batched: Node | None, size: IndexLike, axis: Any, name: str) -> Any:
    """A result with the batch axis where it belongs. `batched` is None if it is the same for all elements."""
    _check_axis(axis, "out_axes")
    if not isinstance(leaf, Tensor):
        if axis in (0, None):
            return leaf
        raise ArgumentError(
            f"vmap: out_axes is {axis} for {name}, a {type(leaf).__name__}",
            rule="only tensors have axes; other results are given back as they are.",
            hint="Give None for it in out_axes.",
        )
    if axis is None:
        if batched is None:
            return leaf
        raise ArgumentError(
            f"vmap: out_axes is None for {name}, which differs from element to element",
            rule="None is for results that do not depend on the mapped arguments.",
            hint="Give the axis along which the elements shall lie.",
        )
    whole = batched or build.broadcast_to(leaf._node, (size, *leaf._node.shape))
    return wrap(_moved(whole, 0, _normalized(axis, whole.rank, name, whole)))
