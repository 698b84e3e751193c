"""Answers for the compiler: what the user's log has as confirmed, for exactly this region and this place; else what
comes with smelt; else what is confirmed for neighbours of the region.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from smelt.config import settings
from smelt.locks import new_lock

# Who has tuned nothing does not wait for what reads logs.
if TYPE_CHECKING:
    from smelt.device import Device
    from smelt.search.answers import Answers
    from smelt.search.shipped import Shipped

SHIPPED: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tuned")


class Tuned:
    """`Choices` from the user's log, which a process looks at once, and again after `refresh`."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.refresh()

    def refresh(self) -> None:
        """See what was added since."""
        with self._lock:
            self._folder: str | os.PathLike[str] = ""  # whose answers these are
            self._answers: Answers | None = None
            self._shipped = shipped()

    def ask(self, device: Device, question: str, text: str = "") -> str | None:
        """The schedule that is confirmed, with what it was measured as; or what is for its neighbours."""
        setting, folder = settings().tuned, settings().data_dir
        if setting not in ("on", "same-bits"):
            return None
        with self._lock:
            if self._folder != folder:
                self.refresh()
                self._folder, self._answers = folder, _answers(os.path.join(folder, "tuned")) if folder else None
            own = None if self._answers is None else self._answers.find(setting, device, question)
            if own is None and self._shipped is not None:
                own = self._brought(setting, device, question)
            if own is None and self._answers is not None and setting == "on":
                own = self._answers.near(device, question, text)
            return own

    def _brought(self, setting: str, device: Device, question: str) -> str | None:
        """What comes with smelt, unless it was found here to be no good."""
        from smelt.search.shipped import as_answer

        found = None if self._shipped is None else self._shipped.find(setting, device, question)
        if found is None or (self._answers is not None and self._answers.denies(device, question, found[1])):
            return None
        return as_answer(found)


def shipped() -> Shipped | None:
    """What comes with smelt, if that is anything."""
    if not os.path.isdir(SHIPPED):
        return None
    from smelt.search.shipped import Shipped

    return Shipped(SHIPPED)


def _answers(root: str) -> Answers | None:
    """What the log in a folder answers, if there is one."""
    if not os.path.isdir(root):
        return None
    from pathlib import Path

    from smelt.search.answers import Answers

    return Answers(Path(root))
