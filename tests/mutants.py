"""Deliberate mistakes, one at a time: which of them do the tests notice?

    python -m tests.mutants [--area indices|rewriting|legality|scheduler] [--count 60 | --all] [--seed 0]

Each mutant is the syntax tree of one module with one small change: a comparison or an operator is another one, a number
is larger by one, a condition is turned around, a statement is left out. It exists only in the memory of a forked
process, which runs the tests of its area; nothing is written. A mutant is killed if a test fails, or if they take far
longer than they should. Those that survive are printed: some change nothing that anybody could see, others show what
tests are missing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.machinery
import io
import os
import random
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MOST_MEMORY = 8 << 30  # bytes of address space
PATIENCE = 3.0  # times what the tests take without a mistake


class Area(NamedTuple):
    """Modules, and the tests that should notice what is wrong with them: those that do so fastest first."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = {
    "indices": Area(
        ("smelt/graph/index.py",),
        ("tests/graph/test_index.py", "tests/graph/test_index_ops.py", "tests/graph/test_ranges.py"),
    ),
    "rewriting": Area(
        ("smelt/rewrite/*.py", "smelt/rewrite/rules/*.py"),
        (
            *("tests/rewrite/test_rules.py", "tests/rewrite/test_properties.py", "tests/rewrite/test_engine.py"),
            "--deselect=tests/rewrite/test_engine.py::test_long_chains_do_not_recurse",  # takes most of the time
        ),
    ),
    "legality": Area(("smelt/kernel/actions/*.py",), ("tests/kernel/test_legality.py", "tests/kernel/test_golden.py")),
    "scheduler": Area(
        ("smelt/schedule/*.py",),
        ("tests/schedule/test_golden.py", "tests/schedule/test_word_regions.py", "tests/schedule/test_default.py"),
    ),
}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}
# What no test should notice: how things are written in messages, and where they lie in tables.
_UNSEEN = re.compile(r"__(repr|str|hash)__")


class Mutant(NamedTuple):
    """One change: to which node of a module, and which of those that can be made there."""

    path: str
    node: int  # in the order of `_nodes`
    change: int  # negative: none
    line: int
    text: str


Change = tuple[str, Callable[[Any], None]]


def _swapped(node: ast.Compare, at: int) -> Change:
    old, new = type(node.ops[at]), _COMPARISONS[type(node.ops[at])]
    return f"{old.__name__} is {new.__name__}", lambda node: node.ops.__setitem__(at, new())


def _without(field: str, at: int) -> Callable[[Any], None]:
    return lambda node: getattr(node, field).__setitem__(at, ast.Pass())


def _negated(field: str) -> Callable[[Any], None]:
    return lambda node: setattr(node, field, ast.UnaryOp(ast.Not(), getattr(node, field)))


def _changes(node: ast.AST) -> Iterator[Change]:
    """All changes that can be made to a node, each with words for it."""
    match node:
        case ast.Compare():
            yield from (_swapped(node, at) for at in range(len(node.ops)) if type(node.ops[at]) in _COMPARISONS)
        case ast.BoolOp():
            new = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield f"{type(node.op).__name__} is {new.__name__}", lambda node: setattr(node, "op", new())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            operator = _OPERATORS[type(node.op)]
            yield f"{type(node.op).__name__} is {operator.__name__}", lambda node: setattr(node, "op", operator())
        case ast.Constant(value=bool()):
            yield f"{node.value} is {not node.value}", lambda node: setattr(node, "value", not node.value)
        case ast.Constant(value=int()):
            yield f"{node.value} is {node.value + 1}", lambda node: setattr(node, "value", node.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            yield "a condition is turned around", _negated("test")
        case ast.comprehension() if node.ifs:
            yield "a filter is left out", lambda node: node.ifs.clear()
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "nothing is returned", lambda node: setattr(node, "value", ast.Constant(None))
    for field in ("body", "orelse"):
        block = getattr(node, field, ())
        for at, statement in enumerate(block if isinstance(block, list) else ()):
            if isinstance(statement, ast.Raise | ast.AugAssign | ast.Continue | ast.Break) or _is_call(statement):
                yield f"without {ast.unparse(statement).splitlines()[0]}", _without(field, at)


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that have something to say to the program."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list") or isinstance(tree, ast.Raise):
            continue
        for child in value if isinstance(value, list) else [value]:
            hidden = isinstance(child, ast.FunctionDef) and _UNSEEN.fullmatch(child.name)
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if isinstance(child, ast.AST) and not hidden and not typing:
                yield from _nodes(child)


