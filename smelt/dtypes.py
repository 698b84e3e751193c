"""The element types, their promotion, and the scalar rules of ARCHITECTURE that every backend follows.

Promotion follows the array API standard inside a kind; across kinds it goes bool -> integer -> float -> complex, with
integers meeting a float taking the float's type. Python scalars are weak: they take the dtype of the tensor that they
meet, within its kind.

Complex numbers are pairs of floats (`smelt/graph/pairs.py`): `complex64.part` is float32.

The storage types (`STORAGE`: 8-bit floats and 4-bit integers, one per byte with the upper bits 0, as ml_dtypes keeps
them) are moved, compared after a cast, cast and contracted with a wider sum. They promote to nothing but themselves.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.errors import DTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scalar = bool | int | float  # what an element of a kernel is


class Kind(enum.IntEnum):
    """Ordered: promotion across kinds moves up."""

    BOOL = 0
    UNSIGNED = 1
    SIGNED = 2
    FLOAT = 3
    COMPLEX = 4


class DType:
    """An element type. There is one object per type, so equality is identity.

    `is_float`, `is_complex`, `is_integer`, `is_signed` (integers with a sign) and `is_bool` say what it has; `bits` and
    `itemsize`, the size of an element in bytes, how much of it.
    """

    __slots__ = (
        "bits", "is_bool", "is_complex", "is_float", "is_inexact", "is_integer", "is_signed", "itemsize", "kind",
        "name", "numpy", "part", "range",
    )  # fmt: skip

    is_float: bool
    is_complex: bool
    is_inexact: bool  # float or complex
    is_integer: bool  # with or without a sign
    is_signed: bool
    is_bool: bool
    numpy: np.dtype[Any]
    part: DType  # of a complex number; other types' own
    range: tuple[Scalar, Scalar]  # the smallest and the largest finite value

    def __init__(self, name: str, kind: Kind, bits: int, numpy_type: Any = None) -> None:
        self.name, self.kind, self.bits = name, kind, bits
        self.itemsize = max(1, bits // 8)
        self.is_float, self.is_bool, self.is_signed = kind is Kind.FLOAT, kind is Kind.BOOL, kind is Kind.SIGNED
        self.is_integer = self.is_signed or kind is Kind.UNSIGNED
        self.is_complex, self.is_inexact, self.part = kind is Kind.COMPLEX, kind >= Kind.FLOAT, self
        if numpy_type is not None:
            self.numpy = np.dtype(numpy_type)

    def __getattr__(self, name: str) -> Any:
        """What takes a while to find out, when it is first asked for: most programs never do."""
        if name == "numpy":
            import ml_dtypes

            self.numpy = np.dtype(getattr(ml_dtypes, self.name))
        elif name == "range":
            self.range = self._range()
        else:
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        return getattr(self, name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype under the name by which NumPy asks for it: `np.zeros(3, x.dtype)`."""
        return self.numpy

    def __repr__(self) -> str:
        return f"smelt.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))

    def limits(self) -> Any:
        """The `finfo` of a float type, or of a complex type's parts."""
        if self in _ADDED:
            import ml_dtypes

            return ml_dtypes.finfo(self.numpy)
        return np.finfo(self.numpy)

    def _range(self) -> tuple[Scalar, Scalar]:
        if self.is_bool:
            return False, True
        if self.is_inexact:
            return float(self.limits().min), float(self.limits().max)
        return (-(1 << (self.bits - 1)) if self.is_signed else 0), (1 << (self.bits - self.is_signed)) - 1

    @property
    def minimum(self) -> Scalar:
        """The smallest finite value."""
        return self.range[0]

    @property
    def maximum(self) -> Scalar:
        """The largest finite value."""
        return self.range[1]


bool_: Final = DType("bool", Kind.BOOL, 8, np.bool_)
int8: Final = DType("int8", Kind.SIGNED, 8, np.int8)
int16: Final = DType("int16", Kind.SIGNED, 16, np.int16)
int32: Final = DType("int32", Kind.SIGNED, 32, np.int32)
int64: Final = DType("int64", Kind.SIGNED, 64, np.int64)
uint8: Final = DType("uint8", Kind.UNSIGNED, 8, np.uint8)
uint16: Final = DType("uint16", Kind.UNSIGNED, 16, np.uint16)
uint32: Final = DType("uint32", Kind.UNSIGNED, 32, np.uint32)
uint64: Final = DType("uint64", Kind.UNSIGNED, 64, np.uint64)
float16: Final = DType("float16", Kind.FLOAT, 16, np.float16)
bfloat16: Final = DType("bfloat16", Kind.FLOAT, 16)
float32: Final = DType("float32", Kind.FLOAT, 32, np.float32)
float64: Final = DType("float64", Kind.FLOAT, 64, np.float64)

