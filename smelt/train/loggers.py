"""Numbers of a run in files: lines of JSON, or events that TensorBoard shows."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from smelt.errors import ArgumentError
from smelt.formats.whole import PathLike
from smelt.train.events import record, scalars, version


class Logger:
    """Takes numbers by name and step: `log(step, loss=0.3, rate=1e-3)`. Tensors of one element are read."""

    def __init__(self, path: Path, mode: Literal["ab", "xb"]) -> None:
        self.path = path
        self._file = path.open(mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def log(self, step: int, **values: Any) -> None:
        """Write the values of a step. What was logged is in the file, also if the program is killed."""
        numbers = {name: _number(name, value) for name, value in values.items()}
        self._file.write(self.encoded(int(step), numbers))
        self._file.flush()

    def encoded(self, step: int, values: dict[str, float]) -> bytes:
        """The bytes of one call of `log`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, traceback: TracebackType | None) -> None:
        self.close()


class JSONLogger(Logger):
    """A line of JSON per step, at the end of a file. NaN and infinities, which JSON does not have, become null.

    >>> import pathlib, tempfile
    >>> import smelt as sm
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.jsonl")
    >>> with sm.train.JSONLogger(path) as log:
    ...     log.log(1, loss=sm.asarray(0.5))
    >>> path.read_text()
    '{"step": 1, "loss": 0.5}\\n'
    """

    def __init__(self, path: PathLike) -> None:
        super().__init__(Path(path), "ab")

    def encoded(self, step: int, values: dict[str, float]) -> bytes:
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        return (json.dumps({"step": step, **finite}) + "\n").encode()


class TensorBoardLogger(Logger):
    """A file of events in a folder that `tensorboard --logdir` is pointed at; a slash in a name makes a group.

    >>> import os, tempfile
    >>> import smelt as sm
    >>> folder = tempfile.mkdtemp()
    >>> with sm.train.TensorBoardLogger(folder) as log:
    ...     log.log(1, **{"loss/train": 0.5})
    >>> os.listdir(folder)[0].startswith("events.out.tfevents.")
    True
    """

    def __init__(self, folder: PathLike) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        super().__init__(Path(folder) / name, "xb")
        self._file.write(record(version(now)))

    def encoded(self, step: int, values: dict[str, float]) -> bytes:
        return record(scalars(time.time(), step, values))


def _number(name: str, value: Any) -> float:
    try:
        return value if type(value) is int else float(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"log: {name} is no number but of type {type(value).__name__}: {str(error).splitlines()[0]}"
        ) from None
