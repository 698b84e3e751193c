"""Threads of a group: which elements are whose, how tiles are folded across them, and who stores what all hold.

A thread part of a value is a slice of the bits of the thread's number. Values that lack some of the bits are computed
by several threads alike; the first of these stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smelt.kernel import Kernel, Part, Value, defines, statements
from smelt.render.library import Type
from smelt.render.tiles import Sheet


class Groups:
    """The group that runs one kernel. Without groups in the dialect, or with one thread, there is nothing to it."""

    def __init__(self, kernel: Kernel, sheet: Sheet) -> None:
        self.kernel, self.dialect, self.lines, self.fresh = kernel, sheet.library.dialect, sheet.lines, sheet.fresh
        self.together = self.dialect.groups and kernel.threads > 1
        self.declarations: list[str] = []
        for part in _thread_parts(kernel) if self.dialect.groups else ():  # the thread's place along every one
            sheet.names[part.name] = _place(part) if part.extent > 1 else "0"

    def wait(self) -> None:
        if self.together:
            self.lines.append("GROUP_BARRIER;")

    def owner(self, value: Value) -> str:
        """The condition that holds for one of the threads that hold the same elements; empty if there is only one."""
        if not self.together:
            return ""
        conditions: list[str] = []
        bit = 1
        for part in sorted((p for p in value.parts if p.stride and p.extent > 1), key=lambda p: p.stride):
            if part.stride > bit:
                conditions.append(f"thread / {bit} % {part.stride // bit} == 0")
            bit = part.stride * part.extent
        if bit < self.kernel.threads:
            conditions.append(f"thread / {bit} == 0")
        return " && ".join(conditions)

    def fold(self, form: Type, parts: Sequence[Part], own: str, combine: Callable[[str, str], str]) -> str:
        """Fold a number across threads, by halves, in memory that they share. Every thread gets the result."""
        scratch = f"w_{form.element}"
        declaration = f"{self.dialect.shared}{form.element} {scratch}[{self.kernel.threads}];"
        self.declarations += [declaration] if declaration not in self.declarations else []
        name = self.fresh("whole")
        mine, first = f"{scratch}[thread]", "thread"
        self.lines += [f"{mine} = {own};", "GROUP_BARRIER;"]
        for part in parts:
            place = _place(part)
            half = part.extent // 2
            while half:  # written out: compilers for groups take long over barriers in loops
                other = f"{scratch}[thread + {half * part.stride}]"
                self.lines += [f"if ({place} < {half}) {mine} = {combine(mine, other)};", "GROUP_BARRIER;"]
                half //= 2
            first += f" - {place} * {part.stride}"
        self.lines += [f"const {form.element} {name} = {scratch}[{first}];", "GROUP_BARRIER;"]
        return name


def _place(part: Part) -> str:
    return f"(thread / {part.stride} % {part.extent})"


def _thread_parts(kernel: Kernel) -> list[Part]:
    found: dict[str, Part] = {}
    for value in map(defines, statements(kernel.body)):
        found.update((part.name, part) for part in (value.parts if value else ()) if part.stride)
    return list(found.values())
