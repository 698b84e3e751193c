"""`checkpoint`: values that are computed again on the way back instead of being kept until then.

The way back is a loop that runs once, over a body that computes the function again and pulls the cotangents back
through it. What is inside a loop is never shared with what is outside, so the values of the way there can go; and its
memory is needed only while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from smelt import tree
from smelt.derive import Call, Custom, Variable
from smelt.derive.vjp import pull_back
from smelt.errors import ArgumentError
from smelt.graph import Loop, Node, Op, alias, build, open_body, parameter, substituted, topological, values_of
from smelt.graph.closed import close
from smelt.tensor import Tensor, wrap
from smelt.transform.arguments import Derived, called, function_of, tensor_nodes
from smelt.transform.attributes import attributes_of, hand_over

P = ParamSpec("P")
T = TypeVar("T")


def _is_product(node: Node) -> bool:
    return node.op is Op.CONTRACT or (node.op is Op.COMPOSITE and node.attribute.name == "attention")


# By name: which values of the way there are kept after all.
_POLICIES: dict[str, Callable[[Node], bool]] = {"nothing": lambda node: False, "products": _is_product}


def checkpoint(function: Callable[P, T], keep: str = "nothing") -> Derived[P, T]:
    """The same function, whose gradient needs less memory: its inner values are computed again on the way back.

    `keep="products"` keeps the results of matrix products, convolutions and attention, and computes only what is
    cheap again.

    >>> import smelt as sm
    >>> block = sm.checkpoint(lambda x, w: sm.tanh(x @ w))
    >>> x, w = sm.ones((2, 3)), sm.ones((3, 3))
    >>> sm.grad(lambda x: block(block(x, w), w).sum())(x).shape
    (2, 3)
    """
    name = "checkpoint"
    function_of(function, name)
    if keep not in _POLICIES:
        raise ArgumentError(f"checkpoint: keep={keep!r}", hint=f"Use one of: {', '.join(map(repr, _POLICIES))}.")

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        given = [leaves[k]._node for k in places]
        stand_ins = [alias(node, Variable()) for node in given]
        for k, stand_in in zip(places, stand_ins, strict=True):
            leaves[k] = wrap(stand_in)
        own_args, own_kwargs = tree.unflatten(structure, leaves)
        inner, outer = tree.holders((own_args, own_kwargs)), tree.holders((args, kwargs))
        before = attributes_of(inner)
        result = called(function, *own_args, **own_kwargs)
        hand_over(inner, before, outer)
        roots, shape = tensor_nodes(result, name, "the value")
        (body,), hoisted = close([roots], stand_ins)
        sources = [*given, *hoisted]
        call = Call(_WayBack(body, _POLICIES[keep]), changes_as_computed=True)
        values = open_body(body, sources)
        return tree.unflatten(shape, [wrap(alias(value, Custom(call, k), *sources)) for k, value in enumerate(values)])

    return Derived(function, run, "checkpoint")


class _WayBack:
    """Computes a body again, and pulls cotangents back through it."""

    def __init__(self, body: tuple[Node, ...], keeps: Callable[[Node], bool]) -> None:
        self.body = body
        self.kept = [node for node in topological(body) if keeps(node)]

    def __call__(self, given: Mapping[int, Node], sources: Sequence[Node], wanted: Sequence[bool]) -> list[Node | None]:
        floats = {k: cotangent for k, cotangent in given.items() if self.body[k].dtype.is_float}
        inputs = [parameter(k, x.dtype, x.shape) for k, x in enumerate(sources)]
        # The body may have been made where nodes are private, as in a branch: its parameters are others then.
        opened = open_body([*self.body, *self.kept], inputs)
        body, again = opened[: len(self.body)], opened[len(self.body) :]
        outside = [*sources, *floats.values(), *open_body(self.kept, sources)]
        own = [parameter(k, x.dtype, x.shape) for k, x in enumerate(outside)]
        first = len(sources)
        cotangents, kept = own[first : first + len(floats)], own[first + len(floats) :]
        found = pull_back([body[k] for k in floats], cotangents, inputs)
        reached = [part for part in found if part is not None]
        # What is kept is read where it would be computed again.
        ways = substituted(reached, dict(zip(again, kept, strict=True)))
        attribute = Loop(tuple(ways), None, states=0, constants=len(outside), xs=0, length=1)
        results = iter([build.reshape(value, value.shape[1:]) for value in values_of(attribute, outside)])
        return [None if part is None else next(results) for part in found]
