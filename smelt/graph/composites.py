"""Named functions that stay whole in the graph until the compiler decides how to run them.

Each composite is a pair: `infer` checks the sources and the parameters and says what comes out, `expand` writes the
function as plain nodes. 16-bit floats are computed in float32 and rounded once, at the end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from smelt import dtypes
from smelt.dtypes import DType, compute_dtype
from smelt.errors import ArgumentError, DTypeError, InternalError, ShapeError
from smelt.graph import build as e
from smelt.graph.index import Index, IndexLike, product_of
from smelt.graph.node import Node, Shape
from smelt.graph.shapes import broadcast_shapes, marked, normalized_axis, shape_text

Parameters = dict[str, Any]


class Inferred(NamedTuple):
    """What a composite gives, with its parameters in the form in which they are kept."""

    dtype: DType
    shape: Shape
    parameters: Parameters


class Composite(NamedTuple):
    """A registered composite. `defaults` names all parameters."""

    defaults: Parameters
    sources: tuple[int, int]  # fewest and most
    infer: Callable[..., Inferred]
    expand: Callable[..., Node]


_REGISTRY: Final[dict[str, Composite]] = {}


def register(
    name: str, infer: Callable[..., Inferred], sources: tuple[int, int] = (1, 1), **defaults: Any
) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    """Decorator for the expansion of a composite, of (*sources, **parameters); `infer` takes the name before these."""

    def add(expansion: Callable[..., Node]) -> Callable[..., Node]:
        _REGISTRY[name] = Composite(defaults, sources, infer, expansion)
        return expansion

    return add


def _entry(name: str) -> Composite:
    if name not in _REGISTRY:
        raise ArgumentError(f"there is no composite called {name!r}")
    return _REGISTRY[name]


def inferred(name: str, sources: tuple[Node, ...], parameters: Parameters) -> Inferred:
    """What a composite of these sources gives; parameters that are not given take their defaults."""
    entry = _entry(name)
    fewest, most = entry.sources
    if not fewest <= len(sources) <= most:
        raise ArgumentError(f"{name}: takes {fewest} to {most} tensors, got {len(sources)}")
    return entry.infer(name, *sources, **(entry.defaults | parameters))


def expand(node: Node) -> Node:
    """The composite written out with plain nodes."""
    name, parameters = node.attribute
    result = _entry(name).expand(*node.sources, **dict(parameters))
    if result.shape != node.shape or result.dtype is not node.dtype:
        raise InternalError(f"{node!r} expands to {result!r}")
    return result


# --- what inference shares


def _need_float(name: str, *sources: Node) -> None:
    first = sources[0]
    for x in sources:
        if not x.dtype.is_float:
            raise DTypeError(f"{name}: {x.dtype} is not supported", rule="the operands must be float.")
        if x.dtype is not first.dtype:
            raise DTypeError(f"{name}: dtypes differ: {first.dtype} and {x.dtype}", hint="Cast them to one dtype.")


def _number(name: str, parameter: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ArgumentError(f"{name}: {parameter} must be a finite number, got {value!r}")
    return float(value) + 0.0  # -0.0 and 0.0 are one parameter


def _flag(name: str, parameter: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}: {parameter} must be True or False, got {value!r}")
    return value


def _wide(x: Node) -> Node:
    return e.cast(x, compute_dtype(x.dtype))


# --- softmax


def _infer_along_axis(name: str, x: Node, axis: Any) -> Inferred:
    _need_float(name, x)
    return Inferred(x.dtype, x.shape, {"axis": normalized_axis(axis, x.rank, name)})


def _shifted(x: Node, axis: int) -> Node:
    """x minus its largest value, so that no exponential overflows."""
    return e.sub(x, e.reduce("max", x, (axis,), keep_axes=True))


@register("softmax", _infer_along_axis, axis=-1)
def _softmax(x: Node, axis: int) -> Node:
    powers = e.exp(_shifted(_wide(x), axis))
    # One division a row: the sums lie between 1 and the number of elements, so nothing overflows.
    share = e.reciprocal(e.reduce("add", powers, (axis,), keep_axes=True))
    return e.cast(e.mul(powers, share), x.dtype)


@register("log_softmax", _infer_along_axis, axis=-1)
def _log_softmax(x: Node, axis: int) -> Node:
    shifted = _shifted(_wide(x), axis)
    total = e.reduce("add", e.exp(shifted), (axis,), keep_axes=True)
    return e.cast(e.sub(shifted, e.log(total)), x.dtype)


# --- normalization


def _infer_norm(name: str, x: Node, *affine: Node, axes: Any, eps: Any) -> Inferred:
    _need_float(name, x, *affine)
    if isinstance(axes, bool) or not isinstance(axes, int) or not 1 <= axes <= x.rank:
        raise ArgumentError(f"{name}: axes must be the number of last axes, 1 to {x.rank}, got {axes!r}")
    for tensor in affine:
        if tensor.shape != x.shape[x.rank - axes :]:
            raise ShapeError(
                f"{name}: a weight or bias does not fit\n"
                + marked((x.shape, range(x.rank - axes, x.rank)), " and ", (tensor.shape, range(tensor.rank))),
                rule=f"it must have the shape of the last {axes} axes, {shape_text(x.shape[x.rank - axes :])}.",
            )
    least = _number(name, "eps", eps)
    if least < 0:
        raise ArgumentError(f"{name}: eps is {eps}", rule="it must be at least 0.")
    return Inferred(x.dtype, x.shape, {"axes": axes, "eps": least})


def mean(x: Node, axes: tuple[int, ...]) -> Node:
    """The mean over axes, which stay with size 1."""
    count = product_of(x.shape[axis] for axis in axes)
    return e.div(e.reduce("add", x, axes, keep_axes=True), e.size_node(count, x.dtype))


def normalized(x: Node, axes: int, eps: float, *, centers: bool) -> tuple[Node, Node]:
    """x with a mean square of 1 over its last axes, and before that a mean of 0 if it `centers`, in the type in which
    norms are computed; and by what it was multiplied.
    """
    last = tuple(range(x.rank - axes, x.rank))
    centered = e.sub(_wide(x), mean(_wide(x), last)) if centers else _wide(x)
    scale = e.rsqrt(e.shift(mean(e.mul(centered, centered), last), eps))
    return e.mul(centered, scale), scale


def _norm(x: Node, *affine: Node, axes: int, eps: float, centers: bool) -> Node:
    result, _ = normalized(x, axes, eps, centers=centers)
    for function, tensor in zip((e.mul, e.add), affine, strict=False):
        result = function(result, _wide(tensor))
    return e.cast(result, x.dtype)


register("layer_norm", _infer_norm, (1, 3), axes=1, eps=1e-5)(partial(_norm, centers=True))
register("rms_norm", _infer_norm, (1, 2), axes=1, eps=1e-5)(partial(_norm, centers=False))


# --- activations


def _infer_gelu(name: str, x: Node, approximate: Any) -> Inferred:
    _need_float(name, x)
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"{name}: approximate must be 'none' or 'tanh', got {approximate!r}")
    return Inferred(x.dtype, x.shape, {"approximate": approximate})


@register("gelu", _infer_gelu, approximate="none")
def _gelu(x: Node, approximate: str) -> Node:
    wide = _wide(x)
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)): cheaper, and exact for small results where 1 + tanh cancels.
        cube = e.mul(e.mul(wide, wide), wide)
        inner = e.scale(e.add(wide, e.scale(cube, 0.044715)), -2 * math.sqrt(2 / math.pi))
        return e.cast(e.div(wide, e.shift(e.exp(inner), 1.0)), x.dtype)
    part = e.erf(e.scale(wide, math.sqrt(0.5)))
    return e.cast(e.mul(e.scale(wide, 0.5), e.shift(part, 1.0)), x.dtype)


def _infer_silu(name: str, x: Node) -> Inferred:
    _need_float(name, x)
    return Inferred(x.dtype, x.shape, {})


@register("silu", _infer_silu)
def _silu(x: Node) -> Node:
    wide = _wide(x)
    return e.cast(e.div(wide, e.shift(e.exp(e.neg(wide)), 1.0)), x.dtype)


# --- attention


def _infer_attention(name: str, q: Node, k: Node, v: Node, *mask: Node, causal: Any, scale: Any) -> Inferred:
    _need_float(name, q, k, v)
    for x in (q, k, v):
        if x.rank < 2:
            raise ShapeError(
                f"{name}: {shape_text(x.shape)} has too few axes", rule="shapes must be (..., length, features)."
            )
    for a, b, axis, which, problem in (
        (q, k, 1, "last", "queries and keys have different numbers of features"),
        (k, v, 2, "second to last", "there are not as many keys as values"),
    ):
        if a.shape[-axis] != b.shape[-axis]:
            raise ShapeError(
                f"{name}: {problem}\n" + marked((a.shape, {a.rank - axis}), " and ", (b.shape, {b.rank - axis})),
                rule=f"their {which} axes must be the same.",
            )
    batch = broadcast_shapes(broadcast_shapes(q.shape[:-2], k.shape[:-2], name), v.shape[:-2], name)
    scores = (*batch, q.shape[-2], k.shape[-2])
    for m in mask:
        if not m.dtype.is_bool and m.dtype is not q.dtype:
            raise DTypeError(f"{name}: the mask is {m.dtype}", rule=f"it must be bool or {q.dtype}.")
        if broadcast_shapes(m.shape, scores, name) != scores:
            raise ShapeError(f"{name}: the mask {shape_text(m.shape)} is larger than the scores {shape_text(scores)}")
    kept = _attention_parameters(name, q.shape[-1], causal, scale)
    return Inferred(q.dtype, (*batch, q.shape[-2], v.shape[-1]), kept)


def _attention_parameters(name: str, features: IndexLike, causal: Any, scale: Any) -> Parameters:
    if scale is None and not isinstance(features, Index):
        scale = 1.0 / math.sqrt(features) if features else 1.0
    return {"causal": _flag(name, "causal", causal), "scale": None if scale is None else _number(name, "scale", scale)}


class Scores(NamedTuple):
    """The scores of an attention as its softmax reads them; `bare` where no condition has ruled any out, which is
    theirs wherever all the `conditions` hold.
    """

    masked: Node
    bare: Node
    conditions: tuple[Node, ...]


def attention_scores(q: Node, k: Node, *mask: Node, causal: bool, scale: float | None) -> Scores:
    """The scores of an attention, in the type in which they are computed."""
    dtype = compute_dtype(q.dtype)
    scores = e.inner_products(q, k, dtype)
    scores = e.mul(scores, e.rsqrt(e.size_node(q.shape[-1], dtype))) if scale is None else e.scale(scores, scale)
    bare, conditions = scores, list[Node]()
    never = e.const(-math.inf, dtype)
    if causal:
        conditions.append(_earlier(q, k))
        scores = e.where(conditions[-1], scores, never)
    for m in mask:
        if m.dtype.is_bool:
            conditions.append(m)
            scores = e.where(m, scores, never)
        else:
            scores, bare = e.add(scores, _wide(m)), e.add(bare, _wide(m))
    return Scores(scores, bare, tuple(conditions))


def _earlier(q: Node, k: Node) -> Node:
    """Which keys do not come after a query."""
    rows = e.reshape(e.iota(q.shape[-2], dtypes.int32), (q.shape[-2], 1))
    columns = e.reshape(e.iota(k.shape[-2], dtypes.int32), (1, k.shape[-2]))
    return e.le(columns, rows)


def _where_any_is_seen(x: Node, q: Node, k: Node, mask: Sequence[Node], causal: bool) -> Node:
    """x, a row for each query, with zeros for queries from which the mask hides every key: their softmax is NaN."""
    for m in mask:
        never = e.const(False if m.dtype.is_bool else -math.inf, m.dtype)
        m = e.where(_earlier(q, k), m, never) if causal else m
        best = e.reduce("max", m, (m.rank - 1,), keep_axes=True) if m.rank else m
        x = e.where(e.ne(best, never), x, e.const(0, x.dtype))
    return x


@register("attention", _infer_attention, (3, 4), causal=False, scale=None)
def _attention(q: Node, k: Node, v: Node, *mask: Node, causal: bool, scale: float | None) -> Node:
    """softmax(scale * q @ k.T) @ v. Causal: query i sees the keys up to i. A bool mask says which scores count."""
    scores = attention_scores(q, k, *mask, causal=causal, scale=scale).masked
    taken = e.matmul(_softmax(scores, scores.rank - 1), _wide(v))
    return e.cast(_where_any_is_seen(taken, q, k, mask, causal), q.dtype)


def _infer_log_sums(name: str, q: Node, k: Node, *mask: Node, causal: Any, scale: Any) -> Inferred:
    _need_float(name, q, k)
    shape: Shape = (*broadcast_shapes(q.shape[:-2], k.shape[:-2], name), q.shape[-2], k.shape[-2])
    for m in mask:
        shape = broadcast_shapes(shape, m.shape, name)
    kept = _attention_parameters(name, q.shape[-1], causal, scale)
    return Inferred(compute_dtype(q.dtype), (*shape[:-1], 1), kept)


@register("attention_log_sums", _infer_log_sums, (2, 3), causal=False, scale=None)
def _attention_log_sums(q: Node, k: Node, *mask: Node, causal: bool, scale: float | None) -> Node:
    """For each query, the logarithm of the sum of exponentials of its scores: all that the gradient of attention needs
    of them. A composite, so that it is written out as attention is and finds the same nodes.
    """
    x = attention_scores(q, k, *mask, causal=causal, scale=scale).masked
    largest = e.reduce("max", x, (x.rank - 1,), keep_axes=True)
    total = e.reduce("add", e.exp(e.sub(x, largest)), (x.rank - 1,), keep_axes=True)
    return _where_any_is_seen(e.add(largest, e.log(total)), q, k, mask, causal)


# --- cross entropy


def _infer_cross_entropy(name: str, logits: Node, labels: Node) -> Inferred:
    _need_float(name, logits)
    if not labels.dtype.is_integer:
        raise DTypeError(f"{name}: the labels are {labels.dtype}", rule="they must be integers: class numbers.")
    if logits.rank == 0 or labels.shape != logits.shape[:-1]:
        raise ShapeError(
            f"{name}: logits and labels do not fit together\n"
            + marked((logits.shape, ()), " and ", (labels.shape, ())),
            rule="the labels must have the shape of the logits without their last axis, the classes.",
        )
    return Inferred(logits.dtype, labels.shape, {})


@register("cross_entropy", _infer_cross_entropy, (2, 2))
def _cross_entropy(logits: Node, labels: Node) -> Node:
    classes = logits.shape[-1]
    axis = logits.rank - 1
    x = _wide(logits)
    largest = e.reduce("max", x, (axis,), keep_axes=True)
    losses = e.log(e.reduce("add", e.exp(e.sub(x, largest)), (axis,)))
    number = e.cast(labels, dtypes.int64)
    if classes != 0:
        chosen = e.gather(x, [number], (*range(axis), -1))
        losses = e.sub(losses, e.sub(chosen, e.reshape(largest, labels.shape)))
    # Labels that are no class give NaN rather than a loss that looks right.
    return e.cast(e.where(e.in_range(number, classes), losses, e.const(math.nan, losses.dtype)), logits.dtype)
