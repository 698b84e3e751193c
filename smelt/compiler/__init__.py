"""Takes live nodes; gives a key, and for a key a compiled graph.

Always holds: equal keys mean the same computation for all arguments taken out of the graph; a compiled graph depends
on nothing but its key, the device and the settings.
"""

from smelt.compiler.driver import compile_graph, simplify
from smelt.compiler.trace import GraphKey, LeafView, Traced, trace
from smelt.plan import CompiledGraph

__all__ = ["CompiledGraph", "GraphKey", "LeafView", "Traced", "compile_graph", "simplify", "trace"]
