"""Devices by name: a kind and a number, found in the module of the kind."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import smelt as sm
from smelt import runtime
from smelt.device import registry
from smelt.device.cpu import CPU
from smelt.errors import DeviceError
from smelt.runtime import Runtime


class Card(CPU):
    """A processor under another name."""

    def __init__(self, number: int) -> None:
        self.name = f"card:{number}" if number else "card"  # type: ignore[misc]


def open_device(number: int) -> Card:
    if number > 1:
        raise DeviceError(f"there is no device 'card:{number}'")
    return Card(number)


def describe() -> list[dict[str, Any]]:
    return [{"device": Card(number).name, "name": "A card", "rates": {"copy": 1.5e9}} for number in range(2)]


@pytest.fixture(autouse=True)
def cards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    module = types.ModuleType("card_device")
    module.open_device, module.describe = open_device, describe  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "card_device", module)
    monkeypatch.setitem(registry.MODULES, "card", "card_device")
    with runtime.using(Runtime()) as fresh:
        yield fresh


def test_each_number_is_a_device(cards: Runtime) -> None:
    first, second = runtime.device("card"), runtime.device("card:1")
    assert (first.name, second.name) == ("card", "card:1")
    assert runtime.device("card:1") is second
    assert list(cards.devices) == ["cpu", "card", "card:1"]
    assert {"cpu", "card", "card:1"} <= set(runtime.available())


@pytest.mark.parametrize("name", ["card:2", "card:0", "card:01", "card:", "card:x", "cards"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(DeviceError, match="there is no device"):
        runtime.device(name)


def test_a_graph_runs_where_its_inputs_lie() -> None:
    x = sm.asarray([1.0, 2.0]).to_device("card:1")
    y = x * 3 + sm.asarray([0.5, 0.5])
    assert y.tolist() == [3.5, 6.5]
    assert str(y.device) == "card:1"
    with pytest.raises(DeviceError, match="card and card:1"):
        (x + sm.asarray([1.0, 1.0]).to_device("card")).tolist()
