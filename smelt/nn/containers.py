"""Modules that hold others: one after the other, by number, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from smelt.errors import ArgumentError
from smelt.nn.calls import tell_part
from smelt.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """Modules that are attributes named 0, 1, ..., as PyTorch names them."""

    def __init__(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self.append(part)

    def append(self, part: Any) -> None:
        """Add one at the end."""
        vars(self)[str(len(self))] = self._checked(len(self), part)

    def _checked(self, number: int, part: Any) -> Any:
        rule = "parts are modules, or functions of tensors."
        if isinstance(part, type):
            hint = f"Write {part.__name__}()."
            raise ArgumentError(
                f"{type(self).__name__}: part {number} is the class {part.__name__}", rule=rule, hint=hint
            )
        if not callable(part):
            hint = f"Write {type(self).__name__}(*parts)." if isinstance(part, list | tuple) else ""
            raise ArgumentError(
                f"{type(self).__name__}: part {number} is of type {type(part).__name__}", rule=rule, hint=hint
            )
        return part

    def extend(self, parts: Iterable[Any]) -> None:
        """Add several at the end."""
        for part in parts:
            self.append(part)

    def _all(self) -> list[Any]:
        return [part for name, part in vars(self).items() if name.isdigit()]

    def _shown(self) -> Iterator[tuple[str, str]]:
        parts = [(name, part) for name, part in vars(self).items() if name.isdigit()]
        texts = {name: getattr(part, "__name__", repr(part)) for name, part in parts} | dict(super()._shown())
        yield from sorted(texts.items(), key=lambda item: int(item[0]) if item[0].isdigit() else len(texts))

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __getitem__(self, key: int | slice) -> Any:
        parts = self._all()[key]
        return type(self)._of(parts) if isinstance(key, slice) else parts

    def __setitem__(self, key: int, part: Any) -> None:
        number = range(len(self))[key]
        vars(self)[str(number)] = self._checked(number, part)

    @classmethod
    def _of(cls, parts: Iterable[Any]) -> Any:
        made = object.__new__(cls)
        _Numbered.__init__(made, parts)
        return made


class Sequential(_Numbered):
    """Modules, or functions, one after the other.

    >>> import smelt as sm
    >>> net = sm.nn.Sequential(sm.nn.Linear(4, 8), sm.relu, sm.nn.Linear(8, 2))
    >>> net(sm.ones(3, 4)).shape
    (3, 2)
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(parts)

    def __call__(self, x: Any) -> Any:
        for part in self._all():
            try:
                x = part(x)
            except Exception as error:
                tell_part(error, part)
                raise
        return x


class ModuleList(_Numbered):
    """Modules by number. A plain list of modules does as well.

    >>> import smelt as sm
    >>> layers = sm.nn.ModuleList(sm.nn.Linear(4, 4) for _ in range(3))
    >>> len(layers), [name for name, _ in layers.named_parameters()][:2]
    (3, ['0.weight', '0.bias'])
    """

    def __init__(self, parts: Iterable[Any] = ()) -> None:
        super().__init__(parts)


class ModuleDict(Module):
    """Modules by name. A plain dictionary of modules does as well.

    >>> import smelt as sm
    >>> heads = sm.nn.ModuleDict({"small": sm.nn.Linear(4, 2), "large": sm.nn.Linear(4, 9)})
    >>> heads["large"](sm.ones(1, 4)).shape
    (1, 9)
    """

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        for name, part in (parts or {}).items():
            self[name] = part

    def __setitem__(self, name: str, part: Any) -> None:
        if not isinstance(name, str) or not name or "." in name or hasattr(ModuleDict, name):
            raise ArgumentError(
                f"ModuleDict: {name!r} cannot be a key", rule="keys are strings without dots, and no attributes of it."
            )
        vars(self)[name] = part

    def _parts(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if not hasattr(ModuleDict, name)}

    def __getitem__(self, name: str) -> Any:
        parts = self._parts()
        if name not in parts:
            raise KeyError(name)
        return parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts()

    def __len__(self) -> int:
        return len(self._parts())

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts())

    def keys(self) -> list[str]:
        """The names."""
        return list(self._parts())

    def values(self) -> list[Any]:
        """The modules."""
        return list(self._parts().values())

    def items(self) -> list[tuple[str, Any]]:
        """Names with modules."""
        return list(self._parts().items())
