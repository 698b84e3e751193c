"""Answers that come with smelt, for families of processors that it was measured on: `smelt/tuned/<family>.log`.

They are lines like those of the user's log, and count where the processor is of the family, with as many cores and
threads; another compiler may have built them, but the source is what was measured. A file is small, so a line is found
by looking for the name of the question: there is no index, and no cost where there is no file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from smelt.compiler import MEASURED_AS
from smelt.device import Device
from smelt.search.file import METHOD, body_of
from smelt.search.place import place_of

MOST_BYTES: Final = 200 << 10  # of a file
GAIN: Final = 1.05  # times as fast as the default, at least
_EQUAL: Final = ("device", "family", "cores", "threads")  # of places


class Shipped:
    """The answers in a folder, of which a process reads the files of its own devices once."""

    def __init__(self, folder: str) -> None:
        self._folder, self._files = folder, dict[str, bytes]()

    def find(self, setting: str, device: Device, question: str) -> tuple[str, str] | None:
        """The schedule for a question, and what it was measured as."""
        for said in self._said(device, b'"digest":"%s"' % question.encode()):
            bits_are_right = said["answer"]["bits"] == "same" or setting == "on"
            if said["question"]["digest"] == question and bits_are_right:
                return said["answer"]["schedule"], said["answer"]["source"]
        return None

    def count(self, device: Device) -> int:
        """How many answers there are for a device."""
        return sum(1 for _ in self._said(device, b'"digest":"'))

    def _said(self, device: Device, name: bytes) -> Iterator[dict[str, Any]]:
        """What the lines with a name say that hold at the place of a device."""
        place = place_of(device)
        data = self._files.get(place["family"])
        if data is None:
            data = self._files[place["family"]] = _read(os.path.join(self._folder, f"{place['family']}.log"))
        at = data.find(name)
        while at >= 0:
            end = data.find(b"\n", at)
            said = _understood(data[data.rfind(b"\n", 0, at) + 1 : end])
            if said is not None and all(said["place"][key] == place[key] for key in _EQUAL):
                yield said
            at = data.find(name, end) if end >= 0 else -1


def as_answer(found: tuple[str, str]) -> str:
    """A schedule and what it was measured as, as the compiler takes them."""
    return MEASURED_AS.join(found)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def _understood(line: bytes) -> dict[str, Any] | None:
    """What a line says, if it is whole and says that something is enough faster."""
    try:
        said: dict[str, Any] = json.loads(body_of(line) or b"{}")
        evidence, answer = said["evidence"], said["answer"]
        counts = said["state"] == "confirmed" and evidence["method"] == METHOD and evidence["ratio"] >= GAIN
        texts = (said["question"]["digest"], answer["schedule"], answer["bits"], answer["source"])
        return said if counts and all(isinstance(text, str) for text in texts) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
