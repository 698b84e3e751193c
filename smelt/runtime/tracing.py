"""Traces: what a function does to stand-ins for its arguments, recorded once and replayed later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple

from smelt.derive import Stopped
from smelt.dtypes import DType, float64, int64, uint32
from smelt.errors import Location, TraceError, user_location
from smelt.graph import CONTROL, VIEWS, Index, IndexLike, Node, Op, Shape, alias, build, make, product_of, topological
from smelt.runtime.state import GOLDEN, current
from smelt.runtime.storage import host_leaf, next_serial


class Placeholder:
    """The attribute of a leaf that stands for an argument. A weak one is a Python number, with the dtype of what it
    meets.
    """

    __slots__ = ("dtype", "shape", "strides", "weak")

    def __init__(self, dtype: DType, shape: Shape, strides: tuple[IndexLike, ...], weak: bool = False) -> None:
        self.dtype, self.shape, self.strides, self.weak = dtype, shape, strides, weak

    def node(self) -> Node:
        return make(Op.LEAF, self.dtype, self.shape, (), self)


class Narrowed(NamedTuple):
    """A Python integer that a traced function was given, or that it computes from such, and the dtype of the tensor
    that it meets, in the user's call `name`.
    """

    node: Node
    dtype: DType
    name: str
    location: Location | None


class Trace:
    """One function being traced, or the body of a loop or branch, inside the trace `outer` or none; then `name` is the
    user's call. `draws` counts the random draws that it made; `weakness` remembers `is_weak`.
    """

    def __init__(self, name: str = "", outer: Trace | None = None, repeats: bool = False) -> None:
        self.name, self.outer, self.repeats = name, outer, repeats
        self.serial = next_serial()  # storages with smaller numbers were there before
        self.random = Placeholder(uint32, (3,), (1,))
        self.random_node: Node | None = None
        self.draws = 0
        # Ids of the storages of tensors that the function reaches by itself, and integers to look at in every call.
        self.hidden: set[int] = set() if outer is None else outer.hidden
        self.narrowed: list[Narrowed] = [] if outer is None else outer.narrowed
        self.asserted: list[Callable[[dict[str, int]], None]] = [] if outer is None else outer.asserted
        self.weakness: dict[Node, int] = {}
        self.effects: list[Node] = []  # to compute although no result depends on them

    def take_random(self, draws: int) -> tuple[Node, int]:
        """A body takes those of the trace around it; in a loop, every iteration would get the same numbers."""
        if self.repeats:
            raise TraceError(
                f"{self.name}: a random draw without a key inside the body",
                rule="the body is traced once, so every iteration would draw the same numbers.",
                hint="Carry a key in the state: key, now = sm.random.split(key), then draw with key=now.",
            )
        if self.name:
            return _draw_random(self.outer, draws)
        if self.random_node is None:
            self.random_node = self.random.node()
        self.draws += draws
        return self.random_node, self.draws - draws


_ODD: Final = 0x85EBCA6B
_STRONG, _CONSTANT, _WEAK = range(3)


def is_weak(node: Node) -> bool:
    """Whether a traced scalar is a Python number that was passed in, or computed from such and constants alone."""
    trace = current_trace()
    if node.shape != () or trace is None:
        return False
    known = trace.weakness
    if node not in known:
        for inner in topological([node]):
            if inner not in known:
                known[inner] = _weakness(inner, known)
    return known[node] == _WEAK


class _Number:
    """What an alias says of a scalar: whether it takes the dtype of what it meets, as Python numbers do."""

    __slots__ = ("weak",)

    def __init__(self, weak: bool) -> None:
        self.weak = weak


_NUMBER, _TENSOR = _Number(True), _Number(False)


def as_number(node: Node) -> Node:
    """A scalar that `is_weak`, whatever it was computed from."""
    return alias(node, _NUMBER)


def as_tensor(node: Node) -> Node:
    """A scalar that is none."""
    return alias(node, _TENSOR)


def note_narrowed(node: Node, dtype: DType, name: str) -> None:
    """Note that a number that `is_weak` is cast to an integer dtype, in which it must fit."""
    trace = current_trace()
    assert trace is not None
    trace.narrowed.append(Narrowed(node, dtype, name, user_location()))


def assert_sizes(check: Callable[[dict[str, int]], None]) -> None:
    """Have the sizes of dims looked at in every call of the function that is being traced: `check` takes them by name,
    and raises what is wrong with them.
    """
    trace = current_trace()
    if trace is not None:
        trace.asserted.append(check)


def _weakness(node: Node, known: dict[Node, int]) -> int:
    if node.op is Op.CONST:
        return _CONSTANT
    if node.op is Op.LEAF:
        return _WEAK if isinstance(node.attribute, Placeholder) and node.attribute.weak else _STRONG
    if node.op is Op.ALIAS and isinstance(node.attribute, _Number):
        return _WEAK if node.attribute.weak else _STRONG
    if node.leaf is not None:  # it has been computed, and what is below it does not count
        return _STRONG
    if counted(node) is not None:
        return _WEAK
    if node.shape != () or node.op not in (Op.UNARY, Op.BINARY):
        return _STRONG
    states = [known[source] for source in node.sources]
    return _STRONG if _STRONG in states else max(states)


def counted(node: Node) -> Index | None:
    """The symbolic size that a node is as a number (`size_node`) of Python's kind: an integer, or in float64."""
    if node.op is Op.CAST and node.dtype is float64:
        node = node.sources[0]
    if node.op is not Op.REDUCE or node.shape != () or node.dtype is not int64:
        return None
    ones = node.sources[0]
    size = product_of(ones.shape)
    while ones.op in VIEWS:
        ones = ones.sources[0]
    return size if isinstance(size, Index) and ones.op is Op.CONST else None


