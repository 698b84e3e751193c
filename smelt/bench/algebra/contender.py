"""One contender of the algebra suite: `python -m smelt.bench.algebra.contender LIBRARY THREADS FOLDER [quick]`.

As those of the cpu suite it takes one case after another, `case PROGRAM CONTRACTS`. smelt's holds a program twice, with
these contracts and with "off": a number runs the first, `pair` both in alternation. `needed` says which rules the plan
depends on, and after `without RULE` the second version is the one that all others lead to.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from smelt.bench.algebra.programs import PROGRAMS, Program
from smelt.bench.contest import Contest, come_to_rest, seconds_per_call
from smelt.bench.cpu.contender import Server, main
from smelt.bench.models import check_close, error_norms
from smelt.compiler import chosen
from smelt.egraph import RULES, Weighed
from smelt.errors import InternalError
from smelt.stated import without

_WINDOW = 0.05  # seconds of a round
_LEAST, _MOST, _QUICK = 9, 31, 5  # rounds
_TOLERANCE = 0.01  # of the ratio
_DIFFERENT = 0.01  # share of whole numbers that may differ: those of a tie in float32


class Programs(Server):
    """The programs of one library, one at a time."""

    def __init__(self, library: str, threads: int, folder: str, quick: bool) -> None:
        super().__init__(library, threads, folder, quick)
        self._words = import_module(f"smelt.bench.algebra.in_{library.partition('.')[0]}")
        self._is_smelt = library == "smelt"
        self._pair: tuple[Callable[[], Any], Callable[[], Any]] | None = None  # with contracts, and without
        # As the rules in force have it: a call, with its errors, and what is chosen.
        self._anew: Callable[[], tuple[Callable[[], Any], dict[str, float]]] | None = None
        self._islands: Callable[[], list[Weighed]] | None = None

    def answer(self, line: str) -> dict[str, Any]:
        """To one line of the parent's."""
        word, _, rest = line.strip().partition(" ")
        match word:
            case "pair":
                return self._paired()
            case "needed":
                return {"needed": self._needed()}
            case "without":
                return self._without(rest)
        return super().answer(line)

    def _case(self, name: str) -> dict[str, Any]:
        called, contracts = name.split()
        program, library = PROGRAMS[called], self._library
        assert library is not None
        inputs = program.inputs(self._quick)
        expected = self._expected(called, program, inputs)
        held = [library.hold(x) for x in inputs]

        # Nothing else may hang on it: smelt looks at each call whether a value outside of a function has changed.
        run, words = program.run, self._words

        def written(*inputs: Any) -> Any:
            return run(words, *inputs)

        if "torch" in sys.modules:
            # All programs are one function to it, of which it compiles a few versions only.
            sys.modules["torch"].compiler.reset()
        if self._is_smelt:
            return self._smelt(written, contracts, held, expected)
        began = time.perf_counter()
        function = library.compiled(written)
        result = function(*held)
        first = time.perf_counter() - began
        self._seconds = lambda calls: seconds_per_call(lambda: function(*held), calls)
        return {"first": first, "errors": errors_of(library.give(result), expected)}

    def _smelt(self, written: Callable[..., Any], contracts: str, held: list[Any], expected: Any) -> dict[str, Any]:
        """Both versions, with what is to be known of each, and whether they give the same bits."""
        import smelt as sm

        def made(name: str) -> tuple[Any, Any]:
            function = sm.jit(written, contracts=name)
            return function, function(*held).numpy()

        began = time.perf_counter()
        on, result = made(contracts)
        first = time.perf_counter() - began
        off, as_written = made("off")

        def anew() -> tuple[Callable[[], Any], dict[str, float]]:
            function, result = made(contracts)
            return lambda: function(*held), errors_of(result, expected)

        self._anew, self._islands = anew, lambda: weighed(sm.jit(written, contracts=contracts), held)
        self._pair = (lambda: on(*held), lambda: off(*held))
        self._seconds = lambda calls: seconds_per_call(lambda: on(*held), calls)
        return {
            "first": first,
            "errors": errors_of(result, expected),
            "errors_off": errors_of(as_written, expected),
            "same": result.tobytes() == as_written.tobytes(),
            "rules": rules_used(self._islands()),
        }

    def _needed(self) -> list[str]:
        """The rules without which another program would have been chosen."""
        assert self._islands is not None
        with_all, needed = chosen_of(self._islands()), []
        for rule in RULES:
            with without(rule.name):
                if chosen_of(self._islands()) != with_all:
                    needed.append(rule.name)
        return needed

    def _without(self, rule: str) -> dict[str, Any]:
        assert self._anew is not None
        assert self._islands is not None
        assert self._pair is not None
        with without(rule):
            call, errors = self._anew()
            rules = rules_used(self._islands())
        self._pair = (self._pair[0], call)
        return {"errors": errors, "rules": rules}

    def _paired(self) -> dict[str, Any]:
        """Rounds of both in alternation, until their ratio is known well."""
        assert self._pair is not None
        assert self._mark is not None
        mark, marks = self._mark, list[float]()
        times = rounds(self._pair, self._quick, lambda: marks.append(mark()))
        come_to_rest()
        return {"times": times, "marks": marks}

    def _expected(self, name: str, program: Program, inputs: list[Any]) -> Any:
        """What NumPy finds in float64; computed once for all contenders."""
        file = self._folder / f"{name}.npy"
        if not file.exists():
            part = self._folder / f"{name}.part.npy"
            np.save(part, program.expected(inputs))
            part.rename(file)
        return np.load(file)


def rounds(
    pair: tuple[Callable[[], Any], Callable[[], Any]], quick: bool, after_each: Callable[[], None] = lambda: None
) -> list[tuple[float, float]]:
    """Seconds per call of two in alternation, until their ratio is known well."""
    calls = [max(1, round(_WINDOW / max(min(seconds_per_call(f, 1) for _ in range(3)), 1e-9))) for f in pair]
    times: list[tuple[float, float]] = []
    least, most = (_QUICK, _QUICK) if quick else (_LEAST, _MOST)
    while len(times) < most and (len(times) < least or Contest(times).error > _TOLERANCE):
        # Who begins alternates too.
        order = (0, 1) if len(times) % 2 else (1, 0)
        taken = {k: seconds_per_call(pair[k], calls[k]) for k in order}
        times.append((taken[0], taken[1]))
        after_each()
    return times


def errors_of(found: Any, expected: Any) -> dict[str, float]:
    """How far a result is off; of whole numbers, the share that differs. What is wrong is refused."""
    if expected.dtype.kind != "i":
        found = np.asarray(found, np.float64)
        check_close(found, expected)
        return error_norms(found, expected)
    share = float(np.mean(np.asarray(found) != expected))
    if share > _DIFFERENT:
        raise InternalError(f"a measured result is wrong: {share:.1%} of all numbers")
    return {"max": share}


def weighed(function: Any, held: list[Any]) -> list[Weighed]:
    """What is chosen for the islands of a function that was just jitted, with the rules that are in force."""
    key, device = function.graph_key(*held)
    return chosen(key, device.profile)


def chosen_of(islands: list[Weighed]) -> list[str]:
    """What was chosen for islands, where that is not what was written."""
    return [one.chosen for one in islands if one.chosen]


def rules_used(islands: list[Weighed]) -> list[str]:
    """Those of what was chosen for islands."""
    return sorted({rule for one in islands for rule in one.rules})


if __name__ == "__main__":
    main(sys.argv[1:], Programs)
