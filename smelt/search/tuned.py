"""Answers for the compiler: what the user's log has as confirmed, for exactly this region and this place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smelt.config import settings
from smelt.locks import new_lock

# Who has tuned nothing does not wait for what reads logs.
if TYPE_CHECKING:
    from smelt.device import Device
    from smelt.search.answers import Answers


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

    def ask(self, device: Device, question: str) -> str | None:
        """The schedule that is confirmed, with what it was measured as."""
        setting, folder = settings().tuned, settings().data_dir
        if setting not in ("on", "same-bits") or not folder:
            return None
        with self._lock:
            if self._folder != folder:
                self.refresh()
                self._folder, self._answers = folder, _answers(os.path.join(folder, "tuned"))
            return None if self._answers is None else self._answers.find(setting, device, question)


def _answers(root: str) -> Answers | None:
    """What the log in a folder answers, if there is one."""
    if not os.path.isdir(root):
        return None
    from pathlib import Path

    from smelt.search.answers import Answers

    return Answers(Path(root))
