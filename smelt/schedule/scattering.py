"""The launch of a scatter: which axes of the updates form a row, and along which axis tasks share the result."""

from __future__ import annotations

from smelt.cost import Profile
from smelt.dtypes import DType, bfloat16, float16, float32
from smelt.fuse import Operand
from smelt.graph import IndexLike, Node, as_index, product_of, row_major, upper
from smelt.kernel import Routine, Step, Temporary

TASK_BYTES = 1 << 18  # memory traffic that makes it worth asking another thread


def scatter_steps(node: Node, sources: list[Operand], profile: Profile) -> list[Step]:
    """The launch of a SCATTER node."""
    target, updates, *indices = sources
    op, axes, _ = node.attribute
    shape, sizes = node.shape, node.sources[1].shape
    strides = row_major(shape)
    outer = _outer_axes(axes, sizes, updates, indices, len(shape))
    row = product_of(sizes[outer:])
    wide = node.dtype in (float16, bfloat16) and op != "set"
    kept = {k: strides[axis] for axis, k in enumerate(axes)}
    at = next((axis for axis, size in enumerate(shape) if size != 1), None)
    if at is not None and axes[at] >= outer:
        at = None  # it lies within a row
    # All elements before the axis are one, so a range is one piece of memory.
    extent, stride = (1, product_of(shape)) if at is None else (shape[at], strides[at])
    tasks = _tasks(extent, upper(row), upper(product_of(shape)) + upper(product_of(sizes)), node.dtype, profile)
    share = (as_index(extent) - 1) // tasks + 1
    values: dict[str, IndexLike] = {"row": row, "extent": extent, "stride": stride, "share": share}
    for k in range(outer):
        values |= {f"size{k}": sizes[k], f"update{k}": updates.strides[k], f"target{k}": kept.get(k, 0)}
    for number, index in enumerate(indices):
        axis = axes.index(-1 - number)
        values |= {f"x{number}_size": shape[axis], f"x{number}_stride": strides[axis]}
        values |= {f"x{number}_{k}": index.strides[k] for k in range(outer)}
    lanes = max(1, profile.vector_bytes // (4 if wide else node.dtype.itemsize))
    words: dict[str, str | int] = {
        "op": op,
        "indices": " ".join(_index_type(index.node.dtype) for index in indices),
        "outer": outer,
        "rows": "single" if row == 1 else "many",
        "target": "scalar" if target.is_scalar and upper(product_of(shape)) > 1 else "whole",
        "updates": "scalar" if all(stride == 0 for stride in updates.strides[outer:]) else "whole",
        "split": "none 0" if at is None else f"axis {axes[at]}" if axes[at] >= 0 else f"index {-1 - axes[at]}",
        "lanes": lanes,
    }
    words |= {"accumulator": "float32"} if wide else {}
    made = Routine("scatter", node.dtype, words, values, as_index(tasks), operations=upper(product_of(sizes)))
    sums = [Temporary(float32, shape)] if wide else []
    return [Step(made, (node, target.node, updates.node, *(index.node for index in indices), *sums))]


def _index_type(dtype: DType) -> str:
    return f"{'i' if dtype.is_signed else 'u'}{dtype.bits}"


def _outer_axes(
    axes: tuple[int, ...], sizes: tuple[IndexLike, ...], updates: Operand, indices: list[Operand], rank: int
) -> int:
    """How many axes of the updates are loops; the others, where memory and the result are contiguous, form a row."""
    outer = len(sizes)
    scalar = outer > 0 and updates.strides[-1] == 0
    expected: IndexLike = 1
    while outer:
        k, axis = outer - 1, rank - 1 - (len(sizes) - outer)
        if axis < 0 or axes[axis] != k or any(index.strides[k] != 0 for index in indices):
            break
        if sizes[k] != 1 and updates.strides[k] != (0 if scalar else expected):
            break
        expected = as_index(expected) * sizes[k]
        outer -= 1
    return outer


def _tasks(extent: IndexLike, row: int, moved: int, dtype: DType, profile: Profile) -> int:
    """Ranges of the result along an axis of this extent, given the elements of a row and all that are moved.

    Every task reads all indices, which only pays where a row is more than that.
    """
    nbytes = moved * dtype.itemsize
    enough = row * dtype.itemsize >= 32 or nbytes > 8 * TASK_BYTES
    tasks = min(profile.cores, max(1, nbytes // TASK_BYTES)) if enough and isinstance(extent, int) else 1
    return min(tasks, upper(extent))
