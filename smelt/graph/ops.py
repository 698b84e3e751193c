"""The op set, and the elementwise functions that UNARY and BINARY nodes name."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import elementwise_rules as rules
from smelt.graph.index import IndexLike

if TYPE_CHECKING:
    from smelt.graph.node import Node


class Op(enum.Enum):
    """What a node does. Every pass has one table indexed by these."""

    CONST = "const"  # attribute: the bytes of one element
    LEAF = "leaf"  # attribute: the storage, compared by identity
    IOTA = "iota"  # 0, 1, 2, … of shape (n,)
    RESHAPE = "reshape"
    PERMUTE = "permute"  # attribute: the source axis of each axis
    EXPAND = "expand"  # same rank; axes of size 1 grow
    PAD = "pad"  # sources: x and a scalar fill; attribute: (before, after) per axis
    SLICE = "slice"  # attribute: Span per axis
    CONCAT = "concat"  # attribute: axis
    WINDOW = "window"  # attribute: Window
    UNARY = "unary"  # attribute: name of a function in UNARY
    BINARY = "binary"  # attribute: name of a function in BINARY
    WHERE = "where"
    CAST = "cast"
    BITCAST = "bitcast"
    REDUCE = "reduce"  # attribute: Reduction
    SCAN = "scan"  # attribute: Scanning
    CONTRACT = "contract"  # attribute: Contraction
    GATHER = "gather"  # sources: x and index tensors; attribute: Gathering
    SCATTER = "scatter"  # sources: the target, the updates and index tensors; attribute: Scattering
    SORT = "sort"  # attribute: Sorting
    NONZERO = "nonzero"  # positions of the true elements of a vector, in order, then its size
    COMPOSITE = "composite"  # attribute: Composition
    COMPLEX = "complex"  # a real and an imaginary part; what is above it reads these: no graph that runs has one
    ALIAS = "alias"  # its first source, told apart from it; attribute: an object that says how it is differentiated
    PARAMETER = "parameter"  # an input of a closed body; attribute: its number
    LOOP = "loop"  # several values; sources: states, constants, xs; attribute: Loop
    BRANCH = "branch"  # several values; sources: a predicate, then operands; attribute: Branch
    HOST = "host"  # several values, which Python computes while the program runs; attribute: Hosted
    ITEM = "item"  # one value of a LOOP, BRANCH or HOST; attribute: its number

    # Enum's own hash is a Python function; nodes are hashed all the time.
    __hash__ = object.__hash__


SOURCES: Final = frozenset({Op.LEAF, Op.CONST, Op.IOTA, Op.PARAMETER})  # what a graph begins with
CONTROL: Final = frozenset({Op.LOOP, Op.BRANCH, Op.HOST})  # nodes with several values, most of them with bodies
# What a complex number's parts go through one by one.
BY_PARTS: Final = frozenset(
    {Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SLICE, Op.CONCAT, Op.WINDOW, Op.WHERE, Op.GATHER, Op.ALIAS}
    | {Op.REDUCE, Op.SCAN, Op.SCATTER}  # by addition, or by setting
)
VIEWS: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.WINDOW})
ELEMENTWISE: Final = frozenset({Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST})


class Span(NamedTuple):
    """Element i of a sliced axis is element start + step*i of the source axis."""

    start: IndexLike
    size: IndexLike
    step: int


class Window(NamedTuple):
    """Windows along an axis: element i of it, k of the new last axis, is element i*step + k*dilation of the source."""

    axis: int
    size: int
    step: int
    dilation: int


class Reduction(NamedTuple):
    """op: add, mul, max or min; the axes (sorted) disappear from the shape."""

    op: str
    axes: tuple[int, ...]


class Scanning(NamedTuple):
    """op: one of SCANS; element i along the axis becomes the elements up to and with i, combined from the first on."""

    op: str
    axis: int


class Gathering(NamedTuple):
    """Where each axis of the source is read: k >= 0 is axis k of the result, -1 - k the element of index tensor k.

    Index tensors have the shape of the result. What lies outside its axis reads the nearest element; `checked` says
    that this is a mistake to report, otherwise it cannot happen or does not matter.
    """

    axes: tuple[int, ...]
    checked: bool = False


class Scattering(NamedTuple):
    """Where each update goes: for each axis of the target, k >= 0 is axis k of the updates, -1 - k index tensor k.

    op: one of SCATTERS. Index tensors have the shape of the updates. Updates outside the target are dropped;
    `checked` says that this is a mistake to report. Updates of one element are applied in row-major order.
    """

    op: str
    axes: tuple[int, ...]
    checked: bool = False


class Sorting(NamedTuple):
    """The first elements along an axis in ascending or descending order, or (`indices`) where they stood, as int64.

    Stable; NaN counts as greater than everything, -0.0 equals 0.0. The result's axis says how many are wanted.
    """

    axis: int
    descending: bool
    indices: bool


class Contraction(NamedTuple):
    """A product of two tensors summed over the labels that are not kept, as in einsum: one label per axis."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]


