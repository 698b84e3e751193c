"""The loader: batches of a dataset as tensors, epoch by epoch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, Unpack, overload

import numpy as np

from smelt.data.batches import Augment, Collate, Recipe, Transform
from smelt.data.datasets import Dataset, Rows, Subset, side_by_side
from smelt.data.order import checked_seed, permutation
from smelt.data.workers import Job, in_place, in_processes, in_threads
from smelt.errors import ArgumentError
from smelt.names import understood
from smelt.tensor import flag, integer
from smelt.train.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar

    from smelt.tensor import Tensor

    B = TypeVar("B", default=Any)
else:
    from typing import TypeVar

    B = TypeVar("B")


MANY_LOOKS = 10  # at the first batch in a row: somebody means to go on


class Settings(TypedDict, total=False):
    """What a type checker need not look at to know what batches are."""

    shuffle: bool
    seed: int
    drop_last: bool
    workers: int
    processes: bool
    prefetch: int
    progress: bool


class DataLoader(Generic[B]):
    """Goes through a dataset in batches. Each `for` loop over it is one epoch, also one that is left early; a look at
    the first batch, `next(iter(loader))`, is none.

    - `dataset`: anything with a length and items by number; a tuple of arrays or tensors, `(X, Y)`, means their rows
      side by side, as `ArrayDataset(X, Y)`; of a dictionary of them, `{"x": X, "y": Y}`, batches are dictionaries, too.
    - `shuffle`: another order in each epoch, which depends on `seed` and the number of the epoch alone.
    - `drop_last`, `pad_last`: leave a smaller last batch out, or fill it up with zeros, so that all have one shape.
      With `pad_last` every batch has one part more: a mask that is True for real items, last or as `batch["mask"]`.
    - `workers`: so many threads make the batches, up to `prefetch` ahead of the loop; with 0 the loop does it itself.
      Threads suit datasets that wait for files, or whose work is NumPy's. With `processes=True` they are processes,
      which start anew in each epoch as interpreters of their own: dataset and functions are sent to them with Python's
      multiprocessing, which pickles them, so they must be importable. Nothing else in smelt pickles.
    - `collate`: makes a batch of a list of items. Otherwise numbers and arrays are stacked, tuples and dictionaries
      part by part; datasets with a method `take(indices)`, such as those in memory, give all items at once.
    - `augment(batch, generator)`, then `transform(batch)`: change a batch of NumPy arrays in the worker. The generator
      is NumPy's, and gives the same numbers whoever makes the batch.
    - `progress`: a bar on stderr; `loader.show(loss=loss)` adds metrics to it.

    >>> import smelt as sm
    >>> loader = sm.data.DataLoader(sm.data.ArrayDataset(np.arange(10)), batch=4, shuffle=True, seed=1)
    >>> [x.tolist() for (x,) in loader]
    [[3, 5, 2, 9], [7, 0, 8, 6], [1, 4]]
    >>> loader.epoch, len(loader)
    (1, 3)
    >>> padded = sm.data.DataLoader(range(3), batch=2, pad_last=True)
    >>> [(x.tolist(), mask.tolist()) for x, mask in padded]
    [([0, 1], [True, True]), ([2, 0], [True, False])]
    """

    @overload
    def __init__(
        self: DataLoader[tuple[Tensor, ...]],
        dataset: Rows | Subset[Rows] | tuple[Any, ...],
        batch: int = ...,
        *,
        pad_last: bool = ...,
        **settings: Unpack[Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[Tensor],
        dataset: Sequence[float] | NDArray[Any] | Tensor,
        batch: int = ...,
        **settings: Unpack[Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[dict[str, Tensor]],
        dataset: Mapping[str, Any],
        batch: int = ...,
        *,
        pad_last: bool = ...,
        **settings: Unpack[Settings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        dataset: Dataset | tuple[Any, ...] | Mapping[str, Any],
        batch: int = ...,
        *,
        pad_last: bool = ...,
        transform: Transform | None = ...,
        augment: Augment | None = ...,
        collate: Collate | None = ...,
        **settings: Unpack[Settings],
    ) -> None: ...
    @understood
    def __init__(
        self,
        dataset: Dataset | tuple[Any, ...] | Mapping[str, Any],
        batch: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        pad_last: bool = False,
        workers: int = 1,
        processes: bool = False,
        prefetch: int = 2,
        progress: bool = False,
        transform: Transform | None = None,
        augment: Augment | None = None,
        collate: Collate | None = None,
    ) -> None:
        self.dataset = rows = side_by_side(dataset)
        self.batch = _number(batch, "batch", 1)
        self.shuffle, self.seed = flag(shuffle, "DataLoader", "shuffle"), checked_seed(seed, "DataLoader")
        self.drop_last = flag(drop_last, "DataLoader", "drop_last")
        self.workers, self.prefetch = _number(workers, "workers", 0), _number(prefetch, "prefetch", 0)
        self.processes, self.progress = flag(processes, "DataLoader", "processes"), progress
        if self.drop_last and flag(pad_last, "DataLoader", "pad_last"):
            raise ArgumentError("DataLoader: the last batch can be dropped or padded, but not both")
        if not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
            raise ArgumentError(
                f"DataLoader: a {type(rows).__name__} is no dataset",
                rule="it must have a length, and items by number.",
                hint="For arrays use sm.data.ArrayDataset(x, y).",
            )
        padded = self.batch if pad_last else None
        self._recipe = Recipe(rows, collate, transform, augment, padded, self.seed)
        self._epoch = self._done = 0
        self._resumes = False
        self._looks = 0
        self._running: object = None  # tells the latest loop from those before, whose batches no longer count
        self._bar: Progress[Any] | None = None

    # --- where it is

    @property
    def epoch(self) -> int:
        """The number of the epoch that is running or comes next; the first one is 0."""
        return self._epoch

    def __len__(self) -> int:
        """How many batches an epoch has."""
        items = len(self.dataset)
        return items // self.batch if self.drop_last else -(-items // self.batch)

    def __repr__(self) -> str:
        items = f"{type(self.dataset).__name__} of {len(self.dataset)} items"
        marks = [name for name in ("shuffle", "drop_last", "processes") if getattr(self, name)]
        settings = "".join(f", {name}=True" for name in marks)
        where = f"epoch {self.epoch}, {self._done} of {len(self)} batches"
        return f"DataLoader({items}, batch={self.batch}{settings}): {where}"

    def state_dict(self) -> dict[str, int]:
        """Where the loader is: batches that it has handed out count as done. Numbers only, so that JSON can hold it."""
        return {
            "epoch": self._epoch,
            "done": self._done,
            "seed": self.seed,
            "batch": self.batch,
            "items": len(self.dataset),
            "shuffle": int(self.shuffle),
            "drop_last": int(self.drop_last),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where another loader was: the next loop begins with the batch after the last one it handed out."""
        own = self.state_dict()
        for name in own:
            value = state.get(name)
            if type(value) is not int or value < 0:
                raise ArgumentError(f"DataLoader: the state has {name} {value!r:.80}", rule="it must be an integer.")
            if name not in ("epoch", "done") and value != own[name]:
                raise ArgumentError(
                    f"DataLoader: the state has {name} {value}, this loader {own[name]}",
                    rule="the batches would not be the ones that were left over.",
                )
        if state["done"] > len(self):
            raise ArgumentError(f"DataLoader: the state has {state['done']} batches done of {len(self)}")
        self._epoch, self._done, self._resumes, self._running = state["epoch"], state["done"], True, None

    # --- going through

    def __iter__(self) -> Iterator[B]:
        if self._resumes:
            self._resumes = False
        elif self._done > 1:  # the loop before was left early
            self._epoch, self._done = self._epoch + 1, 0
        elif self._done == 1:  # only a look at the first batch
            self._done = 0
            self._count_look()
        self._running = running = object()
        return self._batches(self._epoch, self._done, running)

    def _count_look(self) -> None:
        self._looks += 1
        if self._looks == MANY_LOOKS and self.shuffle:
            warnings.warn(
                f"DataLoader: only the first batch was taken {MANY_LOOKS} times: next(iter(loader)) gives the same one "
                "until a loop goes on. To go on keep an iterator: batches = iter(loader); next(batches).",
                stacklevel=3,
            )

    def _batches(self, epoch: int, start: int, running: object) -> Iterator[B]:
        jobs = self._jobs(epoch, start)
        ahead = max(self.prefetch, self.workers)
        if not self.workers:
            source = in_place(self._recipe, jobs)
        else:
            source = (in_processes if self.processes else in_threads)(self._recipe, jobs, self.workers, ahead)
        bar: Progress[Any] | None = None
        if self.progress:
            bar = self._bar = Progress(total=len(self), label=f"epoch {epoch}", start=start)
        try:
            for number, batch in enumerate(source, start + 1):
                if self._running is running:
                    self._done = number
                    self._looks = self._looks if number == 1 else 0
                yield batch
                if bar is not None:
                    bar.advance()
            if self._running is running:
                self._epoch, self._done = epoch + 1, 0
        finally:
            source.close()  # type: ignore[attr-defined]
            if bar is not None:
                bar.close()

    def show(self, **metrics: Any) -> None:
        """Metrics for the bar, if there is one."""
        if self._bar is not None:
            self._bar.show(**metrics)

    def _jobs(self, epoch: int, start: int) -> Iterator[Job]:
        """Which items the batches from `start` on have."""
        items = len(self.dataset)
        order: NDArray[np.int64] | None = permutation(items, self.seed, epoch) if self.shuffle else None
        for number in range(start, len(self)):
            first, end = number * self.batch, min((number + 1) * self.batch, items)
            indices = np.arange(first, end) if order is None else order[first:end]
            yield indices, epoch, number


def _number(value: Any, what: str, least: int) -> int:
    number = integer(value, "DataLoader", what)
    if number < least:
        raise ArgumentError(f"DataLoader: {what} is {number}", rule=f"it must be at least {least}.")
    return number
