"""Devices: where memory comes from, how source becomes code, and how code runs.

Takes source text from `render` and launch lists from `plan`; gives memory, loaded libraries and runnable programs.

What always holds: compiled code comes from a compiler run or from a cache entry whose checksum was verified; memory is
recycled only when nobody can see it anymore; a program runs its kernels in order, with the same result for any number
of threads.
"""

from smelt.device.memory import (
    ALIGNMENT,
    NOWHERE,
    Memory,
    Pool,
    allocate,
    available_bytes,
    lasting,
    machine_bytes,
    pointer,
    pool,
    size_class,
    wrap,
)
from smelt.device.protocol import (
    REGISTER,
    Builder,
    Control,
    Device,
    HostStep,
    Launch,
    Library,
    Listing,
    Program,
    RefusedCodeError,
    Step,
)
from smelt.device.registry import HOST, MODULES, describe, is_name, open_device
