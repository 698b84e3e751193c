"""Small sets of images that everybody knows: digits, which come with smelt, and readers for MNIST and CIFAR files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt.data.datasets import ArrayDataset, checked_index
from smelt.data.idx import read_idx
from smelt.errors import ArgumentError, MissingFileError, ParseError
from smelt.formats.whole import PathLike

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGITS: Final = Path(__file__).parent / "files"
_SPLITS: Final = ("train", "test")


class ImageDataset(ArrayDataset):
    """Images, kept as bytes, and their classes: an item is a pair of a float32 array from 0 to 1, and an integer."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[Any], largest: int = 255) -> None:
        super().__init__(images, labels.astype(np.int64))
        self.largest = largest

    @property
    def images(self) -> NDArray[np.float32]:
        """All images, from 0 to 1."""
        return self._scaled(self.arrays[0])

    @property
    def labels(self) -> NDArray[np.int64]:
        """All classes."""
        return self.arrays[1]

    def __getitem__(self, index: int, /) -> Any:
        at = checked_index(index, len(self))
        return self._scaled(self.arrays[0][at]), self.arrays[1][at]

    def take(self, indices: NDArray[np.int64], /) -> tuple[NDArray[Any], ...]:
        images, labels = super().take(indices)
        return self._scaled(images), labels

    def _scaled(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return images * np.float32(1 / self.largest)


def digits(split: str = "train") -> ImageDataset:
    """1797 handwritten digits of 8 by 8 dots as vectors of 64, with their classes: `split` is "train", "test" (every
    fifth one) or "all".

    They come with smelt: the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak.

    >>> import smelt as sm
    >>> train, test = sm.data.digits("train"), sm.data.digits("test")
    >>> len(train), len(test), train.images.shape
    (1438, 359, (1438, 64))
    """
    _check_split(split, (*_SPLITS, "all"), "digits")
    images, labels = read_idx(_DIGITS / "digits-images.idx.gz"), read_idx(_DIGITS / "digits-labels.idx.gz")
    fifth = np.arange(len(labels)) % 5 == 4
    chosen = np.ones(len(labels), np.bool_) if split == "all" else fifth if split == "test" else ~fifth
    return ImageDataset(images[chosen].reshape(-1, 64), labels[chosen], largest=16)


# --- MNIST and those that look like it

_MNIST_FILES: Final = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def mnist(split: str = "train", directory: PathLike | None = None) -> ImageDataset:
    """Handwritten digits of 28 by 28 dots, images of shape (1, 28, 28). The four IDX files must be in `directory`, or
    in one of `data/mnist`, `data/MNIST/raw`, `~/.cache/mnist`, `/usr/share/datasets/mnist`, and `share/datasets/mnist`
    in a virtual environment.
    """
    hint = "Put the four files train-images-idx3-ubyte.gz, train-labels-…, t10k-images-… and t10k-labels-… there."
    return _like_mnist("mnist", split, directory, _places("mnist", "MNIST/raw"), hint)


def fashion_mnist(split: str = "train", directory: PathLike | None = None) -> ImageDataset:
    """Clothes in ten classes, images of shape (1, 28, 28), as `mnist`. They are looked for in `directory`, or in
    `data/fashion-mnist`, `data/FashionMNIST/raw`, `~/.cache/fashion-mnist`, `/usr/share/datasets/fashion-mnist`, where
    Debian's package puts them, and `share/datasets/fashion-mnist` in a virtual environment.
    """
    hint = "On Debian and Ubuntu: apt install dataset-fashion-mnist. Or pass the directory of the four .gz files."
    return _like_mnist("fashion_mnist", split, directory, _places("fashion-mnist", "FashionMNIST/raw"), hint)


def _like_mnist(name: str, split: str, directory: PathLike | None, places: list[Path], hint: str) -> ImageDataset:
    _check_split(split, _SPLITS, name)
    folder = _folder(name, _MNIST_FILES[split], directory, places, hint)
    images, labels = (read_idx(_found(folder, file)) for file in _MNIST_FILES[split])
    if images.dtype != np.uint8 or images.ndim != 3 or labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise ParseError(
            f"{name}: the images are {images.dtype}{images.shape}, the labels {labels.dtype}{labels.shape}",
            rule="they must be bytes, and as many.",
        )
    return ImageDataset(images[:, None], labels)


# --- CIFAR

_CIFAR10: Final = {"train": [f"data_batch_{k}.bin" for k in range(1, 6)], "test": ["test_batch.bin"]}
_CIFAR100: Final = {"train": ["train.bin"], "test": ["test.bin"]}
_CIFAR_DOTS: Final = 3 * 32 * 32


def cifar10(split: str = "train", directory: PathLike | None = None) -> ImageDataset:
    """Photographs in ten classes, images of shape (3, 32, 32), from the binary version of CIFAR-10 in `directory`, or
    in one of `data/cifar-10-batches-bin` and `~/.cache/cifar-10-batches-bin`.
    """
    return _cifar("cifar10", split, directory, _CIFAR10, "cifar-10-batches-bin", (10,))


def cifar100(split: str = "train", directory: PathLike | None = None) -> ImageDataset:
    """Photographs in a hundred classes (the fine ones), as `cifar10`, from `data/cifar-100-binary` and the like."""
    return _cifar("cifar100", split, directory, _CIFAR100, "cifar-100-binary", (20, 100))


def read_cifar(path: PathLike, classes: Sequence[int] = (10,)) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (count, 3, 32, 32) and labels (count, kinds) of a file of CIFAR's binary version. Each image has as many
    labels in front as there are numbers in `classes`: (10,) for CIFAR-10, (20, 100) for CIFAR-100.
    """
    name, width = os.path.basename(path), len(classes) + _CIFAR_DOTS
    size = os.path.getsize(path)
    if size == 0 or size % width:
        raise ParseError(f"{name}: {size} bytes are no whole number of images of {width} bytes")
    rows = np.fromfile(path, np.uint8).reshape(-1, width)
    labels = rows[:, : len(classes)]
    if (labels >= np.asarray(classes)).any():
        raise ParseError(f"{name}: a label is {labels.max()}", rule=f"there are {tuple(classes)} classes.")
    return rows[:, len(classes) :].reshape(-1, 3, 32, 32), labels


def _cifar(
    name: str,
    split: str,
    directory: PathLike | None,
    files: dict[str, list[str]],
    usual: str,
    classes: tuple[int, ...],
) -> ImageDataset:
    _check_split(split, _SPLITS, name)
    hint = f"Unpack the binary version of the set, which makes the directory {usual}."
    folder = _folder(name, files[split], directory, _places(usual), hint)
    parts = [read_cifar(folder / file, classes) for file in files[split]]
    images, labels = (np.concatenate([part[k] for part in parts]) for k in range(2))
    return ImageDataset(images, labels[:, -1])


# --- finding files


def _places(*names: str) -> list[Path]:
    """Where sets are usually put."""
    shared = [Path(prefix) / "share" / "datasets" for prefix in dict.fromkeys((sys.prefix, "/usr"))]
    roots = [Path("data"), Path(os.path.expanduser("~"), ".cache"), *shared]
    return [root / name for root in roots for name in names]


def _folder(name: str, files: Sequence[str], directory: PathLike | None, places: list[Path], hint: str) -> Path:
    """The first place that has all the files."""
    if directory is not None:
        places = [Path(directory)]
    for place in places:
        if all(_found(place, file).is_file() for file in files):
            return place
    tried = ", ".join(str(place) for place in places)
    raise MissingFileError(f"{name}: the files {', '.join(files)} are in none of {tried}", hint=hint)


def _found(folder: Path, file: str) -> Path:
    """A file as it is, or compressed."""
    return folder / file if (folder / file).is_file() else folder / f"{file}.gz"


def _check_split(split: str, known: Sequence[str], name: str) -> None:
    if split not in known:
        raise ArgumentError(f"{name}: split is {split!r:.80}", rule=f"it must be one of {', '.join(known)}.")
