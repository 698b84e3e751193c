"""Text as numbers: bytes or characters, and windows of them for models that say what comes next."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.data.datasets import checked_index
from smelt.errors import ArgumentError, ParseError
from smelt.formats.whole import PathLike
from smelt.shown import Shown
from smelt.tensor import Tensor, integer

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_bytes(path: PathLike) -> NDArray[np.uint8]:
    """A file as numbers from 0 to 255."""
    return np.fromfile(path, np.uint8)


def read_text(path: PathLike, encoding: str = "utf-8") -> str:
    """A file as text; lines end in \\n, however the file has them."""
    try:
        return Path(path).read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{Path(path).name}: byte {error.start} is not {encoding}",
            hint="Pass its encoding, or use read_bytes.",
        ) from None
    except LookupError:
        raise ArgumentError(f"read_text: there is no encoding {encoding!r:.80}") from None


class Vocabulary(Shown):
    """Characters, and numbers for them in the order in which they are given.

    >>> import smelt as sm
    >>> vocabulary = sm.data.Vocabulary.of("hello")
    >>> len(vocabulary), vocabulary.encode("hole")
    (4, array([1, 3, 2, 0], dtype=int32))
    >>> vocabulary.decode([1, 0, 2])
    'hel'
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = tuple(characters)
        self._numbers = {character: number for number, character in enumerate(self.characters)}
        if len(self._numbers) != len(self.characters) or any(len(c) != 1 for c in self.characters):
            raise ArgumentError("Vocabulary: it must be different single characters", hint="Use Vocabulary.of(text).")

    @classmethod
    def of(cls, text: str) -> Vocabulary:
        """The characters of a text, sorted."""
        return cls(sorted(set(text)))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> NDArray[np.int32]:
        """The numbers of a text's characters."""
        try:
            return np.asarray([self._numbers[character] for character in text], np.int32)
        except KeyError as error:
            raise ArgumentError(f"Vocabulary: it does not have the character {error.args[0]!r}") from None

    def decode(self, numbers: Any) -> str:
        """The text of numbers, which may be a tensor."""
        values = numbers.tolist() if isinstance(numbers, Tensor | np.ndarray) else list(numbers)
        if any(not 0 <= number < len(self) for number in values):
            raise ArgumentError(f"Vocabulary: it has the numbers from 0 to {len(self) - 1}")
        return "".join([self.characters[number] for number in values])


class WindowDataset(Shown):
    """Windows of a long list of numbers: an item is `length` of them, and the same moved by one, which is what a model
    should say next. Windows begin `stride` apart.

    >>> import smelt as sm
    >>> windows = sm.data.WindowDataset(np.arange(10), length=4, stride=2)
    >>> len(windows), windows[1]
    (3, (array([2, 3, 4, 5]), array([3, 4, 5, 6])))
    """

    def __init__(self, numbers: Any, length: int, stride: int = 1) -> None:
        self.numbers = numbers.numpy() if isinstance(numbers, Tensor) else np.asarray(numbers)
        self.length = integer(length, "WindowDataset", "length")
        self.stride = integer(stride, "WindowDataset", "stride")
        if self.length < 1 or self.stride < 1:
            raise ArgumentError(f"WindowDataset: length {length}, stride {stride}", rule="both must be at least 1.")
        if self.numbers.ndim != 1 or len(self.numbers) <= self.length:
            raise ArgumentError(
                f"WindowDataset: numbers of shape {self.numbers.shape} for windows of {self.length}",
                rule=f"they must be a list of at least {self.length + 1}.",
            )

    def __len__(self) -> int:
        return (len(self.numbers) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int, /) -> Any:
        start = checked_index(index, len(self)) * self.stride
        return self.numbers[start : start + self.length], self.numbers[start + 1 : start + 1 + self.length]

    def take(self, indices: NDArray[np.int64], /) -> tuple[NDArray[Any], ...]:
        """The windows with these numbers."""
        places = indices[:, None] * self.stride + np.arange(self.length + 1)
        whole = self.numbers.take(places)
        return np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:])
