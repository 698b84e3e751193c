"""Derivatives and batches of loops and branches: loops and branches over bodies that are derived from theirs.

The way back through a loop runs it the other way round. The states before each iteration are kept on the way there;
whatever else a body computes is computed again. So memory grows with the states times the length, and not with what
happens inside. What a constant gets is added up along the way, or afterwards as one product of what is stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from smelt.derive.custom import stand_in
from smelt.derive.moves import Parts, cut, filled
from smelt.derive.sums import afterwards, summed
from smelt.dtypes import int64
from smelt.errors import GradientError
from smelt.graph import (
    Branch,
    IndexLike,
    Loop,
    Node,
    Op,
    build,
    items,
    open_body,
    parameter,
    parameter_types,
    substituted,
    value_types,
    values_of,
)

PullBack = Callable[..., list[Node | None]]  # of `vjp`
PushForward = Callable[[Sequence[Node], Mapping[Node, Node]], list[Node | None]]
Batch = Callable[[Sequence[Node], Mapping[Node, Node], IndexLike], list[Node | None]]
# Rules that a function of Python's may have, as attributes of these names.
BatchedCall = Callable[[Sequence[Node], Sequence[Node | None], IndexLike], Sequence[Node]]  # sources, those of batches
PulledCall = Callable[[Node, Mapping[int, Node]], Sequence[Node | None]]  # cotangents of values to those of sources
PushedCall = Callable[[Node, Sequence[Node | None]], Sequence[Node | None]]  # tangents of sources to those of values


def _like(nodes: Iterable[Node], skipped: int = 0) -> list[Node]:
    """Stand-ins for nodes, or for slices of them; `_body` makes parameters of these."""
    return [stand_in(node.dtype, node.shape[skipped:]) for node in nodes]


def closed_over(roots: Sequence[Node], inputs: Sequence[Node]) -> tuple[Node, ...]:
    """A closed graph, whose parameters are numbered in the order of the inputs."""
    return tuple(substituted(roots, {x: parameter(k, x.dtype, x.shape) for k, x in enumerate(inputs)}))


def _chosen(nodes: Sequence[Any] | Mapping[int, Any], places: Sequence[int]) -> list[Any]:
    return [nodes[k] for k in places]


def _floats(nodes: Sequence[Node]) -> list[int]:
    return [k for k, node in enumerate(nodes) if node.dtype.is_float]


# --- the way back


def loop_back(node: Node, given: Mapping[int, Node], wanted: Set[Node], pull_back: PullBack) -> Parts:
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
    moving, adding, sliced = _floats(states), [k for k in _floats(constants) if constants[k] in wanted], _floats(xs)
    ys = [k for k in range(len(states), len(old.body)) if k in given]
    first = [given.get(k, values[k]) for k in moving]
    # The new body: cotangents of states and sums of those of constants; constants; then slices.
    own_cts, own_constants, own_states, own_xs = _like(first), _like(constants), _like(states), _like(xs, 1)
    own_ys, step = _like([given[k] for k in ys], 1), stand_in(int64, ())
    number = build.sub(build.sub(build.size_node(old.length, int64), build.const(1, int64)), step)
    roots = open_body(old.body, [*own_states, *own_constants, *own_xs, number])
    inputs = [*_chosen(own_states, moving), *_chosen(own_constants, adding), *_chosen(own_xs, sliced)]
    found = filled(pull_back(_chosen(roots, [*moving, *ys]), [*own_cts, *own_ys], inputs), inputs)
    for_states, for_constants = found[: len(moving)], found[len(moving) : len(moving) + len(adding)]
    for_xs = found[len(moving) + len(adding) :]
    # What there is for each iteration anyway, and what it is stacked.
    slices, stacked = [*own_states, *own_xs, *own_ys], [*kept, *xs, *(given[k] for k in ys)]
    later, more = list[int](), list[Node]()
    if old.length != 1:
        later, more = afterwards(for_constants, [*slices, *for_xs], own_constants, _chosen(constants, adding))
    along = [k for k in range(len(adding)) if k not in later]
    sums = _like(_chosen(for_constants, along))
    added = [build.add(total, for_constants[k]) for total, k in zip(sums, along, strict=True)]
    body = closed_over([*for_states, *added, *for_xs, *more], [*own_cts, *sums, *own_constants, *slices, step])
    at = len(moving) + len(along)
    attribute = old._replace(body=body, states=at, xs=len(stacked), reverse=not old.reverse)
    results = values_of(attribute, [*first, *filled([None] * len(sums), sums), *constants, *stacked])
    stacks = dict(zip([*slices, *for_xs, *more], [*stacked, *results[at:]], strict=True))
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
    own = [parameter(k, *kind) for k, kind in enumerate(parameter_types(node)[: old.states])]
    kept: dict[int, Node] = {}
    if missing:
        again = values_of(old._replace(body=(*old.body, *_chosen(own, missing))), node.sources)
        kept = dict(zip(missing, again[len(old.body) :], strict=True))
    for k, state in enumerate(states):
        if k not in kept:
            kept[k] = before(state, given[old.body[k]], old.reverse)
    return [kept[k] for k in range(old.states)]


def before(first: Node, after: Node, reverse: bool) -> Node:
    """A state before each iteration, from the first one and what is stacked of it after each."""
    first = build.reshape(first, (1, *first.shape))
    joined = build.concat([after, first] if reverse else [first, after], 0)
    return cut(joined, 0, 1 if reverse else 0, after.shape[0])


def branch_back(node: Node, given: Mapping[int, Node], wanted: Set[Node], pull_back: PullBack) -> Parts:
    """Contributions to the operands of a branch."""
    predicate, *operands = node.sources
    chosen = [k for k in _floats(operands) if operands[k] in wanted]
    own, cotangents = _like(operands), _like(given.values())
    inputs = _chosen(own, chosen)
    bodies: list[tuple[Node, ...]] = []
    for body in node.attribute:
        found = pull_back(_chosen(open_body(body, own), list(given)), cotangents, inputs)
        bodies.append(closed_over(filled(found, inputs), [*own, *cotangents]))
    results = values_of(Branch(*bodies), [predicate, *operands, *given.values()])
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
    own = [stand_in(*kind) for kind in types]
    roots = open_body(old.body, own)
    moving = {k: stand_in(*types[k]) for k, tangent in enumerate(tangents) if tangent is not None}
    while True:
        changes = push_forward(roots, {own[k]: change for k, change in moving.items()})
        further = [k for k in range(old.states) if changes[k] is not None and k not in moving]
        if not further:
            break
        moving |= {k: stand_in(*types[k]) for k in further}  # a state that starts without a tangent may get one
    states, constants, xs = ([k for k in group if k in moving] for group in groups)
    ys = [k for k in range(old.states, len(roots)) if changes[k] is not None]
    pushed = filled(_chosen(changes, [*states, *ys]), _chosen(roots, [*states, *ys]))
    # The new body: states, the tangents of some, constants, the tangents of some, slices, the tangents of some.
    inputs: list[Node] = []
    sources: list[Node] = []
    for group, some in zip(groups, (states, constants, xs), strict=True):
        inputs += [*_chosen(own, group), *_chosen(moving, some)]
        sources += [*_chosen(node.sources, group), *filled(_chosen(tangents, some), _chosen(node.sources, some))]
    inputs += own[len(node.sources) :]  # the number of the iteration
    all_roots = [*roots[: old.states], *pushed[: len(states)], *roots[old.states :], *pushed[len(states) :]]
    attribute = old._replace(
        body=closed_over(all_roots, inputs),
        test=None if old.test is None else closed_over(open_body(old.test, own[:first]), inputs),
        states=old.states + len(states),
        constants=old.constants + len(constants),
        xs=old.xs + len(xs),
    )
    results = values_of(attribute, sources)
    found = dict(zip(states, results[old.states :], strict=False))
    return found | dict(zip(ys, results[len(roots) + len(states) :], strict=True))


def branch_forward(node: Node, tangents: Sequence[Node | None], push_forward: PushForward) -> dict[int, Node]:
    """The tangents of a branch's values, by number."""
    predicate, *operands = node.sources
    changes = {k: t for k, t in enumerate(tangents[1:]) if t is not None}
    own, moving = _like(operands), _like(changes.values())
    given = dict(zip(_chosen(own, list(changes)), moving, strict=True))
    opened = [open_body(body, own) for body in node.attribute]
    pushed = [push_forward(roots, given) for roots in opened]
    chosen = [k for k in range(len(opened[0])) if any(found[k] is not None for found in pushed)]
    bodies = [
        closed_over(filled(_chosen(found, chosen), _chosen(roots, chosen)), [*own, *moving])
        for found, roots in zip(pushed, opened, strict=True)
    ]
    return dict(zip(chosen, values_of(Branch(*bodies), [predicate, *operands, *changes.values()]), strict=True))


