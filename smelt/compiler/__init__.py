"""Takes live nodes; gives a key, and for a key a compiled graph.

Always holds: equal keys mean the same computation for all arguments taken out of the graph; a compiled graph depends on
nothing but its key, the device, the settings and the choices.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.compiler.compile import (
    MEASURED_AS,
    NEIGHBOUR,
    Choices,
    Compiler,
    graph_text,
    kernels_of,
    measured_as,
    question_of,
)
from smelt.compiler.trace import Argument, GraphKey, Traced, marked, trace
from smelt.plan import CompiledGraph

if TYPE_CHECKING:
    from smelt.compiler.planning import chosen
    from smelt.compiler.simplifying import simplify
    from smelt.compiler.ways import other_ways

_LATER = {"chosen": "planning", "simplify": "simplifying", "other_ways": "ways"}


def __getattr__(name: str) -> Any:
    """What few processes need, and all stages with it."""
    if name not in _LATER:
        raise AttributeError(f"module 'smelt.compiler' has no attribute {name!r}")
    return getattr(importlib.import_module(f"smelt.compiler.{_LATER[name]}"), name)
