"""Store or recompute: one decision per node, which cuts the graph into kernels.

Every kernel has a sink, the node whose result it stores, and computes other nodes inside. Nodes are visited from the
results backwards, so that when a node's turn comes all its users have been placed, and it is known at which elements
each kernel asks for it. A node is computed inside the kernel that asks for it if that is legal and costs no work
twice. It is recomputed in several kernels only where reading its one input costs no more than reading its result.
Otherwise it is stored: the sink of a kernel of its own.

Bounds: a kernel reads each of its inputs and writes its result once; its arithmetic is that of its nodes, once each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from smelt.cost import COSTLY
from smelt.fuse.chains import Chain
from smelt.fuse.group import Group, Piece, Result
from smelt.fuse.join import joined
from smelt.fuse.movement import Place, source_place, split_strides, within
from smelt.fuse.routine_nodes import ROUTINES, bases, only_renames
from smelt.graph.index import ZERO, Index, IndexLike, Variable, as_index, of, product_of, size_of, upper, variable
from smelt.graph.node import Node, make, topological, users
from smelt.graph.ops import CONTROL, ELEMENTWISE, SOURCES, VIEWS, Op
from smelt.graph.shapes import row_major
from smelt.kernel.region import extent

NODE_LIMIT = 250  # elementwise nodes in one kernel: beyond that the C compiler becomes slow and nothing is gained
BUFFER_LIMIT = 40  # distinct values that one kernel asks for
CONTRACTION_LIMIT = 80  # the same beside a contraction, where each of many registers has its own copy of them
CUT_MINIMUM = 32  # nodes that a kernel must be spared by storing a value only because it has too many
PLACE_LIMIT = 4  # elements of one node that one element of a kernel may need
PROLOGUE_LIMIT = 16  # nodes computed inside the operands of a contraction
RECOMPUTE_DEPTH = 8  # cheap nodes in a row that may be computed in several kernels
UNCACHED = 1 << 20  # elements that are read back from memory, not from a cache
PIECES_LIMIT = 4  # parts of a concat that are selected between element by element
PARALLEL_ROWS = 64  # rows that make it worth keeping a reduction and its users in one kernel
SMALL = 1 << 15  # elements below which one thread is enough anyway


def storable(root: Node) -> Node:
    """A root as a node that a kernel can store: sources are copied."""
    return make(Op.CAST, root.dtype, root.shape, (root,)) if root.op in SOURCES else root


def partition(roots: Sequence[Node], pieces: Collection[Node] = (), chains: Sequence[Chain] = ()) -> list[Group]:
    """Kernels, in an order in which they can run. The roots must be `storable`; they and the `pieces` are stored.

    Members of a chain are computed in its kernel; what several chains share, in each of theirs.
    """
    order = topological(roots)
    results = {chain.result: chain for chain in chains}
    light, epilogues, cones = _light(order), _epilogues(order), _cones(order, roots)
    stored = {*roots, *pieces}
    read_whole: set[Node] = set()  # by routines, which ask no kernel
    askers: dict[Node, list[Group]] = {}
    depth: dict[Node, int] = {}
    groups: list[Group] = []

    def ask(group: Group, node: Node, place: Place, operand: bool) -> None:
        places = group.places.get(node)
        if places is None:
            places = group.places[node] = []
            askers.setdefault(node, []).append(group)
            if not _is_counted(node):
                group.waiting.add(node)
        if place not in places:
            places.append(place)
        if operand:
            group.operands.add(node)

    def absorb(group: Group, node: Node) -> None:
        group.waiting.discard(node)
        group.inside.append(node)
        group.work += len(group.places[node]) if node.op in ELEMENTWISE else 0
        chain = results.get(node)
        if chain is not None and not group.members and _takes_chain(group, node):
            group.members = chain.members
            if chain.folds:
                group.keys = dict.fromkeys(chain.folds, group.fresh(chain.keys))
        if node.op is Op.CONTRACT and group.contraction is None:
            group.contraction = node
        if node.op is Op.SCAN:
            group.scanned = group.places[node][0].indices[node.attribute.axis]
        operand = node.op is Op.CONTRACT or node in group.operands
        for place in group.places[node]:
            if node.op is Op.REDUCE:
                group.reductions.append(_free(place))
            for source, at in demands(group, node, place):
                ask(group, source, at, operand)

    for node in reversed(order):
        if _is_stored(node):
            continue
        if node.op in ROUTINES or node.op in CONTROL:
            groups.append(Group(node, (), Place(()), node, inside=[node]))
            stored.update(bases(node))
            read_whole.update(bases(node))
            continue
        asking = askers.get(node, [])
        shared = len(asking) > 1
        alone = not shared or _recomputable(node, depth.get(node, 0), len(asking))
        apart = node in epilogues and any(group.reductions for group in asking)
        # The tasks of a long reduction are its pieces; what they need of another reduction is made before.
        apart = apart or (node.op is Op.REDUCE and any(group.sink in pieces for group in asking))
        apart = apart or (len(asking) == 1 and _cut(asking[0], cones[node]))
        taken = bool(asking) and all(node in group.members for group in asking)
        legal = alone and not apart and all(_legal(group, node, light) for group in asking)
        if node not in stored and (taken or legal):
            for group in asking:
                absorb(group, node)
            if shared and not taken and node.op not in VIEWS:
                for source in node.sources:
                    depth[source] = max(depth.get(source, 0), depth.get(node, 0) + 1)
            continue
        only_reader = len(asking) == 1 and node not in read_whole
        if node in stored and only_reader and legal and _is_beside(asking[0], node):
            # Nobody else reads it inside the graph: it is stored by the way.
            asking[0].also.append(Result(node, asking[0].places[node][0], node))
            absorb(asking[0], node)
            continue
        for group in asking:
            group.expected -= cones[node]
        for group in _sinks(node):
            groups.append(group)
            group.expected = cones[group.result]
            ask(group, group.result, group.place, False)
            if group.result is node:
                askers[node].remove(group)
                absorb(group, node)
    groups.reverse()
    return joined(groups, order)


def _is_stored(node: Node) -> bool:
    """Whether a node is there without a kernel that makes it: loops and branches store their values themselves."""
    return node.op in SOURCES or node.op is Op.ITEM or node.leaf is not None


def _is_counted(node: Node) -> bool:
    """Whether a node shows a constant or counts, so that no kernel needs memory for it."""
    while node.op in VIEWS and node.leaf is None:
        node = node.sources[0]
    return node.op is Op.CONST or node.op is Op.IOTA


def _cones(order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, int]:
    """For each node, how many elementwise nodes are needed for it alone, itself included.

    Those are the nodes of its subtree in the tree of immediate dominators, seen from the results.
    """
    above: dict[Node, Node | None] = dict.fromkeys(roots)
    depth: dict[Node, int] = dict.fromkeys(roots, 0)

    def meet(a: Node | None, b: Node | None) -> Node | None:
        # What many far apart nodes share is part of no small cone: giving up keeps long graphs linear.
        for _ in range(2 * NODE_LIMIT):
            if a is b:
                return a
            if a is not None and (b is None or depth[a] >= depth[b]):
                a = above[a]
            else:
                assert b is not None
                b = above[b]
        return None

    for node in reversed(order):
        # All users have been seen, so what dominates this node is known.
        dominator = above[node]
        depth[node] = 0 if dominator is None else depth[dominator] + 1
        for source in () if node.leaf is not None else node.sources:
            above[source] = meet(above[source], node) if source in above else node
    sizes: dict[Node, int] = dict.fromkeys(order, 0)
    for node in order:
        if node.leaf is None and (node.op in ELEMENTWISE or node.op in VIEWS):
            sizes[node] += node.op in ELEMENTWISE
            dominator = above[node]
            if dominator is not None:
                sizes[dominator] += sizes[node]
    return sizes


def _cut(group: Group, cone: int) -> bool:
    """Whether to store a value because its kernel would have too many nodes.

    Without this, the limit on nodes would fall somewhere in the middle, where many values are alive.
    """
    return group.expected > _limit(group, group.sink) and CUT_MINIMUM <= cone <= NODE_LIMIT


def _limit(group: Group, node: Node) -> int:
    """How many nodes a kernel may have before it takes in this one."""
    return NODE_LIMIT if group.contraction is None and node.op is not Op.CONTRACT else CONTRACTION_LIMIT


def _sinks(node: Node) -> Iterator[Group]:
    """The kernel that stores a node; one for each piece of a concat, which so needs no copy of its sources.

    A reshape is the memory of its source: its kernel walks the axes of that, which index nothing by remainders.
    """
    if node.op is Op.RESHAPE:
        source = node
        while source.op is Op.RESHAPE and (source is node or source.leaf is None):
            source = source.sources[0]
        axes, place = _axes(source)
        yield Group(node, axes, place, source)
        return
    if node.op is not Op.CONCAT:
        axes, place = _axes(node)
        yield Group(node, axes, place, node)
        return
    whole, start = row_major(node.shape), as_index(0)
    for source in node.sources:
        result, strides = source, whole
        # A piece that merges axes, as attention's heads, is stored in the axes that its own kernel has.
        while result.op is Op.RESHAPE and result.leaf is None:
            finer = split_strides(result.shape, strides, result.sources[0].shape)
            if finer is None:
                break
            result, strides = result.sources[0], finer
        axes, place = _axes(result)
        yield Group(node, axes, place, result, Piece(size_of(start * whole[node.attribute]), strides))
        start = start + source.shape[node.attribute]


def _axes(node: Node) -> tuple[tuple[Variable, ...], Place]:
    index = tuple(ZERO if size == 1 else variable(f"i{k}", 0, as_index(size) - 1) for k, size in enumerate(node.shape))
    return tuple(v for i in index for v in i.variables()), Place(index)


def demands(group: Group, node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
    """Which elements of its sources a node needs for one of its own."""
    if node.op in ELEMENTWISE or node.op is Op.SCAN:
        for source in node.sources:
            yield source, place
    elif node.op is Op.CONCAT:
        yield from concat_pieces(node, place)
    elif node.op is Op.REDUCE:
        axes = node.attribute.axes
        new = _new_axes(group, node, place, [node.sources[0].shape[axis] for axis in axes])
        kept, folded = iter(place.indices), iter(new)
        rank = len(node.sources[0].shape)
        yield node.sources[0], Place(tuple(next(folded) if k in axes else next(kept) for k in range(rank)), place.mask)
    elif node.op is Op.CONTRACT:
        left, right, out = node.attribute
        sizes = dict(zip(left + right, node.sources[0].shape + node.sources[1].shape, strict=True))
        summed = [label for label in dict.fromkeys(left + right) if label not in out]
        index = dict(zip(out, place.indices, strict=True))
        index.update(zip(summed, _new_axes(group, node, place, [sizes[label] for label in summed]), strict=True))
        for source, labels in zip(node.sources, (left, right), strict=True):
            yield source, Place(tuple(index[label] for label in labels), place.mask)
    elif node.op is Op.GATHER:
        for source in node.sources[1:]:
            yield source, place
        chosen = group.pick(node, place)
        yield (
            node.sources[0],
            Place(tuple(place.indices[k] if k >= 0 else chosen[-1 - k] for k in node.attribute.axes), place.mask),
        )
    else:
        yield node.sources[0], source_place(node, place)
        for fill in node.sources[1:]:
            yield fill, Place((), place.mask)


def concat_pieces(node: Node, place: Place) -> Iterator[tuple[Node, Place]]:
    """For each source of a concat, the element there and the condition that it is this source's."""
    axis, start = node.attribute, as_index(0)
    for source in node.sources:
        moved = place.indices[axis] - start
        index = (*place.indices[:axis], moved, *place.indices[axis + 1 :])
        yield source, Place(index, place.mask + tuple(within(moved, 0, source.shape[axis])))
        start = start + source.shape[axis]


