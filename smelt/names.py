"""Names that are not there, and words for arguments that are not: what to write instead.

Takes the names of a module or class, and the tables of `brought.py`; gives errors that say what to write, and functions
that understand other libraries' words for their arguments.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, ModuleType
from typing import Any, Never, TypeVar

from smelt.brought import IGNORED, NAMES, TOLD, TWICE, WORDS
from smelt.errors import ArgumentError, UnknownNameError

F = TypeVar("F", bound=Callable[..., Any])

# Where a name may be that is missed elsewhere: the module, and what users call it.
_PLACES = {
    "smelt": "sm",
    "smelt.tree": "sm.tree",
    "smelt.tensor.random": "sm.random",
    "smelt.fft": "sm.fft",
    "smelt.nn": "sm.nn",
    "smelt.nn.losses": "sm.nn.losses",
    "smelt.nn.functional": "sm.nn.functional",
    "smelt.optim": "sm.optim",
    "smelt.data": "sm.data",
    "smelt.linalg": "sm.linalg",
    "smelt.train": "sm.train",
    "smelt.formats.stablehlo": "sm.stablehlo",
}
# What Python says about calls whose arguments a function does not take.
_WRONG_CALL = re.compile(
    r"\(\) (got an unexpected keyword argument|got multiple values for argument '(?P<twice>.+)'"
    r"|missing \d+ required .*: (?P<missing>.+)|takes .*(?P<many>positional arguments?) )"
)


# --- attributes


def door(module: str, names: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose public names these are."""
    found = sys.modules.get(module)
    for name, part in () if found is None else vars(found).items():
        if type(part) is ModuleType and name not in names and part.__name__.startswith("smelt."):
            part.__class__ = _Inside

    def missing(name: str) -> Any:
        if name.startswith("_") or _is_import(sys._getframe(1)):
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        raise UnknownNameError(f"module {module!r} has no attribute {name!r}", lambda: _meant(module, name, names))

    return missing, lambda: sorted(names)


class _Inside(ModuleType):
    """A module of smelt's own, whose name people take for that of a function: `sm.device("cpu")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Never:
        module, _, name = self.__name__.rpartition(".")
        hint = _meant(module if module in NAMES else "smelt", name, getattr(sys.modules[module], "__all__", ()))
        raise ArgumentError(f"{self.__name__} is a part of smelt, and no function", hint=hint)


def _meant(module: str, name: str, names: Sequence[str]) -> str:
    """What to write for a name that a module does not have."""
    has_functions = module in ("smelt", "smelt.nn.functional")
    return (
        NAMES.get(module, {}).get(name)
        or (has_functions and NAMES["smelt"].get(name))
        or (module == "smelt" and _of_numpy(name))
        or (has_functions and _as_layer(name))
        or guess(_elsewhere(name) or nearest(name, names))
    )


def _as_layer(name: str) -> str:
    """How to write a function that is there as a layer only."""
    found = [other for other in _public("smelt.nn") if other[0].isupper() and _plain(other) == _plain(name)]
    return f"Write sm.nn.{found[0]}(...)(x)." if found and not _elsewhere(name) else ""


def _is_import(frame: FrameType) -> bool:
    """Whether the import system asks, itself or through a module's own `__getattr__`: for modules not loaded yet."""
    if frame.f_code.co_name == "__getattr__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith("<frozen importlib")


def missing_attribute(value: Any, name: str, kind: str) -> AttributeError:
    """What to raise for an attribute that an object of one of smelt's classes does not have."""
    message = f"{type(value).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):  # of protocols; nobody mistypes these
        return AttributeError(message, name=name)

    def hint() -> str:
        if name in NAMES[kind]:
            return NAMES[kind][name]
        if kind == "Tensor":
            if name.endswith("_") and hasattr(value, name[:-1]):
                return f"Tensors never change: write x = x.{name[:-1]}(...)."
            if found := _elsewhere(name):
                return f"Write {found}(x)."
            if found := NAMES["smelt"].get(name.rstrip("_")) or _of_numpy(name):
                return found
        return guess(nearest(name, [other for other in dir(value) if not other.startswith("_")]))

    return UnknownNameError(message, hint)


