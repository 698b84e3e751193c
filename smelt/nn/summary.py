"""What a module is made of, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt import runtime, tree
from smelt.graph import shape_text
from smelt.nn.calls import watching
from smelt.tensor import Tensor, zeros
from smelt.transform.attributes import attributes_of, put_back

if TYPE_CHECKING:
    from smelt.nn.module import Module


def summary(module: Module, inputs: Sequence[Any]) -> str:
    """One line per module: its path, class, the shapes it gives, the parameters in and below it."""
    results: dict[int, str] = {}
    if inputs:
        modules = tree.holders(module)
        before = attributes_of(modules)
        # As a trace, so that the global random sequence stays where it is.
        with runtime.tracing(), watching(lambda one, result: results.update({id(one): _shapes(result)})):
            try:
                module(*[x if isinstance(x, Tensor) else zeros(x) for x in inputs])
            finally:
                put_back(modules, before)  # running means are not those of an example
    rows = [("module", "kind", "result", "parameters")]
    for path, one in module.named_modules():
        count = sum(tensor.size for tensor in one.parameters())
        rows.append((path, type(one).__name__, results.get(id(one), ""), f"{count:,}"))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = ["  ".join([*(row[k].ljust(widths[k]) for k in range(3)), row[3].rjust(widths[3])]) for row in rows]
    return "\n".join([*lines, _totals(module)])


def _shapes(result: Any) -> str:
    """The shapes of a result."""
    leaves, _ = tree.flatten(result)
    return ", ".join(shape_text(leaf.shape) for leaf in leaves if isinstance(leaf, Tensor))


def _totals(module: Module) -> str:
    parameters, buffers = module.parameters(), module.buffers()
    count = sum(x.size for x in parameters)
    text = f"{count:,} parameters, {sum(x.size * x.dtype.itemsize for x in parameters):,} bytes"
    leaves, structure = tree.flatten(module)
    fixed = {id(leaf) for leaf, is_fixed in zip(leaves, tree.fixed(structure), strict=True) if is_fixed}
    frozen = sum(x.size for x in parameters if x.dtype.is_float and id(x) in fixed)
    if frozen:
        text += f"; {frozen:,} frozen"
    return text + (f"; {sum(x.size for x in buffers):,} numbers in buffers" if buffers else "")
