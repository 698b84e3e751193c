"""JAX's own test programs through StableHLO text: how many give what XLA gives.

`python -m tests.peers.stablehlo_harnesses` reads each program of JAX's harnesses as JAX prints it and compares with
XLA: pass, mismatch, refused (an `UnsupportedOp`), crashed (any other error), skipped (JAX cannot either).
Programs run compiled, or with --interpreted by the reference interpreter, which needs no compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from smelt.errors import SmeltError, UnsupportedOp
from smelt.formats import stablehlo
from tests.interpreted import interpreted

# Relative and absolute: what a few operations may lose, in the type of the result.
TOLERANCES = {"float64": 1e-11, "float32": 3e-5, "float16": 5e-3, "bfloat16": 4e-2}


# Vectors whose signs nothing defines: any LAPACK has its own.
SIGNLESS = {"svd", "eigh"}


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


def alike(found: Any, wanted: Any) -> bool:
    """Whether two arrays agree within what rounding may do."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    tolerance = TOLERANCES.get(str(wanted.dtype))
    if tolerance is None:
        return bool((found == wanted).all())
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def run(harness: Any, by_interpreter: bool) -> tuple[str, str]:
    """What became of one program: pass, mismatch, refused, crashed or skipped; and why."""
    import jax

    try:
        args = harness.dyn_args_maker(np.random.RandomState(0))
        function = jax.jit(harness.dyn_fun)
        wanted = [plain(x) for x in jax.tree.leaves(function(*args))]
        text = function.lower(*args).as_text()
    except Exception as error:
        return "skipped", f"{type(error).__name__}: {error}"[:200]
    try:
        program = stablehlo.load(text, rules=stablehlo.XLA)
        # What nothing reads is no argument of the text.
        given = [plain(x) for x in jax.tree.leaves(args)]
        kept = function.lower(*args)._lowering.compile_args.get("kept_var_idx", range(len(given)))
        found = program(*(given[k] for k in sorted(kept)))
        found = list(found) if isinstance(found, tuple) else [found]
        arrays = interpreted(found) if by_interpreter else [np.asarray(x.numpy()) for x in found]
    except UnsupportedOp as error:
        return "refused", f"{error.name}: {error.told}"[:300]
    except Exception as error:
        known = str(error)[:300] if isinstance(error, SmeltError) else "".join(traceback.format_exc(limit=-3))
        return "crashed", f"{type(error).__name__}: {known}"
    for k, (a, b) in enumerate(zip(arrays, wanted, strict=True)):
        if harness.group_name in SIGNLESS and b.dtype.kind == "f":
            a, b = abs(a), abs(b)
        if not alike(np.asarray(a), b):
            return "mismatch", f"result {k}: {np.asarray(a).reshape(-1)[:8]} and {b.reshape(-1)[:8]}"
    return "pass", ""


def report(results: dict[str, Counter[str]], seconds: float) -> str:
    """A table by groups, of those that do not all pass, and the sum."""
    kinds = ("pass", "mismatch", "refused", "crashed", "skipped")
    lines = [f"{'group':32}" + "".join(f"{kind:>10}" for kind in kinds)]
    for group, counts in sorted(results.items()):
        if set(counts) - {"pass", "skipped"}:
            lines.append(f"{group:32}" + "".join(f"{counts[kind]:>10}" for kind in kinds))
    total: Counter[str] = sum(results.values(), Counter())
    lines.append(f"{'all':32}" + "".join(f"{total[kind]:>10}" for kind in kinds))
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
    return found[arguments.first :: arguments.every]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="one in so many programs")
    parser.add_argument("--first", type=int, default=0, help="the first one to take")
    parser.add_argument("--only", default="", help="groups or full names, with commas")
    parser.add_argument("--interpreted", action="store_true", help="by the reference interpreter")
    parser.add_argument("--details", type=Path, help="a file for a line of each program that does not pass")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Counter[str]] = defaultdict(Counter)
    details = arguments.details.open("w", encoding="utf-8") if arguments.details else None
    start = time.monotonic()
    for harness in chosen(arguments):
        kind, why = run(harness, arguments.interpreted)
        results[harness.group_name][kind] += 1
        if details is not None and kind != "pass":
            print(json.dumps([kind, harness.fullname, why]), file=details, flush=True)
    print(report(results, time.monotonic() - start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
