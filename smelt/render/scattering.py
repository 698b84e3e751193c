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
        start = self.words["target"]
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
            *([] if self.wide or start == "scalar" else ["if (a != target)"]),
            *self._move("a", "target", widen=True, fill=start == "scalar"),
            *self._loops(),
            *(self._move("o", "a", widen=False, fill=False) if self.wide else []),
            "}",
        ]
        return "\nKERNEL {\n  " + "\n  ".join(lines) + "\n}\n"

    def _converted(self, text: str, widen: bool, lanes: int) -> str:
        """An element or vector of memory as it is computed with, or back."""
        if not self.wide:
            return text
        name = f"{'widen' if widen else 'narrow'}_{self.routine.dtype.name}"
        return f"{self.library.function(name, Type('f32', lanes))}({text})"

    def _read(self, kind: str, source: str, place: str, widen: bool, lanes: int) -> str:
        text = f"{source}[{place}]" if lanes == 1 else f"*(const {kind}x{lanes}_u *)({source} + {place})"
        return self._converted(text, widen, lanes)

    def _swept(self, kind: str, to: str, i: str, last: str, whole: str, one: str) -> list[str]:
        """Stores of a vector at a time, and what is left one by one."""
        step = self.lanes
        vectors = f"for (; {i} + {step} <= {last}; {i} += {step}) *({kind}x{step}_u *)({to} + {i}) = {whole};"
        return [*([vectors] if step > 1 else []), f"for (; {i} < {last}; {i}++) {to}[{i}] = {one};"]

    def _move(self, to: str, source: str, *, widen: bool, fill: bool) -> list[str]:
        """Copy the task's range, or fill it with one value."""
        read, write = (self.memory, self.element) if widen else (self.element, self.memory)
        if fill:
            one = self._converted(f"{source}[0]", widen, 1)
            whole = f"{self.library.function('splat', Type(self.element, self.lanes))}({one})"
        else:
            whole, one = (self._read(read, source, "i", widen, lanes) for lanes in (self.lanes, 1))
        return ["{", "long i = from;", *self._swept(write, to, "i", "to", whole, one), "}"]

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
        return [*lines, *self._row(), *["}"] * self.outer]

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

    def _row(self) -> list[str]:
        if self.words["rows"] == "single":
            return [f"p[0] = {self._combined('p[0]', self._converted('u[0]', True, 1), 1)};"]
        lines: list[str] = []
        if self.words["updates"] == "scalar":
            lines.append(f"{self.element} one = {self._converted('u[0]', True, 1)};")
            vector, single = f"{self.library.function('splat', Type(self.element, self.lanes))}(one)", "one"
        else:
            vector, single = (self._read(self.memory, "u", "j", True, lanes) for lanes in (self.lanes, 1))
        old = "p[j]" if self.lanes == 1 else f"*({self.element}x{self.lanes}_u *)(p + j)"
        whole, one = self._combined(old, vector, self.lanes), self._combined("p[j]", single, 1)
        return [*lines, "long j = 0;", *self._swept(self.element, "p", "j", "row", whole, one)]

    def _combined(self, old: str, new: str, lanes: int) -> str:
        if self.op == "set":
            return new
        return elementwise(self.library, self.op, Type(self.element, lanes), [old, new])
