"""JAX's own test programs through StableHLO text: how many give what XLA gives.

`python -m tests.peers.stablehlo_harnesses` reads each program of JAX's harnesses as JAX prints it and compares with
XLA: pass, mismatch, refused (an `UnsupportedOp`), crashed (any other error), slow (beyond --seconds), skipped (JAX
cannot either). Programs run compiled, or with --interpreted by the reference interpreter, which needs no compiler.
--shard 3/50 takes the third of fifty parts, so that they can run one after the other; --json writes what became of
each program, and --sum reads such files and prints one table of all.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from smelt.errors import SmeltError, UnsupportedOp
from smelt.formats import stablehlo
from smelt.graph import pairs
from smelt.graph.interpret import interpret
from smelt.tensor import node_of

# Relative and absolute: what a few operations may lose, in the type of the result.
TOLERANCES = {"float64": 1e-11, "float32": 3e-5, "float16": 5e-3, "bfloat16": 4e-2}
TOLERANCES |= {"complex128": TOLERANCES["float64"], "complex64": TOLERANCES["float32"]}
KINDS: Final = ("pass", "mismatch", "refused", "crashed", "slow", "skipped")

# Vectors whose signs (or angles) nothing defines: any LAPACK has its own.
SIGNLESS = {"svd", "eigh", "eig"}
# What solves equations is compared beside the largest element: that is what LAPACK promises.
SOLVERS = {"cholesky", "custom_linear_solve", "eig", "eigh", "lu", "qr", "svd", "triangular_solve"}


def harnesses() -> list[Any]:
    """All programs of the installed JAX, with 64-bit types."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    from jax._src.internal_test_util import test_harnesses

    found: list[Any] = list(test_harnesses.all_harnesses)
    return found


def plain(value: Any) -> Any:
    """An array of JAX's as one of NumPy's; keys of random numbers as their words."""
    import jax

    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def settled(harness: Any, args: Any, results: list[Any]) -> list[Any]:
    """Results without what nothing defines: signs of vectors, the order of eigenvalues of general matrices, that of
    equals in a sort that is not stable, and which of equals are the best.
    """
    if harness.group_name == "sort" and not harness.params.get("is_stable", True):
        order = np.lexsort(results[::-1], axis=harness.params["dimension"])
        return [np.take_along_axis(x, order, harness.params["dimension"]) for x in results]
    if harness.group_name == "approx_top_k":
        values, places = results
        return [values, np.take_along_axis(np.asarray(args[0]), places, -1)]
    if harness.group_name not in SIGNLESS:
        return results
    if harness.group_name == "eig" and results[0].size:
        values = results[0]
        order = np.lexsort((values.imag, values.real.round(3)), axis=-1)
        values, *vectors = results
        vectors = [np.take_along_axis(x, order[..., None, :], -1) for x in vectors]
        return [np.take_along_axis(values, order, -1), *map(abs, vectors)]
    return [abs(x) if x.dtype.kind in "fc" else x for x in results]


def alike(found: Any, wanted: Any, by_largest: bool) -> bool:
    """Whether two arrays agree within what rounding may do."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    tolerance = TOLERANCES.get(str(wanted.dtype))
    if tolerance is None:
        return bool((found == wanted).all())
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    with np.errstate(all="ignore"):
        largest = max(1.0, abs(b[np.isfinite(b)]).max(initial=1.0)) if by_largest else 1.0
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


class TooSlow(BaseException):
    """A program that has not come to its end in time; no `except Exception` holds it up."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooSlow where a block takes longer."""

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interpreted(tensors: list[Any]) -> list[Any]:
    """The arrays of tensors by the reference interpreter."""
    nodes = [node_of(x, "interpreted") for x in tensors]
    parts = iter(interpret(pairs.all_parts(nodes), lambda leaf: leaf.attribute.numpy()))
    arrays = []
    for node in nodes:
        array = np.asarray(next(parts))
        if node.dtype.is_complex:
            real, array = array, np.empty(array.shape, node.dtype.numpy)
            array.real, array.imag = real, next(parts)
        arrays.append(array)
    return arrays


