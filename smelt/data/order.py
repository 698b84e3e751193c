"""In which order items come: a function of seed and epoch alone, the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import ArgumentError
from smelt.tensor import integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = 0xFFFFFFFFFFFFFFFF


def checked_seed(seed: Any, name: str) -> int:
    """A seed of 64 bits."""
    number = integer(seed, name, "the seed")
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(f"{name}: {number} does not fit in 64 bits")
    return number & _WORD


def permutation(count: int, seed: int, epoch: int = 0) -> NDArray[np.int64]:
    """The numbers up to `count` in random order.

    They are sorted by the words of Philox, a generator by counter, under the key (seed, epoch): NumPy promises these
    words for all its versions, unlike its own permutations.
    """
    words = np.random.Philox(key=checked_seed(seed, "permutation") | (epoch & _WORD) << 64).random_raw(count)
    return np.argsort(words, kind="stable").astype(np.int64, copy=False)


def generator(seed: int, epoch: int, batch: int) -> np.random.Generator:
    """Random numbers for one batch, whoever makes it and whenever."""
    # The upper half of the counter is far from the words that order the items.
    counter = [0, 0, batch & _WORD, 1]
    return np.random.Generator(np.random.Philox(key=(seed & _WORD) | (epoch & _WORD) << 64, counter=counter))