def _new_axes(group: Group, node: Node, place: Place, sizes: list[IndexLike]) -> tuple[Index, ...]:
    """The axes that a reduction or contraction folds.

    A reduction walks an axis that the kernel has already where there is one of the same extent: then what it folds
    and what its users read is one expression over one axis, which can be kept from one phase to the next.
    """
    key = (node, place)
    if key in group.reduced:
        return group.reduced[key]
    if node in group.keys:
        group.reduced[key] = (group.keys[node],)
        return group.reduced[key]
    there: list[Index] = []
    if node.op is Op.REDUCE:
        folded = [v for axes in group.reduced.values() for i in axes for v in i.variables()]
        there = [of(v) for v in dict.fromkeys((*group.axes, *folded)) if v not in _free(place)]
    found: list[Index] = []
    for size in sizes:
        fitting = [i for i in there if i not in found and as_index(size) == next(iter(i.variables())).last + 1]
        # The last one: reductions usually run over the innermost axis.
        found.append(fitting[-1] if fitting and size != 1 else group.fresh(size))
    group.reduced[key] = tuple(found)
    return group.reduced[key]


def _free(place: Place) -> frozenset[Variable]:
    """The axes that an element's index varies over."""
    return frozenset(v for i in place.indices for v in i.variables() if v.name[0] in "ir")


