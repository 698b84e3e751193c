"""What the array API standard asks of the namespace itself: its version, and what it says about itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from smelt import dtypes as _dtypes
from smelt import runtime
from smelt.dtypes import DType
from smelt.errors import ArgumentError
from smelt.tensor.arguments import check_device
from smelt.tensor.interop import MAXIMUM_RANK
from smelt.tensor.scalars import KINDS

__array_api_version__: Final = "2024.12"

# A newer version only adds to the older ones.
_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", __array_api_version__)
# Only the dtypes that the standard names, although there are others.
_STANDARD: Final = tuple(
    d for d in (*_dtypes.ALL, *_dtypes.COMPLEX) if d.is_bool or d.is_integer or d.part.bits in (32, 64)
)


class NamespaceInfo:
    """What smelt can do, in the words of the array API: see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Whether masks index, whether shapes may depend on values, and the largest rank (that of NumPy's views)."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAXIMUM_RANK}

    def default_device(self) -> str:
        """Where tensors are made unless said otherwise."""
        return runtime.default_device().name

    def devices(self) -> list[str]:
        """Every device that can be used here."""
        return runtime.available()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of results when nothing else decides."""
        check_device(device, "default_dtypes")
        floats = {"real floating": _dtypes.float32, "complex floating": _dtypes.complex64}
        return floats | {"integral": _dtypes.int64, "indexing": _dtypes.int64}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The dtypes of the standard that smelt has, by name; only those of a kind, or of one of several."""
        check_device(device, "dtypes")
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for name in kinds:
            if name not in tuple(KINDS):
                raise ArgumentError(
                    f"dtypes: there is no kind {name!r} of dtypes", hint=f"Use one of: {', '.join(KINDS)}."
                )
        return {d.name: d for d in _STANDARD if any(d in KINDS[name] for name in kinds)}


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace can do: capabilities, devices and dtypes, as the array API standard defines them.

    >>> info = sm.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["integral"]
    ('cpu', smelt.int64)
    >>> sorted(info.dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return NamespaceInfo()


def module(api_version: str | None) -> ModuleType:
    """The namespace of a version of the standard: smelt itself."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ArgumentError(
            f"__array_namespace__: there is no version {api_version!r} of the array API here",
            hint=f"Use one of: {', '.join(_VERSIONS)}.",
        )
    return sys.modules["smelt"]
