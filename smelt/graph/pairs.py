"""Complex numbers: pairs of real nodes, all the way from the builders down.

A complex node is a COMPLEX of its real and its imaginary part. Builders that are given one make the nodes of the parts
and put a COMPLEX above them, so no other operation is ever complex: derivatives, rules and kernels see pairs of floats.

Formulas are those of C's annex G and of Kahan, "Branch cuts for complex elementary functions": cuts lie where NumPy has
them, and the sign of a zero says on which side of a cut a number is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType, Scalar, bool_, complex_dtype
from smelt.errors import DTypeError, InternalError, ShapeError
from smelt.graph import build as e
from smelt.graph.build import add, div, eq, lt, mul, neg, sub, unary, where
from smelt.graph.node import Node, Shape, made, make
from smelt.graph.ops import BY_PARTS, Contraction, Op, Span

Parts = tuple[Node, Node]


def paired(real: Node, imaginary: Node) -> Node:
    """The complex node of two floats of one dtype, which broadcast."""
    if not (real.dtype.is_float and real.dtype is imaginary.dtype):
        raise DTypeError(
            f"complex: the parts are {real.dtype} and {imaginary.dtype}",
            rule="both must be float32, or float64.",
            hint="Cast them first, for example with x.astype(sm.float32).",
        )
    if complex_dtype(real.dtype).part is not real.dtype:
        raise DTypeError(f"complex: there are no pairs of {real.dtype}", hint="Cast the parts to float32 first.")
    if real.shape != imaginary.shape:
        shape = e.broadcast_shapes(real.shape, imaginary.shape, "complex")
        real, imaginary = e.spread(real, shape), e.spread(imaginary, shape)
    return make(Op.COMPLEX, complex_dtype(real.dtype), real.shape, (real, imaginary))


def constant(value: Scalar | complex, dtype: DType, shape: Shape) -> Node:
    """A number, expanded to `shape`."""
    number = complex(value)
    return paired(*(e.const(part, dtype.part, shape) for part in (number.real, number.imag)))


def parts(x: Node) -> Parts:
    """The real and the imaginary part of a node, which is 0 for what is not complex."""
    if not x.dtype.is_complex:
        return x, e.const(0, x.dtype, x.shape)
    if x.op is not Op.COMPLEX:
        raise InternalError(f"{x!r} is complex, and no pair")
    return x.sources[0], x.sources[1]


def through_parts(nodes: Sequence[Node], function: Callable[[list[Node]], list[Node]]) -> list[Node]:
    """What a function of real nodes gives for all parts of some nodes, in pairs again."""
    return in_pairs([node.dtype for node in nodes], function(all_parts(nodes)))


def all_parts(nodes: Iterable[Node]) -> list[Node]:
    """Real nodes: both parts of each complex one, and the others as they are."""
    return [part for node in nodes for part in (node.sources if node.op is Op.COMPLEX else (node,))]


def in_pairs(kinds: Iterable[DType], found: Iterable[Node]) -> list[Node]:
    """Nodes of these dtypes of what `all_parts` gives of such."""
    each = iter(found)
    return [paired(next(each), next(each)) if kind.is_complex else next(each) for kind in kinds]


def joined(real: NDArray[Any], imaginary: NDArray[Any]) -> NDArray[Any]:
    """A complex array of its parts, part beside part as others keep them."""
    whole = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    whole.real, whole.imag = real, imaginary
    return whole


def by_parts(op: Op, shape: Shape, sources: Sequence[Node], attribute: Any) -> Node:
    """An operation on complex nodes that is the same on each part."""
    if op not in BY_PARTS:
        raise DTypeError(f"{op.value}: complex numbers are not supported", hint="Use sm.real(x) and sm.imag(x).")
    kind = next(x.dtype for x in sources if x.dtype.is_complex).part
    found = [
        made(op, kind, shape, tuple([parts(x)[k] if x.dtype.is_complex else x for x in sources]), attribute)
        for k in (0, 1)
    ]
    return paired(*found)


def cast(x: Node, dtype: DType) -> Node:
    """To complex from anything, and from complex to bool: whether either part is not 0."""
    real, imaginary = parts(x)
    if dtype.is_complex:
        if not x.dtype.is_complex:
            real = e.cast(real, dtype.part)
            return paired(real, e.const(0.0, dtype.part, real.shape))
        return paired(e.cast(real, dtype.part), e.cast(imaginary, dtype.part))
    if dtype.is_bool:
        return e.binary("or", e.cast(real, bool_), e.cast(imaginary, bool_))
    raise DTypeError(
        f"cast: {x.dtype} cannot become {dtype}",
        rule="a complex number has two parts.",
        hint="Take one of them first: sm.real(x), sm.imag(x), or the size abs(x).",
    )


def contract(a: Node, b: Node, dtype: DType, labels: Contraction, name: str) -> Node:
    """The product of complex factors, summed: four of real ones."""

    def product(i: int, j: int) -> Node:
        return e.contract(parts(a)[i], parts(b)[j], *labels, dtype.part, name=name)

    return paired(sub(product(0, 0), product(1, 1)), add(product(0, 1), product(1, 0)))


def _cut(x: Node, axis: int, start: int, count: int) -> Node:
    return e.slice_(x, [Span(start, count, 1) if k == axis else Span(0, n, 1) for k, n in enumerate(x.shape)])


def _ones(x: Node, axis: int, count: int) -> Node:
    return e.const(1, x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _fixed_size(x: Node, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"prod: axis {axis} of complex numbers has the symbolic size {size}")
    return size


def product(x: Node, axes: Sequence[int], keep_axes: bool) -> Node:
    """The product along axes: of one half and the other, again and again."""
    for axis in axes:
        while (size := _fixed_size(x, axis)) > 1:
            half = size // 2
            folded = mul(_cut(x, axis, 0, half), _cut(x, axis, half, half))
            x = e.concat([folded, _cut(x, axis, 2 * half, 1)], axis) if size % 2 else folded
        x = x if size else _ones(x, axis, 1)
    return x if keep_axes else e.reshape(x, [size for axis, size in enumerate(x.shape) if axis not in axes])


def running_product(x: Node, axis: int) -> Node:
    """The product of each element and all before it: of the last 1, 2, 4, … of them."""
    size, reach = _fixed_size(x, axis), 1
    while reach < size:
        before = e.concat([_ones(x, axis, reach), _cut(x, axis, 0, size - reach)], axis)
        x, reach = mul(x, before), 2 * reach
    return x


def conj(x: Node) -> Node:
    """The other sign of the imaginary part."""
    real, imaginary = parts(x)
    return paired(real, neg(imaginary)) if x.dtype.is_complex else x


def angle(x: Node) -> Node:
    """The angle with the positive real axis, from -pi to pi."""
    real, imaginary = parts(x)
    return e.binary("atan2", imaginary, real)


# --- parts of formulas


def _number(value: float, like: Node) -> Node:
    return e.const(value, like.dtype, like.shape)


def _size(x: Node) -> Node:
    return unary("abs", x)


def _both(a: Node, b: Node) -> Node:
    return e.binary("and", a, b)


def _either(a: Node, b: Node) -> Node:
    return e.binary("or", a, b)


def _is_zero(x: Node) -> Node:
    return eq(x, _number(0.0, x))


def _is_infinite(x: Node) -> Node:
    return eq(_size(x), _number(math.inf, x))


def _signed(size: Node, sign: Node) -> Node:
    return e.binary("copysign", size, sign)


def _sign_of(x: Node) -> Node:
    return _signed(_number(1.0, x), x)


def _grown(function: str, x: Node, turn: Node, *, wins: bool = False) -> Node:
    """exp, exp2, sinh or cosh of `x` times a sine or cosine, which may be finite where the function is not.

    Where 0 is exact (sin(0), exp(-inf), sinh(0)) it wins over what is not finite. Where `x` has no end the function
    wins over NaN, too, if it `wins`.
    """
    base = "exp2" if function == "exp2" else "exp"
    limit = math.floor(math.log(x.dtype.maximum, 2.0 if base == "exp2" else math.e)) - 1.0
    zero, endless = _number(0.0, x), _is_infinite(x)
    near, beyond = e.minimum(x, _number(limit, x)), e.maximum(e.shift(x, -limit), zero)
    if function != base:  # it grows on both sides
        near, beyond = e.maximum(near, _number(-limit, x)), add(beyond, e.maximum(sub(_number(-limit, x), x), zero))
    size = unary(function, where(endless, x, near))
    rest = unary(base, e.minimum(e.scale(beyond, 0.5), _number(limit, x)))  # 1, but for very large numbers
    product = mul(mul(mul(size, turn), rest), rest)
    straight = _is_zero(turn)
    exact = _either(_both(_is_zero(size), _either(_is_zero(x), endless)), straight)
    found = where(_both(unary("isnan", product), exact), where(straight, turn, size), product)
    return where(_both(endless, unary("isnan", turn)), size, found) if wins else found


def _turned(x: Parts) -> Parts:
    """i times a number."""
    return neg(x[1]), x[0]


def _turned_back(x: Parts) -> Parts:
    """-i times a number."""
    return x[1], neg(x[0])


def _product(a: Parts, b: Parts) -> Parts:
    if a[0] is b[0] and a[1] is b[1]:
        return _square(a)
    return sub(mul(a[0], b[0]), mul(a[1], b[1])), add(mul(a[0], b[1]), mul(a[1], b[0]))


def _square(x: Parts) -> Parts:
    """Without a difference of two squares, which may not be finite."""
    size = _size(x[0])
    same = _both(eq(size, _size(x[1])), lt(size, _number(math.inf, size)))
    real = where(same, _number(0.0, size), mul(sub(x[0], x[1]), add(x[0], x[1])))
    return real, e.scale(mul(x[0], x[1]), 2.0)


def _to_middle(x: Parts, power: float = 1.0) -> Node:
    """What numbers that are very large or very small are multiplied by so that nothing of them is lost, to a power."""
    dtype, size = x[0].dtype, e.maximum(_size(x[0]), _size(x[1]))
    limits = dtype.limits()
    eps, least = float(limits.eps), float(limits.smallest_normal)

    def chosen(test: Node, factor: float, other: Node) -> Node:
        return where(test, _number(factor**power, size), other)

    small = chosen(lt(size, _number(2 * least / eps, size)), 4 / eps**2, _number(1.0, size))
    return chosen(lt(_number(dtype.maximum / 8, size), size), 1 / 16, small)


def _quotient(a: Parts, b: Parts) -> Parts:
    """By Smith's way, which scales by the larger part of the divisor; as in Baudin and Smith, "A robust complex
    division in Scilab", numbers are taken from the ends of what floats can be first.
    """
    by, over = _to_middle(a), _to_middle(b)
    back = mul(over, _to_middle(a, -1.0))
    a, b = (mul(a[0], by), mul(a[1], by)), (mul(b[0], over), mul(b[1], over))
    is_real, large, small, ratio, under = _divisor(b)
    is_thin = _is_thin(small, ratio)
    one, first, second = _number(1.0, large), where(is_real, a[0], a[1]), where(is_real, a[1], a[0])

    def turned(part: Node) -> Node:
        is_big = lt(one, _size(part))
        thin = mul(div(mul(part, where(is_big, small, one)), large), where(is_big, one, small))
        return where(is_thin, thin, mul(part, ratio))

    real = div(add(first, turned(second)), under)
    imaginary = div(sub(second, turned(first)), under)
    imaginary = where(is_real, imaginary, neg(imaginary))
    nothing = _is_zero(large)
    size = where(nothing, _size(b[0]), one)  # what is not chosen must be finite for gradients
    real, imaginary = where(nothing, div(a[0], size), real), where(nothing, div(a[1], size), imaginary)
    return mul(real, back), mul(imaginary, back)


def _divisor(x: Parts) -> tuple[Node, Node, Node, Node, Node]:
    """Whether its real part is the larger one; the larger and the smaller part, their ratio, and what to divide by."""
    is_real = e.le(_size(x[1]), _size(x[0]))
    large, small = where(is_real, x[0], x[1]), where(is_real, x[1], x[0])
    # Two infinite parts count as equal.
    ratio = where(_is_infinite(small), mul(_sign_of(small), _sign_of(large)), div(small, large))
    return is_real, large, small, ratio, add(large, mul(small, ratio))


def _is_thin(small: Node, ratio: Node) -> Node:
    """Whether a ratio that is not 0 has lost digits."""
    least = _number(float(ratio.dtype.limits().smallest_normal), ratio)
    return _both(lt(_size(ratio), least), e.ne(small, _number(0.0, small)))


# --- functions of one number


def _exp(x: Parts, function: str = "exp") -> Parts:
    return _grown(function, x[0], unary("cos", x[1]), wins=True), _grown(function, x[0], unary("sin", x[1]))


def _expm1(x: Parts) -> Parts:
    real, imaginary = _exp(x)
    half = unary("sin", e.scale(x[1], 0.5))
    is_far = _either(_is_infinite(x[0]), lt(_number(40.0, x[0]), x[0]))
    grown = unary("expm1", where(is_far, _number(0.0, x[0]), x[0]))
    near = sub(mul(grown, unary("cos", x[1])), e.scale(mul(half, half), 2.0))
    return where(is_far, e.shift(real, -1.0), near), imaginary


def _log(x: Parts) -> Parts:
    a, b = _size(x[0]), _size(x[1])
    large, small = e.maximum(a, b), e.minimum(a, b)
    ratio = where(_is_zero(large), _number(0.0, large), div(small, large))
    size = add(unary("log", large), e.scale(unary("log1p", mul(ratio, ratio)), 0.5))
    one = _number(1.0, large)
    near = _both(lt(_number(0.5, large), large), lt(large, _number(2.0, large)))
    exact = add(mul(sub(large, one), add(large, one)), mul(small, small))
    size = where(near, e.scale(unary("log1p", exact), 0.5), size)
    endless = _either(_is_infinite(a), _is_infinite(b))
    return where(endless, _number(math.inf, a), size), e.binary("atan2", x[1], x[0])


def _log1p(x: Parts) -> Parts:
    one, two = _number(1.0, x[0]), _number(2.0, x[0])
    # Left of -1/2 nothing is lost when 1 is added.
    near = _both(_both(lt(_number(-0.5, one), x[0]), lt(x[0], one)), lt(_size(x[1]), one))
    exact = add(mul(x[0], add(two, x[0])), mul(x[1], x[1]))
    real, imaginary = _log((add(one, x[0]), x[1]))
    return where(near, e.scale(unary("log1p", exact), 0.5), real), imaginary


def _scaled(function: Callable[[Parts], Parts], factor: float) -> Callable[[Parts], Parts]:
    def scaled(x: Parts) -> Parts:
        real, imaginary = function(x)
        return e.scale(real, factor), e.scale(imaginary, factor)

    return scaled


def _sqrt(x: Parts) -> Parts:
    by, back = _to_middle(x), _to_middle(x, -0.5)
    real, imaginary = mul(x[0], by), mul(x[1], by)
    is_left = lt(real, _number(0.0, real))
    half = e.scale(where(is_left, neg(real), real), 0.5)  # no absolute value: at 0 that has no slope
    root = unary("sqrt", add(half, e.binary("hypot", half, e.scale(_size(imaginary), 0.5))))
    rest = mul(where(_is_zero(root), imaginary, div(imaginary, e.scale(root, 2.0))), back)
    root = mul(root, back)
    real, imaginary = where(is_left, _size(rest), root), where(is_left, _signed(root, x[1]), rest)
    endless = _is_infinite(x[1])
    return where(endless, _size(x[1]), real), where(endless, x[1], imaginary)


def _sinh(x: Parts) -> Parts:
    return _grown("sinh", x[0], unary("cos", x[1]), wins=True), _grown("cosh", x[0], unary("sin", x[1]))


def _cosh(x: Parts) -> Parts:
    return _grown("cosh", x[0], unary("cos", x[1]), wins=True), _grown("sinh", x[0], unary("sin", x[1]))


def _tanh(x: Parts) -> Parts:
    is_far = lt(_number(20.0, x[0]), _size(x[0]))
    slope, grown = unary("tan", x[1]), unary("sinh", where(is_far, _number(0.0, x[0]), x[0]))
    bend, one = e.shift(mul(slope, slope), 1.0), _number(1.0, grown)
    under = e.shift(mul(bend, mul(grown, grown)), 1.0)
    root = unary("sqrt", e.shift(mul(grown, grown), 1.0))
    real, imaginary = div(mul(mul(bend, root), grown), under), div(slope, under)
    # Far out there is nothing left of the imaginary part but an exponential.
    tail = mul(unary("exp", e.scale(_size(x[0]), -2.0)), e.scale(mul(unary("sin", x[1]), unary("cos", x[1])), 4.0))
    tail = where(_is_infinite(x[0]), _number(0.0, tail), tail)
    real = where(is_far, where(unary("isnan", tail), tail, _signed(one, x[0])), real)
    imaginary = where(is_far, tail, imaginary)
    return _kept(x[0], real), _kept(x[1], imaginary)


def _kept(zero: Node, result: Node, value: float | None = None) -> Node:
    """A result, or where it is NaN the part that is 0 (or a value), if it is."""
    lost = _both(_is_zero(zero), unary("isnan", result))
    return where(lost, zero if value is None else _number(value, zero), result)


def _around(x: Parts, signs: tuple[float, float]) -> tuple[Parts, Parts]:
    """The roots of 1 - x and 1 + x, or with other signs of x - 1 and x + 1."""
    one = _number(1.0, x[0])
    first = (sub(one, x[0]), neg(x[1])) if signs[0] > 0 else (sub(x[0], one), x[1])
    return _sqrt(first), _sqrt((add(x[0], one), x[1]))


def _asin(x: Parts) -> Parts:
    minus, plus = _around(x, (1, 1))
    real = _kept(x[0], e.binary("atan2", x[0], _product(minus, plus)[0]))
    return _endless(x, (real, unary("asinh", _product((minus[0], neg(minus[1])), plus)[1])), _asin_far)


def _acos(x: Parts) -> Parts:
    minus, plus = _around(x, (1, 1))
    real = e.scale(e.binary("atan2", minus[0], plus[0]), 2.0)
    real = _kept(x[0], real, math.pi / 2)
    found = real, unary("asinh", _product((plus[0], neg(plus[1])), minus)[1])
    return _endless(x, found, lambda y: (e.binary("atan2", _size(y[1]), y[0]), neg(_asin_far(y)[1])))


def _acosh(x: Parts) -> Parts:
    minus, plus = _around(x, (-1, 1))
    imaginary = e.scale(e.binary("atan2", minus[1], plus[0]), 2.0)
    imaginary = _kept(x[0], imaginary, math.pi / 2)
    found = unary("asinh", _product((minus[0], neg(minus[1])), plus)[0]), imaginary
    return _endless(x, found, lambda y: (_size(_asin_far(y)[1]), angle(paired(*y))))


def _asin_far(x: Parts) -> Parts:
    """asin where x is so large that it is the logarithm of 2x."""
    size = add(_log(x)[0], _number(math.log(2.0), x[0]))
    return e.binary("atan2", x[0], _size(x[1])), _signed(size, x[1])


def _endless(x: Parts, near: Parts, far: Callable[[Parts], Parts]) -> Parts:
    """What holds for large numbers where squares of parts would not be finite."""
    limit = _number(x[0].dtype.maximum ** 0.5 / 8, x[0])
    is_far = _either(lt(limit, _size(x[0])), lt(limit, _size(x[1])))
    one = _number(1.0, x[0])
    beyond = far((where(is_far, x[0], one), where(is_far, x[1], one)))  # what is not chosen is finite for gradients
    return where(is_far, beyond[0], near[0]), where(is_far, beyond[1], near[1])


def _atanh(x: Parts) -> Parts:
    one, zero = _number(1.0, x[0]), _number(0.0, x[0])
    sign = where(lt(x[0], zero), neg(one), one)  # no absolute value: at 0 that has no slope
    size = mul(sign, x[0])
    gap, square = sub(one, size), mul(x[1], x[1])
    real = e.scale(unary("log1p", div(e.scale(size, 4.0), add(mul(gap, gap), square))), 0.25)
    imaginary = e.scale(e.binary("atan2", e.scale(x[1], 2.0), sub(mul(gap, add(one, size)), square)), 0.5)
    # Near 1, where the square of the distance may be nothing.
    distance = e.binary("hypot", gap, x[1])
    is_near = lt(distance, _number(x[0].dtype.limits().eps, gap))
    real = where(is_near, e.scale(sub(_number(math.log(2.0), gap), unary("log", distance)), 0.5), real)
    # Far away, where it is not finite.
    limit = _number(x[0].dtype.maximum ** 0.5 / 8, x[0])
    is_far = _either(lt(limit, _size(size)), lt(limit, _size(x[1])))
    endless = _either(_is_infinite(x[0]), _is_infinite(x[1]))
    away = _reciprocal((where(is_far, x[0], one), where(is_far, x[1], one)))[0]
    away = _signed(where(endless, zero, away), x[0])
    real = _kept(x[0], where(is_far, away, mul(sign, real)))
    quarter = where(unary("isnan", x[1]), x[1], _signed(_number(math.pi / 2, one), x[1]))
    return real, where(is_far, quarter, imaginary)


def _through_i(function: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """f(ix) / i: what makes sines of hyperbolic ones."""
    return lambda x: _turned_back(function(_turned(x)))


def _sign(x: Parts) -> Parts:
    endless = _either(_is_infinite(x[0]), _is_infinite(x[1]))

    def shown(part: Node) -> Node:
        """1 of what has no end, and 0 of what is finite beside that."""
        whole = _signed(where(_is_infinite(part), _number(1.0, part), _number(0.0, part)), part)
        return where(_both(endless, eq(part, part)), whole, part)

    by = _to_middle(x)
    x = mul(shown(x[0]), by), mul(shown(x[1]), by)
    size = e.binary("hypot", *x)
    nothing = _is_zero(size)
    return (where(nothing, x[0], div(x[0], size)), where(nothing, x[1], div(x[1], size)))


def _reciprocal(x: Parts) -> Parts:
    over = _to_middle(x)
    is_real, large, small, ratio, under = _divisor((mul(x[0], over), mul(x[1], over)))
    one = div(over, under)
    rest = where(_is_thin(small, ratio), mul(small, div(one, large)), div(mul(over, ratio), under))
    nothing = _is_zero(large)
    real, imaginary = where(is_real, one, rest), neg(where(is_real, rest, one))
    return where(nothing, _number(math.inf, one), real), where(nothing, _number(math.nan, one), imaginary)


def _each(function: str) -> Callable[[Parts], Parts]:
    return lambda x: (unary(function, x[0]), unary(function, x[1]))


_COMPLEX: Final[dict[str, Callable[[Parts], Parts]]] = {
    "neg": _each("neg"),
    "round": _each("round"),
    "sign": _sign,
    "exp": _exp,
    "exp2": lambda x: _exp((x[0], e.scale(x[1], math.log(2.0))), "exp2"),
    "expm1": _expm1,
    "log": _log,
    "log2": _scaled(_log, 1 / math.log(2.0)),
    "log10": _scaled(_log, 1 / math.log(10.0)),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": lambda x: _reciprocal(_sqrt(x)),
    "reciprocal": _reciprocal,
    "sin": _through_i(_sinh),
    "cos": lambda x: _cosh(_turned(x)),
    "tan": _through_i(_tanh),
    "asin": _asin,
    "acos": _acos,
    "atan": _through_i(_atanh),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": _through_i(_asin),
    "acosh": _acosh,
    "atanh": _atanh,
}


def _power(a: Parts, b: Parts) -> Parts:
    """exp(b log a); 0 to the power 0 is 1."""
    real, imaginary = _exp(_product(b, _log(a)))
    nothing, zero, one = _both(_is_zero(a[0]), _is_zero(a[1])), _number(0.0, real), _number(1.0, real)
    gone = _both(nothing, lt(zero, b[0]))
    whole = _both(_is_zero(b[0]), _is_zero(b[1]))
    return where(whole, one, where(gone, zero, real)), where(_either(whole, gone), zero, imaginary)


_OF_TWO: Final[dict[str, Callable[[Parts, Parts], Parts]]] = {
    "add": lambda a, b: (add(a[0], b[0]), add(a[1], b[1])),
    "sub": lambda a, b: (sub(a[0], b[0]), sub(a[1], b[1])),
    "mul": _product,
    "div": _quotient,
    "pow": _power,
}


def _made(function: Callable[..., Parts]) -> Callable[..., Node]:
    return lambda *nodes: paired(*function(*map(parts, nodes)))


# Elementwise functions of complex nodes of one shape, by the names in `ops`; some are not complex themselves.
UNARY: Final[dict[str, Callable[[Node], Node]]] = {
    **{name: _made(function) for name, function in _COMPLEX.items()},
    "abs": lambda x: e.binary("hypot", *parts(x)),
    "isnan": lambda x: _either(*(unary("isnan", part) for part in parts(x))),
}
BINARY: Final[dict[str, Callable[[Node, Node], Node]]] = {
    **{name: _made(function) for name, function in _OF_TWO.items()},
    "eq": lambda a, b: _both(*(eq(x, y) for x, y in zip(parts(a), parts(b), strict=True))),
    "ne": lambda a, b: _either(*(e.ne(x, y) for x, y in zip(parts(a), parts(b), strict=True))),
}