def mutants(area: Area) -> list[Mutant]:
    """All mutants of an area."""
    found: list[Mutant] = []
    for pattern in area.modules:
        for path in sorted(ROOT.glob(pattern)):
            for number, node in enumerate(_nodes(ast.parse(path.read_text()))):
                for change, (text, _) in enumerate(_changes(node)):
                    line = getattr(node, "lineno", 0) or getattr(getattr(node, "target", None), "lineno", 0)
                    found.append(Mutant(str(path.relative_to(ROOT)), number, change, line, text))
    return found


def changed(mutant: Mutant) -> ast.Module:
    """The module of a mutant."""
    tree = ast.parse((ROOT / mutant.path).read_text())
    if mutant.change >= 0:
        node = next(node for number, node in enumerate(_nodes(tree)) if number == mutant.node)
        list(_changes(node))[mutant.change][1](node)
    return ast.fix_missing_locations(tree)


# --- running


def _run(tests: Sequence[str], mutant: Mutant, excluded: Sequence[str], seconds: float) -> tuple[bool, float]:
    """Whether the tests pass in a process of their own, and how long they took. Late is not passed."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        code = 1
        try:
            code = _tested(tests, mutant, excluded)
        finally:
            os._exit(code)
    while time.monotonic() - start < seconds:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0, time.monotonic() - start
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False, seconds


def _tested(tests: Sequence[str], mutant: Mutant, excluded: Sequence[str]) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    # The cache of compiled graphs is by the files of smelt, which a mutant does not change.
    os.environ |= {"SMELT_DISK_CACHE": "0", "SMELT_TEST_ALL": "0"}
    path = str(ROOT / mutant.path)
    code = compile(changed(mutant), path, "exec")
    plain = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> Any:
        return code if loader.path == path else plain(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    early = "ignore::pytest.PytestAssertRewriteWarning"  # what is imported before pytest sees it
    options = ["-x", "-q", "-W", early, "-p", "no:cacheprovider", *(f"--deselect={name}" for name in excluded)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return int(pytest.main([*options, *tests]))


def report(name: str, area: Area, count: int, seed: int, excluded: Sequence[str]) -> tuple[int, int]:
    """Try mutants of an area, print those that survive; how many were killed, and tried."""
    everything = mutants(area)
    tried, killed = everything if count >= len(everything) else random.Random(seed).sample(everything, count), 0
    # A mutant without a mistake, by the same way: what kills it is no sign of anything.
    passes, seconds = _run(area.tests, tried[0]._replace(change=-1), excluded, 600)
    if not passes:
        sys.exit(f"{name}: the tests fail as they are: python -m pytest -x {' '.join(area.tests)}")
    for number, mutant in enumerate(tried):
        survives, _ = _run(area.tests, mutant, excluded, PATIENCE * seconds + 10)
        killed += not survives
        if survives:
            print(f"  survives: {mutant.path}:{mutant.line}: {mutant.text}", flush=True)
        elif sys.stderr.isatty():
            print(f"  {number + 1} of {len(tried)}, {killed} killed", end="\r", file=sys.stderr, flush=True)
    print(f"{name}: {killed} of {len(tried)} mutants killed, {killed / len(tried):.0%} (of {len(everything)} in all)")
    return killed, len(tried)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="how many mistakes the tests notice")
    parser.add_argument("--area", choices=AREAS, action="append", help="one of the areas; all, if none is named")
    parser.add_argument("--count", type=int, default=60, help="how many mutants of each area to try, drawn by the seed")
    parser.add_argument("--all", action="store_true", help="try all of them (hours)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deselect", action="append", default=[], help="a test that fails without any mutant")
    given = parser.parse_args()
    # Imported once, here: every fork has them.
    import hypothesis  # noqa: F401
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401

    os.chdir(ROOT)
    results = [
        report(name, AREAS[name], sys.maxsize if given.all else given.count, given.seed, given.deselect)
        for name in given.area or AREAS
    ]
    killed, tried = map(sum, zip(*results, strict=True))
    print(f"together: {killed} of {tried} mutants killed, {killed / tried:.0%}")


if __name__ == "__main__":
    main()
