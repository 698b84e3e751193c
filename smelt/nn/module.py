"""Modules: plain classes whose tensors are found by structure.

A module is a tree: its leaves are the tensors that it reaches through attributes, other modules, lists, tuples and
dictionaries, each tensor once, however many names it has (tied weights stay tied). Everything else is part of the
structure: sizes, flags, functions. So a module goes through `jit`, `grad`, `vmap` and optimizers like any other tree,
and comes out as a module of the same class.

Leaves are *fixed* where they are buffers (running means), frozen, or no floats: transforms differentiate by the others.
A function that changes buffers of a module that it was given changes them for its caller, also through transforms. What
a call adds (`self.last = h`) is a note: a fixed leaf, which has no name among parameters, buffers and saved tensors.
"""

from __future__ import annotations

import copy
import reprlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Never, Self, TypeVar

from smelt import tree
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, InternalError
from smelt.names import missing_attribute, understood
from smelt.nn import calls
from smelt.tensor import Tensor, asarray, flag
from smelt.transform.bodies import about_to_set, made
from smelt.transform.marks import Identity, is_array

H = TypeVar("H")

_HOLDING = (Tensor, list, tuple, dict)  # what tensors are kept in
_FLAGS = ("buffer_names", "noted_names", "training", "frozen")  # attributes that every module has


class _Leaf(NamedTuple):
    """The place of a tensor among the leaves, and whether it is fixed where it stands: a tied one may be in one of its
    places only, which counts for all. A note says nothing about tensors that are not only noted.
    """

    number: int
    fixed: bool | None  # None: it is a note


class _Again(NamedTuple):
    """A module that has been met before: which of them, in the order in which they were."""

    number: int


class _Static(NamedTuple):
    """A value that is part of the structure. Its type counts: 1 is not True."""

    kind: type
    value: Any


class _Inner(NamedTuple):
    """A module, list, tuple or dictionary: its class, and for each name or key what is there."""

    kind: type
    items: tuple[tuple[Any, Any], ...]


