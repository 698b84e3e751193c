"""A function of a script, or the model in a file, and the shapes of what it is given: words that commands share."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

FUNCTION: Final = "a function of a script as SCRIPT.py:FUNCTION, a .gguf file, or a Hugging Face folder"
SHAPES: Final = 'the type of each argument: "f32[2,3], i64[n]"; a name is a size that may change, up to N in n<=N'
_MODEL_SHAPES: Final = "i32[16]"
_SHORT: Final = {
    "i1": "bool",
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"c{bits}": f"complex{bits}" for bits in (64, 128)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


class Called(NamedTuple):
    """A function with arguments of the types that were asked for, whose values are zeros; and their declared shapes,
    if some of these have dims.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    shapes: list[tuple[Any, ...]] | None


def add_function(one: argparse.ArgumentParser) -> None:
    """Which function, and the shapes of its arguments."""
    one.add_argument("function", help=FUNCTION)
    one.add_argument("--shapes", metavar="TYPES", help=SHAPES)


def called(arguments: argparse.Namespace) -> Called:
    """The function that the words name, with its arguments."""
    script, _, name = arguments.function.rpartition(":")
    if script.endswith(".py"):
        found = _of_script(Path(script), name)
        return _with_types(name, found, arguments.shapes or "")
    if arguments.function.endswith(".py"):
        from smelt.errors import ArgumentError

        raise ArgumentError(f"{arguments.function} is a script", hint=f"Write {arguments.function}:FUNCTION.")
    return _with_types("logits", _logits(arguments.function), arguments.shapes or _MODEL_SHAPES)


# --- types of arguments


def argument_types(text: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """Dtypes and shapes: `f32[2, 3], i64[n], float32[n<=512, 2*n]`, where a name is one dim everywhere.

    >>> [(str(dtype), shape) for dtype, shape in argument_types("f32[2,3], u8[]")]
    [('float32', (2, 3)), ('uint8', ())]
    """
    from smelt.errors import ParseError

    try:
        return _types(text)
    except ParseError as error:
        raise ParseError(f'--shapes "{text:.80}": {error.message}', rule=error.rule, hint=error.hint) from None


def type_text(dtype: Any, shape: tuple[Any, ...]) -> str:
    """A type as `argument_types` reads it; an open size has the name of its axis, as sizes along one often agree.

    >>> type_text("float32", (None, 5)), type_text("int64", ())
    ('f32[b,5]', 'i64[]')
    """
    short = {long: short for short, long in _SHORT.items()}
    sizes = ("bcdefgh"[axis % 7] if size is None else str(size) for axis, size in enumerate(shape))
    return f"{short.get(str(dtype), dtype)}[{','.join(sizes)}]"


def _types(text: str) -> list[tuple[Any, tuple[Any, ...]]]:
    from smelt.dtypes import as_dtype
    from smelt.graph import TokenReader

    line, dims = TokenReader(text), dict[str, Any]()
    found: list[tuple[Any, tuple[Any, ...]]] = []
    while not found or line.accept(","):
        word = line.name("a type, such as f32[2,3]")
        dtype = as_dtype(_SHORT.get(word, word), "--shapes")
        sizes: list[Any] = []
        line.expect("[")
        while not line.accept("]"):
            sizes.append(_size(line, dims))
            if not line.starts("]"):
                line.expect(",")
        found.append((dtype, tuple(sizes)))
    line.end()
    return found


def _size(line: Any, dims: dict[str, Any]) -> Any:
    """A number, or an expression of dims, which are made where they are first met."""
    from smelt.graph import Dim, size_of

    if line.kind == "name" and line.token not in ("min", "max") and line.token not in dims:
        name = line.name()
        dims[name] = Dim(name, 1, _bound(line)) if line.accept("<") else Dim(name)
        return dims[name]
    if line.starts("-"):
        line.fail("a size")
    return size_of(line.index(dims))


def _bound(line: Any) -> int:
    line.expect("=")
    most: int = line.integer()
    return most


def _with_types(name: str, function: Callable[..., Any], text: str) -> Called:
    """The function, called with zeros of these types: of the least size where it may change."""
    import numpy as np

    from smelt.errors import ArgumentError
    from smelt.graph import Index
    from smelt.tensor import from_numpy

    types = argument_types(text) if text.strip() else []
    symbolic = any(isinstance(size, Index) for _, shape in types for size in shape)
    args = []
    for dtype, shape in types:
        least = [size.evaluate(_LEAST) if isinstance(size, Index) else size for size in shape]
        try:
            args.append(from_numpy(np.zeros(least, dtype.numpy)))  # memory that nobody touches
        except (MemoryError, ValueError):
            raise ArgumentError(f"--shapes: there is no memory for {dtype}{least}") from None
    try:
        wanted = inspect.signature(function)
    except ValueError:  # of what is written in C
        wanted = None
    try:
        _ = wanted and wanted.bind(*args)
    except TypeError:
        raise ArgumentError(f"{name}{wanted}: --shapes has {len(args)} types", rule="It needs one for each.") from None
    return Called(name, function, tuple(args), [shape for _, shape in types] if symbolic else None)


class _Least(dict[str, int]):
    """The least value of every dim."""

    def __missing__(self, name: str) -> int:
        return 1


_LEAST: Final = _Least()


# --- functions


def _of_script(script: Path, name: str) -> Callable[..., Any]:
    """A function, by its name in a script that is run as a module: what it prints goes to stderr."""
    import runpy

    from smelt.errors import ArgumentError
    from smelt.names import guess, listed, nearest

    if not script.is_file():
        raise ArgumentError(f"there is no file {script}")
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            names = runpy.run_path(str(script), run_name=script.stem)
    except SyntaxError as error:
        raise ArgumentError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    finally:
        sys.path.pop(0)
    found: Any = names
    for part in name.split("."):
        found = found.get(part) if found is names else getattr(found, part, None)
    if not callable(found):
        known = [key for key, value in names.items() if callable(value) and not key.startswith("_")]
        message = f"{script} has no function called {name!r:.80}"
        raise ArgumentError(message, hint=guess(nearest(name, known)) or f"It has {listed(known)}.")
    function: Callable[..., Any] = found
    return function


def _logits(model: str) -> Callable[..., Any]:
    """The logits of the token that follows some others, by the model in a file."""
    import smelt as sm
    from smelt.llm import loading
    from smelt.llm.cache import PAGE, empty_cache, pages_of

    decoder, _, _ = loading.opened(model, exact=True)

    def logits(tokens: Any) -> Any:
        count = tokens.shape[0]
        pages = pages_of(count if isinstance(count, int) else PAGE)
        cache = empty_cache(decoder.config, pages, sm.float32)
        positions = sm.arange(count, dtype=sm.int32)
        last = sm.asarray([count - 1], dtype=sm.int32)
        return decoder(cache, tokens, positions, sm.arange(pages, dtype=sm.int32), last)[1]

    return logits
