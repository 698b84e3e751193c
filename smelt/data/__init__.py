"""Data for training: datasets, loaders that feed batches while the step runs, and readers of common files."""

import sys
from typing import TYPE_CHECKING

from smelt.data.datasets import ArrayDataset, Dataset, MapDataset, Subset, TensorDataset, random_split
from smelt.data.idx import read_idx
from smelt.data.loader import DataLoader
from smelt.data.mapped import MappedDataset, RawArray
from smelt.data.sets import ImageDataset, cifar10, cifar100, digits, fashion_mnist, mnist, read_cifar
from smelt.data.text import Vocabulary, WindowDataset, read_bytes, read_text
from smelt.names import door, understand

__all__ = [
    "ArrayDataset",
    "DataLoader",
    "Dataset",
    "ImageDataset",
    "MapDataset",
    "MappedDataset",
    "RawArray",
    "Subset",
    "TensorDataset",
    "Vocabulary",
    "WindowDataset",
    "cifar10",
    "cifar100",
    "digits",
    "fashion_mnist",
    "mnist",
    "random_split",
    "read_bytes",
    "read_cifar",
    "read_idx",
    "read_text",
]

understand(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
