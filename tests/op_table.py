"""The table of public functions: what to call them with, what should come out, and what they refuse.

An `OpSpec` drives every check of `test_op_table.py`; adding a function to smelt means adding one entry to a family in
`tests/ops`. References are NumPy functions on wider floats, with the arguments of the public function.
"""

from __future__ import annotations

from tests.ops import creation, distributions, draws, elementwise, movement, networks, products, reductions, scans
from tests.ops.spec import OpSpec

FAMILIES: dict[str, list[OpSpec]] = {
    "unary": elementwise.UNARY,
    "activations": networks.ACTIVATIONS,
    "binary": elementwise.BINARY,
    "ternary": elementwise.TERNARY,
    "reductions": reductions.REDUCTIONS,
    "norms": reductions.NORMS,
    "scans": scans.SCANS,
    "movement": movement.MOVEMENT,
    "joining": movement.JOINING,
    "products": products.PRODUCTS,
    "layers": networks.LAYERS,
    "creation": creation.CREATION,
    "random": draws.RANDOM,
    "distributions": distributions.DISTRIBUTIONS,
}

OPS: list[OpSpec] = [spec for family in FAMILIES.values() for spec in family]
