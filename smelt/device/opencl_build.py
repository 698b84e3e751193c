"""OpenCL source to loaded programs, through the disk cache."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.device.compilation import refused
from smelt.device.protocol import Launch
from smelt.diskcache import disk_cache
from smelt.errors import InternalError
from smelt.locks import new_lock

if TYPE_CHECKING:
    from smelt.device.opencl import Context

_KIND: Final = "opencl"
_OPTIONS: Final = ("-cl-std=CL1.2",)
_EXACT: Final = "-cl-fp32-correctly-rounded-divide-sqrt"

_libraries: dict[str, Library] = {}
_lock = new_lock()


class Library:
    """A built program."""

    def __init__(self, cl: Any, program: Any, key: str) -> None:
        self._cl, self.program, self.key = cl, program, key

    def kernel(self, launch: Launch) -> Any:
        """A kernel object of the caller's own, which knows the types of its arguments."""
        try:
            kernel = self._cl.Kernel(self.program, launch.kernel)
        except self._cl.Error:
            raise InternalError(f"a built program lacks the kernel {launch.kernel[:80]!r}") from None
        kernel.set_scalar_arg_dtypes([None, np.int64] * len(launch.buffers) + [np.int64] * len(launch.integers))
        return kernel


def options(context: Context) -> list[str]:
    """What the compiler is told: quotients and roots are rounded correctly where the device can."""
    exact = context.device.single_fp_config & context.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return [*_OPTIONS, *([_EXACT] if exact else [])]


def program_key(context: Context, source: str) -> str:
    """The key of a program: its source, the device and driver, and the options."""
    return hashlib.sha256("\n".join([context.identity, *options(context), source]).encode()).hexdigest()


def build(context: Context, source: str) -> Library:
    """The program of a source: known, stored, or compiled now."""
    key, cl, cache = program_key(context, source), context.cl, disk_cache()
    found = stored(context, key)
    if found is not None:
        return found
    try:
        library = _built(cl, key, cl.Program(context.handle, source), options=options(context), cache_dir=False)
    except cl.Error as error:
        raise refused(key, source, str(error).encode(), "OpenCL", ".cl") from None
    if cache is not None:
        cache.store_bytes(_KIND, key, library.program.get_info(cl.program_info.BINARIES)[0])
    return library


def stored(context: Context, key: str) -> Library | None:
    """The program that was built under this key, by this process or an earlier one."""
    found = _libraries.get(key)
    cache, cl = disk_cache(), context.cl
    binary = None if cache is None or found is not None else cache.load_bytes(_KIND, key)
    if binary is None:
        return found
    try:
        return _built(cl, key, cl.Program(context.handle, [context.device], [binary]))
    except cl.Error:  # another driver's, whatever its version says
        return None


def _built(cl: Any, key: str, program: Any, **given: Any) -> Library:
    """Build a program. pyopencl warns when a compiler says anything, as NVIDIA's always does: only refusals matter.

    Filters of warnings belong to the whole process, so only one thread changes them at a time.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return _libraries.setdefault(key, Library(cl, program.build(**given), key))