def _light(order: Sequence[Node]) -> set[Node]:
    """Nodes made of inputs by a few cheap operations (a cast, a scale): worth computing inside a contraction's
    operands.

    Anything else a contraction reads is better finished by the kernel that makes it.
    """
    found: set[Node] = set()
    for node in order:
        if _is_stored(node):
            found.add(node)
            continue
        cheap = node.op in VIEWS or node.op is Op.PAD or (node.op in ELEMENTWISE and node.attribute not in COSTLY)
        if cheap and all(source in found for source in node.sources):
            found.add(node)
    return found


def _epilogues(order: Sequence[Node]) -> set[Node]:
    """Elementwise nodes that lead back to a contraction of the same elements that nobody else reads.

    A kernel of reductions cannot take the contraction in, so it leaves these to the contraction's kernel.
    """
    readers = users(order)
    found: set[Node] = set()
    for node in order:
        if node.op in ELEMENTWISE:
            for source in node.sources:
                while only_renames(source) and len(readers[source]) == 1:
                    source = source.sources[0]
                if len(readers[source]) == 1 and (source.op is Op.CONTRACT or source in found):
                    found.add(node)
    return found


def _is_beside(group: Group, node: Node) -> bool:
    """Whether a kernel that computes a node on its way can store it next to its sink: the very same elements."""
    plain = group.piece is None and group.result is group.sink and group.scanned is None and not group.members
    return plain and node.op in ELEMENTWISE and node.shape == group.sink.shape and _is_same(group, group.places[node])


