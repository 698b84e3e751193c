"""A folder of StableHLO files as cases: what each file says, part by part, and what becomes of it."""

from __future__ import annotations

import itertools
import re
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import smelt as sm
from smelt.bench.conformance import checks
from smelt.bench.conformance.checks import Check
from smelt.errors import ParseError, SmeltError, UnsupportedOp
from smelt.formats import mlir, stablehlo
from smelt.formats.mlir import Function, Module
from smelt.formats.stablehlo import Call, Reading, Row, Value, stand_in
from smelt.graph import Node, interpret, pairs, substituted
from smelt.tensor import node_of, wrap

_PARTS: Final = re.compile(r"^\s*// -----.*$", re.MULTILINE)
_ERROR: Final = re.compile(r"//\s*expected-error")
_INPUTS: Final = "inputs"  # the function that gives what a program is tried with
_STOP: Final = frozenset({"shape", "shapes", "dtype", "dtypes", "dimension", "dimensions", "dynamic", "axis", "in"})
_SIZES: Final = (3, 4, 2, 6, 8)  # what open sizes are tried with
_TRIES = 400  # of them
_MOST_DIMS = 1 << 12


class Options(NamedTuple):
    """How a case is run."""

    as_arguments: bool = False
    interpreted: bool = False
    dims: bool = False
    whole_windows: bool = False


class Result(NamedTuple):
    """What became of a case: pass, mismatch, refused, crashed or slow; and why."""

    name: str
    group: str
    kind: str
    why: str = ""


def group_of(path: Path) -> str:
    """The operation that a file is about, by its name: `add_dtypes_float32` is about `add`."""
    words = path.stem.split("_")
    kept = list(itertools.takewhile(lambda word: word not in _STOP and not any(c.isdigit() for c in word), words))
    return "_".join(kept) or words[0]


def parts_of(text: str) -> list[str]:
    """The modules of a file, one behind another. All but the own lines are blank, so that places stay true."""
    found, start = [], 0
    ends = [*_PARTS.finditer(text), None]
    for end in ends:
        stop = len(text) if end is None else end.start()
        part = text[start:stop]
        if re.sub(r"//[^\n]*", "", part).strip():
            found.append("\n" * text.count("\n", 0, start) + part)
        start = stop if end is None else end.end()
    return found


def run_file(path: Path, options: Options) -> list[Result]:
    """What becomes of every part of a file."""
    try:
        parts = parts_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return [Result(path.stem, group_of(path), "refused", f"it cannot be read: {error}"[:300])]
    if not parts:
        return [Result(path.stem, group_of(path), "refused", "it is empty")]
    names = [path.stem if len(parts) == 1 else f"{path.stem}#{k}" for k in range(len(parts))]
    return [Result(name, group_of(path), *_became(part, options)) for name, part in zip(names, parts, strict=True)]


def _became(text: str, options: Options) -> tuple[str, str]:
    wrong = _ERROR.search(text) is not None
    try:
        why = _run(mlir.parse(text), options)
    except UnsupportedOp as error:
        return ("pass", "") if wrong else ("refused", f"{error.name}: {error.told}"[:300])
    except SmeltError as error:
        return ("pass", "") if wrong else ("crashed", f"{type(error).__name__}: {error}"[:300])
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {''.join(traceback.format_exc(limit=-3))}"
    if wrong and not why:
        return "mismatch", "it is accepted, and is wrong"
    return ("mismatch", why) if why else ("pass", "")


def _run(module: Module, options: Options) -> str:
    """What is wrong about a part; nothing if all is well."""
    functions = [f for f in module.functions.values() if f.body is not None]
    if not functions:
        raise ParseError("there is no function with a body")
    chosen = [f for f in functions if f.name == "main"] or [f for f in functions if f.visibility != "private"]
    for function in chosen:
        why = _called(module, function, options) if function.arguments else _checked(module, function, options)
        if why:
            return f"{function.name}: {why}" if len(chosen) > 1 else why
    return ""


# --- programs that say what they expect


def _checked(module: Module, function: Function, options: Options) -> str:
    found: list[Check] = []
    given: dict[Node, Node] = {}  # what stands for inputs, and the inputs
    table = checks.rows(stablehlo.ROWS, found)
    if options.as_arguments:
        table["func.call"] = table["func.call"]._replace(function=_inputs(table["func.call"], given))
    reading = Reading(module, table, stablehlo.XLA if options.whole_windows else stablehlo.SPECIFICATION)
    results = reading.function(function.name, [])
    roots = [node for check in found for node in (check.found, check.expected)]
    if not roots:  # then it is enough that there are results
        _arrays([x for x in results if isinstance(x, Node)], given, options)
        return ""
    arrays = _arrays(roots, given, options)
    differences = (checks.difference(check, *arrays[2 * k : 2 * k + 2]) for k, check in enumerate(found))
    return next(filter(None, differences), "")


def _inputs(row: Row, given: dict[Node, Node]) -> Any:
    """Calls of the function of inputs: what it gives becomes arguments, of which a compiler knows the types only."""

    def called(call: Call) -> Sequence[Value]:
        values = row.function(call)
        if call.symbol("callee").strip("@") != _INPUTS or isinstance(values, Node):
            return values  # type: ignore[return-value]
        stand_ins = [stand_in(x.dtype, x.shape) if isinstance(x, Node) else x for x in values]
        both = [(a, b) for a, b in zip(stand_ins, values, strict=True) if isinstance(a, Node)]
        given.update(zip(pairs.all_parts([a for a, _ in both]), pairs.all_parts([b for _, b in both]), strict=True))
        return stand_ins

    return called


