"""Control flow inside compiled graphs: `cond`, `while_loop`, `fori_loop` and `scan`.

The functions that are given are traced once, on stand-ins. What they compute becomes the closed body of a LOOP or
BRANCH node, and the compiled program runs it without Python. Tensors that the functions reach by themselves, and
whatever else does not change from iteration to iteration, are computed outside of the loop, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from smelt import dtypes, runtime, tree
from smelt.dtypes import bool_, int64
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import (
    Branch,
    Index,
    IndexLike,
    Loop,
    Node,
    Op,
    PrivateNodes,
    Shape,
    as_index,
    as_size,
    build,
    constant_value,
    open_body,
    private_nodes,
    row_major,
    shape_text,
    size_of,
    values_of,
)
from smelt.graph.closed import close
from smelt.runtime import Placeholder
from smelt.tensor import Handle, wrap
from smelt.transform.arguments import function_of
from smelt.transform.attributes import Attributes, attributes_of, changed_attributes
from smelt.transform.bodies import keeping_modules, lost
from smelt.transform.state import Leaves, State, agreed, leaves_of

__all__ = ["cond", "fori_loop", "scan", "while_loop"]

S = TypeVar("S")
C = TypeVar("C")
T = TypeVar("T")

_ASKED = "the result of the test"
_MOST = 1 << 62  # iterations


def cond(pred: Any, true_fn: Callable[..., T], false_fn: Callable[..., T], *operands: Any) -> T:
    """What one of two functions gives for the operands: the first if `pred` is true, else the second.

    Only the chosen one is computed; both must give the same structure of tensors, with the same shapes and dtypes.

    >>> x = sm.asarray([3.0, 4.0])
    >>> sm.cond(x.sum() > 5, lambda x: x * 2, lambda x: x - 1, x).tolist()
    [6.0, 8.0]
    """
    for function in (true_fn, false_fn):
        function_of(function, "cond", "Write sm.where(pred, x, y), which chooses between values.")
    predicate = _flag(pred, "cond", "the predicate")
    given = leaves_of(operands, "cond", "operand")
    stand_ins = [_stand_in(node.dtype, node.shape, weak) for node, weak in zip(given.nodes, given.weak, strict=True)]
    results: list[Leaves] = []
    own: list[PrivateNodes] = []
    effects: list[list[Node]] = []
    for function in (true_fn, false_fn):
        # Whatever a branch computes stays inside, so that it is only computed if the branch is chosen.
        with runtime.tracing_body("cond", repeats=False) as trace, private_nodes() as made, keeping_modules("cond"):
            inner = given.rebuilt(stand_ins)
            before = attributes_of(tree.holders(inner))
            results.append(leaves_of(function(*inner), "cond", "result"))
            _check_returned(tree.holders(inner), before, results[-1])
            own.append(made)
            effects.append(trace.effects)
    true, false = agreed("cond", *results)
    none = [[build.const(True, bool_)] * len(done) for done in effects]
    closed = close([[*true, *effects[0], *none[1]], [*false, *none[0], *effects[1]]], stand_ins, own=own)
    arguments = [*given.nodes, *closed.hoisted]
    if predicate.op is Op.CONST:
        values = open_body(closed.bodies[not constant_value(predicate)], arguments)
    else:
        values = values_of(Branch(*closed.bodies), [predicate, *arguments])
    result: T = results[0].rebuilt(_without_effects(values, len(true)))
    return result


def while_loop(test: Callable[[S], Any], body: Callable[[S], S], state: S, *, max_steps: int | None = None) -> S:
    """`while test(state): state = body(state)`, without Python in between; the last state.

    The state keeps its structure, shapes and dtypes. With `max_steps` there are at most as many iterations, and memory
    for all of them can be planned: only such a loop can be differentiated in reverse.

    >>> sm.while_loop(lambda n: n < 100, lambda n: n * 3, 1).item()
    243
    """
    for function in (test, body):
        function_of(function, "while_loop", "Write sm.while_loop(test, body, state), with functions of the state.")
    if max_steps is None:
        return _while(test, body, state, "while_loop")
    return _guarded(test, body, state, _steps(max_steps, "while_loop", "max_steps"))


def fori_loop(low: Any, high: Any, body: Callable[[Any, S], S], state: S) -> S:
    """`for i in range(low, high): state = body(i, state)`, without Python in between; the last state.

    Inside, `i` is an integer tensor that takes the dtype of what it meets. The bounds are integers or integer tensors.

    >>> sm.fori_loop(1, 6, lambda i, product: product * i, 1).item()
    120
    """
    function_of(body, "fori_loop", "Write sm.fori_loop(low, high, lambda i, state: ..., state).")
    bounds = [_bound(bound, name) for bound, name in ((low, "low"), (high, "high"))]
    first, last = bounds
    if not isinstance(first, Node) and not isinstance(last, Node):
        length = size_of(as_index(last) - as_index(first))
        if isinstance(length, int):
            return _counted(first, _steps(max(length, 0), "fori_loop", "the number of iterations"), body, state)
        if length.low >= 0:
            return _counted(first, length, body, state)
    nodes = [bound if isinstance(bound, Node) else build.size_node(bound, int64) for bound in bounds]
    end = wrap(nodes[1])

    def counting(now: Any) -> Any:
        number, inner = now
        return number + 1, body(number, inner)

    return _while(lambda now: now[0] < end, counting, (wrap(nodes[0]), state), "fori_loop", counts=True)[1]


def scan(
    f: Callable[[C, Any], tuple[C, Any]], carry: C, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[C, Any]:
    """Run `carry, y = f(carry, x)` over the slices of xs along their first axis; the last carry, and the ys stacked.

    `xs` is a tree of tensors, or None with a `length`. With `reverse` the slices are taken from the last to the first,
    and each y has the place of its x.

    >>> total, sums = sm.scan(lambda total, x: (total + x, total + x), 0, sm.asarray([1, 2, 3]))
    >>> total.item(), sums.tolist()
    (6, [1, 3, 6])
    """
    function_of(f, "scan", "Write sm.scan(lambda carry, x: (carry, y), carry, xs).")
    rows = leaves_of(xs, "scan", "xs")
    count = _length(rows, length)
    slices = [_stand_in(x.dtype, x.shape[1:]) for x in rows.nodes]
    iteration = _stand_in(int64, ())

    def step(now: Any) -> tuple[Any, Leaves]:
        given = f(now, rows.rebuilt(slices))
        if not isinstance(given, tuple) or len(given) != 2:
            raise ArgumentError(
                f"scan: the function gave {given!r:.80}", rule="it must give a pair: the next carry, and a y or None."
            )
        return given[0], leaves_of(given[1], "scan", "y")

    first = State(carry, "scan", "carry")
    roots, stand_ins, ys = first.traced(step)
    closed = close([[*roots, *ys.nodes, *first.effects]], [*stand_ins, *slices, iteration], at=len(stand_ins))
    attribute = Loop(closed.bodies[0], None, len(roots), len(closed.hoisted), len(slices), count, bool(reverse))
    values = values_of(attribute, [*first.nodes, *closed.hoisted, *rows.nodes])
    values = _without_effects(values, len(roots) + len(ys.nodes))
    return first.rebuilt(values[: len(roots)]), ys.rebuilt(values[len(roots) :])


def _check_returned(modules: Sequence[Any], before: Attributes, result: Leaves) -> None:
    """What a branch changes in its operands must be a part of what it gives."""
    for (k, name), value in changed_attributes(modules, before).items():
        if isinstance(value, Handle) and value._node not in result.nodes:
            raise lost("cond", modules[k], name, "and does not return it")


def _while(test: Callable[[S], Any], body: Callable[[S], S], state: S, name: str, counts: bool = False) -> S:
    """A loop with a test. With `counts` the state is a pair of a weak integer and the user's state."""
    first = State(state, name, "state", counts)
    roots, stand_ins, asked = first.traced(lambda now: (body(now), _flag(test(now), name, _ASKED)))
    if not roots or (asked.op is Op.CONST and constant_value(asked)):
        raise ArgumentError(f"{name}: the test does not depend on the state", rule="the loop would never end.")
    done = [build.const(True, bool_)] * len(first.effects)  # states of their own: there are no ys
    more = [_stand_in(bool_, ()) for _ in done]
    closed = close([[*roots, *first.effects], [asked]], [*stand_ins, *more])
    attribute = Loop(closed.bodies[0], closed.bodies[1], len(roots) + len(done), len(closed.hoisted), 0, None)
    values = values_of(attribute, [*first.nodes, *done, *closed.hoisted])
    result: S = first.rebuilt(_without_effects(values, len(roots)))
    return result


