"""All ops of the graph, by how they are written."""

from __future__ import annotations

from typing import Final, NamedTuple

from smelt.formats.stablehlo.writing import control, elementwise, folds, indexing, movement
from smelt.formats.stablehlo.writing.body import Rule
from smelt.graph import Node, Op


class Row(NamedTuple):
    """How an op is written: in place, unless that gives None; or as a composite, whose decomposition it writes."""

    plain: Rule | None = None
    composite: Rule | None = None


RULES: Final[dict[Op, Row]] = {
    Op.IOTA: Row(movement.iota),
    Op.RESHAPE: Row(movement.reshape),
    Op.PERMUTE: Row(movement.permute),
    Op.EXPAND: Row(movement.expand),
    Op.PAD: Row(movement.pad),
    Op.SLICE: Row(movement.slice_),
    Op.CONCAT: Row(movement.concat),
    Op.WINDOW: Row(None, movement.window),
    Op.UNARY: Row(elementwise.unary, elementwise.formula),
    Op.BINARY: Row(elementwise.binary, elementwise.formula),
    Op.WHERE: Row(elementwise.where),
    Op.COMPLEX: Row(elementwise.complex_),
    Op.CAST: Row(elementwise.cast),
    Op.BITCAST: Row(elementwise.bitcast),
    Op.REDUCE: Row(folds.reduce),
    Op.SCAN: Row(None, folds.scan),
    Op.CONTRACT: Row(folds.contract),
    Op.GATHER: Row(None, indexing.gather),
    Op.SCATTER: Row(None, indexing.scatter),
    Op.SORT: Row(None, indexing.sort),
    Op.NONZERO: Row(None, indexing.nonzero),
    Op.LOOP: Row(None, control.loop),
    Op.BRANCH: Row(None, control.branch),
    Op.HOST: Row(control.host),
}


def name_of(node: Node) -> str:
    """What a composite of an op is called: `smelt.` and the op, or the function that it names."""
    if node.op in (Op.UNARY, Op.BINARY):
        return f"smelt.{node.attribute}"
    if node.op is Op.COMPOSITE:
        return f"smelt.{node.attribute.name}"
    return f"smelt.{node.op.value}"
