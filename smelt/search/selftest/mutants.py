"""Kernels broken on purpose: none of them may ever be timed.

Each mistake is a change of the C that a right kernel was rendered to, one that a wrong rule of legality, lowering or
rendering could have made. What changes nothing is no mistake, so each takes away something that is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from smelt.device import Device
from smelt.errors import InternalError
from smelt.kernel import Region, parse_region
from smelt.search.contender import Contender, Outcome
from smelt.search.measure import Racer

_HEAD = "void k0("
_ONCE = "static int before; if (begin == 0 && __atomic_fetch_add(&before, 1, 0) >= {runs}) return;"


class Mistake(NamedTuple):
    """What is found in the body of a kernel, and what stands there instead."""

    name: str
    pattern: str
    becomes: str | Callable[[re.Match[str]], str]
    chunks: int = 1  # of tasks that a kernel must have for it to be one


def _one_less(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) - 1}{match[3]}"


def _one_more(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) + 1}{match[3]}"


MISTAKES = (
    Mistake("a tail is one short", r"(, e\d+ = )(\d+)(;)", _one_less),
    Mistake("a loop runs once too often", r"(, e\d+ = )(\d+)(;)", _one_more),
    Mistake("a loop begins late", r"(for \(long t\d+ = )(0)(,)", _one_more),
    Mistake("the last task is left out", r"(least_i64\(end, )(\d+)(\))", _one_less),
    Mistake(
        "a mask of a load is dropped", r"masked_load_(\w+)\((.+?), \(first_bits_i64\(\d+\)\)\)", r"*(const \1_u *)\2"
    ),
    Mistake("a mask is one too wide", r"(first_bits_i64\()(\d+)(\))", _one_more),
    Mistake("a mask is one too narrow", r"(first_bits_i64\()(\d+)(\))", _one_less),
    Mistake("a product is added to nothing", r"(v\d+_\d+_\d+) = \1 \+ (v\w+ \* v\w+);", r"\1 = \2;"),
    Mistake("a product is added twice", r"((v\d+_\d+_\d+) = \2 \+ v\w+ \* v\w+;)", r"\1 \1"),
    Mistake("a sum does not begin with nothing", r"(f32x\d+ v\d+\w* = \(f32x\d+\)\{\});", r"\1 + 1.0f;"),
    Mistake("a result is not written", r"\*\(f32x\d+_u \*\)\(?p\d+[^=;]* = v\w+;", ""),
    Mistake("a row is read from its neighbor", r"(f32 \*p\d+ = b[1-9]\d* \+ \()", r"\g<1>1 + "),
    Mistake("something is read far past the end", r"(f32 \*p\d+ = b[1-9]\d* \+ \()", r"\g<1>100000000 + "),
    Mistake("a result is written beside its place", r"(f32 \*p\d+ = b0 \+ \()", r"\g<1>1 + "),
    Mistake("a result is written before its buffer", r"(f32 \*p\d+ = b0 \+ \()", r"\g<1>-3 + "),
    Mistake("an input is overwritten", r"(f32 \*b1 = buffers\[1\];)", r"\1 b1[0] = b1[0] + 1;"),
    Mistake("it is right only the first time", r"(long end\) \{)", rf"\1 {_ONCE.format(runs=1)}"),
    Mistake("it is right only the first times", r"(long end\) \{)", rf"\1 {_ONCE.format(runs=7)}"),
    Mistake("it never ends", r"(long end\) \{)", r"\1 for (volatile int i = 1; i;) {}"),
    Mistake("it crashes", r"(long end\) \{)", r"\1 *(volatile int *)8 = 1;"),
    Mistake("nothing is written", r"(long end\) \{)", r"\1 return;"),
    Mistake("only the first tasks are done", r"(long end\) \{)", r"\1 if (begin) return;", 2),
)


def mutants(region: Region, device: Device) -> Iterator[Contender]:
    """What the default of a region becomes by each mistake that can be made there, at its last place."""
    right = Contender.default(region, device)
    at = right.source.rindex(_HEAD)
    head, body = right.source[:at], right.source[at:]
    chunks = -(-(right.kernel.tasks.value or 1) // right.choice.grain)
    for name, pattern, becomes, least in MISTAKES:
        places = list(re.finditer(pattern, body)) if chunks >= least else []
        if places:
            place = places[-1]
            changed = place.expand(becomes) if isinstance(becomes, str) else becomes(place)
            source = head + body[: place.start()] + changed + body[place.end() :]
            yield replace(right, label=name, source=source)


REGIONS = (
    """region
axis m in 0 .. 66
axis n in 0 .. 60
axis k in 0 .. 52
buffer A float32 [67, 53] strides [53, 1] offset 0
buffer B float32 [53, 61] strides [61, 1] offset 0
buffer c float32 [61] strides [1] offset 0
%0: float32 = load A[m, k]
%1: float32 = load B[k, n]
%2: float32 = mul %0 %1
%3: float32 = reduce %2 add over k
%4: float32 = load c[n]
%5: float32 = add %3 %4
role A %0
role B %1
role y %3
output o float32 [67, 61] strides [61, 1] offset 0
store o[m, n] = %5
""",
    """region
axis r in 0 .. 36
axis c in 0 .. 202
buffer x float32 [37, 203] strides [203, 1] offset 0
%0: float32 = load x[r, c]
%1: float32 = reduce %0 max over c
%2: float32 = sub %0 %1
%3: float32 = exp %2
%4: float32 = reduce %3 add over c
%5: float32 = div %3 %4
output o float32 [37, 203] strides [203, 1] offset 0
store o[r, c] = %5
""",
    """region
axis i in 0 .. 10006
buffer x float32 [10007] strides [1] offset 0
buffer w float32 [10007] strides [1] offset 0
%0: float32 = load x[i]
%1: float32 = load w[i]
%2: float32 = mul %0 %1
output o float32 [10007] strides [1] offset 0
store o[i] = %2
""",
    """region
axis c in 0 .. 20002
axis r in 0 .. 18
buffer x float32 [19, 20003] strides [20003, 1] offset 0
%0: float32 = load x[r, c]
%1: float32 = reduce %0 add over r
output o float32 [20003] strides [1] offset 0
store o[c] = %1
""",
)


class Found(NamedTuple):
    """What became of a mutant: of which region, by which mistake."""

    region: int
    mistake: str
    outcome: Outcome


def survey(
    device: Device,
    least: int = 1000,
    seconds: float = 0.3,
    regions: int = len(REGIONS),
    say: Callable[[int], None] = lambda _: None,
) -> list[Found]:
    """Race mutants against the kernels that they were made of, of one region after the other until there are enough.
    Those that were timed survived: there must be none.
    """
    found: list[Found] = []
    for number, text in enumerate(REGIONS[:regions]):
        if len(found) >= least:
            break
        region = parse_region(text)
        wrong = list(mutants(region, device))
        with Racer(device) as racer:
            outcomes = racer.race(region, [Contender.default(region, device), *wrong], seconds)
        if outcomes[0].state != "timed":
            raise InternalError(f"the default of region {number} is {outcomes[0].state}: {outcomes[0].reason}")
        found += [Found(number, mutant.label, outcome) for mutant, outcome in zip(wrong, outcomes[1:], strict=True)]
        say(len(found))
    return found