def _guarded(test: Callable[[S], Any], body: Callable[[S], S], state: S, steps: IndexLike) -> S:
    """A loop of a known length, whose body does nothing once the test has failed."""
    first = State(state, "while_loop", "state")
    roots, stand_ins, asked = first.traced(lambda now: (body(now), _flag(test(now), "while_loop", _ASKED)))
    none = [build.const(True, bool_)] * len(first.effects)
    closed = close([[*roots, *first.effects], [*stand_ins, *none]], stand_ins)
    both = values_of(Branch(*closed.bodies), [asked, *stand_ins, *closed.hoisted])
    guarded, first.effects = both[: len(roots)], both[len(roots) :]
    result: S = _repeated(first, guarded, stand_ins, _stand_in(int64, ()), steps)
    return result


def _counted(low: IndexLike, length: IndexLike, body: Callable[[Any, S], S], state: S) -> S:
    """A loop of a known length over integers from `low` on."""
    iteration = _stand_in(int64, (), weak=True)
    number = iteration
    if isinstance(length, int):
        # Changes nothing but shows between which numbers it lies: indexing by it needs no check then.
        last = build.const(max(length - 1, 0), int64)
        number = build.minimum(build.maximum(iteration, build.const(0, int64)), last)
    number = build.add(number, build.size_node(low, int64))
    first = State(state, "fori_loop", "state")
    roots, stand_ins, _ = first.traced(lambda now: (body(wrap(number), now), None))
    result: S = _repeated(first, roots, stand_ins, iteration, length)
    return result


