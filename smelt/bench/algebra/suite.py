"""The algebra suite: each program with the search for equal programs and without, then against the fastest peer."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.bench.algebra.programs import PROGRAMS
from smelt.bench.contest import Contest
from smelt.bench.cpu.library import installed
from smelt.bench.cpu.suite import Asked, Ring
from smelt.bench.report import Report, Row, threads_text, time_text
from smelt.bench.timing import ChildError
from smelt.errors import ArgumentError
from smelt.rewrite import Contract

PEERS = ("torch", "torch.compile", "jax")
COMPILERS = ("torch.compile", "jax")  # those that could do the same
CONTRACTS = tuple(contract.value for contract in Contract)
EACH, GEOMEAN, COMPILED = 1.2, 3.0, 2.0


@dataclass
class Result:
    """What was found of one program. Where ratios are above 1, the first of two is faster."""

    name: str
    pair: Contest | None = None  # with contracts, and without; None if its rule is not among those that are allowed
    facts: Mapping[str, Any] = field(default_factory=dict)  # of smelt's contender
    peers: dict[str, float] = field(default_factory=dict)  # seconds of those that ran, when all were screened
    met: dict[str, Contest] = field(default_factory=dict)  # by peer
    notes: list[str] = field(default_factory=list)
    failed: str = ""

    def hardest(self, among: Sequence[str] | None = None) -> tuple[str, float] | None:
        """Of the peers that it met, the one against which it does worst, and how many times as fast as that it is."""
        found = {peer: met.ratio.median for peer, met in self.met.items() if among is None or peer in among}
        return min(found.items(), key=lambda item: item[1], default=None)

    def row(self, title: str, threads: int, bar: float | None) -> Row:
        """For the table."""
        if self.failed or self.pair is None:
            return Row(title, None, "×", detail=self.failed or "it was not measured")
        needs, ratio = PROGRAMS[self.name].needs.value, self.pair.ratio
        measured = self.pair.measured(
            threads=threads,
            against="off",
            errors=self.facts["errors"],
            first=self.facts["first"],
            peers={name: {"seconds": seconds} for name, seconds in self.peers.items()},
        )
        hardest = self.hardest()
        columns = {
            "at most": f"{ratio.high:.2f}",
            "without": time_text(self.pair.second.median),
            "max without": f"{self.facts['errors_off']['max']:.0e}",
            "needs": needs,
            "to a peer": "" if hardest is None else f"{hardest[1]:.2f} × {hardest[0]}",
        }
        rules = ", ".join(self.facts["rules"]) or "no rule was used"
        screened = ", ".join(f"{name} {time_text(seconds)}" for name, seconds in self.peers.items())
        detail = "; ".join(filter(None, (rules, PROGRAMS[self.name].summary, screened, *self.notes)))
        return Row(title, ratio.median, "×", bar, at_least=True, detail=detail, measured=measured, columns=columns)

    def json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        known: dict[str, Any] = {"name": self.name, "needs": PROGRAMS[self.name].needs.value, **self.facts}
        if self.pair is not None:
            known |= {"on": self.pair.first._asdict(), "off": self.pair.second._asdict()}
            known |= {"ratio": self.pair.ratio._asdict(), "rounds": len(self.pair.times)}
        met = {peer: found.ratio._asdict() for peer, found in self.met.items()}
        return known | {"peers": self.peers, "met": met, "failed": self.failed or None}


class ProgramRing(Ring):
    """Contenders that hold a program of the suite; smelt's holds two versions of it."""

    module = "smelt.bench.algebra.contender"

    def __enter__(self) -> ProgramRing:
        return self

    def pair(self) -> Contest:
        """smelt with and without."""
        found = self.ask("smelt", "pair")
        return Contest([(on, off) for on, off in found["times"]], found["marks"])


def measure_algebra(names: Sequence[str], contracts: str, asked: Asked) -> Report:
    """A row for each program that these contracts are enough for, and what they come to. Ctrl-C ends it early."""
    most = Contract(contracts)
    chosen = list(names or PROGRAMS)
    taking = [name for name in chosen if most.allows(PROGRAMS[name].needs)]
    others = [name for name in chosen if name not in taking]
    if not taking:
        needed = {PROGRAMS[name].needs.value for name in others}
        raise ArgumentError(
            f"bench: no rule for these programs is {contracts}", hint=f"They need: {', '.join(needed)}."
        )
    found, extra = Report([]), dict[str, Any]()
    ended = ""
    with tempfile.TemporaryDirectory(prefix="smelt-bench-", ignore_cleanup_errors=True) as folder:
        for threads in asked.threads:
            results: list[Result] = []
            checked: list[Result] = []
            try:
                with ProgramRing(threads, folder, asked.quick) as ring:
                    for name in taking:
                        results.append(_measured(ring, name, contracts, asked))
                    # What no rule may touch must not change either.
                    for name in others if most is Contract.EXACT else ():
                        checked.append(_checked(ring, name, contracts, asked))
            except KeyboardInterrupt:
                ended = "interrupted"
            found.rows += rows(results, checked, threads, contracts, is_judged=not asked.quick)
            extra[str(threads)] = [result.json() for result in (*results, *checked)]
            if ended:
                break
    found.extra = {"contracts": contracts, "programs": extra}
    found.text = "\n\n".join(filter(None, (_left_out(others, contracts), ended)))
    found.failed = True if ended else None
    return found


