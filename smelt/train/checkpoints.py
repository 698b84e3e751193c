"""Checkpoints: everything that a run needs to go on as if it had never stopped, bit for bit.

A checkpoint is one safetensors file that holds a tree of tensors (model, optimizer state, averages) and, in its
metadata, the step, the place of the loader in its epoch, the random state, and a checksum over all of it. Files are
written whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from smelt import runtime
from smelt.errors import ArgumentError, ParseError
from smelt.formats.models import named_arrays, with_tensors
from smelt.formats.safetensors import SafeTensors, encoded
from smelt.formats.whole import PathLike, write_whole
from smelt.shown import Shown
from smelt.tensor import integer

T = TypeVar("T")

_NAME: Final = re.compile(r"step-(\d{10})\.safetensors")
_MOST_STEPS: Final = 10**10
_KEY: Final = "smelt.checkpoint"
_DIGEST: Final = "smelt.sha256"
_UNKNOWN: Final = "0" * 64  # stands for the checksum while it is computed


class _Loader(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Restored(NamedTuple, Generic[T]):
    """Where a run goes on: after so many steps, with this tree, and what else was noted."""

    step: int
    tree: T
    notes: dict[str, Any]


class Checkpoint(Shown):
    """A folder of checkpoints, of which the latest `keep` are kept.

    >>> import tempfile
    >>> import smelt as sm
    >>> checkpoint = sm.train.Checkpoint(tempfile.mkdtemp(), keep=2)
    >>> model = sm.nn.Linear(2, 2)
    >>> checkpoint.restore(model).step  # there is none yet: everything is as given
    0
    >>> for step in (1, 2, 3):
    ...     checkpoint.save(step, model, best=0.5)
    >>> checkpoint.steps()
    [2, 3]
    >>> step, model, notes = checkpoint.restore(model)
    >>> step, notes
    (3, {'best': 0.5})
    """

    def __init__(self, folder: PathLike, keep: int = 3) -> None:
        self.folder = Path(folder)
        self.keep = integer(keep, "Checkpoint", "keep")
        if self.keep < 1:
            raise ArgumentError(f"Checkpoint: keep is {keep}", rule="at least one checkpoint must be kept.")

    def steps(self) -> list[int]:
        """The steps that there are files for, in order."""
        if not self.folder.is_dir():
            return []
        return sorted(int(found[1]) for name in os.listdir(self.folder) if (found := _NAME.fullmatch(name)))

    def path(self, step: int) -> Path:
        """The file of a step."""
        return self.folder / f"step-{step:010d}.safetensors"

    def save(self, step: int, tree: Any, loader: _Loader | None = None, **notes: Any) -> None:
        """Write what there is after a step: a tree of tensors, the state of the loader and of `smelt.random`, and notes
        that JSON can hold. Then remove what is older than the latest `keep`.
        """
        number = integer(step, "Checkpoint.save", "the step")
        if not 0 <= number < _MOST_STEPS:
            raise ArgumentError(f"Checkpoint.save: the step is {number}", rule="it must be at least 0, with 10 digits.")
        facts = {
            "step": number,
            "loader": None if loader is None else loader.state_dict(),
            "random": runtime.current().random.get(),
            "notes": notes,
        }
        try:
            text = json.dumps(facts)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Checkpoint.save: a note cannot be written as JSON: {error}") from None
        arrays, others = named_arrays(tree, "Checkpoint.save")
        metadata = {_KEY: text, _DIGEST: _UNKNOWN, **others}
        header, parts = encoded(arrays, metadata)
        digest = hashlib.sha256(header)
        for part in parts:
            digest.update(part.data)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(number), [_replaced(header, _UNKNOWN, digest.hexdigest()), *parts])
        self._remove_old()

    def restore(self, tree: T, loader: _Loader | None = None) -> Restored[T]:
        """The latest checkpoint, as a tree like the given one; loader and `smelt.random` are set to where they were.

        A file that is damaged is passed over with a warning, and the one before is taken. Where there is none at all,
        the step is 0, and the tree is the one given.
        """
        steps = self.steps()
        problem: ParseError | None = None
        for step in reversed(steps):
            try:
                return self.load(step, tree, loader)
            except ParseError as error:
                problem = problem or error
                warnings.warn(f"{self.path(step).name} is damaged, and the one before is used", stacklevel=2)
        if problem is not None:
            raise ParseError(
                f"Checkpoint.restore: none of {len(steps)} checkpoints is whole",
                hint="Remove them to begin anew.",
            ) from problem
        return Restored(0, tree, {})

    def load(self, step: int, tree: T, loader: _Loader | None = None) -> Restored[T]:
        """The checkpoint of one step."""
        file = SafeTensors(self.path(step))
        facts = _verified(file)
        result = with_tensors(tree, file, "Checkpoint.restore")
        if loader is not None:
            if facts["loader"] is None:
                raise ArgumentError("Checkpoint.restore: the checkpoint has no state of a loader")
            loader.load_state_dict(facts["loader"])
        runtime.current().random.set(tuple(facts["random"]))
        return Restored(facts["step"], result, facts["notes"])

    def _remove_old(self) -> None:
        for step in self.steps()[: -self.keep]:
            self.path(step).unlink(missing_ok=True)


def _replaced(header: bytes, old: str, new: str) -> bytes:
    """A header with another checksum, which is as long."""
    return header.replace(f'"{_DIGEST}":"{old}"'.encode(), f'"{_DIGEST}":"{new}"'.encode(), 1)


def _verified(file: SafeTensors) -> dict[str, Any]:
    """What the metadata says, if the file is as it was written."""
    said = file.metadata.get(_DIGEST, "")
    whole = file.raw()
    start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    digest = hashlib.sha256(_replaced(whole[:start].tobytes(), said, _UNKNOWN))
    digest.update(whole[start:].data)
    if digest.hexdigest() != said:
        raise ParseError(
            f"{os.path.basename(file.path)}: the checksum is not that of the content",
            rule="the file is damaged, or no checkpoint.",
        )
    try:
        facts = json.loads(file.metadata[_KEY])
    except (KeyError, ValueError, RecursionError):
        facts = None
    if not _is_typed(facts):
        raise ParseError(f"{os.path.basename(file.path)}: the file is no checkpoint of smelt's")
    return facts  # type: ignore[no-any-return]


def _is_typed(facts: Any) -> bool:
    """Whether facts are such as `save` writes: a checksum is no proof of who computed it."""
    if not isinstance(facts, dict) or facts.keys() != {"step", "loader", "random", "notes"}:
        return False
    step, words = facts["step"], facts["random"]
    return (
        (type(step) is int and 0 <= step < _MOST_STEPS)
        and isinstance(facts["loader"], dict | None)
        and isinstance(facts["notes"], dict)
        and (isinstance(words, list) and len(words) == 3)
        and all(type(word) is int and 0 <= word < 2**32 for word in words)
    )
