"""The table of public functions: what to call them with, what should come out, and what they refuse.

An `OpSpec` drives every check of `test_op_table.py`; adding a function to smelt means adding one entry to a family in
`tests/ops`. References are NumPy functions on wider floats, with the arguments of the public function.
"""

from __future__ import annotations

from tests.ops import (
    activations,
    creation,
    distributions,
    draws,
    elementwise,
    lookups,
    mathematics,
    movement,
    networks,
    ordering,
    products,
    questions,
    reductions,
    scans,
    windows,
)
from tests.ops.spec import OpSpec

FAMILIES: dict[str, list[OpSpec]] = {
    "unary": elementwise.UNARY,
    "mathematics": mathematics.UNARY,
    "activations": networks.ACTIVATIONS + activations.ACTIVATIONS,
    "binary": elementwise.BINARY,
    "floats": mathematics.BINARY,
    "ternary": elementwise.TERNARY,
    "reductions": reductions.REDUCTIONS,
    "without NaN": reductions.WITHOUT_NAN,
    "norms": reductions.NORMS,
    "quantiles": reductions.QUANTILES,
    "scans": scans.SCANS,
    "ordering": ordering.ORDERING,
    "movement": movement.MOVEMENT,
    "joining": movement.JOINING,
    "lookups": lookups.LOOKUPS,
    "products": products.PRODUCTS,
    "labels": products.PRODUCTS_BY_LABELS,
    "convolutions": windows.CONVOLUTIONS,
    "pooling": windows.POOLING,
    "unfolding": windows.UNFOLDING,
    "layers": networks.LAYERS,
    "creation": creation.CREATION,
    "questions": questions.QUESTIONS,
    "random": draws.RANDOM,
    "distributions": distributions.DISTRIBUTIONS,
}

OPS: list[OpSpec] = [spec for family in FAMILIES.values() for spec in family]