# --- batches


def loop_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """The values of a loop for a batch, by number.

    If the test of a while_loop differs, the loop runs as long as some element wants to; others keep their states.
    """
    old: Loop = node.attribute
    types = parameter_types(node)
    first = old.states + old.constants
    own = [stand_in(*kind) for kind in types]
    roots, tests = open_body(old.body, own), [] if old.test is None else open_body(old.test, own[:first])
    apart = {k: stand_in(types[k][0], (size, *types[k][1])) for k, found in enumerate(batched) if found is not None}
    while True:
        given = {own[k]: whole for k, whole in apart.items()}
        found, going = batch(roots, given, size), batch(tests, given, size)
        differs = bool(going) and going[0] is not None
        further = [k for k in range(old.states) if k not in apart and (differs or found[k] is not None)]
        if not further:
            break
        # A state that is shared at first may not stay so.
        apart |= {k: stand_in(types[k][0], (size, *types[k][1])) for k in further}
    inputs = [apart.get(k, x) for k, x in enumerate(own)]
    full = [
        new or (_spread(root, size) if k < old.states and k in apart else root)
        for k, (root, new) in enumerate(zip(roots, found, strict=True))
    ]
    for test in going:
        if test is not None:
            full = [_kept(test, new, before) for new, before in zip(full, inputs, strict=False)]
            tests = [build.reduce("max", test, (0,))]
    sources = [
        new or (_spread(x, size) if k in apart else x)
        for k, (x, new) in enumerate(zip(node.sources, batched, strict=True))
    ]
    # What is scanned has its batch axis after the one that is cut.
    sources[first:] = [_swapped(x) if k in apart else x for k, x in enumerate(sources[first:], first)]
    results = values_of(old._replace(body=closed_over(full, inputs), test=closed_over(tests, inputs) or None), sources)
    differing = [k in apart if k < old.states else found[k] is not None for k in range(len(results))]
    return {k: _whole(k, value, old.states, differing[k], size) for k, value in enumerate(results)}


