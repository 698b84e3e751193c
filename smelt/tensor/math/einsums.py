"""Products by labels: `einsum`, and the named products that are cases of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from smelt.dtypes import STORAGE, compute_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Node, build, marked, product_of, shape_text, size_of, upper
from smelt.tensor.handle import all_common, widened, wrap
from smelt.tensor.shape.movement import diagonal_of
from smelt.tensor.types import Operand, Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "einsum",
    "inner",
    "kron",
]


class _Term(NamedTuple):
    """An operand and the label of each of its axes."""

    node: Node
    labels: tuple[str, ...]


def einsum(subscripts: str, *operands: Operand) -> Tensor:
    """Products summed over the labels that the result does not have: `einsum("ij,jk->ik", a, b)` is a matrix product.

    A label repeated in one operand means its diagonal; `...` stands for axes that broadcast. Without `->` the result
    has the labels that occur once, in alphabetical order, after the axes of the ellipsis. Operands are multiplied two
    at a time, those first that give the smallest results.

    >>> import smelt as sm
    >>> sm.einsum("ij,ij->i", sm.ones(2, 3), sm.arange(3.0).broadcast_to(2, 3)).tolist()
    [3.0, 3.0]
    >>> sm.einsum("ii", sm.arange(9).reshape(3, 3)).item()
    12
    """
    if not isinstance(subscripts, str):
        raise ArgumentError(f"einsum: the subscripts must be a string such as 'ij,jk->ik', got {subscripts!r}")
    if not operands:
        raise ArgumentError("einsum: there are no operands")
    nodes = all_common(operands, "einsum")
    if nodes[0].dtype.is_bool:
        raise DTypeError("einsum: bool is not supported", hint="Cast to an integer or a float first.")
    inputs, result = _parsed(subscripts, nodes)
    sizes = _sizes(inputs)
    if any(size == 0 and label not in result for label, size in sizes.items()):  # no products, also of what is NaN
        return wrap(build.const(0, nodes[0].dtype, tuple(sizes[label] for label in result)))
    terms = [_own(term, sizes) for term in inputs]
    terms = [_summed(term, _kept(terms, result, at)) for at, term in enumerate(terms)]
    while len(terms) > 1:
        terms = _contract_best(terms, result, sizes)
    (last,) = terms
    node = build.permute(last.node, tuple(last.labels.index(label) for label in result if label in last.labels))
    kept = iter(node.shape)
    node = build.reshape(node, tuple(next(kept) if label in last.labels else 1 for label in result))
    return wrap(build.cast(build.expand(node, tuple(sizes[label] for label in result)), nodes[0].dtype))


# --- subscripts


def _parsed(subscripts: str, nodes: Sequence[Node]) -> tuple[list[_Term], tuple[str, ...]]:
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(nodes):
        raise ArgumentError(f"einsum: {subscripts!r} has {len(texts)} operands, {len(nodes)} are given")
    terms = [_Term(node, _labels(text, node, subscripts)) for text, node in zip(texts, nodes, strict=True)]
    dots = max((sum(label[0] == "." for label in term.labels) for term in terms), default=0)
    spread = tuple(f".{at}" for at in range(dots, 0, -1))
    letters = [label for term in terms for label in term.labels if label[0] != "."]
    if arrow:
        result = _result(right, spread, subscripts)
    else:
        result = (*spread, *sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    for label in result:
        if label not in letters and label not in spread:
            raise ArgumentError(f"einsum: label {label!r} of the result is in no operand: {subscripts!r}")
        if result.count(label) > 1:
            raise ArgumentError(f"einsum: label {label!r} is twice in the result: {subscripts!r}")
    return terms, result


def _labels(text: str, node: Node, subscripts: str) -> tuple[str, ...]:
    """The label of each axis; those of the ellipsis are numbered from the last one backwards."""
    before, dots, after = text.partition("...")
    letters = before + after
    if not all("a" <= letter.lower() <= "z" for letter in letters):
        raise ArgumentError(f"einsum: {subscripts!r} is not made of letters, commas, '...' and '->'")
    hidden = node.rank - len(letters)
    if hidden < 0 or (hidden and not dots):
        raise ShapeError(
            f"einsum: {text!r} names {len(letters)} axes, the operand has shape {shape_text(node.shape)}",
            rule="there must be a label for each axis.",
        )
    return (*before, *(f".{at}" for at in range(hidden, 0, -1)), *after)


def _result(text: str, spread: tuple[str, ...], subscripts: str) -> tuple[str, ...]:
    before, dots, after = text.partition("...")
    if not all("a" <= letter.lower() <= "z" for letter in before + after):
        raise ArgumentError(f"einsum: {subscripts!r} is not made of letters, commas, '...' and '->'")
    if spread and not dots:
        raise ArgumentError(f"einsum: the result has no '...' for the axes of the operands: {subscripts!r}")
    return (*before, *spread, *after)


def _sizes(terms: Sequence[_Term]) -> dict[str, Size]:
    """The size of each label. Axes of size 1 fit any other."""
    sizes: dict[str, Size] = {}
    for at, term in enumerate(terms):
        for axis, (label, size) in enumerate(zip(term.labels, term.node.shape, strict=True)):
            known = sizes.get(label, 1)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise ShapeError(
                    f"einsum: label {label!r} has the sizes {known} and {size}\n" + marked((term.node.shape, {axis})),
                    rule=f"operand {at} must have size {known} or 1 here.",
                )
    return sizes


# --- operands


def _own(term: _Term, sizes: dict[str, Size]) -> _Term:
    """An operand with each label once, and without axes of size 1 that stand for more."""
    node, labels = term
    narrow = [axis for axis, label in enumerate(labels) if node.shape[axis] == 1 and sizes[label] != 1]
    node = build.reshape(node, tuple(size for axis, size in enumerate(node.shape) if axis not in narrow))
    labels = tuple(label for axis, label in enumerate(labels) if axis not in narrow)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            node = diagonal_of(node, 0, first, second, "einsum")
            labels = (*(other for axis, other in enumerate(labels) if axis not in (first, second)), label)
    return _Term(node, labels)


def _kept(terms: Sequence[_Term], result: tuple[str, ...], *gone: int) -> set[str]:
    """The labels that the result or another operand needs."""
    return {*result, *(label for at, term in enumerate(terms) if at not in gone for label in term.labels)}


def _summed(term: _Term, needed: set[str]) -> _Term:
    """An operand summed over the labels that nobody else has."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    node = _unrounded(term.node) if axes else term.node
    return _Term(build.reduce("add", node, axes, name="einsum"), tuple(x for x in term.labels if x in needed))


