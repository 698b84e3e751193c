"""Takes graphs; gives graphs of their derivatives, and of the same for a batch.

`vjp` pulls cotangents back through a graph, `jvp` pushes tangents forward, `batch` adds an axis. Each is one rule per
op. Always holds: what comes out is made of the same ops as what went in, so every transform can be applied again.
"""
