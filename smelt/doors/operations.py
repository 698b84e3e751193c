"""`custom_op`: an operation of a user's own, with a reference that says what it means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smelt import dtypes, runtime
from smelt.device import HOST
from smelt.doors.compared import Array, difference, drawn
from smelt.doors.native import Native, check_text, native
from smelt.doors.sides import Types, interpreted, leaves_of
from smelt.dtypes import DType
from smelt.egraph import Frozen
from smelt.errors import ArgumentError, DTypeError, GradientError, InternalError, ShapeError, SmeltError, TraceError
from smelt.graph import (
    Hosted,
    Index,
    IndexLike,
    Node,
    Op,
    broadcast_to,
    private_nodes,
    shape_text,
    topological,
    values_of,
    without_aliases,
)
from smelt.locks import Remembered, new_lock
from smelt.rewrite import Contract
from smelt.tensor import Tensor, node_of, wrap
from smelt.transform import custom_vjp, vjp

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SEED: Final = 21
_SMALL: Final = 7  # sizes that samples have at most, where the operation allows that
_MOST: Final = 1 << 18  # elements of samples with the sizes at hand
_REMEMBERED: Final = 256


@dataclass(frozen=True)
class Given:
    """What an operation gives for some types of inputs; `graph` is its reference, if that is smelt's own code."""

    types: Types
    several: bool
    graph: Frozen | None


