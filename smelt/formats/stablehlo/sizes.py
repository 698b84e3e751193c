"""Sizes as values: what small tensors of integers hold, as far as shapes say it.

A program whose sizes are not known computes them: it asks for a size, does arithmetic, and reshapes to the result. So
beside the node of such a tensor its elements are kept as expressions: numbers where all sizes are known, else of the
dims that stand for them. What depends on the values of tensors is a variable that only cancels out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np

from smelt.dtypes import DType
from smelt.formats.mlir import Dense
from smelt.formats.stablehlo import types
from smelt.formats.stablehlo.rows import Call
from smelt.graph import Index, IndexLike, Node, Op, build, constant_value, index, nonnegative, size_of

Array = Any
Rule = Callable[[Call, list[Array]], "Array | None"]
Entry = Any  # an integer (also for a bool), an Index, a Condition, or None for a bool that is not known

_MOST = 64  # elements of a tensor that is followed
_ASKS: Final = "stablehlo.get_dimension_size"  # of a tensor of any kind
# A text without any of these computes no sizes. Plain words are found in no time, also in texts of a hundred megabytes.
_DYNAMIC: Final = (
    *("real_dynamic_slice", "dynamic_pad", "dynamic_gather", "dynamic_conv"),
    *("dynamic_reduce_window", "dynamic_top_k"),
)
_OPEN: Final = re.compile(r"tensor<[^>\"]*\?")


class Condition(NamedTuple):
    """What some sizes fulfil and others do not: `amount` is at least 0, is 0, or is not 0."""

    relation: str
    amount: Index

    def holds(self, sizes: dict[str, int]) -> bool:
        """Whether it is so for these values of the dims."""
        return _RELATIONS[self.relation](self.amount.evaluate(sizes))

    @classmethod
    def of(cls, relation: str, amount: Index) -> Condition:
        """One of equal conditions: about whether a number that is not negative is 0, if it can be."""
        if relation == ">=" and nonnegative(amount + 1):
            relation, amount = "!=", amount + 1
        elif relation == ">=" and nonnegative(-amount):
            relation, amount = "==", -amount
        elif relation != ">=" and nonnegative(-amount):
            amount = -amount
        if relation == ">=":
            return cls(relation, amount)
        if amount.constant == 1 and nonnegative(amount) and nonnegative(1 - amount):  # 1 - n, of an n that is 0 or 1
            relation, amount = _OPPOSITES[relation], 1 - amount
        return cls(relation, _uncapped(amount))

    def negated(self) -> Condition:
        if self.relation == ">=":
            return Condition.of(">=", -self.amount - 1)
        return Condition(_OPPOSITES[self.relation], self.amount)


_OPPOSITES: Final = {"==": "!=", "!=": "=="}
_RELATIONS: Final[dict[str, Callable[[int], bool]]] = {
    ">=": lambda amount: amount >= 0,
    "==": lambda amount: amount == 0,
    "!=": lambda amount: amount != 0,
}


def are_values(text: str) -> bool:
    """Whether a program computes with its sizes."""
    named = "dynamic_" in text and any(word in text for word in _DYNAMIC)
    return named or "shape_assertion" in text or ("?" in text and _OPEN.search(text) is not None)


class Entries:
    """What is known of the elements of tensors, by their nodes."""

    def __init__(self) -> None:
        self._known: dict[Node, Array] = {}
        self._opaque: set[index.Variable] = set()
        self._numbers = count()

    def __contains__(self, node: Node) -> bool:
        return node in self._known

    def note(self, node: Node, elements: Array) -> None:
        """Remember the elements of a tensor."""
        self._known[node] = elements

    def of(self, node: Node) -> Array | None:
        """The elements of a tensor; None if it is not one of few integers."""
        known = self._known.get(node)
        if known is None:
            known = self._found(node)
            if known is not None:
                self._known[node] = known
        return known

    def _found(self, node: Node) -> Array | None:
        if not (node.dtype.is_integer or node.dtype.is_bool) or not _is_small(node.shape):
            return None
        inner = node.sources[0] if node.op is Op.EXPAND else node
        elements = _empty(node.shape)
        if inner.op is Op.CONST:
            elements.fill(int(constant_value(inner)))
        elif node.dtype.is_integer:
            for at in np.ndindex(*elements.shape):
                elements[at] = self.unknown(node.dtype)
        return elements

    def unknown(self, dtype: DType) -> Index:
        """A number that only the values of tensors say."""
        found = index.Variable(f"value {next(self._numbers)}", dtype.minimum, dtype.maximum)  # type: ignore[arg-type]
        self._opaque.add(found)
        return index.of(found)

    def is_size(self, entry: Entry) -> bool:
        """Whether a number follows from shapes alone."""
        if isinstance(entry, Index):
            return not (entry.variables() & self._opaque)
        return isinstance(entry, int)


def _empty(shape: Any) -> Array:
    return np.empty(tuple(shape), object)


def _is_small(shape: Sequence[IndexLike]) -> bool:
    total = 1
    for size in shape:
        if not isinstance(size, int):
            return False
        total *= size
    return total <= _MOST


def followed(call: Call, node: Node) -> Node:
    """The result of an operation, with its elements noted if they are sizes; a scalar that is one becomes that size."""
    entries = call.reading.entries
    if not (node.dtype.is_integer or node.dtype.is_bool) or not _is_small(node.shape):
        return node
    asks = call.operation.name == _ASKS
    operands = [] if asks else [entries.of(x) if isinstance(x, Node) else None for x in call.operands]
    if any(elements is None for elements in operands):
        return node
    elements = RULES[call.operation.name](call, operands)
    if elements is None or elements.shape != node.shape:
        return node
    dtype = node.dtype
    for at in np.ndindex(*elements.shape):
        elements[at] = _kept(elements[at], dtype, entries)
    if node.shape == ():
        node = _as_size(elements[()], node, entries)
    entries.note(node, elements)
    return node


def _kept(entry: Entry, dtype: DType, entries: Entries) -> Entry:
    """An element as its type can hold it. Sizes are smaller than what any type of theirs ends at."""
    if dtype.is_bool:
        return entry
    entry = size_of(entry) if isinstance(entry, Index) else entry
    if entry is None or isinstance(entry, Condition):
        return entries.unknown(dtype)
    if isinstance(entry, int):
        low = int(dtype.minimum)
        return (entry - low) % (1 << dtype.bits) + low
    return entry


def _as_size(entry: Entry, node: Node, entries: Entries) -> Node:
    if not entries.is_size(entry):
        return node
    return build.const(bool(entry), node.dtype) if node.dtype.is_bool else build.size_node(entry, node.dtype)


# --- rules: the elements of a result by those of the operands


def _elementwise(function: Callable[..., Entry]) -> Rule:
    def rule(call: Call, operands: list[Array]) -> Array | None:
        shape = max((x.shape for x in operands), key=len)
        if any(x.shape not in (shape, ()) for x in operands):
            return None
        result = _empty(shape)
        for at in np.ndindex(*shape):
            result[at] = function(*(x[at] if x.shape else x[()] for x in operands))
        return result

    return rule


def _whole(function: Callable[..., Entry]) -> Callable[..., Entry]:
    """A function of integers, which knows nothing of conditions."""

    def careful(*entries: Entry) -> Entry:
        if any(entry is None or isinstance(entry, Condition) for entry in entries):
            return None
        return function(*entries)

    return careful


def _quotient(a: IndexLike, b: IndexLike) -> Entry:
    """Rounded toward zero."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            return -1
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if index.least(b) <= 0:
        return None
    if nonnegative(index.as_index(a)):
        return _upright(index.as_index(a // b))
    return -(-a // b) if nonnegative(-index.as_index(a)) else None


def _upright(quotient: Index) -> Index:
    """Without parts such as (1 - n) // 2, which is -(n // 2): proofs are good at what is positive."""
    for atom in quotient.atoms():
        if isinstance(atom, index.Quotient) and nonnegative(-atom.a):
            factor = quotient.coefficient(atom)
            quotient = quotient - factor * index.of(atom) - factor * ((-atom.a + atom.b - 1) // atom.b)
    return quotient


def _remainder(a: IndexLike, b: IndexLike) -> Entry:
    """With the sign of a."""
    if isinstance(b, int) and b == 0:
        return a
    quotient = _quotient(a, b)
    if quotient is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return a - quotient * b
    return a % b if nonnegative(index.as_index(a)) else -(-a % b)


def _sign(a: IndexLike) -> Entry:
    return index.minimum(index.maximum(a, -1), 1)


def _clamp(low: IndexLike, x: IndexLike, high: IndexLike) -> Entry:
    return index.minimum(index.maximum(x, low), high)


def _not_less(a: IndexLike, b: IndexLike) -> Entry:
    amount = index.as_index(a - b)
    if nonnegative(amount):
        return 1
    return 0 if nonnegative(-amount - 1) else Condition.of(">=", amount)


def _equal(a: IndexLike, b: IndexLike) -> Entry:
    amount = index.as_index(a - b)
    if amount.value == 0:
        return 1
    if nonnegative(amount - 1) or nonnegative(-amount - 1):
        return 0
    return Condition.of("==", amount)


def _uncapped(amount: Index) -> Index:
    """min(n, 1) is 0 where n is: how signs are compared."""
    atom = _only_atom(amount)
    if isinstance(atom, index.Minimum) and nonnegative(amount):
        parts = [side for side in (atom.a, atom.b) if side.value is None]
        return parts[0] if len(parts) == 1 else amount
    return amount


def _only_atom(amount: Index) -> index.Atom | None:
    """The atom that an expression is, once."""
    if amount.constant or len(amount.terms) != 1:
        return None
    [(product, coefficient)] = amount.terms.items()
    return product[0] if coefficient == 1 and len(product) == 1 else None


def _not(entry: Entry) -> Entry:
    if isinstance(entry, Condition):
        return entry.negated()
    return None if entry is None else 1 - entry


def _both(a: Entry, b: Entry) -> Entry:
    if 0 in (a, b):
        return 0
    if b in (1, a):
        return a
    if a == 1:
        return b
    pair = {x.relation: x.amount for x in (a, b) if isinstance(x, Condition)}
    # What is 0 leaves no remainder: this is how a division that rounds down is written.
    if set(pair) == {"==", "!="} and _is_remainder(pair["!="], pair["=="]):
        return 0
    return None


def _is_remainder(amount: Index, of: Index) -> bool:
    """Whether a number is made of remainders of another one, or of what differs from it by whole divisors."""
    atoms = amount.atoms()
    remainders = (isinstance(atom, index.Remainder) and (atom.a - of) % atom.b == 0 for atom in atoms)
    return all(remainders) and amount.constant == 0


def _either(a: Entry, b: Entry) -> Entry:
    return _not(_both(_not(a), _not(b)))


_COMPARISONS: Final[dict[str, Callable[[Entry, Entry], Entry]]] = {
    "GE": _not_less,
    "LE": lambda a, b: _not_less(b, a),
    "GT": lambda a, b: _not(_not_less(b, a)),
    "LT": lambda a, b: _not(_not_less(a, b)),
    "EQ": _equal,
    "NE": lambda a, b: _not(_equal(a, b)),
}


def _differ(a: Entry, b: Entry) -> Entry:
    """Of bools."""
    if a in (0, 1):
        return _not(b) if a else b
    return (_not(a) if b else a) if b in (0, 1) else None


def _compare(call: Call, operands: list[Array]) -> Array | None:
    direction = call.word("comparison_direction")
    if call.operands[0].dtype.is_bool:
        both = {"NE": _differ, "EQ": lambda a, b: _not(_differ(a, b))}.get(direction)
    else:
        both = _whole(_COMPARISONS[direction]) if direction in _COMPARISONS else None
    return None if both is None else _elementwise(both)(call, operands)


def _select(chosen: Entry, yes: Entry, no: Entry) -> Entry:
    if isinstance(chosen, int):
        return yes if chosen else no
    if yes is None or no is None or isinstance(yes, Condition) or isinstance(no, Condition):
        return None
    return yes if yes == no else _rounded_down(chosen, index.as_index(yes), index.as_index(no))


def _rounded_down(chosen: Entry, yes: Index, no: Index) -> Entry:
    """`n % m != 0 ? q - 1 : q` for q = -(n // m) is the quotient of -n that is rounded down, and so for remainders: how
    the two are written where division rounds toward zero.
    """
    atom = _only_atom(chosen.amount) if isinstance(chosen, Condition) else None
    if not isinstance(atom, index.Remainder) or chosen.relation != "!=":
        return None
    n, m = atom.a, atom.b
    above = (n + m - 1) // m  # how often m goes into n, rounded up: what proofs of sizes are good at
    if no == -(n // m) and yes == no - 1:
        return -above
    if no != -(n % m) or yes != no + m:
        return None
    return m - n if nonnegative(n - 1) and nonnegative(m - n) else above * m - n


def _on_bools(function: Callable[..., Entry]) -> Rule:
    """What is known of bools only: integers have bits."""
    rule = _elementwise(function)
    return lambda call, operands: rule(call, operands) if call.operands[0].dtype.is_bool else None


def _constant(call: Call, operands: list[Array]) -> Array | None:
    value = call.attribute("value")
    if not isinstance(value, Dense) or not value.data:
        return None
    array = types.array(value)
    result = _empty(value.type.sizes)
    for at in np.ndindex(*result.shape):
        result[at] = int(array[at] if array.shape else array[()])
    return result


def _dimension_size(call: Call, operands: list[Array]) -> Array | None:
    return _filled((), call.operands[0].shape[call.integer("dimension")])


def _filled(shape: Sequence[int], entry: Entry) -> Array:
    result = _empty(shape)
    result.fill(entry)
    return result


def _convert(call: Call, operands: list[Array]) -> Array | None:
    if call.dtype.is_bool and not call.operands[0].dtype.is_bool:
        return None
    return _elementwise(lambda entry: entry)(call, operands)


def _reshape(call: Call, operands: list[Array]) -> Array | None:
    return operands[0].reshape(call.shape)


def _broadcast(call: Call, operands: list[Array]) -> Array | None:
    axes, shape = call.integers("broadcast_dimensions"), call.shape
    sizes = [1] * len(shape)
    for axis, size in zip(axes, operands[0].shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(operands[0].reshape(sizes), shape).copy()  # type: ignore[arg-type]


def _concatenate(call: Call, operands: list[Array]) -> Array | None:
    return np.concatenate(operands, call.integer("dimension"))


def _slice(call: Call, operands: list[Array]) -> Array | None:
    starts, limits = call.integers("start_indices"), call.integers("limit_indices")
    steps = call.integers("strides", [1] * len(starts))
    return operands[0][tuple(map(slice, starts, limits, steps))].copy()


def _iota(call: Call, operands: list[Array]) -> Array | None:
    if len(call.shape) != 1:
        return None
    row = _empty(call.shape)
    row[:] = range(len(row))
    return row


def _plus(a: Entry, b: Entry) -> Entry:
    return a + b


def _times(a: Entry, b: Entry) -> Entry:
    return a * b


def _minus(a: Entry, b: Entry) -> Entry:
    return a - b


def _magnitude(a: Entry) -> Entry:
    return index.maximum(a, -index.as_index(a))


_INTEGERS: Final[dict[str, Callable[..., Entry]]] = {
    "add": _plus,
    "subtract": _minus,
    "multiply": _times,
    "divide": _quotient,
    "remainder": _remainder,
    "minimum": index.minimum,
    "maximum": index.maximum,
    "negate": lambda a: -a,
    "abs": _magnitude,
    "sign": _sign,
    "clamp": _clamp,
}
_LOGIC: Final[dict[str, Callable[..., Entry]]] = {"and": _both, "or": _either, "not": _not}
RULES: Final[dict[str, Rule]] = {
    f"stablehlo.{name}": rule
    for name, rule in {
        **{name: _elementwise(_whole(function)) for name, function in _INTEGERS.items()},
        **{name: _on_bools(function) for name, function in _LOGIC.items()},
        "compare": _compare,
        "select": _elementwise(_select),
        "constant": _constant,
        "get_dimension_size": _dimension_size,
        "convert": _convert,
        "reshape": _reshape,
        "broadcast_in_dim": _broadcast,
        "concatenate": _concatenate,
        "slice": _slice,
        "iota": _iota,
    }.items()
}


def filled(message: str, numbers: Sequence[Entry]) -> str:
    """A message with its numbers in their places: `{0}`."""
    for k, number in enumerate(numbers):
        if isinstance(number, int | Index):
            message = message.replace(f"{{{k}}}", str(number))
    return message
