"""One contender: `python -m smelt.bench.stablehlo.contender native|imported|jax CASE [quick] [first]`.

With `first` it prints the seconds of the first call and of later ones, and ends.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt.bench.contest import serve
from smelt.bench.stablehlo.cases import in_jax, native

Call = Callable[[], Any]


def _native(name: str, quick: bool) -> tuple[Call, Call]:
    function, arguments = native(name, quick)
    return _of_smelt(sm.jit(function), arguments)


def _of_smelt(function: Any, arguments: tuple[Any, ...]) -> tuple[Call, Call]:
    """A call, and how many kernels it launches."""
    from smelt.transform import examine

    return lambda: function(*arguments), lambda: len(examine(function, *arguments).kernels)


def _imported(name: str, quick: bool) -> tuple[Call, Call]:
    function, arrays = in_jax(name, quick)
    # Copies, as a module holds its weights and JAX its arrays: what shares memory could be written to by its owner, so
    # nothing made of it is kept between calls.
    arguments = sm.tree.map(lambda leaf: sm.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, arrays)
    return _of_smelt(sm.jit(sm.from_jax(function, *arguments)), arguments)


def _jax(name: str, quick: bool) -> tuple[Call, Call]:
    import jax

    function, arrays = in_jax(name, quick)
    arguments = jax.tree.map(jax.numpy.asarray, arrays)
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments)), lambda: 0


_WAYS: dict[str, Callable[[str, bool], tuple[Call, Call]]] = {"native": _native, "imported": _imported, "jax": _jax}


def _norm(found: Any) -> float:
    """What contenders must agree about: the norm of all results."""
    leaves = [leaf for leaf in sm.tree.flatten(found)[0] if hasattr(leaf, "dtype")]
    return float(np.sqrt(sum(float((np.asarray(leaf).astype(np.float64) ** 2).sum()) for leaf in leaves)))


def main(words: list[str]) -> None:
    way, name, *options = words
    call, launches = _WAYS[way](name, "quick" in options)
    began = time.perf_counter()
    found = call()
    first = time.perf_counter() - began
    if "first" not in options:
        return serve(call, {"first": first, "norm": _norm(found), "launches": launches()})
    times = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    # The fastest of the later ones: one of them may compile again, for weights that turned out to stay.
    print(json.dumps({"first": first, "later": min(times)}))
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