def guess(name: str | None) -> str:
    """The question whether a name was meant; nothing without one."""
    return f"Did you mean {name}?" if name else ""


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first of some names, and how many more there are.

    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2), listed([])
    ('a, b and 1 more', 'a, b', 'none')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}" or "none"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    plain = _plain(name)
    candidates = [other for other in known if abs(len(other) - len(name)) <= 2]  # the comparison below is slow
    for other in candidates:
        if _plain(other) == plain:
            return other
    import difflib  # loaded when first used: `import smelt` stays instant

    found = difflib.get_close_matches(name.lower(), [other.lower() for other in candidates], n=1, cutoff=0.75)
    return next((other for other in candidates if other.lower() in found), None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _of_numpy(name: str) -> str:
    """What to write for a function that NumPy has, and that takes tensors by NumPy's protocol."""
    import numpy as np

    found = isinstance(getattr(np, name, None), type(np.sum) | np.ufunc)
    return f"np.{name} takes tensors, and gives arrays." if found else ""


def _elsewhere(name: str) -> str | None:
    """Where else a name is."""
    place = next((place for place in _PLACES if name in _public(place)), None)
    return None if place is None else f"{_PLACES[place]}.{name}"


def _public(module: str) -> Sequence[str]:
    """The names of a module, which may not have been loaded yet."""
    import importlib

    names: Sequence[str] = importlib.import_module(module).__all__
    return names


# --- arguments


def understand(module: ModuleType) -> None:
    """Let all public functions and classes of a module understand other libraries' words for their arguments, and say
    what they take.
    """
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) and not hasattr(value, "understood"):
            setattr(module, name, _once(value))
        elif isinstance(value, type) and not getattr(value, "_is_protocol", False):
            start = value.__init__  # type: ignore[misc]
            if inspect.isfunction(start) and not hasattr(start, "understood"):
                value.__init__ = understood(start)  # type: ignore[misc]


def understood(function: F) -> F:
    """A function (or `__init__`) that takes other libraries' words for its arguments, too, and says what it takes."""

    wrappers = _wrappers(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            found = _WRONG_CALL.search(str(error))
            if found is None or _depth(error) > wrappers + 1:  # not about the words of this call
                raise
        name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
        if word := found["twice"]:
            raise ArgumentError(f"{name}: {word} is given by place and by name", hint=TWICE.get(word, ""))
        if names := found["missing"]:
            are = "are" if " and " in names else "is"
            raise ArgumentError(f"{name}: {names.replace(chr(39), '')} {are} missing", hint=_taken(function))
        if found["many"]:
            count = len(args) - (function.__name__ == "__init__")
            raise ArgumentError(f"{name}: too many arguments by place: {count}", hint=_taken(function))
        return call(*args, **_in_own_words(function, name, kwargs))

    call.understood = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def _taken(function: Callable[..., Any]) -> str:
    """What a function takes."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    by_place = ", ".join([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
    by_name = ", ".join([f"{p.name}=" for p in parameters if p.kind is p.KEYWORD_ONLY])
    return f"It takes: {by_place or 'none'}{'; by name: ' if by_name else ''}{by_name}."


def _wrappers(function: Callable[..., Any]) -> int:
    """How many functions there are around another one."""
    inner = getattr(function, "__wrapped__", None)
    return 0 if inner is None else 1 + _wrappers(inner)


def _depth(error: Exception) -> int:
    """In how many calls an error was, when it was caught."""
    depth, at = 0, error.__traceback__
    while at is not None:
        depth, at = depth + 1, at.tb_next
    return depth


_once = functools.cache(understood)  # aliases stay one function


def _in_own_words(function: Callable[..., Any], name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments under the names that a function has for them."""
    parameters = inspect.signature(function).parameters.values()
    own = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    words: dict[str, Any] = {}
    for word, value in given.items():
        if word in own:
            words[word] = value
            continue
        if word in IGNORED:
            continue
        meant = next((other for other in WORDS.get(word, ()) if other in own and other not in given), None)
        if meant is None:
            raise _unknown_word(name, word, [other for other in own if other != "self"])
        words[meant] = value
    return words


def _unknown_word(name: str, word: str, own: list[str]) -> ArgumentError:
    near = nearest(word, own)
    hint = TOLD.get(word) or guess(near) or f"It takes: {', '.join(own)}."
    return ArgumentError(f"{name}: there is no argument {word!r}", hint=hint)
