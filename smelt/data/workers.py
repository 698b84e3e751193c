"""Who makes the batches: the loop itself, threads ahead of it, or processes ahead of it.

Batches are asked for in order, a few ahead of the loop, and handed out in order, so what comes out does not depend on
who made it. What goes wrong in a worker is raised in the loop, with the worker's own traceback. However a loop is left,
its workers end with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.data.batches import Recipe, tensors
from smelt.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Job = tuple["NDArray[np.int64]", int, int]  # the items of a batch, its epoch and number


def in_place(recipe: Recipe, jobs: Iterator[Job]) -> Iterator[Any]:
    """Each batch when it is asked for."""
    for job in jobs:
        yield tensors(recipe.arrays(*job))


def in_threads(recipe: Recipe, jobs: Iterator[Job], workers: int, ahead: int) -> Iterator[Any]:
    """Batches that threads have made as tensors, up to `ahead` before they are needed."""
    pool = ThreadPoolExecutor(workers, "smelt-loader")
    return _fed(pool, lambda job: pool.submit(lambda: tensors(recipe.arrays(*job))), jobs, ahead)


def in_processes(recipe: Recipe, jobs: Iterator[Job], workers: int, ahead: int) -> Iterator[Any]:
    """Batches that new processes have made. Each gets the recipe once, and gives back arrays."""
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(workers, get_context("spawn"), _keep, (recipe,))

    def submit(job: Job) -> Future[Any]:
        try:
            return pool.submit(_make, job)
        except BrokenProcessPool:
            raise
        except Exception as error:  # whatever pickling meets
            raise _unsent(f"the dataset or a function cannot be sent to a process: {error}") from error

    try:
        for batch in _fed(pool, submit, jobs, ahead):
            yield tensors(batch)
    except BrokenProcessPool as error:
        raise _unsent("a worker process ended before it gave a batch") from error


def _unsent(what: str) -> ArgumentError:
    return ArgumentError(
        f"DataLoader: {what}",
        rule="worker processes are new interpreters, which import the dataset and the functions given to the loader.",
        hint="Define them at the top of a module, and start the program under `if __name__ == '__main__':`. "
        "Threads (processes=False) do without.",
    )


_recipe: Recipe | None = None  # of a worker process


def _keep(recipe: Recipe) -> None:
    global _recipe
    _recipe = recipe


def _make(job: Job) -> Any:
    assert _recipe is not None
    return _recipe.arrays(*job)


def _fed(pool: Executor, submit: Callable[[Job], Future[Any]], jobs: Iterator[Job], ahead: int) -> Iterator[Any]:
    """Results in order, asked for ahead; at the end, however that comes, the pool is gone."""
    waiting: deque[Future[Any]] = deque()
    try:
        for job in jobs:
            waiting.append(submit(job))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
