"""Derivatives and batches of loops and branches: loops and branches over bodies that are derived from theirs.

The way back through a loop runs it the other way round. The states before each iteration are kept on the way there;
whatever else a body computes is computed again. So memory grows with the states times the length, and not with what
happens inside. What a constant gets is added up along the way, or afterwards as one product of what is stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.derive.custom import Variable
from smelt.derive.moves import cut, filled, zeros
from smelt.derive.sums import factors, pays, summed
from smelt.dtypes import DType, int64
from smelt.errors import GradientError
from smelt.graph import (
    Branch,
    Hosted,
    IndexLike,
    Loop,
    Node,
    Op,
    Shape,
    alias,
    branch,
    build,
    loop,
    open_body,
    parameter,
    parameter_types,
    topological,
    value_types,
)
from smelt.graph.closed import host, items

Type = tuple[DType, Shape]
PullBack = Callable[[Sequence[Node], Sequence[Node], Sequence[Node]], list[Node | None]]
PushForward = Callable[[Sequence[Node], Mapping[Node, Node]], list[Node | None]]
Batch = Callable[[Sequence[Node], Mapping[Node, Node], IndexLike], list[Node | None]]


class _Parameters:
    """Parameters of a new body, numbered as they are asked for."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, types: Sequence[Type]) -> list[Node]:
        start, self.count = self.count, self.count + len(types)
        return [parameter(start + k, dtype, shape) for k, (dtype, shape) in enumerate(types)]


def _types(nodes: Sequence[Node]) -> list[Type]:
    return [(node.dtype, node.shape) for node in nodes]


