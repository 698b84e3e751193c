"""The tensor graph: immutable hash-consed nodes, the functions that build them, and what they mean.

Takes calls of node-level functions (`build`), gives `Node`s. What always holds: every node is well formed (`verify`),
equal nodes are the same object, shapes are tuples of `int | Index`, elementwise nodes have sources of their own shape,
a node never changes (its `leaf`, where its value lies once computed, is only ever set). `interpret` says what every
graph computes; `text` prints and parses graphs; `composites` names larger functions and can write them out.
"""

from smelt.graph.build import broadcast_to
from smelt.graph.checks import DONE, FINE, Check, checks_of, with_checks
from smelt.graph.closed import items, living_items, open_body, parameter, values_of
from smelt.graph.composites import attention_scores, expand, mean, normalized
from smelt.graph.index import *
from smelt.graph.index_numbers import found_sizes
from smelt.graph.index_text import TokenReader
from smelt.graph.interpret import fold_array, function_array, scan_array
from smelt.graph.node import (
    Node,
    PrivateNodes,
    Shape,
    computed_from,
    constant_array,
    constant_bytes,
    constant_of,
    constant_value,
    label_sizes,
    live_nodes,
    made,
    make,
    make_leaf,
    private_nodes,
    scalar_of,
    shown,
    topological,
    users,
    with_sources,
)
from smelt.graph.ops import (
    BINARY,
    CONTROL,
    ELEMENTWISE,
    REDUCTIONS,
    SCANS,
    SOURCES,
    UNARY,
    VIEWS,
    Branch,
    Contraction,
    Hosted,
    Loop,
    Named,
    Op,
    Span,
    Window,
    host_name,
    identity,
    kind_letter,
    scan_start,
)
from smelt.graph.origins import Origins, derived, noting
from smelt.graph.ranges import Ranges
from smelt.graph.rewritten import (
    alias,
    bodies_of,
    remade,
    rewritten,
    substituted,
    with_bodies,
    with_sizes,
    without_aliases,
)
from smelt.graph.shapes import (
    as_size,
    broadcast_shapes,
    certain,
    checked_shape,
    infer_reshape,
    marked,
    normalized_axes,
    normalized_axis,
    reshape_strides,
    row_major,
    shape_text,
)
from smelt.graph.verify import parameter_types, value_types, verify_graph
