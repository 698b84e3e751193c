"""C functions of users: compiled like smelt's own kernels, and called with pointers and sizes.

The function of an operation takes a pointer for each input and each output, in this order, and then the sizes of all
their axes as `int64_t`. What calls it is written here, after a declaration with exactly these types: a function with
other ones does not compile, so that no call can go wrong by that.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from smelt import dtypes, runtime
from smelt.device import HOST, RefusedCodeError
from smelt.doors.compared import Array
from smelt.dtypes import DType
from smelt.errors import ArgumentError, CompilerError, DTypeError, InternalError

Kinds = tuple[tuple[DType, int], ...]  # the dtype and rank of each array

_ENTRY: Final = "smelt_custom_entry"
_C: Final = {
    dtypes.bool_: "bool",
    dtypes.float32: "float",
    dtypes.float64: "double",
    **{dtypes.as_dtype(f"{sign}int{bits}"): f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_MOST_LINES: Final = 20  # of what a compiler says
_MOST_TEXT: Final = 1 << 20
_GUARD: Final = 64  # bytes on each side of a result that must stay as they are
_PATTERNS: Final = (0xA5, 0x5A)


def declaration(name: str, given: Kinds, gives: Kinds) -> str:
    """What the function of an operation has to be."""
    for dtype, _ in (*given, *gives):
        if dtype not in _C:
            raise DTypeError(f"custom_op {name}: C has no {dtype}", hint="Cast to float32 before, and back after it.")
    parts = [f"const {_C[dtype]} *" for dtype, _ in given] + [f"{_C[dtype]} *" for dtype, _ in gives]
    parts += ["int64_t"] * sum(rank for _, rank in (*given, *gives))
    return f"void {name}({', '.join(parts)})"


class Native:
    """A compiled function. Called, it gives new arrays."""

    def __init__(self, name: str, text: str, given: Kinds, gives: Kinds) -> None:
        self.name, self.gives = name, gives
        self._library = _built(name, text, given, gives)
        kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64))
        self._entry = kind(self._library.address(_ENTRY))

    def __call__(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        results = [np.empty(shape, dtype.numpy) for (dtype, _), shape in zip(self.gives, shapes, strict=True)]
        self._into([np.ascontiguousarray(array) for array in arrays], results)
        return results

    def _into(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        every = [*arrays, *results]
        sizes = [size for array in every for size in array.shape]
        pointers = (ctypes.c_void_p * max(1, len(every)))(*[array.ctypes.data for array in every])
        self._entry(pointers, (ctypes.c_int64 * max(1, len(sizes)))(*sizes))

    def runs(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> Iterator[list[Array]]:
        """Results in memory that held something else before, twice. Raises if anything but them was written."""
        for pattern in _PATTERNS:
            given = [np.array(array, order="C") for array in arrays]
            homes = [_Guarded(shape, dtype, pattern) for (dtype, _), shape in zip(self.gives, shapes, strict=True)]
            self._into(given, [home.array for home in homes])
            if not all(home.is_sound(pattern) for home in homes):
                raise ArgumentError(
                    f"custom_op {self.name}: its C function writes outside of its outputs",
                    rule=f"it was called on shapes {', '.join(str(list(x.shape)) for x in arrays)}.",
                )
            if any(before.tobytes() != after.tobytes() for before, after in zip(arrays, given, strict=True)):
                raise ArgumentError(f"custom_op {self.name}: its C function writes over its inputs")
            yield [home.array for home in homes]


class _Guarded:
    """Room for a result between bytes that nobody may write."""

    def __init__(self, shape: tuple[int, ...], dtype: DType, pattern: int) -> None:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._all = np.full(nbytes + 2 * _GUARD, pattern, np.uint8)
        inside = self._all[_GUARD : _GUARD + nbytes]
        if dtype.is_bool:
            inside[:] = pattern & 1  # other bytes are no bools
        self.array: Any = inside.view(dtype.numpy).reshape(shape)

    def is_sound(self, pattern: int) -> bool:
        return bool((self._all[:_GUARD] == pattern).all() and (self._all[-_GUARD:] == pattern).all())


@functools.lru_cache(maxsize=256)
def native(name: str, text: str, given: Kinds, gives: Kinds) -> Native:
    """The function of an operation for some types, compiled once."""
    return Native(name, text, given, gives)


def check_text(name: str, text: Any) -> str:
    """C source, as far as that can be seen without a compiler."""
    if not isinstance(text, str) or not text.strip() or "\0" in text or len(text) > _MOST_TEXT:
        raise ArgumentError(
            f"custom_op {name}: its source is {type(text).__name__ if not isinstance(text, str) else 'not C'}",
            rule="it is the text of a C function, of at most a megabyte.",
        )
    return text


def _source(name: str, text: str, given: Kinds, gives: Kinds) -> str:
    """The text, between what it may rely on and what calls it."""
    count = len(given) + len(gives)
    parts = [f"buffers[{k}]" for k in range(count)]
    parts += [f"sizes[{k}]" for k in range(sum(rank for _, rank in (*given, *gives)))]
    return "\n".join(
        [
            "#include <math.h>",
            "#include <stdbool.h>",
            "#include <stddef.h>",
            "#include <stdint.h>",
            f'#line 1 "{name}.c"',
            text,
            f'#line 1 "{_ENTRY}.c"',
            f"{declaration(name, given, gives)};",
            f"void {_ENTRY}(void *const *buffers, const int64_t *sizes) {{ {name}({', '.join(parts)}); }}",
            "",
        ]
    )


def _built(name: str, text: str, given: Kinds, gives: Kinds) -> Any:
    expected = declaration(name, given, gives)
    source = _source(name, text, given, gives)
    try:
        [library] = runtime.device(HOST, "custom_op").build([source])
        library.address(_ENTRY)
    except RefusedCodeError as error:
        said = "\n".join(error.said.strip().splitlines()[:_MOST_LINES])
        raise CompilerError(
            f"custom_op {name}: the C compiler refuses its source\n{said}", rule=f"the function has to be {expected}."
        ) from None
    except InternalError:
        raise CompilerError(
            f"custom_op {name}: its source hides what is written after it",
            rule="comments and conditions have to end.",
        ) from None
    return library
