"""Random bits: THREE_FRY and PHILOX with the counters that XLA gives them, bit for bit; and `rng`, which has no state.

A state is a key of 64 bits, and behind it a counter. Element by element, both generators are functions of the key and
of the counter plus a number; only how many elements share a number, and in which order, differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from smelt.dtypes import DType, uint32, uint64
from smelt.formats.stablehlo.elementwise import SIGNED, UNSIGNED
from smelt.formats.stablehlo.rows import Call, Row, Value, rows
from smelt.graph import Node, Shape, build, draws, product_of, upper
from smelt.tensor import random, wrap

if TYPE_CHECKING:
    from smelt.tensor import Tensor

_ROUNDS = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)  # by which the key grows with every round


def _word(state: Node, k: int) -> Node:
    """One of the words of a state."""
    return build.reshape(build.slice_(state, [(k, 1, 1)]), ())


def _halves(x: Node) -> tuple[Node, Node]:
    """The low and the high 32 bits."""
    high = build.binary("shr", x, build.const(32, uint64, x.shape))
    return build.cast(x, uint32), build.cast(high, uint32)


def _whole(low: Node, high: Node) -> Node:
    """64 bits of twice 32."""
    high = build.binary("shl", build.cast(high, uint64), build.const(32, uint64, high.shape))
    return build.binary("or", build.cast(low, uint64), high)


def _counted(start: Node, count: int) -> Node:
    """`count` numbers from a start on."""
    return build.add(build.iota(count, uint64), build.broadcast_to(start, (count,)))


def _typed(bits: Node, dtype: DType, shape: Shape) -> Node:
    """Bits in the type that is asked for: of a narrow one, the low bits."""
    narrow = build.cast(bits, UNSIGNED[dtype.bits])
    return build.reshape(narrow if narrow.dtype is dtype else build.bitcast(narrow, dtype), shape)


# --- THREE_FRY: two words for each number


def _three_fry(state: Node, dtype: DType, shape: Shape) -> tuple[Node, Node]:
    """Bits, and the counter behind them."""
    key = build.concat([build.reshape(half, (1,)) for half in _halves(_word(state, 0))], 0)
    sizes = [upper(size) for size in shape]
    axis = _halved_axis(sizes) if dtype.bits < 64 else None
    half = [-(-size // 2) if k == axis else size for k, size in enumerate(sizes)]
    count = upper(product_of(half))
    first, second = draws.words(key, *_halves(_counted(_word(state, 1), count)))
    counter = build.add(_word(state, 1), build.const(count, uint64))
    if dtype.bits == 64:
        return _typed(_whole(first, second), dtype, shape), counter
    if axis is None:
        return _typed(first, dtype, shape), counter
    # Both words of a number lie beside each other on the axis that is halved.
    pairs = (*half[: axis + 1], 1, *half[axis + 1 :])
    bits = build.concat([build.reshape(word, pairs) for word in (first, second)], axis + 1)
    bits = build.reshape(bits, (*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    return _typed(build.slice_(bits, [(0, size, 1) for size in sizes]), dtype, shape), counter


def _halved_axis(sizes: list[int]) -> int | None:
    """The first of an even size, or else of the largest size."""
    even = [k for k, size in enumerate(sizes) if size % 2 == 0]
    return even[0] if even else max(range(len(sizes)), key=lambda k: sizes[k], default=None)


# --- PHILOX: four words for each number of 128 bits


def _philox(state: Node, dtype: DType, shape: Shape) -> tuple[Node, Node]:
    """Bits, and the state behind them. A state of two words has the key as the high half of its counter."""
    total = upper(product_of(shape))
    count = -(-total // (2 if dtype.bits == 64 else 4))
    low, high = _word(state, 1), _word(state, 2 if upper(state.shape[0]) > 2 else 0)
    numbers = _counted(low, count)
    words = _mixed(
        (*_halves(numbers), *_halves(_carried(numbers, low, high))),
        _halves(build.broadcast_to(_word(state, 0), (count,))),
    )
    if dtype.bits == 64:
        words = (_whole(*words[:2]), _whole(*words[2:]))
    laid = build.concat([build.reshape(word, (count, 1)) for word in words], 1)
    flat = build.reshape(laid, (count * len(words),))
    after = build.add(low, build.const(count, uint64))
    counter = [after, _carried(after, low, high)][: upper(state.shape[0]) - 1]
    kept = build.concat([build.reshape(word, (1,)) for word in counter], 0)
    return _typed(build.slice_(flat, [(0, total, 1)]), dtype, shape), kept


def _carried(total: Node, low: Node, high: Node) -> Node:
    """The high half of a sum whose low half is known."""
    low, high = build.broadcast_to(low, total.shape), build.broadcast_to(high, total.shape)
    return build.where(build.lt(total, low), build.shift(high, 1), high)


def _mixed(x: tuple[Node, ...], key: tuple[Node, ...]) -> tuple[Node, ...]:
    """Ten rounds of products, whose halves change places."""
    for turn in range(_ROUNDS):
        (low0, high0), (low1, high1) = (
            _halves(build.scale(build.cast(word, uint64), factor))
            for word, factor in zip(x[0::2], _MULTIPLIERS, strict=True)
        )
        now = [build.shift(word, step * turn % 2**32) for word, step in zip(key, _STEPS, strict=True)]
        mixed = [
            build.binary("xor", build.binary("xor", high, word), part)
            for high, word, part in zip((high1, high0), x[1::2], now, strict=True)
        ]
        x = (mixed[0], low1, mixed[1], low0)
    return x


# --- operations


def _bits(call: Call) -> list[Value]:
    (state,) = call.operands
    algorithm, (dtype, shape) = call.word("rng_algorithm", "DEFAULT"), call.type(1)
    if not all(isinstance(size, int) for size in shape):
        call.refuse("random bits whose number is not known")
    if state.dtype is not uint64 or state.shape not in ((2,), (3,)):
        call.refuse(f"a state of {state.dtype}{list(state.shape)}")
    if dtype.bits not in SIGNED or dtype.is_bool or dtype.is_complex:
        call.refuse(f"random bits of {dtype}")
    if algorithm == "THREE_FRY" and state.shape == (2,):
        bits, counter = _three_fry(state, dtype, shape)
    elif algorithm in ("PHILOX", "DEFAULT"):
        bits, counter = _philox(state, dtype, shape)
    else:
        call.refuse(f"the algorithm {algorithm} with a state of {state.shape[0]} words")
    key = build.slice_(state, [(0, 1, 1)])
    rest = upper(state.shape[0]) - 1
    return [build.concat([key, build.reshape(counter, (rest,))], 0), bits]


def _rng(call: Call) -> Node:
    """Numbers of smelt's own generator, anew in every call of the program. A loop draws the same in every turn."""
    a, b = call.operands[:2]
    dtype, shape = call.type()
    if a.shape or b.shape or not (a.dtype is b.dtype is dtype):
        call.wrong("its parameters are scalars of the result's type")
    key = wrap(call.reading.random_key())
    first, second = wrap(a), wrap(b)
    found: Tensor
    if call.word("rng_distribution") == "NORMAL" and dtype.is_float:
        found = random.normal(shape, dtype=dtype, key=key) * second + first
    elif call.word("rng_distribution") == "UNIFORM" and dtype.is_float:
        found = random.uniform(shape, dtype=dtype, key=key) * (second - first) + first
    elif call.word("rng_distribution") == "UNIFORM" and dtype.is_integer:
        found = random.randint(first, second, shape, dtype=dtype, key=key)
    else:
        call.refuse(f"numbers of {dtype} by {call.word('rng_distribution') or 'no distribution'}")
    return found._node


ROWS: Final = rows(
    {
        "rng_bit_generator": Row(_bits, ("rng_algorithm",), 1, "XLA's bits; DEFAULT is PHILOX"),
        "rng": Row(_rng, ("rng_distribution",), 3, "smelt's own numbers, anew in every call"),
    }
)
