"""Graphs as StableHLO: every node by the row that its op has in the tables.

Takes roots over leaves, gives a module of MLIR's text. Always holds: what is written computes what `graph.interpret`
says, for any compiler that knows StableHLO; what has no operation of its own there is a composite `smelt.NAME`, whose
decomposition is written beside it; equal graphs give equal texts.
"""

from smelt.formats.stablehlo.writing.program import Program, decomposition
from smelt.formats.stablehlo.writing.recognized import own_composite

__all__ = ["Program", "decomposition", "own_composite"]