class CustomOp:
    """An operation of a user's own. Called on tensors, it gives tensors."""

    __wrapped__: Callable[..., Any]

    def __init__(
        self,
        name: str,
        reference: Callable[..., Any],
        shape: Callable[..., Any] | None,
        gradient: Callable[..., Any] | None,
        batching: Callable[..., Any] | None,
        source: Mapping[str, str],
        callback: Callable[..., Any] | None,
    ) -> None:
        self.name, self.__wrapped__, self._shape = name, reference, shape
        self._gradient, self._batching, self._source, self._callback = gradient, batching, dict(source), callback
        self.__name__ = self.__qualname__ = name
        self.__doc__ = reference.__doc__
        self._is_numpy: bool | None = None  # not known before it is called
        self._checked: set[Any] = set()
        self._has_examples = False
        self._known: Remembered[Types, Given] = Remembered(_REMEMBERED)
        self._lock = new_lock()

        def value(*args: Tensor) -> Any:
            return self._value(*args)

        value.__name__ = value.__qualname__ = name
        self._with_gradient = custom_vjp(value)
        self._with_gradient.defvjp(lambda *args: (self._value(*args), args), self._back)

    def __repr__(self) -> str:
        return f"custom_op({self.name})"

    @property
    def also_calls(self) -> tuple[Callable[..., Any], ...]:
        """Further functions that `jit` looks at for what they read."""
        return tuple(one for one in (self._gradient, self._batching) if one is not None)

    def __call__(self, *args: Any) -> Any:
        tensors = [wrap(node_of(arg, f"custom_op {self.name}")) for arg in args]
        if not tensors:
            raise ArgumentError(f"custom_op {self.name}: it is called without tensors")
        is_inline = self._is_inline(tensors)
        if self._gradient is None and is_inline:
            return self.__wrapped__(*tensors)
        return self._with_gradient(*tensors)

    # --- values

    def _is_inline(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the reference is what is computed, as part of the graph."""
        given = self.given(tuple((x._node.dtype, x._node.shape) for x in tensors))
        return given.graph is not None and self._callback is None and self._text(tensors) is None

    def _text(self, tensors: Sequence[Tensor]) -> str | None:
        """The source for where the inputs are."""
        places = {tensor.device for tensor in tensors} if self._source else set()
        return self._source.get(places.pop()) if len(places) == 1 else None

    def _value(self, *tensors: Tensor) -> Any:
        types = tuple((x._node.dtype, x._node.shape) for x in tensors)
        given = self.given(types)
        if self._is_inline(tensors):
            return self.__wrapped__(*tensors)
        for dtype, _ in (*types, *given.types):
            if dtype in dtypes.STORAGE:
                raise DTypeError(f"custom_op {self.name}: {dtype} only stores values", hint="Cast first: x.astype.")
        text = self._text(tensors)
        call = HostCall(self, _kinds(types), _kinds(given.types), text)
        self._check_once(call, types)
        nodes = values_of(Hosted(call, given.types), [x._node for x in tensors])
        return tuple(wrap(node) for node in nodes) if given.several else wrap(nodes[0])

    def host(self, *arrays: Array) -> list[Any]:
        """What Python gives for arrays."""
        if self._callback is None and self._is_numpy is False:
            found = self._interpreted(arrays)
        else:
            found = (self._callback or self.__wrapped__)(*arrays)
        return list(found) if isinstance(found, tuple | list) else [found]

    def _interpreted(self, arrays: Sequence[Array]) -> list[Array]:
        types = tuple((dtypes.as_dtype(x.dtype), x.shape) for x in arrays)
        graph = self.given(types).graph
        assert graph is not None
        return interpreted(graph, types, arrays)

    def expected(self, arrays: Sequence[Array]) -> list[Array]:
        """What the reference gives for arrays."""
        if self._is_numpy is False:
            return self._interpreted(arrays)
        found = self.__wrapped__(*arrays)
        return [np.asarray(one) for one in (found if isinstance(found, tuple | list) else (found,))]

    # --- types

    def given(self, types: Types) -> Given:
        """What comes out for inputs of these types."""
        known = self._known.get(types)
        if known is None:
            known = self._given(types)
            self._known.put(types, known)
        return known

    def _given(self, types: Types) -> Given:
        traced = None
        if not self._is_numpy:
            try:
                traced = _traced(self.name, self.__wrapped__, types)
            except InternalError:
                raise
            except Exception as error:
                if self._shape is None or self._is_numpy is False:
                    self._refuse(error)
        with self._lock:
            self._is_numpy = traced is None if self._is_numpy is None else self._is_numpy
        if self._shape is None:
            assert traced is not None
            return traced
        declared = _declared(self.name, self._shape, types)
        if traced is not None and (traced.types, traced.several) != (declared.types, declared.several):
            raise ShapeError(
                f"custom_op {self.name}: shape= says {_types_text(declared.types)}",
                rule=f"the reference gives {_types_text(traced.types)}.",
            )
        return declared if traced is None else traced

    def _refuse(self, error: Exception) -> None:
        if isinstance(error, SmeltError) and (self._is_numpy is False or not isinstance(error, TraceError)):
            raise error  # it takes tensors, and names the line of the reference
        raise ArgumentError(
            f"custom_op {self.name}: its reference does not take tensors: {type(error).__name__}: {error}",
            rule="a reference is smelt code; one in NumPy needs shape=, which says what it gives.",
            hint="Write shape=lambda x: x.shape, say.",
        ) from error

    # --- checks

    def check(self, rows: Sequence[Sequence[Any]]) -> None:
        """Compare what is computed on examples with the reference."""
        for row in rows:
            nodes = [node_of(value, f"custom_op {self.name}") for value in row]
            arrays = [np.asarray(wrap(node).numpy()) for node in nodes]
            types = tuple((node.dtype, node.shape) for node in nodes)
            for text in self._source.values() or [None]:
                call = HostCall(self, _kinds(types), _kinds(self.given(types).types), text)
                call.check(arrays, [_plain(shape) for _, shape in self.given(types).types])
        self._has_examples = bool(rows)

    def _check_once(self, call: HostCall, types: Types) -> None:
        """The same on random inputs, before the first use for such types."""
        if self._has_examples or call in self._checked or (call.text is None and self._callback is None):
            return
        rng = np.random.default_rng(_SEED)
        for kind, sample in zip(("whole", "normal"), self._samples(types), strict=True):
            arrays = [drawn(dtype, _plain(shape), kind, rng) for dtype, shape in sample]
            call.check(arrays, [_plain(shape) for _, shape in self.given(sample).types])
        self._checked.add(call)

    def _samples(self, types: Types) -> tuple[Types, Types]:
        """Types with small sizes that the operation takes, and with those at hand, unless that is too much."""
        whole = tuple((dtype, tuple(_number(size) for size in shape)) for dtype, shape in types)
        small = tuple((dtype, tuple(min(size, _SMALL) for size in shape)) for dtype, shape in whole)
        try:
            self.given(small)
        except InternalError:
            raise
        except Exception:  # it does not take such sizes, for whatever reason
            return whole, whole
        is_large = sum(math.prod(shape) for _, shape in whole) > _MOST
        return small, small if is_large else whole

    # --- derivatives and batches

    def _back(self, args: Sequence[Tensor], cotangent: Any) -> tuple[Any, ...]:
        if self._gradient is not None:
            found = self._gradient(cotangent, *args)
            return tuple(found) if isinstance(found, tuple | list) else (found,)
        if self._is_numpy:
            raise GradientError(
                f"custom_op {self.name}: it has no gradient",
                rule="its reference is NumPy code, which cannot be differentiated.",
                hint="Give gradient=, a function of the cotangent and the inputs: gradient=lambda ct, x: ct * 2 * x.",
            )
        floats = [k for k, x in enumerate(args) if x.dtype.is_float]

        def of_floats(*some: Tensor) -> Any:
            every = list(args)
            for k, x in zip(floats, some, strict=True):
                every[k] = x
            return self.__wrapped__(*every)

        pulled = vjp(of_floats, *[args[k] for k in floats])[1](cotangent)
        parts = dict(zip(floats, pulled, strict=True))
        return tuple(parts.get(k) for k in range(len(args)))

    def batched(self, sources: Sequence[Node], found: Sequence[Node | None], size: IndexLike) -> list[Node]:
        """The values for a batch, by the user's rule."""
        assert self._batching is not None
        axes = tuple(None if x is None else 0 for x in found)
        inputs = [wrap(x if whole is None else whole) for x, whole in zip(sources, found, strict=True)]
        result = self._batching(axes, *inputs)
        values = list(result) if isinstance(result, tuple | list) else [result]
        given = self.given(tuple((x.dtype, x.shape) for x in sources))
        if len(values) != len(given.types) or not all(isinstance(x, Tensor) for x in values):
            raise ArgumentError(f"custom_op {self.name}: batching gave {len(values)} values, not {len(given.types)}")
        nodes: list[Node] = []
        for value, (dtype, shape) in zip(values, given.types, strict=True):
            node = value._node
            if node.dtype is not dtype or node.shape != (size, *shape):
                raise ShapeError(
                    f"custom_op {self.name}: batching gave {node.dtype}{list(node.shape)}",
                    rule=f"all elements together are {dtype}{[size, *shape]}.",
                )
            nodes.append(broadcast_to(node, (size, *shape)))
        return nodes


@dataclass(frozen=True)
class HostCall:
    """What runs an operation: equal ones compute the same."""

    op: CustomOp
    takes: tuple[tuple[DType, int], ...]
    gives: tuple[tuple[DType, int], ...]
    text: str | None  # of a C function; None: Python

    @property
    def name(self) -> str:
        """That of the operation."""
        return self.op.name

    @property
    def batched(self) -> Callable[..., list[Node]] | None:
        """How a batch is computed at once, if the operation says so."""
        return None if self.op._batching is None else self.op.batched

    @property
    def native(self) -> Native | None:
        """The C function."""
        return None if self.text is None else native(self.op.name, self.text, self.takes, self.gives)

    def __call__(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        compiled = self.native
        return self._typed(self.op.host(*arrays), shapes) if compiled is None else compiled(arrays, shapes)

    def _typed(self, found: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        """Results of Python as they were declared."""
        name = f"custom_op {self.op.name}"
        if len(found) != len(self.gives):
            raise ArgumentError(f"{name}: it gave {len(found)} arrays", rule=f"{len(self.gives)} were declared.")
        results: list[Array] = []
        for value, (dtype, _), shape in zip(found, self.gives, shapes, strict=True):
            array = np.asarray(value)
            if array.shape != tuple(shape):
                raise ShapeError(
                    f"{name}: it gave shape {shape_text(array.shape)}", rule=f"{shape_text(shape)} was declared."
                )
            # NumPy computes many functions of float32 in float64: floats are rounded, other kinds are a mistake.
            if array.dtype != dtype.numpy and not (dtype.is_float and array.dtype.kind in "biuf"):
                raise DTypeError(f"{name}: it gave {array.dtype}", rule=f"{dtype} was declared.")
            results.append(np.ascontiguousarray(array, dtype.numpy).reshape(shape))
        return results

    def check(self, arrays: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise unless the results are those of the reference."""
        expected = self._typed(self.op.expected(arrays), shapes)
        compiled = self.native
        runs = [self(arrays, shapes)] if compiled is None else compiled.runs(arrays, shapes)
        what = "its callback" if compiled is None else "its C function"
        for found in runs:
            for number, (mine, right) in enumerate(zip(found, expected, strict=True)):
                wrong = difference(right, mine, Contract.FAST)
                if wrong is not None:
                    which = f" of output {number}" if len(found) > 1 else ""
                    raise ArgumentError(
                        f"custom_op {self.op.name}: the reference and {what} differ{which}\n  {wrong}",
                        rule=f"on inputs of shapes {', '.join(str(list(x.shape)) for x in arrays)}.",
                        hint="" if self.op._has_examples else "If random inputs make no sense for it, give examples=.",
                    )


def _kinds(types: Types) -> tuple[tuple[DType, int], ...]:
    return tuple((dtype, len(shape)) for dtype, shape in types)


def _plain(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _number(size: IndexLike) -> int:
    """A size, or one that a symbolic one may have."""
    if isinstance(size, int):
        return size
    return int(size.evaluate({v.name: min(max(v.low, 3), v.high) for v in size.variables()}))


def _types_text(types: Types) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in types)


def _traced(name: str, reference: Callable[..., Any], types: Types) -> Given:
    """What a reference gives, as a graph; raises if it is not made of tensors."""
    with private_nodes():
        leaves = list(leaves_of(types))
        with runtime.tracing():
            found = reference(*[wrap(node) for node in leaves])
        several = isinstance(found, tuple | list)
        values = list(found) if several else [found]
        if not values or not all(isinstance(value, Tensor) for value in values):
            raise ArgumentError(
                f"custom_op {name}: its reference gives {type(found).__name__}",
                rule="it gives a tensor, or a tuple of them.",
            )
        roots = without_aliases([value._node for value in values])
        given = tuple((root.dtype, root.shape) for root in roots)
        order = topological(roots, known=set(leaves))
        if any(node.op is Op.LEAF for node in order):
            raise ArgumentError(
                f"custom_op {name}: its reference reads a tensor that is not among its inputs, or draws random numbers",
                hint="Make it an input.",
            )
        return Given(given, several, Frozen.of(order, leaves, roots))


def _declared(name: str, shape: Callable[..., Any], types: Types) -> Given:
    """What a shape rule says: sizes, or tensors with the shapes and dtypes."""
    with private_nodes():
        found = shape(*[wrap(node) for node in leaves_of(types)])
        if isinstance(found, Tensor):
            return Given(((found._node.dtype, found._node.shape),), False, None)
        if isinstance(found, tuple | list) and found and all(isinstance(x, Tensor) for x in found):
            return Given(tuple((x._node.dtype, x._node.shape) for x in found), True, None)
    if isinstance(found, tuple | list) and all(_is_size(size) for size in found):
        return Given(((types[0][0], tuple(found)),), False, None)
    raise ArgumentError(
        f"custom_op {name}: shape= gave {found!r:.80}",
        rule="it gives a shape, for the dtype of the first input, or tensors such as sm.zeros(shape, dtype=...).",
    )


def _is_size(size: Any) -> bool:
    return isinstance(size, Index) or (isinstance(size, int) and not isinstance(size, bool) and size >= 0)


def custom_op(
    name: str,
    *,
    reference: Callable[..., Any],
    shape: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    batching: Callable[..., Any] | None = None,
    source: Mapping[str, str] | None = None,
    callback: Callable[..., Any] | None = None,
    examples: Any = None,
) -> CustomOp:
    """An operation of your own: a function of tensors that works under `jit`, `grad` and `vmap`.

    `reference` says what it computes. It is smelt code, or NumPy code; then `shape=` is a function of the inputs that
    gives the shape of the result, or tensors with the shapes and dtypes of all results (`sm.zeros` costs nothing).
    `source` has C source by device, `{"cpu": text}`: a function `name` that takes a pointer for each input and each
    output, and then the sizes of all their axes as `int64_t`. `callback` is a function of NumPy arrays. Either is
    compared with the reference before it is used, on the `examples` if there are any, else on random inputs. Where
    there is neither, the reference is computed.

    `gradient(cotangent, *inputs)` gives the cotangents of the inputs; without it, derivatives go through a reference
    that is smelt code. `batching(axes, *inputs)` computes a whole batch for `vmap`: axes are 0 for inputs with the
    batch in front, else None. Without it there is a call for each element.

    >>> import smelt as sm
    >>> cube = sm.custom_op(
    ...     "cube",
    ...     reference=lambda x: x * x * x,
    ...     source={"cpu": "void cube(const float *x, float *y, int64_t n, int64_t m)"
    ...                    "{ for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i] * x[i]; }"},
    ... )
    >>> cube(sm.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 8.0, 27.0]
    >>> sm.grad(lambda x: cube(x).sum())(sm.asarray([1.0, 2.0, 3.0])).tolist()
    [3.0, 12.0, 27.0]
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"custom_op: {name!r:.80} is not a name",
            rule="a name is made of letters, digits and underscores, and begins with a letter.",
        )
    functions = {
        "reference": reference,
        "shape": shape,
        "gradient": gradient,
        "batching": batching,
        "callback": callback,
    }
    for word, function in functions.items():
        if function is not None and not callable(function):
            raise ArgumentError(f"custom_op {name}: {word}= is {function!r:.80}, not a function")
    if reference is None:
        raise ArgumentError(f"custom_op {name}: there is no reference", rule="it says what the operation computes.")
    texts = _sources(name, source)
    if texts and callback is not None:
        raise ArgumentError(f"custom_op {name}: it has a source and a callback", hint="Give one of them.")
    made = CustomOp(name, reference, shape, gradient, batching, texts, callback)
    made.check(_rows(examples, name))
    return made


def _sources(name: str, source: Any) -> dict[str, str]:
    if source is None:
        return {}
    if not isinstance(source, Mapping) or set(source) - {HOST}:
        raise ArgumentError(
            f"custom_op {name}: source= is {source!r:.80}", rule=f"it is C source by device: {{{HOST!r}: text}}."
        )
    return {place: check_text(name, text) for place, text in source.items()}


def _rows(examples: Any, name: str) -> list[Sequence[Any]]:
    found = examples() if callable(examples) else examples
    if found is None:
        return []
    if not isinstance(found, list | tuple) or not all(isinstance(row, list | tuple) and row for row in found):
        raise ArgumentError(f"custom_op {name}: examples= is {found!r:.80}", rule="it is a list of tuples of inputs.")
    return list(found)