class Composition(NamedTuple):
    """A named function with its static parameters, sorted by name."""

    name: str
    parameters: tuple[tuple[str, object], ...]


class Loop(NamedTuple):
    """A body run over and over, on a state that it makes anew each time.

    Sources: the first states, then constants, then xs, which are cut along their first axis. The body's parameters are
    the states, the constants, one slice of each x, and last the number of the iteration, an int64 scalar. Its roots are
    the next states, then one slice of each y. The values of the node are the last states, then the ys, stacked along a
    new first axis.
    """

    body: tuple[Node, ...]
    test: tuple[Node, ...] | None  # one bool scalar over states and constants, asked before every iteration
    states: int
    constants: int
    xs: int
    length: IndexLike | None  # how many iterations; None: as long as the test says so
    reverse: bool = False  # slices are taken, and ys written, from the last to the first


class Branch(NamedTuple):
    """One of two bodies over the operands, which all are their parameters; the roots have the same types."""

    true: tuple[Node, ...]
    false: tuple[Node, ...]


class Hosted(NamedTuple):
    """A call of Python's: `function(arrays, shapes)` takes the sources and gives arrays of these types."""

    function: Callable[[Sequence[Any], Sequence[tuple[int, ...]]], list[Any]]
    types: tuple[tuple[DType, tuple[IndexLike, ...]], ...]


class Named(NamedTuple):
    """What a call of Python's is found again by in another process: the attribute `named` of its function, where that
    has one. Complex sources and values come in two parts.
    """

    name: str
    options: tuple[tuple[str, int], ...]
    sources: tuple[bool, ...]  # which are complex
    values: tuple[bool, ...]


def host_name(function: Any) -> str:
    """What a call of Python's is called where it is shown: what is wrapped counts."""
    named: Named | None = getattr(function, "named", None)
    if named is not None:
        return named.name
    while getattr(function, "function", None) is not None:
        function = function.function
    return str(getattr(function, "__name__", "") or getattr(function, "name", "") or type(function).__name__)


class Function(NamedTuple):
    """Which kinds an elementwise function takes, and what it gives.

    The rule computes it on NumPy arrays: floats arrive wide (float64) and bools and integers as they are; the caller
    rounds the result to the dtype of the node and silences floating-point warnings.
    """

    kinds: str  # letters out of b (bool), i (integer), f (float)
    rule: Callable[..., Any]
    boolean: bool = False  # the result is bool
    only: DType | None = None  # the one dtype that it takes

    def takes(self, dtype: DType) -> bool:
        """Whether it is a function of this dtype."""
        return kind_letter(dtype) in self.kinds and self.only in (None, dtype)