def run(harness: Any, by_interpreter: bool, seconds: float) -> tuple[str, str]:
    """What became of one program, and why."""
    import jax

    try:
        with limited(seconds):
            args = harness.dyn_args_maker(np.random.RandomState(0))
            lowered = jax.jit(harness.dyn_fun).lower(*args)
            wanted = [plain(x) for x in jax.tree.leaves(lowered.compile()(*args))]
    except TooSlow:
        return "skipped", f"XLA takes more than {seconds} s"
    except Exception as error:
        return "skipped", f"{type(error).__name__}: {error}"[:200]
    try:
        with limited(seconds):
            program = stablehlo.load(lowered.as_text(), rules=stablehlo.XLA)
            # What nothing reads is no argument of the text.
            given = [plain(x) for x in jax.tree.leaves(args)]
            kept = lowered._lowering.compile_args.get("kept_var_idx", range(len(given)))
            results = program(*(given[k] for k in sorted(kept)))
            found = list(results) if isinstance(results, tuple) else [results]
            arrays = interpreted(found) if by_interpreter else [np.asarray(x.numpy()) for x in found]
    except TooSlow:
        return "slow", f"more than {seconds} s"
    except UnsupportedOp as error:
        return "refused", f"{error.name}: {error.told}"[:300]
    except Exception as error:
        known = str(error)[:300] if isinstance(error, SmeltError) else "".join(traceback.format_exc(limit=-3))
        return "crashed", f"{type(error).__name__}: {known}"
    pairs_ = zip(settled(harness, args, arrays), settled(harness, args, wanted), strict=True)
    for k, (a, b) in enumerate(pairs_):
        if not alike(a, b, harness.group_name in SOLVERS):
            return "mismatch", f"result {k}: {a.reshape(-1)[:8]} and {b.reshape(-1)[:8]}"
    return "pass", ""


def report(results: dict[str, Counter[str]], seconds: float) -> str:
    """A table by groups, of those that do not all pass, and the sum."""
    lines = [f"{'group':32}" + "".join(f"{kind:>10}" for kind in KINDS)]
    for group, counts in sorted(results.items()):
        if set(counts) - {"pass", "skipped"}:
            lines.append(f"{group:32}" + "".join(f"{counts[kind]:>10}" for kind in KINDS))
    total: Counter[str] = sum(results.values(), Counter())
    lines.append(f"{'all':32}" + "".join(f"{total[kind]:>10}" for kind in KINDS))
    ran = sum(total.values()) - total["skipped"]
    lines.append(
        f"{total['pass']} of {ran} that XLA runs: {100 * total['pass'] / max(ran, 1):.1f} %, in {seconds:.0f} s"
    )
    return "\n".join(lines)


def chosen(arguments: argparse.Namespace) -> Iterable[Any]:
    found = harnesses()
    if arguments.only:
        names = arguments.only.split(",")
        found = [h for h in found if h.group_name in names or h.fullname in names]
    part, parts = (int(number) for number in arguments.shard.split("/"))
    return found[part - 1 :: parts]


def summed(paths: Iterable[Path]) -> tuple[dict[str, Counter[str]], float]:
    """The results of several runs, by groups, and their seconds."""
    results: dict[str, Counter[str]] = defaultdict(Counter)
    seconds = 0.0
    for path in paths:
        run_ = json.loads(path.read_text(encoding="utf-8"))
        seconds += run_["seconds"]
        for group, kind, _, _ in run_["programs"]:
            results[group][kind] += 1
    return results, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", default="1/1", help="which part of how many, as 3/50")
    parser.add_argument("--only", default="", help="groups or full names, with commas")
    parser.add_argument("--interpreted", action="store_true", help="by the reference interpreter")
    parser.add_argument("--seconds", type=float, default=60, help="the longest that one program may take")
    parser.add_argument("--json", type=Path, help="a file for what became of each program")
    parser.add_argument("--sum", type=Path, nargs="+", help="run nothing; print the table of such files")
    arguments = parser.parse_args()
    if arguments.sum:
        print(report(*summed(arguments.sum)))
        return 0
    warnings.simplefilter("ignore")
    results: dict[str, Counter[str]] = defaultdict(Counter)
    programs = []
    start = time.monotonic()
    for harness in chosen(arguments):
        kind, why = run(harness, arguments.interpreted, arguments.seconds)
        results[harness.group_name][kind] += 1
        programs.append([harness.group_name, kind, harness.fullname, why])
    seconds = time.monotonic() - start
    if arguments.json:
        arguments.json.write_text(json.dumps({"seconds": seconds, "programs": programs}, indent=0), encoding="utf-8")
    print(report(results, seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
