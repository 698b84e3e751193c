"""What a kernel costs: what it moves and computes, counted in its loops, and the time that this takes.

One walk over the Kernel IR counts, for each loop from the inside out, instructions by kind, and for each buffer how
many bytes a turn touches and how many come from beyond each cache. A buffer that does not depend on a loop is there
already in its next turn, if what a turn touches fits into the cache; what a whole loop touches is read once, if that
fits. `Work.seconds` turns the counts into time: the slowest of instructions and memory levels decides, the others hide
behind it for the most part.

Two numbers bound it from below: the operations of the region by the rate of multiply-adds, and the bytes that it has to
read and write by the rate of memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from smelt.cost.operations import COSTLY, DIVIDING, FREE, LINE
from smelt.cost.profile import Profile
from smelt.cost.rates import Rates, assumed
from smelt.graph import Index, Variable, upper
from smelt.kernel import DOTS, PRODUCTS, For, Kernel, Load, Part, Region, Store, Value, extent, ir, variables_of

LATENCIES: Final = {"fma": 8}  # instructions that could begin until a sum can be added to again
LATENCY: Final = 4  # of others
ALONE: Final = 2.0  # lines that could be fetched in a row until one has come by itself
PAGE: Final = 4096  # bytes up to which memory that is side by side for a program is so for caches
TURN: Final = 1.0  # instructions that a turn of a loop takes for itself
WIDE: Final = 2  # instructions for an element of a vector that is wider than the registers: compilers take it apart
OVERLAP: Final = 0.3  # of the time that is not the longest shows nevertheless
CHUNK_WAKES: Final = 4  # a chunk of tasks takes as long as waking so many threads: then nobody waits for nothing


class Work(NamedTuple):
    """What one launch does. `flops` and `bytes` are what the region needs at least; the rest is what this kernel does,
    over all of its tasks.
    """

    flops: int = 0
    bytes: int = 0
    instructions: float = 0.0  # on vectors
    moves: float = 0.0  # loads and stores
    divided: float = 0.0  # elements
    functions: float = 0.0  # elements
    words: float = 0.0  # operations
    beyond: tuple[float, float, float] = (0.0, 0.0, 0.0)  # bytes that come from beyond each level of cache, or go there
    written: float = 0.0  # those among the last that are stored
    tasks: int = 1

    def core_nanoseconds(self, profile: Profile, rates: Rates, threads: int = 1) -> float:
        """The time of all tasks, shared out evenly among so many threads."""
        vectors = rates.multiply_add / 2 / max(1, profile.vector_bytes // 4)
        products = rates.words or rates.multiply_add
        computing = self.instructions / vectors + self.divided / rates.divide + self.functions / rates.function
        computing += self.words / products
        second, third, memory = self.beyond
        copied = 2 * min(self.written, memory - self.written)
        reading = min(rates.memory * threads, max(rates.memory, rates.memory_all))
        copying = min(rates.copy * threads, max(rates.copy, rates.copy_all))
        times = (
            computing / threads,
            self.moves / vectors / threads,
            second / rates.second / threads,
            third / rates.third / threads,
            copied / copying + (memory - copied) / reading,
        )
        longest = max(times)
        return longest + OVERLAP * (sum(times) - longest)

    def grain(self, profile: Profile) -> int:
        """Tasks that are worth handing to a thread at a time, whether or not somebody has measured."""
        work = self.core_nanoseconds(profile, assumed(profile))
        return max(1, int(chunk_nanoseconds(profile) * max(1, self.tasks) / max(work, 1.0)))

    def seconds(self, profile: Profile, rates: Rates, grain: int = 0) -> float:
        """The time of a launch on all cores, with so many tasks in a chunk, or as many as are worth a thread."""
        chunks = -(-max(1, self.tasks) // (grain or self.grain(profile)))
        threads = min(profile.cores, chunks)
        idle = -(-chunks // threads) * threads / chunks if chunks < 4 * threads else 1.0
        waking = rates.wake if threads > 1 else 0.0
        return 1e-9 * (rates.launch + waking + idle * self.core_nanoseconds(profile, rates, threads))


NO_WORK: Final = Work()


def chunk_nanoseconds(profile: Profile) -> float:
    """Work that is worth handing to another thread."""
    return CHUNK_WAKES * assumed(profile).wake


def rows_in_cache(rows: float, run: float, apart: int) -> float:
    """Bytes of a cache that some rows take: those a power of two apart share a few of its places."""
    return rows * max(run, min(apart & -apart, PAGE))


def cost(region: Region, kernel: Kernel, profile: Profile) -> Work:
    """What a kernel for a region does, at the upper bounds of its dims."""
    found = _Walk(profile).body(kernel.body)
    counts, touches = found.counts, found.touches.values()
    second, third, memory = (sum(touch.beyond[level] for touch in touches) for level in range(3))
    written = sum(touch.beyond[2] for touch in touches if touch.stored)
    if sum(touch.footprint for touch in touches) <= profile.l3_bytes:
        memory = written = 0.0  # whoever made it has left it in the last cache
    sizes = {axis: upper(extent(axis)) for axis in region.axes}
    return Work(
        flops=_flops(region, sizes),
        bytes=_least_bytes(region, sizes),
        beyond=(second, third, memory),
        written=written,
        tasks=max(1, kernel.tasks.high),
        **counts,
    )


def _flops(region: Region, sizes: Mapping[Variable, int]) -> int:
    """Operations of a region: each of its expressions once for each of its elements."""
    total = 0
    for e in region.order():
        if e.op not in FREE and e.op != "load":
            over = e.arguments[0].axes if e.op == "reduce" else e.axes
            count = math.prod(size for axis, size in sizes.items() if axis in over)
            total += 2 * DOTS[e.op].numbers * count if e.op in DOTS else count
    return total


def _least_bytes(region: Region, sizes: Mapping[Variable, int]) -> int:
    """What has to come from memory and go there: each buffer as far as it is touched, once."""
    accesses = [(output.buffer, output.index, frozenset[Variable]()) for output in region.outputs]
    for e in region.order():
        if e.op == "load":
            picked = frozenset[Variable]().union(*(argument.axes for argument in e.arguments))
            accesses.append((e.attribute.buffer, e.attribute.index, picked))
    touched: dict[str, int] = {}
    for buffer, index, picked in accesses:
        used = picked.union(*(i.variables() for i in index))
        count = math.prod(size for axis, size in sizes.items() if axis in used)
        whole = math.prod(map(upper, buffer.shape))
        nbytes = min(count, whole) * buffer.dtype.itemsize
        touched[buffer.name] = max(nbytes, touched.get(buffer.name, 0))
    return sum(touched.values())


@dataclass(slots=True)
class _Touch:
    """What a body does to a buffer of so many bytes: the variables that this depends on, those among them that lie side
    by side in memory, bytes in all and in a row, and those that come from beyond each cache.
    """

    name: str
    whole: float
    variables: frozenset[Variable]
    near: frozenset[Variable]
    wanted: float
    run: float
    stored: bool
    apart: int  # rows lie a multiple of so many bytes apart
    beyond: list[float]

    waste: float = 1.0  # bytes that are moved for each that is wanted: short runs take whole lines
    footprint: float = 0.0  # bytes of a cache

    def measure(self) -> _Touch:
        """Itself, with the figures that follow from others."""
        self.waste = LINE / self.run if 0 < self.run < LINE else 1.0
        self.footprint = min(self.wanted * self.waste, self.whole)
        return self

    @property
    def near_footprint(self) -> float:
        """What it takes of the first two caches, whose places depend on the address."""
        return max(self.footprint, rows_in_cache(self.wanted / self.run, self.run, self.apart) if self.run else 0.0)

    @property
    def drag(self) -> float:
        """How much longer bytes take than those of long runs, with those that are moved in vain: nothing fetches ahead
        in short ones.
        """
        return self.waste * (1.0 + ALONE * LINE / max(self.run, LINE))


_COUNTED: Final = ("instructions", "moves", "divided", "functions", "words")  # of `Work`


@dataclass(slots=True)
class _Body:
    counts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0.0))
    touches: dict[str, _Touch] = field(default_factory=dict)
    sums: float = 0.0  # vectors that are added to
    latency: int = 0
    footprints: tuple[float, float, float] = (0.0, 0.0, 0.0)  # what it takes of each cache


class _Walk:
    """Counts a kernel, from the inside out."""

    def __init__(self, profile: Profile) -> None:
        self.caches = (profile.l1_bytes, profile.l2_bytes, profile.l3_bytes)
        self.vector_bytes = max(profile.vector_bytes, 4)
        self.registers = profile.vector_registers
        self.masks = profile.masks
        self.lets: dict[Variable, frozenset[Variable]] = {}
        self.expressions: dict[str, Index] = {}  # of those

    def body(self, statements: Iterable[ir.Statement]) -> _Body:
        """One turn through a body."""
        found = _Body()
        touched: list[_Touch] = []
        for statement in statements:
            if isinstance(statement, For | ir.If):
                # Of two ways the first is the usual one; what only edges take is not counted.
                inner = (
                    self.loop(statement) if isinstance(statement, For) else self.body(statement.body or statement.other)
                )
                for name, count in inner.counts.items():
                    found.counts[name] += count
                touched += inner.touches.values()
            elif isinstance(statement, ir.Let):
                self.lets[statement.variable] = self.resolved(statement.expression.variables())
                self.expressions[statement.variable.name] = statement.expression
            else:
                self.count(statement, found, touched)
        self.merge(found, touched)
        return found

    def loop(self, statement: For) -> _Body:
        """All turns of a loop: what one turn has, with counts and touches that become those of all."""
        turns = max(0, statement.count.high)
        inner = self.body(statement.body)
        counts, touches = inner.counts, inner.touches.values()
        if statement.kind == "loop":
            counts["instructions"] += TURN / statement.unroll
            if inner.sums:  # each turn waits for the sums of the one before, and for what the registers do not hold
                counts["moves"] += 2 * max(0.0, inner.sums + 2 - self.registers)
                counts["instructions"] = max(counts["instructions"], inner.latency)
        for name in counts:
            counts[name] *= turns
        for touch in touches:
            self.repeat(touch, statement.variable, turns, inner.footprints)
        fits = [taken <= room for taken, room in zip(_footprints(touches), self.caches, strict=True)]
        for touch in touches if any(fits) else ():
            once = touch.footprint * touch.drag / touch.waste
            touch.beyond = [min(b, once) if fit else b for b, fit in zip(touch.beyond, fits, strict=True)]
        return inner

    def repeat(self, touch: _Touch, variable: Variable, turns: int, taken: Sequence[float]) -> None:
        """What a buffer gives to all turns of a loop, each of which takes so much of the caches."""
        fits = [footprint <= room for footprint, room in zip(taken, self.caches, strict=True)]
        if variable not in touch.variables:
            touch.beyond = [b if fit else b * turns for b, fit in zip(touch.beyond, fits, strict=True)]
            return
        before = touch.drag
        touch.wanted *= turns
        if variable in touch.near:
            touch.run *= turns
        share = touch.measure().drag / before  # a line that is still there serves its neighbors
        touch.beyond = [b * turns * (share if fit else 1.0) for b, fit in zip(touch.beyond, fits, strict=True)]

    def merge(self, found: _Body, touched: Sequence[_Touch]) -> None:
        """Put together what several statements do to one buffer: what one has brought is there for the next."""
        largest: dict[str, _Touch] = {}
        for touch in touched:
            known = largest.setdefault(touch.name, touch)
            if touch.footprint > known.footprint:
                largest[touch.name] = touch
        found.footprints = _footprints(largest.values())
        for touch in touched:
            known = found.touches.setdefault(touch.name, touch)
            if known is touch:
                continue
            for level, room in enumerate(self.caches):
                a, b = known.beyond[level], touch.beyond[level]
                known.beyond[level] = max(a, b) if found.footprints[level] <= room else a + b
            known.variables |= touch.variables
            known.near |= touch.near
            known.stored |= touch.stored
            if touch.wanted > known.wanted:
                known.wanted, known.run, known.apart = touch.wanted, touch.run, touch.apart
                known.measure()

    def resolved(self, variables: frozenset[Variable]) -> frozenset[Variable]:
        """The variables of loops that some depend on."""
        if self.lets and not variables.isdisjoint(self.lets):
            return variables.union(*(self.lets[v] for v in variables if v in self.lets))
        return variables

    def count(self, statement: ir.Statement, found: _Body, touched: list[_Touch]) -> None:
        counts = found.counts
        if isinstance(statement, Load | Store):
            touched.append(self.touch(statement))
            counts["moves"] += self.moves(statement, touched[-1])
        elif isinstance(statement, ir.Update):
            self.update(statement, found)
        elif isinstance(statement, ir.Compute):
            if statement.op in COSTLY:
                counts["functions"] += self.functions(statement.value)
            elif statement.op in DIVIDING:
                counts["divided"] += _elements(statement.value.parts)
            elif statement.op not in FREE:
                counts["instructions"] += self.vectors(statement.value)
        elif isinstance(statement, ir.Reduce | ir.Scan):
            steps = 1 if isinstance(statement, ir.Reduce) else 4  # a scan shifts and adds within vectors
            counts["instructions"] += steps * self.vectors(statement.source) + 4
        elif isinstance(statement, ir.Accumulator):
            counts["instructions"] += self.vectors(statement.value)

    def update(self, statement: ir.Update, found: _Body) -> None:
        value, counts = statement.accumulator, found.counts
        if statement.op not in PRODUCTS:
            counts["instructions"] += max(map(self.vectors, statement.arguments))
        else:
            parts = dict.fromkeys((*value.parts, *(part for x in statement.arguments for part in x.parts)))
            if statement.op in DOTS:
                counts["words"] += 2 * DOTS[statement.op].numbers * _elements(parts)
            else:
                counts["instructions"] += self.tiles(parts, value.dtype.itemsize)
        if statement.op != "set":
            found.sums += self.vectors(value)
            found.latency = max(found.latency, LATENCIES.get(statement.op, LATENCY))

    def touch(self, statement: Load | Store) -> _Touch:
        buffer = statement.buffer
        variables: frozenset[Variable] = frozenset()
        near: frozenset[Variable] = frozenset()
        apart, following = PAGE, math.inf
        for i, stride in zip(statement.index, buffer.strides, strict=True):
            used = self.resolved(i.variables())
            variables |= used
            if stride == 1:
                near |= i.variables()
                near |= {v for v in used - near if self.step(statement, v) <= LINE}
            elif used and isinstance(stride, int):
                apart = min(apart, (stride & -stride) * buffer.dtype.itemsize)
                following = min(following, abs(stride) * buffer.dtype.itemsize)
        wanted = run = float(buffer.dtype.itemsize)
        for part in statement.value.parts:
            if part.variable in variables:
                wanted *= part.extent
                if part.variable in near:
                    run *= part.extent
        if following == run:  # rows follow each other
            near = variables
        if isinstance(statement, Load) and statement.picks:  # anywhere
            near = frozenset()
        whole = float(buffer.dtype.itemsize * math.prod(map(upper, buffer.shape)))
        made = _Touch(
            buffer.name, whole, variables, near, wanted, run, isinstance(statement, Store), apart, []
        ).measure()
        made.beyond = [wanted * made.drag] * 3
        return made

    def step(self, statement: Load | Store, variable: Variable) -> int:
        """How far an access moves, in bytes, as a variable goes from 0 to 1, through others that depend on it."""
        places = []
        try:
            for value in (0, 1):
                values = defaultdict(lambda: 1, {variable.name: value})
                for name, expression in self.expressions.items():
                    values[name] = expression.evaluate(values)
                steps = zip(statement.index, statement.buffer.strides, strict=True)
                places.append(sum(i.evaluate(values) * upper(stride) for i, stride in steps))
        except ZeroDivisionError:  # something divides by a size that is 0 here: it moves who knows where
            return PAGE
        return int(abs(places[1] - places[0])) * statement.buffer.dtype.itemsize

    def moves(self, statement: Load | Store, touch: _Touch) -> float:
        """Vectors that lie in one piece are moved at once; others, or such that no mask can cut, by elements."""
        value = statement.value
        parts = [part for part in value.parts if part.variable in touch.variables]
        lanes = [part.variable for part in parts if part.is_lane]
        apart = any(lane not in touch.near for lane in lanes)
        if statement.mask and not self.masks:
            apart = apart or not variables_of((), statement.mask).isdisjoint(lanes)
        return _elements(parts) * (2 if statement.mask else 1) if apart else self.tiles(parts, value.dtype.itemsize)

    def vectors(self, value: Value) -> int:
        return self.tiles(value.parts, value.dtype.itemsize)

    def tiles(self, parts: Iterable[Part], itemsize: int) -> int:
        """How many vectors a tile takes, or what its elements do instead where they do not fit one."""
        width, count = max(1, self.vector_bytes // itemsize), 1
        for part in parts:
            count *= part.extent if not part.is_lane else 1 if part.extent <= width else WIDE * part.extent
        return count

    def functions(self, value: Value) -> int:
        """Elements of full vectors that take as long as a function of a tile: one lane takes as long as all."""
        width = max(1, self.vector_bytes // value.dtype.itemsize)
        lanes = max([1, *(part.extent for part in value.parts if part.is_lane)])
        return _elements(value.parts) * (width // lanes if lanes <= width else WIDE)


def _footprints(touches: Iterable[_Touch]) -> tuple[float, float, float]:
    """What buffers take of each cache."""
    first = rest = 0.0
    for touch in touches:
        first += touch.near_footprint
        rest += touch.footprint
    return first, first, rest


def _elements(parts: Iterable[Part]) -> int:
    return math.prod([part.extent for part in parts])
