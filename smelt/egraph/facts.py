"""What is known of the values of a class beyond their type: facts that rules may rely on."""

from __future__ import annotations

from typing import Final, NamedTuple

from smelt.graph import VIEWS, Node, Op, constant_value


class Facts(NamedTuple):
    """What holds for all elements, unless they are NaN."""

    positive: bool = False  # more than 0, or 0 by rounding

    def also(self, other: Facts) -> Facts:
        """Both hold."""
        return Facts(self.positive or other.positive)


NOTHING: Final = Facts()
_POSITIVE: Final = frozenset({"exp", "exp2", "abs", "sqrt", "rsqrt", "cosh"})
_KEEP_POSITIVE: Final = frozenset({"reciprocal", "add", "mul", "div", "max", "min", "hypot", "log1p", "expm1", "cbrt"})


def facts_of(node: Node, sources: tuple[Facts, ...]) -> Facts:
    """What a form shows, of what is known of its sources."""
    if node.op is Op.CONST:
        return Facts(bool(constant_value(node) > 0))
    if node.op in VIEWS or node.op is Op.REDUCE or (node.op is Op.CAST and node.dtype.is_float):
        return sources[0]
    if node.op is Op.CONTRACT:
        return Facts(all(source.positive for source in sources))
    if node.op is Op.COMPOSITE:
        return Facts(node.attribute.name == "softmax")
    if node.op not in (Op.UNARY, Op.BINARY):
        return NOTHING
    name = node.attribute
    kept = name in _KEEP_POSITIVE and all(source.positive for source in sources)
    return Facts(name in _POSITIVE or kept or (name == "mul" and node.sources[0] is node.sources[1]))
