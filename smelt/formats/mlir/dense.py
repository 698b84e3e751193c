"""The elements of constants: from text to little-endian bytes, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from smelt.dtypes import bfloat16, cast_array, float8_e4m3fn, float8_e5m2, int4, uint4
from smelt.formats.mlir.tree import Dense, Ranked

_PLAIN: Final = {
    "i1": "bool",
    **{
        f"{sign}i{bits}": f"{kind}{bits}"
        for sign, kind in (("", "int"), ("s", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "index": "int64",
}
_ADDED: Final = {
    "bf16": bfloat16,
    "f8E4M3FN": float8_e4m3fn,
    "f8E5M2": float8_e5m2,
    "i4": int4,
    "si4": int4,
    "ui4": uint4,
}
_PIECE: Final = 1 << 20  # digits that are taken at once: copies of all would need their memory
_BRACKETS: Final = frozenset("[](),")
_COMPLEX: Final = re.compile(r"complex<(f32|f64)>")
_NUMBER: Final = re.compile(r"[-+]?(0x[0-9A-Fa-f]+|[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?)")
_WIDTHS: Final = {"f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def numpy_type(element: str) -> np.dtype[Any] | None:
    """NumPy's type for an element type; None if there is none."""
    if element in _PLAIN:
        return np.dtype(_PLAIN[element]).newbyteorder("<")
    if element in _ADDED:
        return _ADDED[element].numpy
    match = _COMPLEX.fullmatch(element)
    return None if match is None else np.dtype("<c8" if match[1] == "f32" else "<c16")


