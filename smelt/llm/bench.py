"""How quick a model is: reading prompts and writing answers, for smelt and for peers, each in a process of its own.

A contender is a process that takes lines of JSON, `{"read": 512}` or `{"write": 128, "batch": 4}`, and answers each
with the seconds that it took. They take turns, so that whatever else the machine does meets all of them. As llama-bench
does, answers are written behind `at` tokens, none unless said, and of a prompt only the last token has logits.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from smelt.errors import ArgumentError
from smelt.llm import models
from smelt.names import guess, nearest

# and what has to be installed for them
CONTENDERS: Final = {"smelt": (), "llama.cpp": ("xllamacpp",), "transformers": ("transformers", "torch")}
_PROBED: Final = 1 << 28  # bytes that are read to see how fast memory is
_PATIENCE: Final = 5.0  # seconds for a contender to end by itself


def measure(
    model: str,
    *,
    read: int = 512,
    write: int = 128,
    threads: Sequence[int] = (1,),
    batches: Sequence[int] = (1,),
    context: int = 0,
    cache_type: str | None = None,
    peers: Sequence[str] = (),
    rounds: int = 3,
    report: Callable[[str], None] = lambda text: None,
    warn: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """A row for each contender, number of threads and kind of work: the median of the rounds, in tokens per second.
    What is written comes behind `context` tokens. smelt keeps keys and values as `cache_type` says. `warn` hears of
    those that cannot be measured; others still are.
    """
    peers = present(peers, warn)
    tasks = [{"read": read}] * (read > 0) + [
        {"write": write, "batch": batch, "at": context} for batch in batches if write > 0
    ]
    rows = []
    for count in threads:
        names = ("smelt", *(peer for peer in peers if peer != "smelt"))
        running = [_Contender(name, model, count, tasks, cache_type) for name in names]
        work: list[tuple[str, Mapping[str, int] | None]] = [("loading", None)]
        work += [(f"round {number + 1} of {rounds}", task) for number in range(rounds) for task in tasks]
        try:
            for label, task in work:
                for contender in list(running):
                    report(f"{contender.name}, {count} threads: {label}")
                    try:
                        contender.start() if task is None else contender.run(task)
                    except (ArgumentError, BrokenPipeError):
                        warn(f"{contender.name} could not be measured; what it said is above")
                        running.remove(contender)
                        contender.stop()
            rows += [row for contender in running for row in contender.rows()]
        finally:
            for contender in running:
                contender.stop()
    return rows


def present(peers: Sequence[str], warn: Callable[[str], None]) -> list[str]:
    """The peers that are installed; `warn` hears what the others need, and a name that nobody has is an error."""
    found = []
    for peer in peers:
        if peer not in CONTENDERS:
            rule = f"they are {', '.join(CONTENDERS)}."
            raise ArgumentError(f"there is no contender {peer!r:.40}", rule=rule, hint=guess(nearest(peer, CONTENDERS)))
        if all(importlib.util.find_spec(module) for module in CONTENDERS[peer]):
            found.append(peer)
        else:
            warn(f"{peer} is not measured: pip install {' '.join(CONTENDERS[peer])}")
    return found


class _Contender:
    """A process, and what it has measured."""

    def __init__(
        self, name: str, model: str, threads: int, tasks: Sequence[Mapping[str, int]], cache_type: str | None
    ) -> None:
        self.name, self._threads = name, threads
        self._seconds: dict[str, list[float]] = {json.dumps(task): [] for task in tasks}
        words = [name, model, str(threads), json.dumps(list(tasks)), *([cache_type] if cache_type else [])]
        command = [sys.executable, "-m", "smelt.llm.bench", *words]
        environment = os.environ | {"SMELT_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._facts: dict[str, Any] = {}

    def start(self) -> None:
        """Wait until it is ready."""
        self._facts = self._line()

    def run(self, task: Mapping[str, int]) -> None:
        """One round of a task."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        self._seconds[json.dumps(task)].append(float(self._line()["seconds"]))

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ArgumentError(f"{self.name} could not be measured")
        found: dict[str, Any] = json.loads(line)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """What was measured."""
        rows = []
        for text, seconds in self._seconds.items():
            task = json.loads(text)
            tokens = task.get("read") or task["write"] * task["batch"]
            middle = median(seconds)
            row = {"contender": self.name, "threads": self._threads, **task, "seconds": round(middle, 4)}
            row["tokens_per_second"] = round(tokens / middle, 2)
            nbytes, speed = self._facts.get("bytes_per_step"), self._facts.get("read_bandwidth")
            if "write" in task and nbytes and speed:
                held = task["batch"] * (task["at"] + (task["write"] + 1) / 2)  # positions that a step reads
                read = (nbytes + held * self._facts["bytes_per_position"]) * task["write"]
                row["share_of_bandwidth"] = round(read / middle / speed, 3)
                row["cache_bytes"] = self._facts["cache_bytes"]
                row["read_bandwidth"] = round(speed)
            rows.append(row)
        return rows

    def stop(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# --- inside the processes


def _smelt(
    model: str, threads: int, tasks: Sequence[Mapping[str, int]], cache_type: str | None = None
) -> tuple[dict[str, Any], Any]:
    from smelt.llm.loading import cache_dtype, opened
    from smelt.llm.programs import DecoderPrograms

    decoder, _, _ = opened(model)
    most = max((task.get("batch", 1) for task in tasks), default=1)
    longest = max((max(task.get("read", 0), task.get("at", 0) + task.get("write", 0)) for task in tasks), default=1) + 2
    programs = DecoderPrograms(decoder, most, min(longest, decoder.config.context), dtype=cache_dtype(cache_type))

    def run(task: Mapping[str, int]) -> float:
        began = time.perf_counter()
        if "read" in task:
            for start in range(0, task["read"], programs.chunks[-1]):
                logits = programs.read(programs.own(0), start, [1] * min(programs.chunks[-1], task["read"] - start))
            logits.numpy()
        else:
            for position in range(task["at"], task["at"] + task["write"]):  # what is there before is zeros
                programs.extend([(programs.own(slot), position, 1) for slot in range(task["batch"])]).numpy()
        return time.perf_counter() - began

    for task in tasks:  # compiles
        run({**task, "write": 2} if "write" in task else task)
    facts = {
        "bytes_per_step": programs.weight_bytes,
        "bytes_per_position": programs.cache_bytes // (programs.pages * programs.page),
        "cache_bytes": programs.cache_bytes,
        "read_bandwidth": read_bandwidth(),
    }
    return facts, run


def read_bandwidth() -> float:
    """Bytes that are read from memory in a second, by as many threads as smelt uses: the best of some rounds."""
    import smelt as sm

    x = sm.zeros((_PROBED // 4 // 1024, 1024), dtype=sm.int32)
    total = sm.jit(lambda x: x.max(axis=1).max())
    total(x).item()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        total(x).item()
        seconds.append(time.perf_counter() - began)
    return _PROBED / min(seconds)


def _llama_cpp(model: str, threads: int, tasks: Sequence[Mapping[str, int]]) -> tuple[dict[str, Any], Any]:
    from concurrent.futures import ThreadPoolExecutor

    try:
        import xllamacpp
    except ImportError as error:
        raise ArgumentError("llama.cpp is measured by the wheel xllamacpp", hint="pip install xllamacpp") from error
    most = max((task.get("batch", 1) for task in tasks), default=1)
    params = xllamacpp.CommonParams()
    params.model.path = str(models.find(model))
    room = max(2048, *(task.get("at", 0) + task.get("write", 0) + 1 for task in tasks))
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = room * most, most, True, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)

    def one(prompt: list[int], count: int) -> Any:
        asked = {"prompt": prompt, "n_predict": count, "cache_prompt": False, "ignore_eos": True, "temperature": 0}
        found = server.handle_completions(asked)
        return (json.loads(found) if isinstance(found, str) else found)["timings"]

    def run(task: Mapping[str, int]) -> float:
        if "read" in task:
            return float(one([1] * task["read"], 1)["prompt_ms"]) / 1000
        with ThreadPoolExecutor(task["batch"]) as pool:
            timings = list(pool.map(lambda _: one([1] * (task["at"] + 1), task["write"]), range(task["batch"])))
        return max(float(timing["predicted_ms"]) for timing in timings) / 1000

    for task in tasks:
        run({**task, "write": 2} if "write" in task else task)
    return {}, run


def _transformers(model: str, threads: int, tasks: Sequence[Mapping[str, int]]) -> tuple[dict[str, Any], Any]:
    from smelt.llm.peer_transformers import contender

    return contender(model, threads, tasks)


def main(name: str, model: str, threads: int, tasks: Sequence[Mapping[str, int]], *more: str) -> None:
    """Be a contender: what others print goes to stderr, and answers to stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    opening: Any = {"smelt": _smelt, "llama.cpp": _llama_cpp, "transformers": _transformers}[name]
    facts, run = opening(model, threads, tasks, *(more if name == "smelt" else ()))
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps({"seconds": run(json.loads(line))}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]), *sys.argv[5:])
