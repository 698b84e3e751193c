"""What a user waits for from the start of a program to its first loss, with an empty cache and in a second process.

The programs are `smelt.bench.train.first_losses`. smelt is imported in all of them, since the networks are its; the
clock of the others starts after that.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from smelt.bench.cpu.library import installed
from smelt.bench.cpu.suite import cores
from smelt.bench.report import Row
from smelt.bench.timing import ChildError, run_json
from smelt.bench.train.cases import LENGTHS
from smelt.bench.train.suite import check_losses

STARTS: Final[Mapping[str, Sequence[str]]] = {
    "mlp": ("mlp",),
    "resnet": ("resnet",),
    "transformer": tuple(f"transformer-{length}" for length in LENGTHS),  # one step for each length
}
PEERS: Final = ("jax", "torch.compile")
COLD: Final = 0.8  # of the time that JAX takes


def measure_starts(quick: bool, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """For each case: a cold start against JAX, and what others and later starts take."""
    rows: list[Row] = []
    peers = [peer for peer in PEERS[: 1 if quick else None] if installed(peer)]
    for case in ["mlp"] if quick else STARTS:
        found: dict[str, list[_Pair]] = {}
        notes: list[str] = []
        for number in range(1 if quick else 3):
            # torch.compile takes the longest by far, and no bar is about it.
            for library in ("smelt", *(peer for peer in peers if not number or peer == "jax")):
                progress(f"start: {case} in {library}")
                try:
                    found.setdefault(library, []).append(_cold_and_warm(library, case))
                except ChildError as error:
                    notes.append(f"{library}: {error}".partition("\n")[0])
        rows += _rows(case, found, notes)
    return rows


_Pair = tuple[dict[str, Any], dict[str, Any]]  # what a cold and a warm process said


def _rows(case: str, found: Mapping[str, Sequence[_Pair]], notes: Sequence[str]) -> list[Row]:
    ours = found.get("smelt")
    if ours is None:
        return [Row(f"start: {case}", None, "s", detail="; ".join(notes))]
    for peer, pairs in found.items():
        check_losses(pairs[0][0]["losses"], ours[0][0]["losses"], peer)

    def told(at: int, key: str, text: str) -> str:
        medians = {library: statistics.median(pair[at][key] for pair in pairs) for library, pairs in found.items()}
        return ", ".join(f"{library} {text.format(median)}" for library, median in medians.items())

    cold = statistics.median(pair[0]["seconds"] for pair in ours)
    detail = f"{told(0, 'processor', '{:.1f}')} s of processor time; {told(0, 'peak', '{:.0f}')} MB"
    rows = [Row(f"start: {case}, cold", cold, "s", detail="; ".join((detail, *notes)))]
    if "jax" in found:
        rounds = zip(ours, found["jax"], strict=False)
        ratio = statistics.median(one[0]["seconds"] / other[0]["seconds"] for one, other in rounds)
        rows.append(Row(f"start: {case}, cold, of JAX's time", ratio, "×", COLD, detail=told(0, "seconds", "{:.1f} s")))
    warm = statistics.median(pair[1]["seconds"] for pair in ours)
    rows.append(Row(f"start: {case}, warm", warm, "s", detail=told(1, "seconds", "{:.1f} s")))
    return rows


def _cold_and_warm(library: str, case: str) -> _Pair:
    """Two processes, the second with what the first has left on the disk."""
    with tempfile.TemporaryDirectory(prefix="smelt-bench-") as name:
        folder = Path(name)
        environment = {
            "SMELT_CACHE_DIR": str(folder / "smelt"),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
        }
        return _start(library, case, environment), _start(library, case, environment)


def _start(library: str, case: str, environment: Mapping[str, str]) -> dict[str, Any]:
    began = time.perf_counter()
    words = ["-m", "smelt.bench.train.first_losses", library, str(cores()), *STARTS[case]]
    result: dict[str, Any] = run_json(words, environment)
    if library == "smelt":
        result["seconds"] = time.perf_counter() - began
    return result