def _whole(k: int, value: Node, states: int, differs: bool, size: IndexLike) -> Node:
    """A value of a loop with the batch axis in front. Those that all elements share are repeated: the loop that gives
    them for one element reads what there is only for a batch.
    """
    if not differs:
        return _spread(value, size)
    return value if k < states else _swapped(value)


def branch_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """The values of a branch for a batch. If the predicate differs, both bodies are computed, and chosen between."""
    predicate, *operands = node.sources
    choice, *found = batched
    sources = [x if new is None else new for x, new in zip(operands, found, strict=True)]
    own = _like(operands)
    inputs = [x if new is None else stand_in(new.dtype, new.shape) for x, new in zip(own, found, strict=True)]
    given = {x: whole for x, whole in zip(own, inputs, strict=True) if x is not whole}
    bodies: list[list[Node]] = []
    for body in node.attribute:
        roots = open_body(body, own)
        values = zip(roots, batch(roots, given, size), strict=True)
        bodies.append([_spread(root, size) if new is None else new for root, new in values])
    if choice is not None:
        both = zip(*(substituted(body, dict(zip(inputs, sources, strict=True))) for body in bodies), strict=True)
        return {k: _kept(choice, a, b) for k, (a, b) in enumerate(both)}
    return dict(enumerate(values_of(Branch(*(closed_over(body, inputs) for body in bodies)), [predicate, *sources])))