class Module:
    """The base of all modules. Subclasses set attributes in `__init__` and compute in `__call__` (or `forward`).

    >>> import smelt as sm
    >>> class Net(sm.nn.Module):
    ...     def __init__(self):
    ...         self.first, self.second = sm.nn.Linear(4, 8), sm.nn.Linear(8, 2)
    ...
    ...     def __call__(self, x):
    ...         return self.second(self.first(x).relu())
    >>> net = Net()
    >>> net(sm.ones(3, 4)).shape
    (3, 2)
    >>> [name for name, _ in net.named_parameters()]
    ['first.weight', 'first.bias', 'second.weight', 'second.bias']
    """

    buffer_names: tuple[str, ...] = ()  # attributes that are no parameters
    noted_names: tuple[str, ...] = ()  # attributes that calls have added: neither parameters nor saved
    training: bool = True
    frozen: bool = False  # the tensors that this module holds itself, not those of modules below

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _register(cls)
        if "__init__" in cls.__dict__ and cls.__module__.startswith("smelt."):
            cls.__init__ = understood(cls.__init__)  # type: ignore[method-assign]
        if "__call__" in cls.__dict__:
            cls.__call__ = calls.recorded(cls.__call__)  # type: ignore[method-assign]
        if isinstance(cls.__dict__.get("forward"), types.FunctionType):
            cls.forward = calls.recorded(cls.__dict__["forward"])  # type: ignore[attr-defined]

    if not TYPE_CHECKING:  # a type checker must not take every name for one that is there

        def __getattr__(self, name: str) -> Never:
            raise missing_attribute(self, name, "Module")

    def __setattr__(self, name: str, value: Any) -> None:
        about_to_set(self, name)
        old = self.__dict__.get(name)
        if isinstance(old, Tensor) and type(value) is not Tensor:
            value = _in_place_of(old, value, type(self).__name__, name)
        elif old is None and isinstance(value, _HOLDING) and calls.is_running(self) and self._is_note(name, value):
            about_to_set(self, "noted_names")
            super().__setattr__("noted_names", (*self.noted_names, name))
        super().__setattr__(name, value)

    def _is_note(self, name: str, value: Any) -> bool:
        """Whether what a call sets where there was nothing is for whoever looks at it later: tensors that nobody has
        said to be parameters or buffers.
        """
        told = name in _FLAGS or name in self.buffer_names or name in self.noted_names
        told = told or getattr(value, "_known_as", "") == "parameter"
        return not told and next(_held(value, "", Module), None) is None

    @calls.recorded
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        forward = getattr(self, "forward", None)
        if forward is None:
            raise ArgumentError(
                f"{type(self).__name__} cannot be called",
                rule="a module computes in __call__, or forward.",
                hint=f"Define __call__(self, x) in the class{', instead of call' if hasattr(self, 'call') else ''}.",
            )
        return forward(*args, **kwargs)

    # --- what is inside

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with the paths to them."""
        seen: set[int] = set()
        for path, value in _walk(self, prefix, seen):
            if isinstance(value, Module):
                yield path, value

    def modules(self) -> list[Module]:
        """This module and all below it."""
        return [module for _, module in self.named_modules()]

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and buffers by all their names: a tied tensor has several."""
        for path, value in _walk(self, "", None):
            if isinstance(value, Tensor):
                yield path, value

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters, each once, with the paths to them; frozen ones, too."""
        buffers = {id(tensor) for _, tensor in self.named_buffers()}
        seen: set[int] = set()
        for path, tensor in self.named_tensors():
            if id(tensor) not in buffers and id(tensor) not in seen:
                seen.add(id(tensor))
                yield path, tensor

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are no parameters, as they are named in `buffer_names` or have no floats, with the paths to
        them.
        """
        for path, module in self.named_modules():
            for name, value in _items(module):
                for inner, tensor in _held(value, f"{path}.{name}" if path else name, Tensor):
                    if name in module.buffer_names or not tensor.dtype.is_float:
                        yield inner, tensor

    def parameters(self) -> list[Tensor]:
        """The parameters, each once."""
        return [tensor for _, tensor in self.named_parameters()]

    def buffers(self) -> list[Tensor]:
        """The tensors that are no parameters."""
        return [tensor for _, tensor in self.named_buffers()]

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Set an attribute that is no parameter: it is saved, but neither differentiated by nor updated."""
        if name not in self.buffer_names:
            self.buffer_names = (*self.buffer_names, name)
        setattr(self, name, tensor)

    # --- modes

    def train(self, mode: bool = True) -> Self:
        """Switch this module and all below it to training, or with False to evaluation."""
        return self._switched("training", flag(mode, "train", "mode"))

    def eval(self) -> Self:
        """Switch this module and all below it to evaluation: dropout does nothing, running means are used."""
        return self.train(False)

    def freeze(self) -> Self:
        """Count all parameters here and below as constants: their gradients are zeros, optimizers leave them alone.

        The flag `frozen` of the module that holds a tensor decides, and `freeze` sets it in all modules that are there
        now. So a part can be unfrozen again, and a module that is put in later trains. A tensor that several modules
        hold is frozen if one of them is.

        >>> import smelt as sm
        >>> model = sm.nn.Sequential(sm.nn.Linear(4, 8), sm.nn.Linear(8, 2)).freeze()
        >>> _ = model[1].unfreeze()
        >>> print(model.summary().splitlines()[-1])
        58 parameters, 232 bytes; 40 frozen
        """
        return self._switched("frozen", True)

    def unfreeze(self) -> Self:
        """The way back from `freeze`, for this module and all below it."""
        return self._switched("frozen", False)

    def _switched(self, name: str, value: bool) -> Self:
        for module in self.modules():
            if getattr(type(module), name) == value:  # so that it is the same structure as before the first switch
                vars(module).pop(name, None)
            else:
                setattr(module, name, value)
        return self

    # --- the same with other tensors

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """A module of the same structure, with a function applied to each tensor. Those that stay as they are become
        copies, so that no two modules have a tensor in common.
        """
        leaves, structure = tree.flatten(self)
        mapped = [(leaf, function(leaf)) for leaf in leaves]
        result: Self = tree.unflatten(structure, [copy.copy(new) if new is leaf else new for leaf, new in mapped])
        return result

    def copy(self) -> Self:
        """Another module with the same values: what is set there is not seen here, and donating one of them leaves the
        other. No values are copied before that.
        """
        return self.map(lambda tensor: tensor)

    def astype(self, dtype: DType) -> Self:
        """A module whose float tensors have this type."""
        return self.map(lambda tensor: tensor.astype(dtype) if tensor.dtype.is_float else tensor)

    def to_device(self, device: str) -> Self:
        """A module whose tensors lie on a device."""
        return self.map(lambda tensor: tensor.to_device(device))

    # --- files

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors by name, as PyTorch names them: copies, which stay when the module is donated."""
        copies: dict[int, Tensor] = {}
        return {name: copies.setdefault(id(tensor), copy.copy(tensor)) for name, tensor in self.named_tensors()}

    def load_state_dict(self, tensors: Mapping[str, Any], strict: bool = True) -> Self:
        """Take tensors by name. Their shapes must be the ones here; their types become the ones here.

        Unless `strict` is False, every name here must be given, and no others; of tied tensors one name is enough.
        Names of which none is here are an error in any case.
        """
        from smelt.nn.state import load_tensors

        load_tensors(self, tensors, strict)
        return self

    # --- pictures

    def summary(self, *inputs: Any) -> str:
        """A table of all modules with their results and parameters. Inputs are tensors, or shapes of float32 tensors;
        nothing is computed.

        >>> import smelt as sm
        >>> print(sm.nn.Sequential(sm.nn.Linear(4, 8), sm.nn.ReLU(), sm.nn.Linear(8, 2)).summary((1, 4)))
        module  kind        result   parameters
                Sequential  (1, 2)           58
        0       Linear      (1, 8)           40
        1       ReLU        (1, 8)            0
        2       Linear      (1, 2)           18
        58 parameters, 232 bytes
        """
        from smelt.nn.summary import summary

        return summary(self, inputs)

    def extra_repr(self) -> str:
        """What stands between the parentheses: the numbers, strings and flags among the attributes."""
        hidden = (*_FLAGS, *self.noted_names)
        plain = {k: v for k, v in vars(self).items() if k not in hidden and isinstance(v, int | float | str | tuple)}
        return ", ".join(f"{name}={value!r}" for name, value in plain.items() if not name.startswith("_"))

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        lines = [line for name, text in self._shown() for line in _indented(f"({name}): {text}")]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return "\n".join([head, *lines, ")"]) if lines else f"{head})"

    def _shown(self) -> Iterator[tuple[str, str]]:
        """What `repr` shows: the modules directly below."""
        for name, value in vars(self).items():
            yield from ((path, repr(child)) for path, child in _held(value, name, Module))