def float_of_bits(bits: int, element: str) -> int | float:
    """The number with these bits, if it is of a float type."""
    if element not in _WIDTHS:
        return bits
    if bits >> _WIDTHS[element] or bits < 0:
        raise ValueError(f"0x{bits:X} is not the bits of a {element}")
    kind = numpy_type(element)
    return float(np.frombuffer(bits.to_bytes(_WIDTHS[element] // 8, "little"), kind)[0])


def float_text(value: float, element: str) -> str:
    """A number of a float type as MLIR writes it: with digits, or its bits where it is not finite."""
    if math.isfinite(value):
        short = f"{value:.6e}"
        return short if float(short) == value else f"{value:.17e}"
    bits = np.array(value, numpy_type(element)).tobytes()[::-1]
    return f"0x{bits.hex().upper()}"


def elements(kind: Ranked) -> int:
    """How many elements a type has, whose sizes are known."""
    count = 1
    for size in kind.sizes:
        count *= size or 0
    return count


def read(inside: list[str], kind: Ranked) -> Dense:
    """What the tokens between the brackets of `dense<…>` say. ValueError: they do not fit the type."""
    element = numpy_type(kind.element)
    if element is None:
        return Dense(kind, False, b"", "".join(inside))
    count = elements(kind)
    if len(inside) == 1 and inside[0].startswith('"'):
        return _raw(inside[0], kind, element, count)
    numbers = [token for token in inside if token not in _BRACKETS]
    values = _array(numbers, kind.element, element)
    single = "[" not in inside
    if not inside:
        single = count == 0
    if inside.count("[") != inside.count("]"):
        raise ValueError("the brackets of a constant do not fit together")
    if values.size != (1 if single and inside else count):
        raise ValueError(f"a constant has {values.size} elements, and its type {kind} has {count}")
    if not single and not _is_nested(inside, kind.sizes):
        raise ValueError(f"the lists of a constant are not nested as its type {kind} says")
    return Dense(kind, single and bool(inside), values.tobytes())


def _is_nested(inside: list[str], sizes: Sequence[int | None]) -> bool:
    """Whether lists in lists have the lengths of a shape; the two parts in (…) are one element."""
    element = "(" if "(" in inside else ""
    counts = [0]  # of what was met in each list that is open
    for token in inside:
        depth = len(counts) - 1
        if token == "[":
            if depth == len(sizes):
                return False
            counts.append(0)
        elif token == "]":
            if not depth or counts.pop() != sizes[depth - 1]:
                return False
            counts[-1] += 1
        elif token == element or not (element or token in _BRACKETS):
            if depth < len(sizes):
                return False
            counts[-1] += 1
    return counts == [1]


def _raw(text: str, kind: Ranked, element: np.dtype[Any], count: int) -> Dense:
    """Elements as bytes in hexadecimal. Bools are bits or bytes, as the printer's version likes it."""
    if not text.startswith('"0x'):
        raise ValueError('the bytes of a constant are written as in "0x01FF"')
    end = len(text) - 1
    data = b"".join(bytes.fromhex(text[k : min(k + _PIECE, end)]) for k in range(3, end, _PIECE))
    if 2 * len(data) != end - 3:
        raise ValueError("the bytes of a constant have spaces between them")
    if kind.element == "i1":
        if count != 1 and (data in (b"\0", b"\xff") or (data == b"\1" and count > 8)):
            return Dense(kind, True, b"\1" if data != b"\0" else b"\0")
        if len(data) == (count + 7) // 8 and len(data) != count:
            data = np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").tobytes()
        data = np.frombuffer(data, np.uint8).astype(np.bool_).tobytes()
    splat = len(data) == element.itemsize and count != 1
    if len(data) != element.itemsize * (1 if splat else count):
        raise ValueError(f"a constant has {len(data)} bytes, and its type {kind} has {element.itemsize * count}")
    return Dense(kind, splat or count == 1, data)


def _array(numbers: list[str], name: str, element: np.dtype[Any]) -> Any:
    """Numbers as text in an element type, one after the other."""
    match = _COMPLEX.fullmatch(name)
    if match is not None:
        parts = _array(numbers, match[1], np.dtype("<f4" if match[1] == "f32" else "<f8"))
        if parts.size % 2:
            raise ValueError("a complex number has two parts")
        return parts.view(element)
    if any(len(token) > 400 for token in numbers):
        raise ValueError("a number has too many digits")
    if name == "i1":
        known = {"true": True, "false": False, "1": True, "0": False, "-1": True}
        if not known.keys() >= set(numbers):
            raise ValueError("the elements of this constant are true or false")
        return np.array([known[token] for token in numbers], np.bool_)
    if element.kind in "iu" or name in ("i4", "si4", "ui4"):
        return _integers(numbers, element)
    _check_digits(numbers)
    values = [float_of_bits(int(t, 16), name) if "0x" in t else float(t) for t in numbers]
    wide = np.array(values, np.float64)
    with np.errstate(all="ignore"):
        narrow: Any = cast_array(wide, _ADDED[name]) if name in _ADDED else wide.astype(element)
    return narrow


def _check_digits(numbers: list[str]) -> None:
    """Python would also take words and underscores."""
    wrong = next((token for token in numbers if not _NUMBER.fullmatch(token)), None)
    if wrong is not None:
        raise ValueError(f"a number is expected in a constant, not {wrong:.40}")


def _integers(numbers: list[str], element: np.dtype[Any]) -> Any:
    _check_digits(numbers)
    values = [int(token, 16 if "0x" in token else 10) for token in numbers]
    bits = 4 if element.itemsize == 1 and "4" in element.name else 8 * element.itemsize
    if any(not -(1 << (bits - 1)) <= value < 1 << bits for value in values):
        raise ValueError(f"a number does not fit in {bits} bits")
    half = 0 if "u" in element.name else 1 << (bits - 1)
    wrapped = [((value + half) & ((1 << bits) - 1)) - half for value in values]
    return np.array(wrapped, np.int8 if bits == 4 and half else np.uint8 if bits == 4 else element).astype(element)


def array(constant: Dense) -> Any:
    """The elements as a NumPy array of its shape; those of a splat as one of rank 0."""
    element = numpy_type(constant.type.element)
    assert element is not None
    found = np.frombuffer(constant.data, element)
    return found.reshape(()) if constant.splat else found.reshape(tuple(size or 0 for size in constant.type.sizes))


def text(constant: Dense) -> str:
    """What stands between the brackets of `dense<…>`: numbers if they are few, bytes otherwise."""
    element = numpy_type(constant.type.element)
    if element is None:
        return constant.text
    if not constant.data:
        return ""
    if constant.type.element == "i1" and (constant.splat or len(constant.data) <= 64):
        return _nested(array(constant), lambda x: "true" if x else "false")
    if element.kind in "iu" and (constant.splat or len(constant.data) <= 512):
        return _nested(array(constant), lambda x: str(int(x)))
    if constant.type.element in ("f32", "f64") and (constant.splat or len(constant.data) <= 512):
        return _nested(array(constant), _float_text)
    return f'"0x{constant.data.hex().upper()}"'


def _nested(values: Any, one: Any) -> str:
    return one(values[()]) if values.ndim == 0 else f"[{', '.join(_nested(row, one) for row in values)}]"


def _float_text(value: Any) -> str:
    if not np.isfinite(value):
        return f"0x{int(value.view(f'u{value.itemsize}')):0{2 * value.itemsize}X}"
    short = f"{value:.6e}"
    return short if type(value)(short) == value else f"0x{int(value.view(f'u{value.itemsize}')):0{2 * value.itemsize}X}"
