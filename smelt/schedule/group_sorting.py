"""The launch of a sort on a device whose threads come in groups: one group sorts a row."""

from __future__ import annotations

from smelt.cost import Profile
from smelt.dtypes import int64
from smelt.fuse import Operand
from smelt.graph import Node, as_index, product_of, upper
from smelt.kernel import Routine, Step, Temporary


def group_sort_steps(node: Node, source: Operand, profile: Profile) -> list[Step]:
    """Places are sorted, with the elements as keys: so every sort is stable, and equal elements stay what they are."""
    axis, descending, indices = node.attribute
    shape = node.sources[0].shape
    dtype = source.node.dtype
    n, count = shape[axis], node.shape[axis]
    outer, inner = product_of(shape[:axis]), product_of(shape[axis + 1 :])
    rows = as_index(outer) * inner
    threads = 1
    while threads < profile.group_threads and 2 * threads <= upper(n):
        threads *= 2
    words: dict[str, str | int] = {
        "indices": int(indices),
        "out": "i64" if indices else f"u{dtype.bits}",
        "descending": int(descending),
        "zeros_equal": 1,
        "threads": threads,
    }
    sizes = {"n": n, "count": count, "outer": outer, "inner": inner}
    work = upper(rows) * upper(n)
    made = Routine("group_sort", dtype, words, sizes, as_index(rows), operations=work, threads=threads)
    places = (Temporary(int64, (rows, n)), Temporary(int64, (rows, n)))
    return [Step(made, (node, source.node, *places))]
