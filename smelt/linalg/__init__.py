"""Linear algebra: the linalg extension of the array API, and `solve_triangular`.

Takes matrices in the last two axes, in batches of any shape; gives tensors, or named tuples of them. Always holds:
shapes are checked when a function is called, matrices that have no answer are an error when values are asked for, and
everything has derivatives, of any order and direction, and batches.
"""

import sys
from typing import TYPE_CHECKING

from smelt.linalg.hosted import by_name as by_name
from smelt.linalg.norms import matrix_norm, matrix_power
from smelt.linalg.products import cross, diagonal, trace
from smelt.linalg.solving import SlogdetResult, cholesky, det, inv, slogdet, solve, solve_triangular
from smelt.linalg.spectral import (
    EighResult,
    QRResult,
    SVDResult,
    eigh,
    eigvalsh,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)
from smelt.names import door, understand
from smelt.tensor import matmul, matrix_transpose, outer, tensordot, vecdot, vector_norm

__all__ = [
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

understand(sys.modules[__name__])

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
