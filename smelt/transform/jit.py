"""`jit`: trace a function once per structure of its arguments, then replay it by one native call.

A call flattens its arguments, looks the structure up, and runs the compiled graph. Tensors that the function reads from
outside are hidden inputs (`hidden.py`): they are looked up again at every call, so that new ones are seen. Arrays of
other libraries are taken as tensors. Python ints and floats are inputs too, weakly typed; everything else is static
and part of the structure.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from smelt import runtime, tree
from smelt.compiler import GraphKey, Traced, marked, trace
from smelt.config import CONTRACTS
from smelt.device import Device, Program
from smelt.errors import ArgumentError, TraceError
from smelt.graph import Node, Op, computed_from, pairs, private_nodes, topological, without_aliases
from smelt.locks import new_lock
from smelt.plan import MemoryPlan
from smelt.runtime import Placeholder, Storage
from smelt.tensor import Tensor, imaginary, wrap
from smelt.transform.attributes import attributes_of, changed_attributes, prepared, put_back
from smelt.transform.drawn import nothing_drawn
from smelt.transform.entry import NUMBERS, Entry
from smelt.transform.hidden import Plan, is_plain
from smelt.transform.inputs import argument_names, as_input, donated_positions, static_positions
from smelt.transform.limits import limits_of
from smelt.transform.marks import is_array, value_mark
from smelt.transform.refused import check_nodes, check_results, left_behind, unknown_tensor
from smelt.transform.repeats import Repeats, changes_values
from smelt.transform.search import grown
from smelt.transform.symbolic import ShapeCheck, argument_shapes, symbolic_placeholder
from smelt.transform.weak import default_weak

if TYPE_CHECKING:
    from smelt.transform.bound import Bound

P = ParamSpec("P")
T = TypeVar("T")

_growing = new_lock()


class _StandIns(NamedTuple):
    """Arguments with stand-ins for their tensors and numbers, and which leaf each of those stands for."""

    args: list[Any]
    kwargs: dict[str, Any]
    numbers: dict[Node, int]
    imaginary: set[Node]  # the second parts of complex tensors
    donated: list[int]  # leaves that are given up
    held: set[int]  # leaves of objects
    shapes: ShapeCheck | None


class FunctionGraph(NamedTuple):
    """The graph of a function: what it returns, and sets, from its arguments, the tensors that it reaches by itself,
    and, if it draws random numbers, the three numbers that say which; `effects` are computed for their own sake.
    Complex roots and arguments are nodes of two parts; what it reaches by itself is in parts.
    """

    roots: list[Node]
    arguments: list[Node]
    hidden: list[Node]
    random: Node | None
    effects: list[Node]
    others: list[Any]  # what it returns besides tensors


class _Run(NamedTuple):
    """One run on stand-ins: which leaf each node stands for, and what was returned."""

    given: _StandIns
    recorded: runtime.Trace
    hidden: dict[int, int]
    numbers: dict[Node, int]
    roots: list[Node]
    parts: list[Any]
    structure: Any
    changed: list[tuple[int, str, bool]]


class Jit(Generic[P, T]):
    """A compiled function; the original is `__wrapped__`."""

    def __init__(
        self,
        function: Callable[P, T],
        static: int | str | Iterable[int | str] = (),
        donate: int | str | Iterable[int | str] = (),
        shapes: Sequence[Any] | None = None,
        contracts: str | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__wrapped__ = function
        self._names = argument_names(function)
        self._static = static_positions(function, self._names, static)
        self._donate = donated_positions(function, self._names, donate)
        self._donated_names = {self._names[k] for k in self._donate if k < len(self._names)}
        self._shapes = shapes
        self._contracts = contracts
        self._entries: dict[Any, Entry] = {}
        self._repeats = Repeats()
        self._plan = Plan()  # grows with the traces, when all names are bound

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        name = getattr(self.__wrapped__, "__qualname__", repr(self.__wrapped__))
        donate = f", donate={self._donate}" if self._donate else ""
        return f"jit({name}{donate}, traces={len(self._entries)})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        if not runtime.is_plain():
            return self.__wrapped__(*args, **kwargs)
        found = self._flatten_tensors(args, kwargs)
        if found is not None:
            entry = self._entries.get(found[1])
            if entry is not None and entry.simply is not None:
                result: T = entry.simply(found[0])
                return result
        return self._call(args, kwargs, found or self._flatten_any(args, kwargs))

    def _call(self, args: Any, kwargs: Any, flat: tuple[list[Any], Any]) -> T:
        leaves, key = flat
        entry = self._entries.get(key)
        if entry is None:
            args, kwargs = self._taken(args, kwargs)
            leaves, key = self._searched(args, kwargs)
            if key not in self._entries:
                self._entries[key] = self._trace(args, kwargs, leaves, key)
                self._repeats.add(getattr(self, "__name__", "a function"), key)
            entry = self._entries[key]
        donated = self._donated(entry, leaves, args, kwargs) if self._donate else None
        result: T = entry.replay(leaves, donated, lambda: self.holders(args, kwargs))
        return result

    def graph_key(self, *args: P.args, **kwargs: P.kwargs) -> tuple[GraphKey, Device]:
        """The key of the graph that a call with these arguments runs, and where; nothing is compiled for it."""
        args, kwargs = self._taken(args, kwargs)
        leaves, key = self._searched(args, kwargs)
        known = self._entries.get(key)
        traced, entry = self._record(args, kwargs, leaves, key)
        return (traced.key if known is None or known.watch is None else known.watch.key), entry.device

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Program | None:
        """The launch list that a call with these arguments has run."""
        entry = self._entries.get(self._flatten_any(args, kwargs)[1])
        return None if entry is None else (entry.watch or entry).compiled.program

    def memory(self, *args: P.args, **kwargs: P.kwargs) -> MemoryPlan:
        """What a call with these arguments takes from memory. The function is compiled for it, but not run.

        >>> import smelt as sm
        >>> x = sm.ones((1000,))
        >>> plan = sm.jit(lambda x: x * 2 + 1).memory(x)
        >>> plan.inputs, plan.results, plan.intermediates, plan.peak
        (4000, 4000, 0, 8000)
        """
        args, kwargs = self._taken(args, kwargs)
        leaves, key = self._searched(args, kwargs)
        entry = self._entries[key] = self._entries.get(key) or self._trace(args, kwargs, leaves, key)
        read = [leaf for leaf in leaves if isinstance(leaf, Storage)] + entry.captured
        read += [] if entry.watch is None else entry.watch.copies(read)
        inputs = sum({id(storage.memory): storage.memory.nbytes for storage in read}.values())
        return (entry.watch or entry).compiled.memory(
            inputs, None if entry.shapes is None else entry.shapes.bind(leaves)
        )

    def bind(self, *args: Any) -> Bound:
        """The function with its first arguments bound, for many short calls with the others.

        What is bound stays as it is: nothing of it is looked at again. Arguments that the function gives up
        (`donate=`) are its state: it returns their new values first, the next call goes on from these, and a call gives
        what is returned behind them. What is updated in place costs no copy.

        >>> import smelt as sm
        >>> def step(total, scale, x):
        ...     total = total + scale * x
        ...     return total, total.sum()
        >>> add = sm.jit(step, donate=0).bind(sm.zeros(2), sm.asarray([1.0, 10.0]))
        >>> float(add(sm.asarray([1.0, 2.0]))), float(add(sm.asarray([1.0, 2.0])))
        (21.0, 42.0)
        >>> add.state[0].tolist()
        [2.0, 40.0]
        """
        from smelt.transform.bound import Bound

        return Bound(self, args)

    def keeping(self) -> Jit[P, T]:
        """The same function, giving up none of its arguments."""
        return Jit(self.__wrapped__, self._static, (), self._shapes, self._contracts) if self._donate else self

    def forget(self) -> None:
        """Compile anew at the next call: something is known that was not."""
        self._entries.clear()

    # --- the way in

    def _taken(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments with tensors for the arrays of other libraries, and plain numbers for NumPy's."""

        def taken(name: int | str, value: Any) -> Any:
            if type(value) is Tensor or name in self._static:
                return value
            leaves, structure = tree.flatten(value)
            if not any(isinstance(leaf, np.generic) or is_array(leaf) for leaf in leaves):
                return value
            return tree.unflatten(structure, [as_input(leaf) for leaf in leaves])

        return [taken(k, value) for k, value in enumerate(args)], {name: taken(name, kwargs[name]) for name in kwargs}

    def _searched(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The arguments flattened, by a plan that knows all that the function reads if it is called with them."""
        names = [self._names[k] if k < len(self._names) else str(k) for k in range(len(args))]
        with _growing:  # of several threads, each adds to what the others found
            self._plan = grown(self._plan, self.__wrapped__, dict(zip(names, args, strict=True)) | kwargs)
        return self._flatten_any(args, kwargs)

    def _flatten_tensors(self, args: Any, kwargs: Any) -> tuple[list[Any], Any] | None:
        """Storages of all leaves and the key of the structure, for tensors and flat containers of tensors that have
        been met before: as short as it can be.
        """
        if kwargs or not self._entries or self._shapes is not None or self._static:
            return None
        raw: list[Any] = []
        structure: list[Any] = []
        for value in args:
            kind = type(value)
            if kind is Tensor:
                raw.append(value)
                structure.append(None)
                continue
            if kind is dict:
                flat = tree.flat_dictionaries.get(tuple(value))
                if flat is None:
                    return None
                structure.append(flat.structure)
                raw += flat.values(value)
                continue
            known = tree.flat_structures.get((kind, None, len(value))) if kind is tuple or kind is list else None
            if known is None:
                return None
            structure.append(known)
            raw += value
        if self._plan.roots:
            self._read_hidden(raw, structure, len(raw))
        try:
            leaves = [x._node.attribute for x in raw]
            return leaves, (tuple(structure), tuple([storage.signature for storage in leaves]))
        except AttributeError:  # only tensors have a node, and only computed ones have a signature there
            return None

    def _read_hidden(self, raw: list[Any], structure: list[Any], visible: int) -> None:
        """Append the tensors that the function reaches by itself; the visible ones are given."""
        self._plan.read(raw, structure)
        if len(raw) > visible + 1:
            # Two names for one tensor are one input only for as long as they are.
            structure.append(_aliases(raw[visible:]))

    def _flatten_any(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """The same for leaves that need not be tensors with a value: numbers, static values, lazy tensors, dims."""
        raw: list[Any] = []
        structure: list[Any] = []
        for k, value in enumerate(args):
            if type(value) is Tensor:
                raw.append(value)
                structure.append(None)
            else:
                flat = self._flatten_one(k, value, raw)
                structure.append(None if flat is tree.LEAF else flat)  # an array counts as the tensor that it becomes
        if kwargs:
            structure += [(name, self._flatten_one(name, kwargs[name], raw)) for name in sorted(kwargs)]
        visible = len(raw)
        static = [value for name, value in (*enumerate(args), *kwargs.items()) if name in self._static]
        objects = [part for value in static for part in (value if isinstance(value, tuple) else (value,))]
        for k in [k for k, x in enumerate(raw) if type(x) is not Tensor]:
            raw[k] = as_input(raw[k])
            objects.append(raw[k])
        structure += [self._plan.changing(value, raw) for value in objects if is_plain(value)]
        self._read_hidden(raw, structure, visible)
        declared = set() if self._shapes is None else self._declared(args)
        leaves: list[Any] = []
        marks: list[Any] = []
        lazy = [x for x in raw if type(x) is Tensor and x._node.op is not Op.LEAF]
        for x, node in zip(lazy, runtime.realize([x._node for x in lazy]), strict=True):
            x._node = node
        for k, x in enumerate(raw):
            if type(x) is Tensor:
                storage = x._node.attribute
                if isinstance(storage, Placeholder):
                    raise TraceError(
                        "jit: an argument, or a tensor of the closure, is a stand-in that escaped from another trace",
                        hint="Return tensors from a traced function; what it leaves elsewhere has no value.",
                    )
                if k in declared:
                    storage = storage.in_order()
                    marks.append((storage.dtype, storage.device))
                else:
                    marks.append(storage.signature)
                leaves.append(storage)
            elif type(x) in NUMBERS:
                leaves.append(x)
                marks.append(type(x))
            else:
                marks.append(value_mark(x))
        return leaves, (tuple(structure), tuple(marks))

    def _declared(self, args: Any) -> set[int]:
        """Which of the leaves have a declared shape."""
        found: set[int] = set()
        number = 0
        table = argument_shapes(self._shapes, args)
        for k, value in enumerate(args):
            count = 0 if k in self._static and type(value) is not Tensor else len(tree.flatten(value)[0])
            found.update(number + j for j, shape in enumerate(table.get(k, ())) if shape is not None)
            number += count
        return found

    def holders(self, args: Any, kwargs: Any) -> list[Any]:
        """Objects that the function is given or reaches by itself: calls may set attributes of theirs."""
        return tree.holders((args, kwargs)) + self._plan.reached((args, kwargs))

    def _flatten_one(self, name: int | str, value: Any, raw: list[Any]) -> Any:
        if name in self._static and type(value) is not Tensor:
            return ("static", value_mark(value))
        return tree.flatten_into(value, raw)

    # --- the first time

    def _trace(self, args: Any, kwargs: Any, leaves: list[Any], key: Any) -> Entry:
        traced, entry = self._record(args, kwargs, leaves, key)
        entry.compiled = runtime.find(traced.key, entry.device)
        entry.watch = runtime.Watch(traced, entry.compiled) if entry.compiled.asks else None
        return entry

    def _record(self, args: Any, kwargs: Any, leaves: list[Any], key: Any) -> tuple[Traced, Entry]:
        """Run the function on stand-ins; everything that a replay needs but the compiled graph."""
        run = self._run(args, kwargs, leaves)
        given, recorded, hidden, numbers = run.given, run.recorded, run.hidden, run.numbers
        roots, parts, structure, changed = run.roots, run.parts, run.structure, run.changed
        once = not changes_values(self._entries, key)
        traced = trace(roots, self._contracts, effects=recorded.effects, once=once)
        first = len(leaves) + bool(recorded.draws)
        if recorded.random_node is not None:
            numbers[recorded.random_node] = len(leaves)
        inputs, captured = numbered_inputs(traced, numbers, hidden, recorded.serial)
        if not changed and not given.donated:  # what trains, changes what it holds
            held = given.held | set(range(len(given.numbers), len(leaves)))
            held_inputs = {k for k, number in enumerate(inputs) if number < 0 or number in held}
            traced = traced._replace(key=marked(traced.key, held_inputs, held=True))
        if given.shapes is not None:
            given.shapes.order(traced.dims)
        storages = [leaf for leaf in (*leaves, *captured) if isinstance(leaf, Storage)]
        device = runtime.common_device(storages)
        entry = Entry(
            None if inputs == list(range(first)) else inputs,
            runtime.Fixed.of(traced, device),
            captured,
            device,
            any(storage.device != device.name for storage in storages) or bool(recorded.draws),
            given.shapes,
            recorded.draws,
            structure,
            [None if isinstance(part, Tensor) else part for part in parts],
            [k for k, leaf in enumerate(leaves) if not isinstance(leaf, Storage)],
            limits_of(recorded.narrowed, given.numbers, recorded.asserted),
            given.donated,
            changed,
        )
        return traced, entry

    def _run(self, args: Any, kwargs: Any, leaves: list[Any]) -> _Run:
        """The graph of a call, by running the function on stand-ins."""
        given = self._stand_ins(args, kwargs, leaves)
        hidden = {id(storage): k for k, storage in enumerate(leaves) if k >= len(given.numbers)}
        # Nodes of its own: an equal one outside may have a value, of a tensor that will be another one later.
        with runtime.tracing() as recorded, private_nodes() as made:
            recorded.hidden.update(hidden)
            parts, structure, changed = self._run_on(given)
            check_results(parts)
            returned = [part for part in parts if isinstance(part, Tensor)]
            roots = [default_weak(part._node) for part in returned]
            order = topological(roots, reads=computed_from)
            reached = {node: hidden[id(node.attribute)] for node in order if id(node.attribute) in hidden}
            check_nodes(order, made.outside)
        return _Run(given, recorded, hidden, given.numbers | reached, roots, parts, structure, changed)

    def graph(self, *args: P.args, **kwargs: P.kwargs) -> FunctionGraph:
        """The graph of a call with these arguments; nothing is compiled or computed for it."""
        args, kwargs = self._taken(args, kwargs)
        leaves, _ = self._searched(args, kwargs)
        run = self._run(args, kwargs, leaves)
        count = len(run.given.numbers)
        reached = sorted((number, k, node) for k, (node, number) in enumerate(run.numbers.items()) if k >= count)
        flags = zip(run.parts, imaginary(run.structure), strict=True)
        return FunctionGraph(
            _whole(without_aliases(run.roots), [flag for part, flag in flags if isinstance(part, Tensor)]),
            _whole([*run.given.numbers], [node in run.given.imaginary for node in run.given.numbers]),
            [node for _, _, node in reached],
            run.recorded.random_node,
            run.recorded.effects,
            [part for part in run.parts if not isinstance(part, Tensor)],
        )

    def _stand_ins(self, args: Any, kwargs: Any, leaves: list[Any]) -> _StandIns:
        """What the function is run on in the place of its arguments."""
        shapes = argument_shapes(self._shapes, args)
        check = None if self._shapes is None else ShapeCheck()
        numbers: dict[Node, int] = {}
        second: set[Node] = set()
        donated: list[int] = []
        held: set[int] = set()

        def stand_in(value: Any, shape: Any, is_imaginary: bool) -> Any:
            number = len(numbers)
            if type(value) is Tensor:
                node = symbolic_placeholder(leaves[number], shape).node()
                if check is not None and shape is not None:
                    check.add(number, shape)
            elif type(value) in NUMBERS:
                node = Placeholder(NUMBERS[type(value)], (), (), weak=True).node()
            else:
                return value
            numbers[node] = number
            if is_imaginary:
                second.add(node)
            return wrap(node)

        def replace(k: int | str, value: Any) -> Any:
            if k in self._static and type(value) is not Tensor:
                return value
            parts, structure = tree.flatten(value)
            wanted = shapes.get(k, [None] * len(parts))
            before = len(numbers)
            given = zip(parts, wanted, imaginary(structure), strict=True)
            replaced = tree.unflatten(structure, [stand_in(*each) for each in given])
            if tree.holders(value):
                held.update(range(before, len(numbers)))
            if k in self._donate or k in self._donated_names:
                donated.extend(number for number in range(before, len(numbers)) if isinstance(leaves[number], Storage))
            return replaced

        new_args = [replace(k, value) for k, value in enumerate(args)]
        if check is not None:
            check.bind(leaves)  # the shapes of this very call have to fit as well
        new_kwargs = {name: replace(name, kwargs[name]) for name in sorted(kwargs)}
        return _StandIns(new_args, new_kwargs, numbers, second, donated, held, check)

    def _run_on(self, given: _StandIns) -> tuple[list[Any], Any, list[tuple[int, str, bool]]]:
        """The parts of what the function returns and of what it sets, their structure, and where it sets attributes:
        the number of an object, a name, and whether it is only counted up.
        """
        holders = self.holders(given.args, given.kwargs)
        before = attributes_of(holders)
        counts = [(k, name) for k, holder in enumerate(holders) for name in self._plan.counted(holder)]
        try:
            start = prepared(holders, counts, self._plan.stored)
            with nothing_drawn(self._plan.generators.values()):
                result = self.__wrapped__(*given.args, **given.kwargs)
            changed = changed_attributes(holders, start)
            parts, structure = tree.flatten((result, *changed.values()) if changed else result)
        finally:
            put_back(holders, before)  # stand-ins have no business in objects of the closure
        return parts, structure, [(*where, where in counts) for where in changed]

    def _donated(self, entry: Entry, leaves: list[Any], args: Any, kwargs: Any) -> list[Storage]:
        """The storages of donated arguments that nobody else has, and that have not been given up before."""
        found = [leaves[k] for k in entry.donated]
        if self._shapes is not None:  # leaves may be copies
            found = []
            for k in self._donate:
                name = self._names[k] if k < len(self._names) else ""
                parts = tree.flatten(args[k] if k < len(args) else kwargs.get(name))[0]
                found += [part._node.attribute for part in parts if type(part) is Tensor]
        return [storage for storage in found if not storage.is_donated() and not storage.is_shared()]


def _whole(parts: Sequence[Node], are_imaginary: Sequence[bool]) -> list[Node]:
    """The nodes, with one of two parts for each complex tensor."""
    found: list[Node] = []
    for part, is_imaginary in zip(parts, are_imaginary, strict=True):
        found.append(pairs.paired(found.pop(), part) if is_imaginary else part)
    return found


@overload
def jit(function: Callable[P, T], /) -> Jit[P, T]: ...
@overload
def jit(
    function: Callable[P, T],
    /,
    *,
    static: int | str | Iterable[int | str] = ...,
    donate: int | str | Iterable[int | str] = ...,
    shapes: Sequence[Any] | None = ...,
    dynamic: bool = ...,
    contracts: str | None = ...,
) -> Jit[P, T]: ...
@overload
def jit(
    *,
    static: int | str | Iterable[int | str] = ...,
    donate: int | str | Iterable[int | str] = ...,
    shapes: Sequence[Any] | None = ...,
    dynamic: bool = ...,
    contracts: str | None = ...,
) -> Callable[[Callable[P, T]], Jit[P, T]]: ...
def jit(
    function: Any = None,
    /,
    *,
    static: int | str | Iterable[int | str] = (),
    donate: int | str | Iterable[int | str] = (),
    shapes: Sequence[Any] | None = None,
    dynamic: bool = False,
    contracts: str | None = None,
) -> Any:
    """Compile a function of tensors: traced once per structure of its arguments, then one native call.

    Arguments may be nested tuples, lists and dicts. Python ints and floats may change from call to call without a new
    trace; bools, strings, None and other objects are static, and `static=` names further arguments, by position or
    name. `donate=` gives the buffers of arguments up. `shapes=` declares shapes with dims, so that one compilation
    serves all of them:

        n = sm.Dim("n", 1, 4096)
        f = sm.jit(lambda x: x.softmax(-1), shapes=[(n, 64)])

    With `dynamic=True` sizes that change from call to call become dims by themselves.

    `contracts=` says how far the compiler may go in search of a cheaper program that is equal: "exact" results (as it
    does unless told otherwise), "reassociates" (sums in another order), "regroups" (products and sums multiplied out or
    factored), "fast" (the last bits may be lost); "off": as it is written.
    """
    if function is None:
        return functools.partial(jit, static=static, donate=donate, shapes=shapes, dynamic=dynamic, contracts=contracts)
    if not callable(function):
        raise ArgumentError(f"jit: {function!r} is not a function")
    if contracts is not None and contracts not in (*CONTRACTS, "off"):
        words = ", ".join((*CONTRACTS, "off"))
        raise ArgumentError(f"jit: there is no contract {contracts!r:.80}", hint=f"Use one of: {words}.")
    if dynamic:
        if shapes is not None:
            raise ArgumentError("jit: dynamic=True finds the sizes that shapes= declares", hint="Use one of them.")
        from smelt.transform.dynamic import Dynamic

        return Dynamic(function, static, donate, contracts=contracts)
    return Jit(function, static, donate, shapes, contracts)


def numbered_inputs(
    traced: Traced, numbers: Mapping[Node, int], hidden: Mapping[int, int], serial: int
) -> tuple[list[int], list[Storage]]:
    """For each input of a graph the number of a leaf, or from -1 downwards that of a storage that the function made."""
    inputs: list[int] = []
    captured: list[Storage] = []
    for view in traced.inputs:
        storage = view.leaf.attribute
        number = numbers.get(view.leaf, hidden.get(id(storage)))
        if number is None:
            if isinstance(storage, Placeholder):
                raise left_behind(storage)
            if storage.serial < serial and not runtime.is_constant(storage):
                raise unknown_tensor(storage)
            captured.append(storage)
            number = -len(captured)
        inputs.append(number)
    return inputs, captured


def _aliases(tensors: list[Any]) -> tuple[int, ...]:
    """For each tensor, where the first that is the same one stands."""
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(x._node), k) for k, x in enumerate(tensors)])
