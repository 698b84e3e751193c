"""The kinds of devices that there are: a name, and the module that knows them.

Such a module has `open_device(number)`, which gives a device or raises `DeviceError` where a package, a driver or the
device is missing, and `describe()`: a list with one dict of facts for each device that works now, under any names
(`smelt devices` shows some, `--json` all). The first device of a kind has its name (`opencl`), the others a number as
well (`opencl:1`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from smelt.errors import DeviceError

if TYPE_CHECKING:
    from smelt.device.protocol import Device

HOST: Final = "cpu"  # whose memory is that of Python and NumPy
MODULES: Final = {HOST: "smelt.device.cpu", "opencl": "smelt.device.opencl"}


def register(kind: str, module: str) -> None:
    """Add a kind of devices: the name of the module that knows them."""
    if kind in MODULES or not kind.isidentifier():
        raise DeviceError(f"{kind!r} cannot be the name of a kind of devices", rule="it is a word of its own.")
    MODULES[kind] = module


def is_name(name: str) -> bool:
    """Whether a text names a device, which need not be there."""
    kind, colon, number = name.partition(":")
    return kind in MODULES and (not colon or (number.isdecimal() and number == str(int(number)) != "0"))


def open_device(name: str, asked: str) -> Device:
    """The device of a name, opened anew."""
    if not is_name(name):
        raise DeviceError(f"{asked}: there is no device {name!r}", hint=f"Available: {', '.join(MODULES)}.")
    kind, _, number = name.partition(":")
    opened: Device = importlib.import_module(MODULES[kind]).open_device(int(number or 0))
    return opened


def describe() -> list[dict[str, Any]]:
    """The facts about every device that works now."""
    return [facts for module in MODULES.values() for facts in importlib.import_module(module).describe()]


def only_first(kind: str, number: int) -> None:
    """Refuse all but the first device of a kind."""
    if number:
        raise DeviceError(
            f"there is no device '{kind}:{number}'", rule=f"there is one device of the kind {kind} at most."
        )
