"""An independent proof that kernels stay inside their buffers, by an SMT solver.

The prover reads Kernel IR as it stands and shares no reasoning with `smelt.kernel.verify`: of index expressions it
takes the terms, never their bounds or what smelt thinks that it can prove. Loops and tiles become assumptions about
their variables, `Let` an equation, conditions and masks what they say. For every load and store it then asks the solver
for values at which an index leaves its axis; there must be none.

Two things are taken for granted: that arguments have the sizes that the kernel declares, and that integers which are
looked up (`picks`) lie within the bounds to which kernels clamp them. The interpreter checks both.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import z3

from smelt.graph.index import Index, IndexLike, Maximum, Minimum, Operation, Quotient, Variable
from smelt.kernel.ir import For, If, Kernel, Let, Load, Local, Part, Statement, Store
from smelt.kernel.region import Buffer, Mask

SECONDS = 10  # for one question
SAMPLES = (1, 2, 3, 7, 16, 61, 1000)  # sizes to try where the solver has no answer for all of them


class Prover:
    """Proves one kernel. `found` counts obligations by outcome; `failures` describes those that do not hold.

    Outcomes: proven, sampled (the solver gave up on symbolic sizes, and proved it for some), unknown, wrong; and for
    whole accesses, unreachable.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.found: Counter[str] = Counter()
        self.failures: list[str] = []
        self.solver = z3.Solver()
        self.solver.set("timeout", 1000 * SECONDS)
        self.declared = {buffer.name: buffer for buffer in kernel.buffers}
        self.parameters = kernel.parameters
        self.fresh = itertools.count()

    def run(self) -> Prover:
        for parameter in self.parameters:
            self.bound(parameter)
        self.body(self.kernel.body)
        return self

    # --- statements

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.solver.push()
        try:
            yield
        finally:
            self.solver.pop()

    def body(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            match statement:
                case For(variable, count, inner):
                    with self.scope():
                        at = z3.Int(variable.name)
                        self.solver.add(at >= 0, at < self.number(count))
                        self.body(inner)
                case If(condition, inner, other):
                    holds = self.condition(condition)
                    for branch, facts in ((inner, holds), (other, z3.Not(holds))):
                        with self.scope():
                            self.solver.add(facts)
                            self.body(branch)
                case Let(variable, expression):
                    self.solver.add(z3.Int(variable.name) == self.number(expression))
                case Local(buffer):
                    self.declared[buffer.name] = buffer
                    self.local(buffer)
                case Load(value, buffer, index, mask, picks):
                    self.access(buffer, index, mask, value.parts, [variable for variable, _ in picks])
                case Store(buffer, index, value, mask):
                    self.access(buffer, index, mask, value.parts)

    def access(
        self,
        buffer: Buffer,
        index: Sequence[Index],
        mask: Mask,
        parts: Sequence[Part],
        picks: Sequence[Variable] = (),
    ) -> None:
        with self.scope():
            for part in parts:
                at = z3.Int(part.name)
                self.solver.add(at >= 0, at < part.extent)
            for pick in picks:  # what the kernel's values promise; the interpreter checks that they keep it
                self.bound(pick)
            self.solver.add(self.condition(mask))
            if self.solver.check() == z3.unsat:  # of assumptions that contradict each other, everything follows
                self.found["unreachable"] += 1
                return
            for i, size in zip(index, buffer.shape, strict=True):
                at = self.number(i)
                self.prove(z3.And(at >= 0, at < self.number(size)), f"{buffer.name}: {i} in [0, {size})")
        if buffer != self.declared[buffer.name]:
            self.view(buffer, self.declared[buffer.name])

    def view(self, buffer: Buffer, declared: Buffer) -> None:
        """What is read as words must lie within what was declared."""
        with self.scope():
            ends = []
            for one in (buffer, declared):
                total = self.number(one.offset)
                for size, stride in zip(one.shape, one.strides, strict=True):
                    total = total + (self.number(size) - 1) * self.number(stride)
                ends.append((self.number(one.offset) * one.dtype.itemsize, (total + 1) * one.dtype.itemsize))
                self.solver.add(*(self.number(size) > 0 for size in one.shape))
            (first, end), (least, most) = ends
            self.prove(z3.And(first >= least, end <= most), f"{buffer.name} as {buffer.dtype} in {declared}")

    def local(self, buffer: Buffer) -> None:
        """The elements of local memory lie within the number of elements that it is given."""
        size, last = z3.IntVal(1), self.number(buffer.offset)
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            size, last = size * self.number(extent), last + (self.number(extent) - 1) * self.number(stride)
        self.prove(z3.And(self.number(buffer.offset) >= 0, last < size), f"{buffer.name} in its own memory")

    # --- expressions

    def bound(self, variable: Variable) -> None:
        at = z3.Int(variable.name)
        self.solver.add(at >= self.number(variable.first), at <= self.number(variable.last))

    def condition(self, mask: Mask) -> Any:
        return z3.And([self.number(less.a) < self.number(less.b) for less in mask])

    def number(self, index: IndexLike) -> Any:
        if isinstance(index, int):
            return z3.IntVal(index)
        total: Any = z3.IntVal(index.constant)
        for product, coefficient in index.terms.items():
            factor: Any = z3.IntVal(coefficient)
            for atom in product:
                factor = factor * (z3.Int(atom.name) if isinstance(atom, Variable) else self.operation(atom))
            total = total + factor
        return total

    def operation(self, atom: Any) -> Any:
        assert isinstance(atom, Operation)
        a, b = self.number(atom.a), self.number(atom.b)
        if isinstance(atom, Minimum):
            smaller, larger = z3.If(a < b, a, b), z3.If(a < b, b, a)
            return larger if isinstance(atom, Maximum) else smaller
        self.prove(b > 0, f"the divisor {atom.b} is positive")
        if not atom.b.terms:  # of a positive constant, the solver knows quotients as Python has them
            return a / b if isinstance(atom, Quotient) else a % b
        quotient, rest = (z3.Int(f"{kind}!{next(self.fresh)}") for kind in ("quotient", "rest"))
        self.solver.add(a == quotient * b + rest, rest >= 0, rest < b)
        return quotient if isinstance(atom, Quotient) else rest

    # --- proofs

    def prove(self, claim: Any, text: str) -> None:
        outcome = self.outcome(claim, text)
        self.found[outcome] += 1

    def outcome(self, claim: Any, text: str) -> str:
        if z3.is_true(z3.simplify(claim)):
            return "proven"
        answer = self.solver.check(z3.Not(claim))
        if answer == z3.unsat:
            return "proven"
        if answer == z3.sat:
            self.failures.append(f"{self.kernel.name}: {text} fails at {self.solver.model()}")
            return "wrong"
        answers = [self.solver.check(z3.Not(claim), *sizes) for sizes in self.samples()]
        if z3.sat in answers:
            self.failures.append(f"{self.kernel.name}: {text} fails for some sizes")
            return "wrong"
        if answers and all(answer == z3.unsat for answer in answers):
            return "sampled"
        self.failures.append(f"{self.kernel.name}: nothing is known of {text}")
        return "unknown"

    def samples(self) -> Iterator[list[Any]]:
        """Values for all parameters, each within its bounds."""
        for shift in range(len(SAMPLES)):
            yield [
                z3.Int(variable.name)
                == min(max(SAMPLES[(k + shift) % len(SAMPLES)], variable.first.low), variable.last.high)
                for k, variable in enumerate(self.parameters)
            ]


def proven(kernel: Kernel) -> Prover:
    """All obligations of a kernel, tried."""
    return Prover(kernel).run()