complex64: Final = DType("complex64", Kind.COMPLEX, 64, np.complex64)
complex128: Final = DType("complex128", Kind.COMPLEX, 128, np.complex128)
complex64.part, complex128.part = float32, float64

float8_e4m3fn: Final = DType("float8_e4m3fn", Kind.FLOAT, 8)
float8_e5m2: Final = DType("float8_e5m2", Kind.FLOAT, 8)
int4: Final = DType("int4", Kind.SIGNED, 4)
uint4: Final = DType("uint4", Kind.UNSIGNED, 4)

# What kernels compute with, pairs of these, and what only memory holds.
ALL: Final = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
INTEGERS: Final = tuple(d for d in ALL if d.is_integer)
FLOATS: Final = tuple(d for d in ALL if d.is_float)
COMPLEX: Final = (complex64, complex128)

STORAGE: Final = (float8_e4m3fn, float8_e5m2, int4, uint4)

_BY_NAME: Final = {d.name: d for d in ALL + COMPLEX + STORAGE} | {
    "bool_": bool_, "float": float32, "int": int64, "complex": complex64,
}  # fmt: skip
_ADDED: Final = (bfloat16, *STORAGE)  # by ml_dtypes to those of NumPy
_BY_NUMPY: Final = {d.numpy: d for d in ALL + COMPLEX if d not in _ADDED}
_BY_PYTHON: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float32, complex: complex64}


def is_dtype(value: Any) -> bool:
    """Whether a value is, or names, a dtype: smelt.float32, "float32", np.float32, float; but not by one letter."""
    if isinstance(value, str) and value not in _BY_NAME and (len(value) < 2 or value not in np.sctypeDict):
        return False
    try:
        as_dtype(value)
    except DTypeError:
        return False
    return True