def _legal(group: Group, node: Node, light: set[Node]) -> bool:
    """Whether a node may be computed inside a kernel that asks for it."""
    if node.op in VIEWS:
        return True
    places = group.places[node]
    # What is found by index is read from memory: several elements may ask for one.
    if group.picks and any(v in group.picks for place in places for i in place.indices for v in i.variables()):
        return False
    if group.work >= _limit(group, node) or len(group.waiting) + len(node.sources) > BUFFER_LIMIT:
        return False
    if node in group.operands:
        own = (inner for inner in group.inside if inner.op not in VIEWS and inner not in group.members)
        prologue = sum(inner in group.operands for inner in own)
        return node in light and len(places) == 1 and prologue < PROLOGUE_LIMIT
    if node.op is Op.CONCAT:
        return len(node.sources) <= PIECES_LIMIT and len(places) == 1
    if node.op is Op.CONTRACT:
        return _legal_contraction(group, places)
    if node.op is Op.REDUCE:
        return _legal_reduction(group, node, places)
    if node.op is Op.SCAN:
        return _legal_scan(group, node, places)
    return len(places) <= (1 if node.attribute in COSTLY else PLACE_LIMIT)


def _legal_contraction(group: Group, places: list[Place]) -> bool:
    """A contraction is computed inside its epilogue if that has the very same elements."""
    if group.contraction is not None or group.scanned is not None or group.reductions:
        return False
    return _is_same(group, places)


def _takes_chain(group: Group, result: Node) -> bool:
    """Whether a kernel can compute a whole chain: its result at the very elements that the kernel stores."""
    plain = group.contraction is None and group.scanned is None and not group.reductions
    return plain and _is_same(group, group.places[result])


def _legal_scan(group: Group, node: Node, places: list[Place]) -> bool:
    """A scan is computed inside users with the very same elements, beside scans of the same axis."""
    if group.contraction is not None or group.reductions or not _is_same(group, places):
        return False
    # One of its columns, or its diagonal, is no scan.
    if len(group.axes) != sum(size != 1 for size in node.shape):
        return False
    return group.scanned is None or group.scanned == places[0].indices[node.attribute.axis]


def _is_same(group: Group, places: list[Place]) -> bool:
    """Whether a node is asked for at the very elements that the kernel stores."""
    if len(places) > 1 or places[0].mask:
        return False
    return all(map(_is_plain, places[0].indices)) and _free(places[0]) == frozenset(group.axes)


def _is_plain(i: Index) -> bool:
    """Whether an index is an axis itself, or 0."""
    plain = i.constant == 0 and len(i.terms) <= 1 and all(c == 1 for c in i.terms.values())
    return plain and all(isinstance(atom, Variable) for atom in i.atoms())


def _legal_reduction(group: Group, node: Node, places: list[Place]) -> bool:
    """A reduction stays with its users if each of its elements is computed once, in a loop outside of theirs."""
    if group.contraction is not None or len(places) > 1 or places[0].mask:
        return False
    free = _free(places[0])
    if not free <= frozenset(group.axes):
        return False
    rows = product_of(extent(v) for v in free)
    if rows != product_of(node.shape):
        return False
    if any(not (free <= other or other <= free) for other in group.reductions):
        return False
    whole = product_of(node.sources[0].shape)
    return upper(rows) >= PARALLEL_ROWS or upper(whole) <= SMALL


def _recomputable(node: Node, depth: int, kernels: int) -> bool:
    """Whether computing a node in several kernels costs no more than storing it once and reading it back."""
    if node.op in VIEWS:
        return True
    if node.op is Op.PAD:
        return depth < RECOMPUTE_DEPTH
    if node.op not in ELEMENTWISE or depth >= RECOMPUTE_DEPTH:
        return False
    size = product_of(node.shape)
    # A costly function takes about as long as the write and the read of a value that no cache holds, and no memory.
    if node.attribute in COSTLY and (kernels > 2 or upper(size) < UNCACHED):
        return False
    return sum(_reads_all(source, size) for source in set(node.sources)) <= 1  # x * x reads one input


def _reads_all(source: Node, size: IndexLike) -> bool:
    """Whether a source has as many distinct elements as its user."""
    while source.op is Op.EXPAND or source.op is Op.RESHAPE or source.op is Op.PERMUTE:
        source = source.sources[0]
    return source.op is not Op.CONST and product_of(source.shape) == size
