"""The scatter routine as C: loops over the updates, around one row of them.

Each task owns a range of the result along its first axis that is longer than one: it copies the target there and
applies the updates that fall into it, in row-major order. So nothing is shared, and results do not depend on the number
of tasks. 16-bit floats are combined in float32, in a buffer of their own, and rounded once.
"""

from __future__ import annotations

from smelt.dtypes import bfloat16, compute_dtype, float16
from smelt.kernel import Routine
from smelt.render.elementwise import element, elementwise
from smelt.render.library import Library, Type

PREFETCH = 12  # updates ahead


class Scatter:
    """The kernel, in the notation of `routines`. Words: op, indices, outer, rows, target, updates, split, lanes."""

    def __init__(self, routine: Routine, library: Library) -> None:
        self.routine, self.library = routine, library
        self.words = dict(routine.words)
        self.op = str(self.words["op"])
        self.lanes = int(self.words["lanes"])
        self.indices = str(self.words["indices"]).split()  # the C type of each index tensor
        self.outer = int(self.words["outer"])  # axes of the updates that are loops
        self.wide = "accumulator" in self.words
        dtype = routine.dtype
        if self.op == "set" or dtype.is_bool:
            self.memory = self.element = f"u{dtype.bits}"
        elif dtype in (float16, bfloat16):
            self.memory, self.element = f"u{dtype.bits}", "f32"
        else:
            self.memory = self.element = element(compute_dtype(dtype))

    def text(self) -> str:
        filled, task = self.words["target"] == "scalar", ("i", "from", "to")
        lines = [
            f"const GLOBAL {self.memory} *target = buffers[1], *updates = buffers[2];",
            *(f"const GLOBAL {kind} *x{k} = buffers[{3 + k}];" for k, kind in enumerate(self.indices)),
            f"GLOBAL {self.memory} *o = buffers[0];",
            f"GLOBAL {self.element} *a = buffers[{3 + len(self.indices) if self.wide else 0}];",
            "SIZES",
            "for (long task = begin; task < end; task++) {",
            "long low = task * share, high = low + share < extent ? low + share : extent;",
            "long from = low * stride, to = high * stride;",
            # It lies there already where its owner has given it up.
            *([] if self.wide or filled else ["if (a != target)"]),
            *self._sweep("a", task, "target", "set", widen=True, one=filled),
            *self._loops(),
            *(self._sweep("o", task, "a", "set", widen=False, one=False) if self.wide else []),
            "}",
        ]
        return "\nKERNEL {\n  " + "\n  ".join(lines) + "\n}\n"

    def _converted(self, text: str, widen: bool, lanes: int) -> str:
        """An element or vector of memory as it is computed with, or back."""
        if not self.wide:
            return text
        name = f"{'widen' if widen else 'narrow'}_{self.routine.dtype.name}"
        return f"{self.library.function(name, Type('f32', lanes))}({text})"

    def _sweep(self, to: str, stretch: tuple[str, str, str], source: str, op: str, widen: bool, one: bool) -> list[str]:
        """Combine a stretch (index, first, last) with what lies beside it in a source, or with the one number there: a
        vector at a time, and what is left one by one.
        """
        i, first, last = stretch
        kind, other = (self.element, self.memory) if widen else (self.memory, self.element)
        lines = [
            f"long {i} = {first};",
            *([f"{kind} one = {self._converted(f'{source}[0]', widen, 1)};"] if one else []),
        ]
        for lanes in dict.fromkeys((self.lanes if last != "1" else 1, 1)):
            form = Type(kind, lanes)
            old, new = f"{to}[{i}]", f"{source}[{i}]"
            if lanes > 1:
                old, new = f"*({form.name}_u *)({to} + {i})", f"*(const {other}x{lanes}_u *)({source} + {i})"
            new = f"{self.library.function('splat', form)}(one)" if one else self._converted(new, widen, lanes)
            text = new if op == "set" else elementwise(self.library, op, form, [old, new])
            lines.append(f"for (; {i} + {lanes} <= {last}; {i} += {lanes}) {old} = {text};")
        return ["{", *lines, "}"]

    def _loops(self) -> list[str]:
        split = str(self.words["split"])  # "axis k" of the updates, or "index k"
        lines: list[str] = []
        for k in range(self.outer):
            first, last = ("low", "high") if split == f"axis {k}" else ("0", f"size{k}")
            lines.append(f"for (long i{k} = {first}; i{k} < {last}; i{k}++) {{")
        terms = [f"i{k} * target{k}" for k in range(self.outer)]
        for k in range(len(self.indices)):
            at = " + ".join(f"i{j} * x{k}_{j}" for j in range(self.outer)) or "0"
            lines.append(f"long id{k} = x{k}[{at}];")
            inside = (f"(id{k} - low)", "(high - low)") if split == f"index {k}" else (f"id{k}", f"x{k}_size")
            lines.append(f"if ((u64){inside[0]} >= (u64){inside[1]}) continue;")
            terms.append(f"id{k} * x{k}_stride")
        lines += self._prefetch()
        lines.append(f"GLOBAL {self.element} *p = a + {' + '.join(terms) or '0'};")
        at = " + ".join(f"i{k} * update{k}" for k in range(self.outer)) or "0"
        lines.append(f"const GLOBAL {self.memory} *u = updates + {at};")
        row, one = ("j", "0", "1" if self.words["rows"] == "single" else "row"), self.words["updates"] == "scalar"
        return [*lines, *self._sweep("p", row, "u", self.op, widen=True, one=one), *["}"] * self.outer]

    def _prefetch(self) -> list[str]:
        """Rows of the result are met in no order that a processor could guess."""
        if len(self.indices) != 1 or not self.outer or self.words["rows"] == "single":
            return []
        if not self.library.dialect.extensions:
            return []
        last = self.outer - 1
        at = " + ".join([*(f"i{j} * x0_{j}" for j in range(last)), f"(i{last} + {PREFETCH}) * x0_{last}"])
        return [
            f"if (i{last} + {PREFETCH} < size{last}) {{",
            f"const char *ahead = (const char *)((u64)a + (u64)x0[{at}] * (u64)x0_stride * sizeof *a);",
            "for (long k = 0; k < row * (long)sizeof *a && k < 512; k += 64) __builtin_prefetch(ahead + k, 1);",
            "}",
        ]
