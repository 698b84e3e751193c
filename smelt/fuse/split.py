"""Long reductions in two steps: pieces by themselves, then the pieces together.

A reduction of many elements to few would occupy one thread, or a few. Cut by the shape alone, never by the number of
threads, its pieces are tasks of one kernel and a second, small one folds what they give; so results are the same on
every machine. Sums and products of 16-bit floats keep float32 between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from smelt.dtypes import compute_dtype, float32
from smelt.fuse.choices import chosen_nodes
from smelt.fuse.facts import sums_words
from smelt.fuse.places import place_in_blocks
from smelt.graph import ELEMENTWISE, VIEWS, IndexLike, Node, Op, build, product_of, rewritten, topological, upper
from smelt.kernel import Illegal

LONG = 1 << 18  # elements below which one thread is as good
PIECE = 1 << 16  # elements of a piece, at least
PIECES = 64  # at most
FOLDED = 64  # elements that a piece folds into one, at least: more would be written than is saved
ROWS = 64  # results that are tasks enough, where neighbors in memory are folded together
COLUMNS = 1 << 16  # and where they are not: then a task takes many columns
PRODUCTS = 8  # pieces of a contraction, at most
LONG_ROW = 64  # elements side by side, from which on it matters that rows are read one after the other
PRODUCT_LENGTH = 1 << 10  # products that a piece of a contraction adds up, at least


def split_reductions(roots: Sequence[Node], choices: Iterable[tuple[int, int]] = ()) -> tuple[list[Node], set[Node]]:
    """Cut every reduction and every contraction that is long and gives little. Results of pieces have to be stored.

    `choices` say in how many pieces some are cut whatever their sizes are, by their numbers in the order of the graph.
    """
    pieces: set[Node] = set()
    counts = dict(choices)
    chosen = (
        dict(zip(chosen_nodes(topological(roots), counts, "pieces"), counts.values(), strict=True)) if counts else {}
    )
    if not all(node.op is Op.REDUCE or node.op is Op.CONTRACT for node in chosen):
        raise Illegal("pieces of what is no reduction")

    def change(node: Node, same: Node) -> Node:
        if node not in chosen and node.op is Op.REDUCE and (place := place_in_blocks(node, pieces)) is not None:
            return place
        whole = _merged(same) if node.op is Op.REDUCE else same
        cut = cut_of(whole) if node not in chosen else cut_in(whole, chosen[node])
        if cut is None:
            return same
        return (_in_two_steps if node.op is Op.REDUCE else _contracted_in_two_steps)(whole, *cut, pieces)

    results = rewritten(roots, change)
    # What a search by blocks does without has perhaps been cut before.
    return results, (pieces.intersection(topological(results)) if pieces else pieces)


def _merged(node: Node) -> Node:
    """A reduction of long rows with axes that follow each other as one, so that a piece of it lies together."""
    (x,), (op, axes) = node.sources, node.attribute
    runs = [axis for axis in axes if axis - 1 not in axes]
    short = x.rank - 1 in axes or upper(x.shape[-1]) < LONG_ROW
    if short or len(runs) == len(axes) or not all(isinstance(x.shape[axis], int) for axis in axes):
        return node
    shape, folded = list[IndexLike](), list[int]()
    for axis, size in enumerate(x.shape):
        if axis in axes and axis not in runs:
            shape[-1] = product_of((shape[-1], size))
            continue
        folded += [len(shape)] if axis in axes else []
        shape.append(size)
    return build.reduce(op, build.reshape(x, shape), folded)


def cut_of(node: Node) -> tuple[int, int] | None:
    """Where a reduction or contraction is cut, the axis or label, and in how many pieces, if cutting pays."""
    if node.op is Op.REDUCE:
        return _pieces(node)
    return _product_pieces(node) if node.op is Op.CONTRACT else None


def cut_in(node: Node, count: int) -> tuple[int, int] | None:
    """Where a reduction or contraction is cut in so many pieces; None for one."""
    if count == 1:
        return None
    sizes = _lengths(node) if node.op is Op.REDUCE else _summed(node)
    found = [(at, size) for at, size in sizes.items() if isinstance(size, int) and size >= count]
    if node.op is Op.REDUCE:
        found = sorted(found, key=lambda entry: -entry[1])
    else:
        found = [(at, size) for at, size in found if size % count == 0]
    if count > PIECES or not found:
        raise Illegal(f"{count} pieces of {node!r:.200}")
    return found[0][0], count


def _lengths(node: Node) -> dict[int, IndexLike]:
    """The axes that a reduction folds."""
    return {axis: node.sources[0].shape[axis] for axis in node.attribute.axes}


def _summed(node: Node) -> dict[int, IndexLike]:
    """The labels that a contraction of both operands sums."""
    left, right, out = node.attribute
    sizes = zip(left, node.sources[0].shape, strict=True)
    return {label: size for label, size in sizes if label in right and label not in out}


def _pieces(node: Node) -> tuple[int, int] | None:
    """The axis to cut and the number of pieces, if cutting pays."""
    (x,) = node.sources
    axes = node.attribute.axes
    total, kept = x.elements, max(1, node.elements)
    if total < LONG or kept >= (ROWS if x.rank - 1 in axes else COLUMNS) or _sums_words(node):
        return None
    sizes: list[tuple[int, int]] = [(size, -axis) for axis in axes if isinstance(size := x.shape[axis], int)]
    if not sizes:
        return None
    size, axis = max(sizes)
    most = min(PIECES, total // PIECE, total // (kept * FOLDED), size)
    if most < 2:
        return None
    # A count that divides the axis leaves nothing over.
    exact = [count for count in range(most, most // 2, -1) if size % count == 0]
    return -axis, exact[0] if exact else most


def _sums_words(node: Node) -> bool:
    """Whether what a sum adds up is made of sums of words. Those stay in registers, and each row of such a product is
    added up in the same order, whatever the number of rows is.
    """
    return any(sums_words(x) for x in _made_of(node))


def _made_of(node: Node) -> Iterator[Node]:
    """What is computed from elementwise steps and views on the way to a node, and what those read."""
    seen, stack = {node}, list(node.sources)
    while stack:
        x = stack.pop()
        if x in seen or x.leaf is not None:
            continue
        seen.add(x)
        yield x
        if x.op in ELEMENTWISE or x.op in VIEWS:
            stack.extend(x.sources)


def _in_two_steps(node: Node, axis: int, count: int, pieces: set[Node]) -> Node:
    op, axes = node.attribute
    (x,) = node.sources
    if node.dtype.is_float and node.dtype.bits == 16 and op in ("add", "mul"):
        x = build.cast(x, float32)
    size = x.shape[axis]
    assert isinstance(size, int)
    length = size // count
    whole = _part(x, axis, 0, count * length)
    cut = build.reshape(whole, (*x.shape[:axis], count, length, *x.shape[axis + 1 :]))
    inner = [a if a < axis else a + 1 for a in axes]
    piece = build.reduce(op, cut, inner)
    pieces.add(piece)
    result = build.reduce(op, piece, (sum(a not in axes for a in range(axis)),))
    if count * length < size:
        rest = build.reduce(op, _part(x, axis, count * length, size - count * length), axes)
        result = build.binary(op, result, rest)
    return build.cast(result, node.dtype)


def _product_pieces(node: Node) -> tuple[int, int] | None:
    """The label to cut a contraction along and the number of pieces, if its sums are long and its results few. Such is
    the gradient of a convolution's weight, where otherwise each task would pack all of the images.
    """
    kept, summed = node.elements, _summed(node)
    length = upper(product_of(list(summed.values())))
    if kept >= COLUMNS or kept * length < LONG or length < 2 * PRODUCT_LENGTH or _weighs(node):
        return None
    counts = range(min(PRODUCTS, length // PRODUCT_LENGTH), 1, -1)
    # The first axis that can be cut evenly: what belongs to a piece should lie together.
    found = ((label, n) for label, size in summed.items() if isinstance(size, int) for n in counts if size % n == 0)
    return next(found, None)


def _weighs(node: Node) -> bool:
    """Whether a contraction may be the end of an attention: weights by exp, and no windows. Those stay in one piece."""
    found = list(_made_of(node))
    windows = any(x.op is Op.WINDOW for x in found)
    return not windows and any(x.op is Op.UNARY and x.attribute == "exp" for x in found)


def _contracted_in_two_steps(node: Node, label: int, count: int, pieces: set[Node]) -> Node:
    left, right, out = node.attribute
    fresh = 1 + max(*left, *right)

    def cut(x: Node, labels: Sequence[int]) -> tuple[Node, tuple[int, ...]]:
        axis = labels.index(label)
        size = x.shape[axis]
        assert isinstance(size, int)
        apart = build.reshape(x, (*x.shape[:axis], count, size // count, *x.shape[axis + 1 :]))
        return apart, (*labels[:axis], fresh, *labels[axis:])

    (a, left), (b, right) = (cut(x, labels) for x, labels in zip(node.sources, (left, right), strict=True))
    piece = build.contract(a, b, left, right, (fresh, *out), compute_dtype(node.dtype))
    pieces.add(piece)
    return build.cast(build.reduce("add", piece, (0,)), node.dtype)


def _part(x: Node, axis: int, start: int, size: int) -> Node:
    spans: list[tuple[IndexLike, IndexLike, int]] = [(0, other, 1) for other in x.shape]
    spans[axis] = (start, size, 1)
    return build.slice_(x, spans)