class _Stack(threading.local):
    def __init__(self) -> None:
        self.traces: tuple[Trace, ...] = ()
        self.transforms = 0
        self.variables: frozenset[Node] = frozenset()
        self.effects: tuple[list[Node], ...] = ()  # of each function that is traced or batched, the innermost last
        self.scope = 0
        self.elements: tuple[Node, ...] = ()  # the numbers of the elements that stand for those of batches


_stack = _Stack()


@contextmanager
def _changed(**fields: Any) -> Iterator[None]:
    """Something else is on the stack inside the block."""
    before = {name: getattr(_stack, name) for name in fields}
    vars(_stack).update(fields)
    try:
        yield
    finally:
        vars(_stack).update(before)


def current_trace() -> Trace | None:
    """The innermost trace of this thread."""
    return _stack.traces[-1] if _stack.traces else None


def is_tracing() -> bool:
    return bool(_stack.traces)


def scope() -> int:
    """Which function is being traced, differentiated or batched: larger for one that has begun later; 0 for none."""
    return _stack.scope


def is_plain() -> bool:
    """Whether no function is being traced, differentiated or batched in this thread."""
    return not (_stack.traces or _stack.transforms)


def is_transforming() -> bool:
    """Whether a function that is being differentiated or batched runs: tensors keep their history then, whatever is
    computed.
    """
    return _stack.transforms > 0


def transform_depth() -> int:
    """How many such functions run, one inside of the other."""
    return _stack.transforms


def is_differentiated(node: Node) -> bool:
    """Whether a node depends, through floats, on what a function that runs now is differentiated by."""
    if not _stack.variables:
        return False

    def reads(one: Node) -> Sequence[Node]:
        # A loop or branch has several values, and the type of the first.
        passes = one.dtype.is_float or one.op in CONTROL
        return one.sources if passes and not (one.op is Op.ALIAS and isinstance(one.attribute, Stopped)) else ()

    return not _stack.variables.isdisjoint(topological([node], reads=reads))


def is_traced_input(leaf: Node) -> bool:
    """Whether a leaf may be another one at the next replay: an argument, or a tensor that the function reaches by
    itself.
    """
    trace = current_trace()
    return isinstance(leaf.attribute, Placeholder) or (trace is not None and id(leaf.attribute) in trace.hidden)


def is_traced(node: Node) -> bool:
    """Whether a function that runs now computes a node from stand-ins for its inputs: it has no value then."""
    if not is_tracing() and not is_transforming():
        return isinstance(node.attribute, Placeholder)  # one that a function has let out
    below = topological([node])
    return any(x.op is Op.PARAMETER or (x.op is Op.LEAF and is_traced_input(x)) for x in below)


def effects() -> list[Node] | None:
    """What the function that is being traced or batched does besides giving values; None outside of such."""
    return _stack.effects[-1] if _stack.effects else None


def effect(node: Node) -> None:
    """Have a node computed whenever the function that is traced runs, or now, if none is."""
    if node.op is Op.CONST:  # nothing to do
        return
    if _stack.effects:
        _stack.effects[-1].append(node)
        return
    from smelt.runtime.realize import realize

    realize([node])


def noting_effects(into: list[Node]) -> AbstractContextManager[None]:
    """Effects of what runs inside go to a list."""
    return _changed(effects=(*_stack.effects, into))


@contextmanager
def tracing() -> Iterator[Trace]:
    """Everything inside is recorded, not computed; so are its effects."""
    trace = Trace()
    with _changed(traces=(*_stack.traces, trace), scope=trace.serial), noting_effects(trace.effects):
        yield trace


def batching(element: Node) -> AbstractContextManager[None]:
    """What runs inside is done for each element of a batch; a node stands for the element's number."""
    return _changed(elements=(*_stack.elements, element))


def take_random(draws: int = 1) -> tuple[Node, int]:
    """A uint32[3] leaf (key, key, draw) and what to add to `draw`, for `draws` draws in a row. Each element of a batch
    has keys of its own.
    """
    state, first = _draw_random(current_trace(), draws)
    for element in _stack.elements:
        second = build.eq(build.iota(3, uint32), build.const(1, uint32, (3,)))
        step = build.mul(build.add(element, build.const(1, uint32)), build.const(GOLDEN, uint32))
        spread = build.expand(build.reshape(step, (1,)), (3,))
        # A product, too, so that elements of batches in batches differ from their neighbors diagonally.
        state = build.where(second, build.add(build.mul(state, build.const(_ODD, uint32, (3,))), spread), state)
    return state, first


def _draw_random(trace: Trace | None, draws: int) -> tuple[Node, int]:
    """The same inside a trace, or outside of all."""
    if trace is not None:
        return trace.take_random(draws)
    return host_leaf(current().random.advance(draws), uint32), 0


@contextmanager
def tracing_body(name: str, repeats: bool) -> Iterator[Trace]:
    """Everything inside is a body: `repeats` says that it runs more than once."""
    trace = Trace(name, current_trace(), repeats)
    with _changed(traces=(*_stack.traces, trace)), transforming(), noting_effects(trace.effects):
        yield trace


def transforming(variables: Iterable[Node] = (), *, watched: bool = False) -> AbstractContextManager[None]:
    """Tensors made inside keep their history; the function is differentiated by these variables. If it is no function,
    but somebody who watches, tensors from outside count as made inside.
    """
    scope = _stack.scope if watched else next_serial()
    return _changed(transforms=_stack.transforms + 1, variables=_stack.variables.union(variables), scope=scope)


def free_to_read() -> AbstractContextManager[None]:
    """What runs inside is not differentiated, since its derivative is given: it may take values elsewhere."""
    return _changed(variables=frozenset())
