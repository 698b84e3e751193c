"""The devices of this process by name, and on which of them a graph runs: where its inputs lie."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from smelt.config import change, settings
from smelt.device import HOST, describe, open_device
from smelt.errors import DeviceError
from smelt.runtime.state import current

if TYPE_CHECKING:
    from smelt.device import Device
    from smelt.runtime.storage import Storage


def device(name: str, asked: str = "device") -> Device:
    """The device of a name. One whose package or driver is missing raises when it is first used."""
    opened = current().devices
    return opened.get(name) or opened.setdefault(name, open_device(name, asked))


def default_device() -> Device:
    """Where tensors are made unless said otherwise."""
    return device(settings().device or HOST, "SMELT_DEVICE")


def set_default(name: str, asked: str) -> None:
    """Make new tensors on another device from now on."""
    change(device=device(name, asked).name)


def available() -> list[str]:
    """The devices that can be used here."""
    return [facts["device"] for facts in describe()]


def common_device(storages: Iterable[Storage]) -> Device:
    """Where a graph with these inputs runs. What lies in main memory moves to the others."""
    names = {storage.device for storage in storages}
    if not names:
        return default_device()
    elsewhere = sorted(names - {HOST})
    if len(elsewhere) > 1:
        raise DeviceError(
            f"the inputs of a computation lie on {' and '.join(elsewhere)}", hint="Bring them together with to_device."
        )
    return device(elsewhere[0] if elsewhere else HOST)
