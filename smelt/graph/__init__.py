"""The tensor graph: immutable hash-consed nodes, the functions that build them, and what they mean.

Takes calls of node-level functions (`build`), gives `Node`s. What always holds: every node is well formed (`verify`),
equal nodes are the same object, shapes are tuples of `int | Index`, elementwise nodes have sources of their own shape,
a node never changes (its `leaf`, where its value lies once computed, is only ever set). `interpret` says what every
graph computes; `text` prints and parses graphs; `composites` names larger functions and can write them out.
"""
