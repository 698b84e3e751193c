"""What is known of the values of a class beyond their type: facts that rules may rely on."""

from __future__ import annotations

from typing import Final, NamedTuple

from smelt.graph import VIEWS, Node, Op, constant_value


class Facts(NamedTuple):
    """What holds for all elements, unless they are NaN."""

    positive: bool = False  # more than 0, or 0 by rounding
    bound: float = float("inf")  # no element is larger in absolute value

    def also(self, other: Facts) -> Facts:
        """Both hold."""
        return Facts(self.positive or other.positive, min(self.bound, other.bound))


NOTHING: Final = Facts()
_POSITIVE: Final = frozenset({"exp", "exp2", "abs", "sqrt", "rsqrt", "cosh"})
_KEEP_POSITIVE: Final = frozenset({"reciprocal", "add", "mul", "div", "max", "min", "hypot", "log1p", "expm1", "cbrt"})
_BOUNDS: Final = {"tanh": 1.0, "sin": 1.0, "cos": 1.0, "erf": 1.0, "sign": 1.0}


def facts_of(node: Node, sources: tuple[Facts, ...]) -> Facts:
    """What a form shows, of what is known of its sources."""
    if node.op is Op.CONST:
        value = constant_value(node)
        return Facts(value > 0, abs(float(value)))
    if node.op in VIEWS or (node.op is Op.CAST and node.dtype.is_float):
        return sources[0]
    if node.op is Op.COMPOSITE and node.attribute.name == "softmax":
        return Facts(True, 1.0)
    if node.op is Op.REDUCE:
        op = node.attribute.op
        return Facts(sources[0].positive, sources[0].bound if op in ("max", "min") else float("inf"))
    if node.op is Op.CONTRACT:
        return Facts(all(source.positive for source in sources))
    if node.op not in (Op.UNARY, Op.BINARY):
        return NOTHING
    name = node.attribute
    positive = name in _POSITIVE or (name in _KEEP_POSITIVE and all(source.positive for source in sources))
    positive = positive or (name == "mul" and node.sources[0] is node.sources[1])
    return Facts(positive, _bound(name, sources))


def _bound(name: str, sources: tuple[Facts, ...]) -> float:
    if name in _BOUNDS:
        return _BOUNDS[name]
    bounds = [source.bound for source in sources]
    if name in ("add", "sub"):
        return sum(bounds)
    if name == "mul":
        return bounds[0] * bounds[1] if all(0 < bound < float("inf") for bound in bounds) else float("inf")
    return bounds[0] if name in ("neg", "abs") else max(bounds) if name in ("max", "min") else float("inf")