def as_dtype(value: Any, name: str = "") -> DType:
    """The DType for a DType, its name, or a type of NumPy or Python; `name` is the calling function, for messages."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    try:
        if value is not None:  # which NumPy takes for float64
            found = np.dtype(value).newbyteorder("=")
            return _BY_NUMPY.get(found) or next(d for d in _ADDED if d.name == found.name and d.numpy == found)
    except (TypeError, ValueError, StopIteration):  # ValueError: a `dtype` that NumPy does not know
        pass
    names = ", ".join(d.name for d in ALL + COMPLEX + STORAGE)
    called = f"{name}: " if name else ""
    raise DTypeError(f"{called}{value!r:.80} is not a dtype that smelt has", hint=f"Use one of: {names}.")


def compute_dtype(dtype: DType) -> DType:
    """The type in which kernels compute: narrow types are widened when loaded and rounded when stored."""
    return _COMPUTE.get(dtype, dtype)


_COMPUTE: Final = {
    float16: float32,
    bfloat16: float32,
    float8_e4m3fn: float32,
    float8_e5m2: float32,
    int4: int8,
    uint4: uint8,
}


def sum_dtype(dtype: DType) -> DType:
    """The type in which contractions of a dtype are summed and given, unless another is asked for."""
    return dtype if dtype not in STORAGE else float32 if dtype.is_float else int32


def complex_dtype(dtype: DType) -> DType:
    """The complex type that holds the values of a type: of pairs of float32, unless it is or has more."""
    return complex128 if dtype.part is float64 else complex64


def scalar_dtype(value: Scalar | complex) -> DType:
    """The default dtype of a Python scalar on its own."""
    return _BY_PYTHON[type(value)] if type(value) in _BY_PYTHON else as_dtype(type(value))


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.kind > b.kind:
        a, b = b, a
    if b.is_complex:
        return complex128 if complex128 in (b, complex_dtype(a)) else complex64
    if b.is_float:
        if not a.is_float:
            return b
        if a.bits == b.bits:  # float16 with bfloat16: neither holds the other
            return float32
        return a if a.bits > b.bits else b
    if a.kind is b.kind:
        return a if a.bits > b.bits else b
    if a.is_bool:
        return b
    # unsigned with signed: the smallest signed type that holds both
    if b.bits > a.bits:
        return b
    wider = {8: int16, 16: int32, 32: int64}
    if a.bits not in wider:
        raise DTypeError(
            f"{a} and {b} have no common type", hint="Cast one of them first, for example with x.astype(sm.int64)."
        )
    return wider[a.bits]


_PROMOTION: Final[dict[tuple[DType, DType], DType | None]] = {}
for _a in ALL + COMPLEX:
    for _b in ALL + COMPLEX:
        try:
            _PROMOTION[_a, _b] = _promote(_a, _b)
        except DTypeError:
            _PROMOTION[_a, _b] = None


def promote(a: DType, b: DType) -> DType:
    """The dtype of an operation on tensors of these two dtypes."""
    if a in STORAGE or b in STORAGE:
        if a is b:
            return a
        raise DTypeError(
            f"{a} and {b} have no common type",
            rule=f"{a if a in STORAGE else b} only stores values.",
            hint="Cast first, for example with x.astype(sm.float32).",
        )
    result = _PROMOTION[a, b]
    return _promote(a, b) if result is None else result


def promote_scalar(dtype: DType, value: Scalar | complex) -> DType:
    """The dtype of an operation on a tensor and a Python scalar: the scalar only changes the kind."""
    if isinstance(value, complex):
        return complex_dtype(dtype)
    if isinstance(value, bool) or dtype.is_inexact:
        return dtype
    if isinstance(value, int):
        return int64 if dtype.is_bool else dtype
    return float32


def _cast_storage(array: NDArray[Any], source: DType, dtype: DType) -> NDArray[Any]:
    """A cast from or to a storage type, through the type that kernels compute in."""
    inside = compute_dtype(source)
    wide = array.astype(inside.numpy)
    if dtype not in STORAGE:
        return cast_array(wide, dtype)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return wide.astype(np.float32).astype(dtype.numpy)
    if inside.is_float:
        low, high = dtype.minimum, dtype.maximum
        return cast_array(np.clip(wide.astype(np.float64), low, high), int8).astype(dtype.numpy)
    bits = wide.astype(np.int64) & 15
    return (bits - ((bits & 8) << 1) if dtype.is_signed else bits).astype(dtype.numpy)


def cast_array(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Convert values as every backend does: float to integer saturates, NaN becomes 0, integers wrap."""
    source = as_dtype(array.dtype)
    if source is not dtype and (source in STORAGE or dtype in STORAGE):
        return _cast_storage(array, source, dtype)
    if source.is_float and dtype.is_integer:
        wide = array.astype(np.float64)
        low, high = int(dtype.minimum), int(dtype.maximum)
        inside = (wide >= low) & (wide < float(high) + 1.0 if dtype.bits == 64 else wide <= high)
        safe = np.where(inside, np.trunc(wide), 0.0)
        result = safe.astype(dtype.numpy)
        result = np.where(wide > high, dtype.numpy.type(high), result)
        result = np.where(wide < low, dtype.numpy.type(low), result)
        if dtype.bits == 64:
            result = np.where(wide >= float(high), dtype.numpy.type(high), result)
        return np.asarray(result, dtype.numpy)
    with np.errstate(all="ignore"):
        if dtype is bfloat16 and source in ROUNDED_BY_FLOAT32:  # ml_dtypes would round twice, to float32 first
            array = round_to_odd(array)
        return array.astype(dtype.numpy)


ROUNDED_BY_FLOAT32: Final = (float64, int32, int64, uint32, uint64)
"""What float32 does not hold: on the way to 16 bits it is rounded to odd, so that only the last rounding counts."""


def round_to_odd(array: NDArray[Any]) -> NDArray[Any]:
    """Values as float32: cut off, and the last bit set where something was lost."""
    exact = array.astype(np.longdouble)
    with np.errstate(all="ignore"):
        near = exact.astype(np.float32)
    bits = near.view(np.int32) - (np.abs(near) > np.abs(exact))
    return np.asarray(np.where(near == exact, near.view(np.int32), bits | 1).astype(np.int32).view(np.float32))