def _spread(x: Node, size: IndexLike) -> Node:
    return build.broadcast_to(x, (size, *x.shape))


def _swapped(x: Node) -> Node:
    return build.permute(x, (1, 0, *range(2, x.rank)))


def _kept(going: Node, new: Node, before: Node) -> Node:
    """The new state of elements that go on."""
    condition = build.reshape(going, (*going.shape, *(1 for _ in new.shape[1:])))
    return build.where(build.broadcast_to(condition, new.shape), new, before)


# --- calls of Python's


def host_back(node: Node, given: Mapping[int, Node], wanted: Set[Node], pull_back: PullBack) -> Parts:
    """The function's own way back, or what it does to tangents, which is linear, done the other way round."""
    back: PulledCall | None = getattr(node.attribute.function, "pull_back", None)
    if back is not None:
        parts = zip(node.sources, back(node, given), strict=True)
        return [(source, part) for source, part in parts if part is not None]
    moving = {k: stand_in(x.dtype, x.shape) for k, x in enumerate(node.sources) if x in wanted and x.dtype.is_float}
    pushed = _pushed(node, [moving.get(k) for k in range(len(node.sources))])
    found = [(pushed[k], ct) for k, ct in given.items() if pushed[k] is not None]
    roots, cotangents = [root for root, _ in found], [ct for _, ct in found]
    inputs = list(moving.values())
    pulled = pull_back(roots, cotangents, inputs, {node, *items(node), *node.sources}, (node, "gradient of "))
    return [(node.sources[k], part) for k, part in zip(moving, pulled, strict=True) if part is not None]


def host_forward(node: Node, tangents: Sequence[Node | None], push_forward: PushForward) -> dict[int, Node]:
    """The same for tangents, if the values have any."""
    if not any(dtype.is_float for dtype, _ in node.attribute.types):
        return {}
    return {k: tangent for k, tangent in enumerate(_pushed(node, tangents)) if tangent is not None}


def _pushed(node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
    rule: PushedCall | None = getattr(node.attribute.function, "push_forward", None)
    if rule is None:
        raise GradientError(
            "callback: a function of Python's has no derivative",
            hint="Give it one with sm.custom_vjp, or let its result count as a constant with sm.stop_gradient.",
        )
    return rule(node, tangents)


def host_batched(node: Node, batched: Sequence[Node | None], size: IndexLike, batch: Batch) -> dict[int, Node]:
    """A call for each element, one after the other, unless the function knows a better way."""
    rule: BatchedCall | None = getattr(node.attribute.function, "batched", None)
    if rule is not None:
        return dict(enumerate(rule(node.sources, batched, size)))
    same = [k for k, x in enumerate(batched) if x is None]
    apart = [k for k, x in enumerate(batched) if x is not None]
    own = _like(node.sources)
    body = closed_over(values_of(node.attribute, own), _chosen(own, [*same, *apart]))
    sources = [*_chosen(node.sources, same), *(x for x in batched if x is not None)]
    return dict(enumerate(values_of(Loop(body, None, 0, len(same), len(apart), size), sources)))


BACK = {Op.LOOP: loop_back, Op.BRANCH: branch_back, Op.HOST: host_back}
FORWARD = {Op.LOOP: loop_forward, Op.BRANCH: branch_forward, Op.HOST: host_forward}
BATCHED = {Op.LOOP: loop_batched, Op.BRANCH: branch_batched, Op.HOST: host_batched}
