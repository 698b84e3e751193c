"""StableHLO programs as functions of tensors: `load` takes text, gives something to call.

Takes what JAX and others print, in pretty or generic form; gives graphs of smelt's own operations. Always holds: an
operation is computed as the specification defines it, or refused with its name and place; reading computes nothing.
"""

from typing import TYPE_CHECKING

from smelt.errors import UnsupportedOp
from smelt.formats.stablehlo.export import export, portable_artifact
from smelt.formats.stablehlo.movement import constant
from smelt.formats.stablehlo.plain import without_composites
from smelt.formats.stablehlo.program import Imported, Signature, load
from smelt.formats.stablehlo.reader import SPECIFICATION, XLA, Reading, Rules
from smelt.formats.stablehlo.rows import Call, Row, Value, stand_in
from smelt.formats.stablehlo.table import ROWS
from smelt.names import door

__all__ = ["ROWS", "SPECIFICATION", "XLA", "Call", "Imported", "Reading", "Row", "Rules", "Signature", "UnsupportedOp"]
__all__ += ["Value", "constant", "export", "load", "portable_artifact", "stand_in", "without_composites"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