def _arrays(roots: Sequence[Node], given: dict[Node, Node], options: Options) -> list[Any]:
    """The values of nodes, with what is given as leaves of their own."""
    made = zip(given, _interpreted(list(given.values())), strict=True)
    nodes = substituted(list(roots), {node: node_of(np.array(x), "conformance") for node, x in made})
    return _interpreted(nodes) if options.interpreted else [np.asarray(wrap(node).numpy()) for node in nodes]


def _interpreted(nodes: Sequence[Node]) -> list[Any]:
    """The values of nodes by the reference interpreter, which knows complex numbers by their parts."""
    parts = iter(interpret.interpret(pairs.all_parts(nodes), lambda leaf: leaf.attribute.numpy()))
    return [pairs.joined(next(parts), next(parts)) if node.dtype.is_complex else next(parts) for node in nodes]


# --- programs with arguments, whose sizes may be open: nothing says what they give


def _called(module: Module, function: Function, options: Options) -> str:
    """Compiled and interpreted, a program gives the same."""
    program = stablehlo.Imported(module, function.name, stablehlo.SPECIFICATION, mlir.LIMITS)
    sizes = _sizes(program)
    random = np.random.default_rng(0)
    declared = program.signature.arguments
    arguments = [_drawn(random, argument, size) for argument, size in zip(declared, sizes, strict=True)]
    wanted = _interpreted([x._node for x in _tuple(program(*arguments))])
    if options.dims:
        found = _with_dims(program, arguments, sizes)
    else:
        found = [np.asarray(x.numpy()) for x in _tuple(program(*arguments))]
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        wide = complex if a.dtype.kind == "c" else float
        if a.shape != b.shape or not np.allclose(a.astype(wide), b.astype(wide), 1e-3, 1e-3, equal_nan=True):
            return f"result {k} is not what the interpreter gives"
    return ""


def _with_dims(program: stablehlo.Imported, arguments: list[Any], sizes: list[Any]) -> list[Any]:
    """What a program gives that is compiled for all sizes. Equal numbers stand for one dim."""
    dims: dict[int, sm.Dim] = {}

    def dim(size: int) -> sm.Dim:
        return dims.setdefault(size, sm.Dim(f"d{len(dims)}", 2, _MOST_DIMS))

    for size in sizes:
        if isinstance(size, int):
            dim(size)
    declared = program.signature.arguments
    shapes = [
        tuple(n if known is not None else dim(n) for n, known in zip(shape, argument.shape, strict=True))
        for shape, argument in zip(sizes, declared, strict=True)
        if not isinstance(shape, int)
    ]
    numbers = [size for size in sizes if isinstance(size, int)]
    tensors = [sm.asarray(x) for x, size in zip(arguments, sizes, strict=True) if not isinstance(size, int)]
    function = sm.jit(lambda *args: program(*(dims[n] for n in numbers), *args), shapes=shapes)
    return [np.asarray(x.numpy()) for x in _tuple(function(*tensors))]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _sizes(program: stablehlo.Imported) -> list[Any]:
    """A number for each scalar that leads, and a shape for every other argument, with which the program is legal."""
    arguments = program.signature.arguments
    count = sum(1 for _ in itertools.takewhile(lambda a: a.shape == () and _whole(a), arguments))
    open_ = sum(size is None for argument in arguments for size in argument.shape)
    count = count if open_ else 0
    error: SmeltError | None = None
    for values in itertools.islice(_assignments(count, open_), _TRIES):
        each = iter(values[count:])
        shapes = [tuple(next(each) if size is None else size for size in a.shape) for a in arguments]
        tried: list[Any] = [*values[:count], *shapes[count:]]
        try:
            program.check(*tried)
        except UnsupportedOp:
            raise
        except SmeltError as found:
            error = error or found
        else:
            return tried
    assert error is not None
    raise error


def _assignments(count: int, open_: int) -> Iterator[tuple[int, ...]]:
    """Values of dims, and sizes: first those that are dims, in every way, then any."""
    dims = _SIZES[: max(count, 1)]
    for chosen in itertools.product(dims, repeat=open_):
        yield (*dims[:count], *chosen)
    for chosen in itertools.product(_SIZES, repeat=count + open_):
        yield chosen


def _whole(argument: Any) -> bool:
    return argument.dtype is not None and argument.dtype.is_integer


def _drawn(random: np.random.Generator, argument: Any, size: Any) -> Any:
    """An argument of a shape, or the number itself."""
    if isinstance(size, int):
        return np.asarray(size, argument.dtype.numpy)
    if argument.dtype.is_bool:
        return random.integers(0, 2, size).astype(bool)
    if argument.dtype.is_integer:
        return random.integers(0, 3, size).astype(argument.dtype.numpy)
    return (random.normal(size=size)).astype(argument.dtype.numpy)


__all__ = ["Options", "Result", "group_of", "parts_of", "run_file"]