def _left_out(names: Sequence[str], contracts: str) -> str:
    needed: dict[str, list[str]] = {}
    for name in names:
        needed.setdefault(PROGRAMS[name].needs.value, []).append(name)
    lines = [f"  --contracts {needs}: {', '.join(own)}" for needs, own in needed.items()]
    return "\n".join(
        [f"not measured with --contracts {contracts}, for their rules need more:", *lines] if lines else []
    )


def _checked(ring: ProgramRing, name: str, contracts: str, asked: Asked) -> Result:
    """A program of which only the bits are of interest."""
    asked.progress(f"{name}: its bits")
    try:
        return Result(name, facts=ring.prepare("smelt", f"{name} {contracts}"))
    except ChildError as error:
        return Result(name, failed=first_line(error))


def _measured(ring: ProgramRing, name: str, contracts: str, asked: Asked) -> Result:
    result = Result(name, notes=["small inputs"] if asked.quick else [])
    for other in (peer for peer in asked.peers if installed(peer)):
        asked.progress(f"{name}: {other}")
        try:
            result.peers[other] = float(ring.prepare(other, f"{name} {contracts}")["seconds"])
        except ChildError as error:
            result.notes.append(f"{other} failed: {first_line(error)}")
    asked.progress(f"{name}: {PROGRAMS[name].summary}")
    try:
        result.facts = ring.prepare("smelt", f"{name} {contracts}")
        result.pair = ring.pair()
        # Those that compile, and who else is the fastest: few calls do not tell them apart where others are at work.
        fastest = min(result.peers, key=lambda peer: result.peers[peer], default="")
        for peer in (peer for peer in result.peers if peer in (*COMPILERS, fastest)):
            result.met[peer] = ring.contest("smelt", peer)
    except ChildError as error:
        result.failed = f"smelt: {first_line(error)}"
    return result


def rows(
    results: Sequence[Result], checked: Sequence[Result], threads: int, contracts: str, *, is_judged: bool
) -> list[Row]:
    """A row for each program, and the geometric means; bars are for all programs that take part."""
    beside = "" if threads == 0 else f", {threads_text(threads)}"
    found = [result.row(f"{result.name}{beside}", threads, EACH if is_judged else None) for result in results]
    whole = {name for name, program in PROGRAMS.items() if Contract(contracts).allows(program.needs)}
    is_whole = is_judged and whole == {result.name for result in results}
    ratios = [result.pair.ratio.median for result in results if result.pair is not None and not result.failed]
    if ratios:
        bar, told = GEOMEAN if is_whole else None, f"{len(ratios)} programs, with {contracts} against off"
        found.append(Row(f"geometric mean{beside}", geomean(ratios), "×", bar, at_least=True, detail=told))
    compiled = [one[1] for one in (result.hardest(COMPILERS) for result in results) if one is not None]
    if compiled:
        bar, told = COMPILED if is_whole else None, f"{len(compiled)} programs, the faster of {' and '.join(COMPILERS)}"
        name = f"against compilers: geometric mean{beside}"
        found.append(Row(name, geomean(compiled), "×", bar, at_least=True, detail=told))
    return [
        *found,
        *([_bits_row([*results, *checked], beside)] if results and contracts == Contract.EXACT.value else []),
    ]


def _bits_row(results: Sequence[Result], beside: str) -> Row:
    """The check of the contract that is the default: the same bits as without."""
    different = [result.name for result in results if not result.facts.get("same", False)]
    share = 1 - len(different) / len(results)
    told = f"{len(results) - len(different)} of {len(results)} programs"
    told += f"; different: {', '.join(different)}" if different else ""
    return Row(f"the same bits as off{beside}", share, "×", 1.0, at_least=True, detail=told)


def geomean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def first_line(error: Exception) -> str:
    """What is told of a contender that failed."""
    return str(error).partition("\n")[0]