def _unrounded(node: Node) -> Node:
    """A term on the way to the result, which is rounded once."""
    return node if node.dtype in STORAGE else widened(node)


def _contract_best(terms: list[_Term], result: tuple[str, ...], sizes: dict[str, Size]) -> list[_Term]:
    """Two operands become one: the pair whose product is the smallest compared with what it replaces."""

    def grown(pair: tuple[int, int]) -> tuple[int, int]:
        a, b = (terms[at] for at in pair)
        out = _together(terms, result, *pair)
        size = upper(product_of(sizes[label] for label in out))
        before = a.node.elements + b.node.elements
        return size - before, upper(product_of(sizes[label] for label in {*a.labels, *b.labels}))

    i, j = min(combinations(range(len(terms)), 2), key=grown)
    out = _together(terms, result, i, j)
    number = {label: at for at, label in enumerate(sizes)}
    a, b = terms[i], terms[j]
    left, right, kept = ([number[label] for label in labels] for labels in (a.labels, b.labels, out))
    x, y, dtype = a.node, b.node, None
    if x.dtype is not y.dtype:
        x, y = _unrounded(x), _unrounded(y)
    elif len(terms) > 2 and x.dtype.is_float and x.dtype not in STORAGE:
        dtype = compute_dtype(x.dtype)
    product = build.contract(x, y, left, right, kept, dtype, name="einsum")
    return [*(term for at, term in enumerate(terms) if at not in (i, j)), _Term(product, out)]


def _together(terms: Sequence[_Term], result: tuple[str, ...], i: int, j: int) -> tuple[str, ...]:
    """The labels of the product of two operands: in the order of the result where it has them."""
    needed = _kept(terms, result, i, j)
    found = dict.fromkeys(label for term in (terms[i], terms[j]) for label in term.labels if label in needed)
    return (*(label for label in result if label in found), *(label for label in found if label not in result))


# --- named products


def inner(x: Tensor, y: Operand) -> Tensor:
    """The sum of the products along the last axes, for all pairs of the other axes; scalars are multiplied.

    >>> import smelt as sm
    >>> sm.inner(sm.asarray([1.0, 2.0]), sm.asarray([[3.0, 4.0], [5.0, 6.0]])).tolist()
    [11.0, 17.0]
    """
    a, b = all_common((x, y), "inner")
    if not a.rank or not b.rank:
        return wrap(build.binary("mul", a, b, name="inner"))
    rows, columns = range(a.rank - 1), range(a.rank - 1, a.rank + b.rank - 2)
    last = a.rank + b.rank
    return wrap(build.contract(a, b, (*rows, last), (*columns, last), (*rows, *columns), name="inner"))


def kron(x: Tensor, y: Operand) -> Tensor:
    """The Kronecker product: a copy of y for each element of x, times that element, laid out like x.

    >>> import smelt as sm
    >>> sm.kron(sm.asarray([1, 10]), sm.asarray([1, 2, 3])).tolist()
    [1, 2, 3, 10, 20, 30]
    """
    a, b = all_common((x, y), "kron")
    rank = max(a.rank, b.rank)
    left, right = (1,) * (rank - a.rank) + a.shape, (1,) * (rank - b.rank) + b.shape
    pairs = list(zip(left, right, strict=True))
    product = build.binary(
        "mul",
        build.reshape(a, tuple(part for size, _ in pairs for part in (size, 1))),
        build.reshape(b, tuple(part for _, size in pairs for part in (1, size))),
        name="kron",
    )
    return wrap(build.reshape(product, tuple(size_of(product_of(pair)) for pair in pairs)))