def _repeated(
    first: State, roots: Sequence[Node], stand_ins: Sequence[Node], iteration: Node, length: IndexLike
) -> Any:
    closed = close([[*roots, *first.effects]], [*stand_ins, iteration], at=len(stand_ins))
    attribute = Loop(closed.bodies[0], None, len(roots), len(closed.hoisted), 0, length)
    return first.rebuilt(_without_effects(values_of(attribute, [*first.nodes, *closed.hoisted]), len(roots)))


def _without_effects(values: Sequence[Node], count: int) -> list[Node]:
    """The first values of a loop or branch; the others are what it does besides, for the function around it."""
    for node in values[count:]:
        runtime.effect(node)
    return list(values[:count])


def _stand_in(dtype: dtypes.DType, shape: Shape, weak: bool = False) -> Node:
    return Placeholder(dtype, shape, row_major(shape), weak).node()


def _flag(value: Any, name: str, what: str) -> Node:
    """A scalar that is true or false: a bool, or a number that is zero or not."""
    nodes = leaves_of(value, name, what).nodes
    if len(nodes) != 1:
        raise ArgumentError(f"{name}: {what} is {value!r:.80}", rule="it must be one bool.")
    [node] = nodes
    if node.shape != ():
        raise ShapeError(
            f"{name}: {what} has shape {shape_text(node.shape)}",
            rule="it must be a scalar.",
            hint="Use any() or all() for a verdict on all elements, and sm.where to choose element by element.",
        )
    return node if node.dtype is bool_ else build.ne(node, build.const(0, node.dtype))


def _bound(value: Any, which: str) -> Node | IndexLike:
    """A bound of a loop: a size, or the node of an integer scalar."""
    if not isinstance(value, Handle):
        return as_size(value, f"fori_loop: {which}") if not isinstance(value, Index) else size_of(value)
    node = value._node
    if not node.dtype.is_integer:
        raise DTypeError(f"fori_loop: {which} is a tensor of {node.dtype}", rule="bounds are integers.")
    if node.shape != ():
        raise ShapeError(f"fori_loop: {which} has shape {shape_text(node.shape)}", rule="bounds are scalars.")
    return build.cast(node, int64)


def _steps(value: Any, name: str, what: str) -> IndexLike:
    """A number of iterations that a loop can count."""
    steps = as_size(value, name)
    if as_index(steps).low < 0 or as_index(steps).high >= _MOST:
        raise ArgumentError(f"{name}: {what} is {value}", rule="it must be at least 0, and less than 2**62.")
    return steps


def _length(rows: Leaves, length: int | None) -> IndexLike:
    """How many slices there are; all xs and `length` must say the same."""
    wanted = None if length is None else _steps(length, "scan", "length")
    for node, path in zip(rows.nodes, rows.paths, strict=True):
        if node.rank == 0:
            raise ShapeError(f"scan: {path} is a scalar", rule="xs are cut along their first axis.")
        if wanted is not None and node.shape[0] != wanted:
            raise ShapeError(
                f"scan: {path} has shape {shape_text(node.shape)}, and {wanted} slices are wanted",
                rule="all xs must have the same number of slices along their first axis.",
            )
        wanted = node.shape[0]
    if wanted is None:
        raise ArgumentError("scan: neither xs nor a length is given", hint="Give length= where there are no xs.")
    return wanted