def _chosen(nodes: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [nodes[k] for k in places]


def _floats(nodes: Sequence[Node]) -> list[int]:
    return [k for k, node in enumerate(nodes) if node.dtype.is_float]


# --- the way back


def loop_back(
    node: Node, given: Mapping[int, Node], wanted: Callable[[Node], bool], pull_back: PullBack
) -> list[tuple[Node, Node]]:
    """Contributions to the sources of a loop, from cotangents of its values by number."""
    old: Loop = node.attribute
    if old.length is None:
        raise GradientError(
            "the way back through a while_loop needs to know how many steps it can take",
            rule="the state before each step has to be kept.",
            hint="Say max_steps= in while_loop, or use fori_loop or scan.",
        )
    states, constants, xs = _parts(node)
    kept = _states_before(node)
    values = [build.const(0, dtype, shape) for dtype, shape in value_types(old)]
    moving, adding, sliced = _floats(states), [k for k in _floats(constants) if wanted(constants[k])], _floats(xs)
    ys = [k for k in range(len(states), len(old.body)) if k in given]
    first = [given.get(k, values[k]) for k in moving]
    # The new body: cotangents of states and sums of those of constants; constants; then slices.
    new = _Parameters()
    own_cts, sums = new(_types(first)), new(_types(_chosen(constants, adding)))
    own_constants = new(_types(constants))
    own_states, own_xs = new(_types(states)), new([(x.dtype, x.shape[1:]) for x in xs])
    own_ys = new([(given[k].dtype, given[k].shape[1:]) for k in ys])
    (step,) = new([(int64, ())])
    number = build.sub(build.sub(build.size_node(old.length, int64), build.const(1, int64)), step)
    roots = open_body(old.body, [*own_states, *own_constants, *own_xs, number])
    inputs = [*_chosen(own_states, moving), *_chosen(own_constants, adding), *_chosen(own_xs, sliced)]
    found = filled(pull_back(_chosen(roots, [*moving, *ys]), [*own_cts, *own_ys], inputs), inputs)
    for_states, for_constants = found[: len(moving)], found[len(moving) : len(moving) + len(adding)]
    for_xs = found[len(moving) + len(adding) :]
    # What there is for each iteration anyway, and what it is stacked.
    stacks = dict(zip([*own_states, *own_xs, *own_ys], [*kept, *xs, *(given[k] for k in ys)], strict=True))
    later, more = list[int](), list[Node]()
    if old.length != 1:
        later, more = _afterwards(for_constants, [*stacks, *for_xs], own_constants, _chosen(constants, adding))
    along = [k for k in range(len(adding)) if k not in later]
    added = [build.add(sums[k], for_constants[k]) for k in along]
    body = _renumbered([*for_states, *added, *for_xs, *more], new.count, [sums[k].attribute for k in later])
    at = len(moving) + len(along)
    stacked = [*kept, *xs, *(given[k] for k in ys)]
    attribute = old._replace(body=tuple(body), states=at, xs=len(stacked), reverse=not old.reverse)
    nothing = [zeros(constants[adding[k]].shape, constants[adding[k]]) for k in along]
    results = loop(attribute, [*first, *nothing, *constants, *stacked])
    stacks |= dict(zip([*for_xs, *more], results[at:], strict=True))
    sums_of = dict(zip(along, results[len(moving) : at], strict=True))
    sums_of |= {k: summed(for_constants[k], stacks) for k in later}
    receivers = [*_chosen(states, moving), *_chosen(constants, adding), *_chosen(xs, sliced)]
    totals = [sums_of[k] for k in range(len(adding))]
    return list(zip(receivers, [*results[: len(moving)], *totals, *results[at : at + len(sliced)]], strict=True))


def _states_before(node: Node) -> list[Node]:
    """The states before each iteration, stacked. Where a loop gives a state after each iteration, no other is run."""
    old: Loop = node.attribute
    values, states = items(node), _parts(node)[0]
    given = {body: values[k] for k, body in enumerate(old.body) if k >= old.states}
    missing = [k for k in range(old.states) if old.body[k] not in given]
    own = _Parameters()(parameter_types(node)[: old.states])
    kept: dict[int, Node] = {}
    if missing:
        again = loop(old._replace(body=(*old.body, *_chosen(own, missing))), node.sources)
        kept = dict(zip(missing, again[len(old.body) :], strict=True))
    for k, state in enumerate(states):
        if k not in kept:
            first, after = build.reshape(state, (1, *state.shape)), given[old.body[k]]
            joined = build.concat([after, first] if old.reverse else [first, after], 0)
            kept[k] = cut(joined, 0, 1 if old.reverse else 0, after.shape[0])
    return [kept[k] for k in range(old.states)]


def _afterwards(
    terms: Sequence[Node], there: Sequence[Node], unchanging: Sequence[Node], constants: Sequence[Node]
) -> tuple[list[int], list[Node]]:
    """Which terms of constants are summed up after the loop, and which of their factors it has to give out for that."""
    later, more = list[int](), list[Node]()
    needed = [list(dict.fromkeys(factors(term))) for term in terms]
    for k in sorted(range(len(terms)), key=lambda k: -len(needed[k])):  # sums may use what products have stacked
        if any(factor in unchanging for factor in needed[k]):
            continue
        new = [factor for factor in needed[k] if factor not in there and factor not in more]
        if len(new) < len(needed[k]) and all(pays(factor, constants[k]) for factor in new):
            later.append(k)
            more += new
    return later, more


def _renumbered(body: Sequence[Node], count: int, gone: Sequence[int]) -> list[Node]:
    """A body whose parameters follow one another again after some are gone."""
    if not gone:
        return list(body)
    types = {node.attribute: (node.dtype, node.shape) for node in topological(body) if node.op is Op.PARAMETER}
    numbers = {number: at for at, number in enumerate(k for k in range(count) if k not in gone)}
    arguments = [parameter(numbers[k], *types[k]) if k in types else None for k in range(count)]
    return open_body(body, arguments)  # type: ignore[arg-type]


def branch_back(
    node: Node, given: Mapping[int, Node], wanted: Callable[[Node], bool], pull_back: PullBack
) -> list[tuple[Node, Node]]:
    """Contributions to the operands of a branch."""
    predicate, *operands = node.sources
    chosen = [k for k in _floats(operands) if wanted(operands[k])]
    new = _Parameters()
    own, cotangents = new(_types(operands)), new(_types(list(given.values())))
    bodies: list[tuple[Node, ...]] = []
    for body in node.attribute:
        roots = open_body(body, own)
        inputs = _chosen(own, chosen)
        bodies.append(tuple(filled(pull_back(_chosen(roots, list(given)), cotangents, inputs), inputs)))
    results = branch(Branch(*bodies), predicate, [*operands, *given.values()])
    return list(zip(_chosen(operands, chosen), results, strict=True))


def _parts(node: Node) -> tuple[list[Node], list[Node], list[Node]]:
    """The sources of a loop: states, constants, xs."""
    old: Loop = node.attribute
    first = old.states + old.constants
    sources = list(node.sources)
    return sources[: old.states], sources[old.states : first], sources[first:]


# --- forward


def loop_forward(node: Node, tangents: Sequence[Node | None], push_forward: PushForward) -> dict[int, Node]:
    """The tangents of a loop's values, by number: they run along with the values."""
    old: Loop = node.attribute
    first = old.states + old.constants
    groups = (range(old.states), range(old.states, first), range(first, len(node.sources)))
    types = parameter_types(node)
    moving = {k for k, tangent in enumerate(tangents) if tangent is not None}
    while True:
        # The new body: states, the tangents of some, constants, the tangents of some, slices, the tangents of some.
        new = _Parameters()
        own: list[Node] = []
        changed: dict[int, Node] = {}
        for group in groups:
            own += new(types[group.start : group.stop])
            some = [k for k in group if k in moving]
            changed |= zip(some, new(_chosen(types, some)), strict=True)
        own += new([(int64, ())])
        roots = open_body(old.body, own)
        changes = push_forward(roots, {own[k]: change for k, change in changed.items()})
        further = {k for k in range(old.states) if changes[k] is not None} - moving
        if not further:
            break
        moving |= further  # a state that starts without a tangent may get one
    states, constants, xs = ([k for k in group if k in moving] for group in groups)
    ys = [k for k in range(old.states, len(roots)) if changes[k] is not None]
    pushed = filled(_chosen(changes, [*states, *ys]), _chosen(roots, [*states, *ys]))
    attribute = old._replace(
        body=(*roots[: old.states], *pushed[: len(states)], *roots[old.states :], *pushed[len(states) :]),
        test=None if old.test is None else tuple(open_body(old.test, own[:first])),
        states=old.states + len(states),
        constants=old.constants + len(constants),
        xs=old.xs + len(xs),
    )
    sources: list[Node] = []
    for group, some in zip(groups, (states, constants, xs), strict=True):
        sources += node.sources[group.start : group.stop]
        sources += filled(_chosen(tangents, some), _chosen(node.sources, some))
    results = loop(attribute, sources)
    found = dict(zip(states, results[old.states :], strict=False))
    return found | dict(zip(ys, results[len(roots) + len(states) :], strict=True))


def branch_forward(node: Node, tangents: Sequence[Node | None], push_forward: PushForward) -> dict[int, Node]:
    """The tangents of a branch's values, by number."""
    predicate, *operands = node.sources
    changes = {k: t for k, t in enumerate(tangents[1:]) if t is not None}
    new = _Parameters()
    own, moving = new(_types(operands)), new(_types(list(changes.values())))
    given = dict(zip(_chosen(own, list(changes)), moving, strict=True))
    opened = [open_body(body, own) for body in node.attribute]
    pushed = [push_forward(roots, given) for roots in opened]
    chosen = [k for k in range(len(opened[0])) if any(found[k] is not None for found in pushed)]
    bodies = [
        tuple(filled(_chosen(found, chosen), _chosen(roots, chosen)))
        for found, roots in zip(pushed, opened, strict=True)
    ]
    return dict(zip(chosen, branch(Branch(*bodies), predicate, [*operands, *changes.values()]), strict=True))


# --- batches


def loop_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """The values of a loop for a batch, by number.

    If the test of a while_loop differs, the loop runs as long as some element wants to; others keep their states.
    """
    old: Loop = node.attribute
    apart = {k for k, found in enumerate(batched) if found is not None}
    types = parameter_types(node)
    while True:
        own = _Parameters()(
            [(dtype, (size, *shape) if k in apart else shape) for k, (dtype, shape) in enumerate(types)]
        )
        stand_ins = {k: _stand_in(*types[k]) for k in apart}
        seen = [stand_ins.get(k, new) for k, new in enumerate(own)]
        given = {stand_in: own[k] for k, stand_in in stand_ins.items()}
        roots = open_body(old.body, seen)
        found = batch(roots, given, size)
        tests = [] if old.test is None else open_body(old.test, seen[: old.states + old.constants])
        going = batch(tests, given, size)
        differs = bool(going) and going[0] is not None
        further = {k for k in range(old.states) if differs or found[k] is not None} - apart
        if not further:
            break
        apart |= further  # a state that is shared at first may not stay so
    full = [
        new or (_spread(root, size) if k < old.states and k in apart else root)
        for k, (root, new) in enumerate(zip(roots, found, strict=True))
    ]
    if differs:
        full = [_kept(_some(going[0]), new, before) for new, before in zip(full, own, strict=False)]
        tests = [build.reduce("max", _some(going[0]), (0,))]
    first = old.states + old.constants
    sources = [
        _moved(x, batched[k]) if k >= first else _source(x, batched[k], k in apart, size)
        for k, x in enumerate(node.sources)
    ]
    results = loop(old._replace(body=tuple(full), test=tuple(tests) or None), sources)
    differing = [k in apart if k < old.states else found[k] is not None for k in range(len(results))]
    return {k: _whole(k, value, old.states, differing[k], size) for k, value in enumerate(results)}


def _whole(k: int, value: Node, states: int, differs: bool, size: IndexLike) -> Node:
    """A value of a loop with the batch axis in front. Those that all elements share are repeated: the loop that gives
    them for one element reads what there is only for a batch.
    """
    if not differs:
        return _spread(value, size)
    return value if k < states else build.permute(value, (1, 0, *range(2, value.rank)))


def branch_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """The values of a branch for a batch. If the predicate differs, both bodies are computed, and chosen between."""
    predicate, *operands = node.sources
    choice, *found = batched
    sources = [x if new is None else new for x, new in zip(operands, found, strict=True)]
    own = sources if choice is not None else _Parameters()(_types(sources))
    stand_ins = {k: _stand_in(x.dtype, x.shape) for k, x in enumerate(operands) if found[k] is not None}
    given = {stand_in: own[k] for k, stand_in in stand_ins.items()}
    bodies: list[tuple[Node, ...]] = []
    for body in node.attribute:
        roots = open_body(body, [stand_ins.get(k, x) for k, x in enumerate(own)])
        values = zip(roots, batch(roots, given, size), strict=True)
        bodies.append(tuple(_spread(root, size) if new is None else new for root, new in values))
    if choice is not None:
        return {k: _kept(choice, a, b) for k, (a, b) in enumerate(zip(*bodies, strict=True))}
    return dict(enumerate(branch(Branch(*bodies), predicate, sources)))


def _some(node: Node | None) -> Node:
    assert node is not None
    return node


def _stand_in(dtype: DType, shape: Shape) -> Node:
    """A node of a type that is nothing else."""
    return alias(build.const(0, dtype, shape), Variable())


def _spread(x: Node, size: IndexLike) -> Node:
    return build.broadcast_to(x, (size, *x.shape))


def _source(x: Node, found: Node | None, is_batched: bool, size: IndexLike) -> Node:
    return found if found is not None else _spread(x, size) if is_batched else x


def _moved(x: Node, found: Node | None) -> Node:
    """What is scanned has its batch axis after the one that is cut."""
    return x if found is None else build.permute(found, (1, 0, *range(2, found.rank)))


def _kept(going: Node, new: Node, before: Node) -> Node:
    """The new state of elements that go on."""
    condition = build.reshape(going, (*going.shape, *(1 for _ in new.shape[1:])))
    return build.where(build.broadcast_to(condition, new.shape), new, before)


# --- calls of Python's


def host_back(
    node: Node, given: Mapping[int, Node], wanted: Callable[[Node], bool], pull_back: PullBack
) -> list[tuple[Node, Node]]:
    """Nobody knows the derivative of a function of Python's."""
    raise GradientError(
        "callback: a function of Python's has no derivative",
        hint="Give it one with sm.custom_vjp, or let its result count as a constant with sm.stop_gradient.",
    )


def host_forward(node: Node, tangents: Sequence[Node | None], push_forward: PushForward) -> dict[int, Node]:
    """The same for tangents, if the values have any."""
    if any(dtype.is_float for dtype, _ in node.attribute.types):
        host_back(node, {}, lambda _: False, lambda *_: [])
    return {}


def host_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """A call for each element, one after the other."""
    same = [k for k, x in enumerate(batched) if x is None]
    apart = [k for k, x in enumerate(batched) if x is not None]
    parameters = _Parameters()(_types([node.sources[k] for k in (*same, *apart)]))
    own = dict(zip((*same, *apart), parameters, strict=True))
    hosted: Hosted = node.attribute
    body = tuple(host(hosted, [own[k] for k in range(len(own))]))
    sources = [*(node.sources[k] for k in same), *(_some(batched[k]) for k in apart)]
    return dict(enumerate(loop(Loop(body, None, 0, len(same), len(apart), size), sources)))


BACK = {Op.LOOP: loop_back, Op.BRANCH: branch_back, Op.HOST: host_back}
FORWARD = {Op.LOOP: loop_forward, Op.BRANCH: branch_forward, Op.HOST: host_forward}
BATCHED = {Op.LOOP: loop_batched, Op.BRANCH: branch_batched, Op.HOST: host_batched}