UNARY: Final[dict[str, Function]] = {
    "neg": Function("if", np.negative),
    "abs": Function("if", np.abs),
    "sign": Function("if", np.sign),
    "not": Function("bi", np.invert),  # bitwise; logical for bool
    "exp": Function("f", np.exp),
    "exp2": Function("f", np.exp2),
    "expm1": Function("f", np.expm1),
    "log": Function("f", np.log),
    "log2": Function("f", np.log2),
    "log10": Function("f", np.log10),
    "log1p": Function("f", np.log1p),
    "sqrt": Function("f", np.sqrt),
    "rsqrt": Function("f", lambda x: 1.0 / np.sqrt(x)),
    "cbrt": Function("f", np.cbrt),
    "reciprocal": Function("f", lambda x: 1.0 / x),
    "sin": Function("f", np.sin),
    "cos": Function("f", np.cos),
    "tan": Function("f", np.tan),
    "asin": Function("f", np.arcsin),
    "acos": Function("f", np.arccos),
    "atan": Function("f", np.arctan),
    "sinh": Function("f", np.sinh),
    "cosh": Function("f", np.cosh),
    "tanh": Function("f", np.tanh),
    "asinh": Function("f", np.arcsinh),
    "acosh": Function("f", np.arccosh),
    "atanh": Function("f", np.arctanh),
    "erf": Function("f", rules.erf),
    "erfc": Function("f", rules.erfc),
    "erfinv": Function("f", rules.erfinv),
    "lgamma": Function("f", rules.lgamma),  # log of the absolute value of the gamma function
    "digamma": Function("f", rules.digamma),
    "floor": Function("f", np.floor),
    "ceil": Function("f", np.ceil),
    "trunc": Function("f", np.trunc),
    "round": Function("f", np.rint),  # half to even
    "isnan": Function("f", np.isnan, boolean=True),
}

BINARY: Final[dict[str, Function]] = {
    "add": Function("if", np.add),
    "sub": Function("if", np.subtract),
    "mul": Function("if", np.multiply),
    "div": Function("f", np.divide),
    "floordiv": Function("if", rules.floor_divide),  # rounds down; integers: x // 0 = 0
    "mod": Function("if", np.remainder),  # sign of the divisor; integers: x % 0 = 0
    "pow": Function("if", rules.power),
    "atan2": Function("f", np.arctan2),  # the angle of the point (second, first)
    "hypot": Function("f", np.hypot),
    "copysign": Function("f", np.copysign),
    "max": Function("bif", rules.maximum),  # NaN wins
    "min": Function("bif", rules.minimum),
    "and": Function("bi", np.bitwise_and),
    "or": Function("bi", np.bitwise_or),
    "xor": Function("bi", np.bitwise_xor),
    "shl": Function("i", rules.shifted(np.left_shift)),  # beyond the width: 0
    "shr": Function("i", rules.shifted(np.right_shift)),  # arithmetic for signed; beyond the width: 0
    "shr_bytes": Function("i", rules.shifted_bytes, only=dtypes.int32),  # each of the four bytes of a word, unsigned
    # Of the four bytes of two words: unsigned by signed, and signed by signed.
    "dot4": Function("i", partial(rules.dot, first=np.uint8, second=np.int8, wide=np.int32), only=dtypes.int32),
    "dot4_ss": Function("i", partial(rules.dot, first=np.int8, second=np.int8, wide=np.int32), only=dtypes.int32),
    "eq": Function("bif", np.equal, boolean=True),
    "ne": Function("bif", np.not_equal, boolean=True),
    "lt": Function("bif", np.less, boolean=True),
    "le": Function("bif", np.less_equal, boolean=True),
}

REDUCTIONS: Final = ("add", "mul", "max", "min")
SCANS: Final = (*REDUCTIONS, "logaddexp")  # logaddexp: log(exp(a) + exp(b)), floats only
FOLDS: Final = dict(zip(SCANS, (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp), strict=True))
SCATTERS: Final = ("set", *REDUCTIONS)


def kind_letter(dtype: DType) -> str:
    """The letter of a dtype's kind in `Function.kinds`."""
    return "b" if dtype.is_bool else "i" if dtype.is_integer else "c" if dtype.is_complex else "f"


def identity(op: str, dtype: DType) -> dtypes.Scalar:
    """What a reduction of nothing gives."""
    if op in ("add", "mul"):
        return float(op == "mul") if dtype.is_float else int(op == "mul")
    if dtype.is_float:
        return float("inf") if op == "min" else float("-inf")
    return dtype.minimum if op == "max" else dtype.maximum


def scan_start(op: str, dtype: DType) -> dtypes.Scalar:
    """What a scan may begin with: combined with any first element it gives just that, -0.0 included."""
    return -0.0 if op == "add" and dtype.is_float else identity(op, dtype)
