"""What every action has: a text form that is written once, a check against the region, and an effect on lowering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Self

from smelt.graph import forms
from smelt.kernel.ir import Kernel
from smelt.kernel.lowering.plan import Plan, refuse

Parts = tuple[tuple[int, str], ...]  # (extent, kind) from the outside to the inside


@dataclass(frozen=True, slots=True)
class Action:
    """One decision of a schedule. It never changes what is computed.

    `form` is its text (see `forms`): a word, then fields, whose kinds are those of `_Actions`.
    """

    form: ClassVar[str]
    cuts: ClassVar[bool] = False  # other actions name the loops that this one makes, so it is applied before them

    def apply(self, plan: Plan) -> None:
        """Check the action against the region and those before it, and put it into the plan. Raises `Illegal`."""
        raise NotImplementedError

    @classmethod
    def settle(cls, plan: Plan) -> None:
        """Once all actions of a schedule are in the plan: what they refuse together."""

    def on(self, kernel: Kernel) -> Kernel:
        """What the action says about the whole kernel, once that is lowered."""
        return kernel

    @classmethod
    def refuse(cls, when: object, why: str) -> None:
        """Raise `Illegal` if something is true."""
        refuse(when, f"{cls.form.split()[0]}: {why}")

    def __str__(self) -> str:
        return _TEXT.written(self.form, self)

    @classmethod
    def parse(cls, line: forms.Line) -> Self:
        """The action that a text of this kind describes."""
        return cls(**_TEXT.read_form(cls.form, line))


def _read_name(_: forms.Text, line: forms.Line) -> str:
    return f"%{line.integer()}" if line.accept("%") else line.name()


def _read_names(text: forms.Text, line: forms.Line) -> tuple[str, ...]:
    """Names up to the end, or to what a grid is made of them for."""
    found: list[str] = []
    while not found or line.token not in ("", "grid"):
        found.append(_read_name(text, line))
    return tuple(found)


def _read_dimension(_: forms.Text, line: forms.Line) -> str:
    axis = line.name("an axis")
    return f"{axis}{line.take()}{line.integer()}" if line.starts("/") or line.starts("%") else axis


class _Actions(forms.Text):
    """The text of an action."""

    kinds: ClassVar = {
        **forms.COMMON,
        "axis": forms.WORD,
        "name": forms.Kind(_read_name),
        "names": forms.Kind(_read_names, lambda _, names: " ".join(names)),
        "order": forms.listed(forms.Kind(_read_dimension), "(", ")"),
        "parts": forms.listed(forms.formed(None, "{0:number} {1:word}"), "(", ")"),
    }


_TEXT: Final = _Actions()