def Parameter(data: Tensor, requires_grad: bool = True) -> Tensor:
    """The tensor itself: every float tensor that is an attribute of a module is a parameter of it. Only what a call
    sets is none, unless it is made by this function.

    >>> import smelt as sm
    >>> sm.nn.Parameter(sm.ones(2)).tolist()
    [1.0, 1.0]
    """
    if not flag(requires_grad, "Parameter", "requires_grad"):
        raise ArgumentError(
            "Parameter: requires_grad is False", hint="Write self.register_buffer(name, tensor), or model.freeze()."
        )
    found = copy.copy(asarray(data))
    found._known_as = "parameter"
    return found


def _held(value: Any, path: str, kind: type[H]) -> Iterator[tuple[str, H]]:
    """The nearest modules in a value, or the tensors that are in none."""
    if isinstance(value, kind):
        yield path, value
    elif isinstance(value, list | tuple | dict):
        for key, item in _items(value):
            yield from _held(item, f"{path}.{key}", kind)


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


def _items(value: Any) -> list[tuple[Any, Any]]:
    """Names or keys, with what is there."""
    if isinstance(value, Module):
        return [(name, item) for name, item in vars(value).items() if name not in value.noted_names]
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))


def _walk(value: Any, path: str, seen: set[int] | None, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Modules and tensors below a value with the paths to them, in the order of attributes; with `seen` each once.

    What leads back to something `above`, as from a layer to the module it belongs to, has no path.
    """
    if id(value) in above:
        return
    if isinstance(value, Module | Tensor):
        if seen is not None:
            if id(value) in seen:
                return
            seen.add(id(value))
        yield path, value
    if isinstance(value, Module | list | tuple | dict):
        for key, item in _items(value):
            yield from _walk(item, f"{path}.{key}" if path else str(key), seen, (*above, id(value)))


# --- modules as trees


def _register(cls: type[Module]) -> None:
    tree.register(cls, _flatten, _unflatten, fixed=_fixed, names=_names, holders=_holders)


def _in_place_of(old: Tensor, value: Any, module: str, name: str) -> Any:
    """What is set where a tensor was: arrays become tensors, since what is no tensor is neither trained nor saved."""
    if is_array(value):
        new = asarray(value)
        return new.astype(old.dtype) if new.dtype.is_float and old.dtype.is_float else new
    if isinstance(value, int | float | list):
        raise ArgumentError(
            f"{module}: {name} is a tensor, and a {type(value).__name__} would be none",
            rule="what is no tensor is neither trained nor saved.",
            hint=f"Write {name} = sm.asarray(…), or sm.full({name}.shape, …).",
        )
    return value


def _flatten(module: Module) -> tuple[list[Tensor], _Inner]:
    found = _Found({}, {})
    data = _described(module, found, False)
    return [tensor for _, tensor in found.leaves.values()], data


class _Found(NamedTuple):
    """What has been met below a module, by identity."""

    leaves: dict[int, tuple[int, Tensor]]
    modules: dict[int, _Again]


_PLAIN = frozenset({int, float, bool, str, type(None)})  # most attributes of layers


def _described(value: Any, found: _Found, fixed: bool | None) -> Any:
    """What a value is, with tensors replaced by their places, `fixed`, not or noted. Modules with several names stay
    one.
    """
    kind = type(value)
    if kind in _PLAIN:
        return _Static(kind, value)
    if kind is Tensor or isinstance(value, Tensor):
        if kind is not Tensor and value.dtype.is_complex:
            raise DTypeError("a module holds a complex tensor", hint="Keep its parts, and write sm.complex(re, im).")
        leaves = found.leaves
        number, _ = leaves.setdefault(id(value), (len(leaves), value))
        return _Leaf(number, fixed if fixed is None else fixed or not value.dtype.is_float)
    if isinstance(value, Module):
        if id(value) in found.modules:
            return found.modules[id(value)]
        found.modules[id(value)] = _Again(len(found.modules))
        frozen, names, noted = value.frozen, value.buffer_names, value.noted_names
        items: list[tuple[str, Any]] = []
        for key, item in vars(value).items():
            plain = type(item)  # asked here, since a step's time has room for few calls
            own = None if key in noted else frozen or key in names
            items.append((key, _Static(plain, item) if plain in _PLAIN else _described(item, found, own)))
        return _Inner(kind, tuple(items))
    if kind is list or kind is tuple:
        return _Inner(kind, tuple([(None, _described(item, found, fixed)) for item in value]))
    if kind is dict:
        return _Inner(kind, tuple([(key, _described(item, found, fixed)) for key, item in value.items()]))
    try:
        hash(value)
    except TypeError:
        return _Static(Identity, Identity(value))
    return _Static(kind, value)


def _unflatten(data: Any, leaves: list[Any]) -> Any:
    return _rebuilt(data, leaves, [])


def _rebuilt(data: Any, leaves: list[Any], seen: list[Any]) -> Any:
    kind = type(data)
    if kind is _Leaf:
        return leaves[data.number]
    if kind is _Static:
        return data.value.value if data.kind is Identity else data.value
    if kind is _Again:
        return seen[data.number]
    if kind is not _Inner:
        raise InternalError(f"a module has no part {data!r}")
    if data.kind is list or data.kind is tuple:
        return data.kind([_rebuilt(item, leaves, seen) for _, item in data.items])
    if data.kind is dict:
        return {key: _rebuilt(item, leaves, seen) for key, item in data.items}
    module = object.__new__(data.kind)
    made(module)
    seen.append(module)
    module.__dict__.update({key: _rebuilt(item, leaves, seen) for key, item in data.items})
    return module


def _named_leaves(data: Any, path: str = "") -> Iterator[tuple[str, _Leaf]]:
    if type(data) is _Leaf:
        yield path, data
    elif type(data) is _Inner:
        for k, (key, item) in enumerate(data.items):
            step = f".{key}" if issubclass(data.kind, Module) else f"[{k if key is None else key!r}]"
            yield from _named_leaves(item, path + step)


def _fixed(data: Any) -> list[bool]:
    found: dict[int, bool | None] = {}
    stack = [data]
    while stack:
        item = stack.pop()
        if type(item) is _Leaf:
            known = found.get(item.number)
            found[item.number] = known if item.fixed is None else item.fixed or bool(known)
        elif type(item) is _Inner:
            stack += [inner for _, inner in item.items]
    return [found[k] is not False for k in range(len(found))]


def _names(data: Any) -> list[str]:
    """For each leaf, its first name; that of a note only where there is no other."""
    found: dict[int, str] = {}
    named = sorted(_named_leaves(data), key=lambda pair: pair[1].fixed is None)
    for path, leaf in named:
        found.setdefault(leaf.number, path)
    return [found[k] for k in range(len(found))]


def _holders(module: Module) -> list[Any]:
    """A module and all below it."""
    found: list[Any] = []
    seen: set[int] = set()
    stack: list[Any] = [module]
    while stack:
        value = stack.pop()
        if type(value) in _PLAIN:
            continue
        if isinstance(value, Module):
            if id(value) in seen:
                continue
            seen.add(id(value))
            found.append(value)
            stack += vars(value).values()
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, list | tuple):
            stack += value
    return found


_register(Module)
