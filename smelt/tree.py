"""Pytrees: nested tuples, lists, dicts and their like, dataclasses and registered classes with leaves in a fixed order.

`flatten` gives the leaves and a structure that compares by equality and hashes; `unflatten` puts leaves back.
Dictionaries are walked in the order of their sorted keys, so two equal dictionaries have equal structures. A dataclass
that holds tensors is an inner node; one that does not is a single value, such as a configuration.
"""

from __future__ import annotations

import builtins
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from smelt.errors import ArgumentError
from smelt.names import door

__all__ = ["Structure", "flatten", "leaf_count", "map", "paths", "register", "unflatten"]


class Structure:
    """The shape of a tree: one object per distinct shape, so equality is identity.

    `kind` is None for a leaf; `data` is what the kind needs besides its children.
    """

    __slots__ = ("children", "data", "kind")

    kind: type | None
    data: Hashable
    children: tuple[Structure, ...]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        return f"{self.kind.__name__}({', '.join([repr(child) for child in self.children])})"


_structures: dict[tuple[Any, ...], Structure] = {}


def _structure(kind: type | None, data: Hashable, children: tuple[Structure, ...]) -> Structure:
    key = (kind, data, children)
    found = _structures.get(key)
    if found is None:
        found = Structure()
        found.kind, found.data, found.children = kind, data, children
        found = _structures.setdefault(key, found)
    return found


LEAF = _structure(None, None, ())
flat_structures: dict[tuple[type, Hashable, int], Structure] = {}  # by kind, data and size: all children are leaves


flat_dictionaries: dict[tuple[Any, ...], FlatDictionary] = {}  # by the keys as they stand


class _Node(NamedTuple):
    flatten: Callable[[Any], tuple[Iterable[Any], Hashable]]
    unflatten: Callable[[Hashable, list[Any]], Any]
    fixed: Callable[[Any], list[bool]] | None
    names: Callable[[Any], list[str]] | None
    holders: Callable[[Any], list[Any]] | None


_registry: dict[type, _Node] = {}
T = TypeVar("T")


@overload
def register(
    kind: type[T],
    flatten: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = ...,
    unflatten: Callable[[Any, list[Any]], Any] | None = ...,
    *,
    static: Iterable[str] = ...,
    fixed: Callable[[Any], list[bool]] | None = ...,
    names: Callable[[Any], list[str]] | None = ...,
    holders: Callable[[Any], list[Any]] | None = ...,
) -> type[T]: ...
@overload
def register(*, static: Iterable[str] = ...) -> Callable[[type[T]], type[T]]: ...
def register(
    kind: Any = None,
    flatten: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
    unflatten: Callable[[Any, list[Any]], Any] | None = None,
    *,
    static: Iterable[str] = (),
    fixed: Callable[[Any], list[bool]] | None = None,
    names: Callable[[Any], list[str]] | None = None,
    holders: Callable[[Any], list[Any]] | None = None,
) -> Any:
    """Make instances of a class inner nodes of trees: arguments of `jit`, states of loops, what gradients are taken by.

    As a decorator: the attributes are the children, but for those named `static`, which are part of the structure. With
    functions: `flatten(x)` gives (children, data); `unflatten(data, children)` gives x back.

    >>> @sm.tree.register(static=("name",))
    ... class Layer:
    ...     def __init__(self, weight, name):
    ...         self.weight, self.name = weight, name
    >>> doubled = sm.jit(lambda layer: sm.tree.map(lambda x: 2 * x, layer))(Layer(sm.ones(2), "first"))
    >>> doubled.name, doubled.weight.tolist()
    ('first', [2.0, 2.0])

    Where children are always leaves, more can be said: `fixed(data)` which of them count as constants where others are
    differentiated by, `names(data)` how to get to each, and `holders(x)` objects whose attributes calls may set.
    """
    if kind is None:
        return functools.partial(register, static=static)
    if flatten is None or unflatten is None:
        _registry[kind] = _by_attributes(kind, frozenset(static))
    else:
        _registry[kind] = _Node(flatten, unflatten, fixed, names, holders)
    return kind


# --- classes whose attributes are the children


class _Kept(NamedTuple):
    """The attributes of an object: the names of its children, and those that are part of the structure. Marks tell 1,
    1.0 and True apart, and 0.0 from -0.0.
    """

    children: tuple[str, ...]
    static: tuple[tuple[str, Any], ...]
    marks: tuple[Any, ...]


def _by_attributes(kind: type, static: frozenset[str]) -> _Node:
    """How to take instances of a class apart by their attributes, or by the fields of a dataclass."""
    fields = getattr(kind, "__dataclass_fields__", None)
    static |= {name for name, field in (fields or {}).items() if field.metadata.get("static")}

    def flatten(value: Any) -> tuple[Iterable[Any], Hashable]:
        present = tuple(fields) if fields is not None else tuple(vars(value))
        kept = tuple((name, getattr(value, name)) for name in present if name in static)
        for name, item in kept:
            try:
                hash(item)
            except TypeError:
                raise ArgumentError(
                    f"tree: the static attribute {name} of {kind.__name__} is a {type(item).__name__}",
                    rule="what is part of a structure must be hashable.",
                    hint="Use tuples, strings or numbers, or let it be a child.",
                ) from None
        names = tuple(name for name in present if name not in static)
        marks = tuple((type(item), repr(item) if type(item) is float else None) for _, item in kept)
        return [getattr(value, name) for name in names], _Kept(names, kept, marks)

    def unflatten(data: Any, children: list[Any]) -> Any:
        value: Any = object.__new__(kind)  # not by __init__, which may look at values that are not there
        for name, item in (*zip(data.children, children, strict=True), *data.static):
            object.__setattr__(value, name, item)
        return value

    def own_holders(value: Any) -> list[Any]:
        return [value, *[holder for child in flatten(value)[0] for holder in _holders(child)]]

    return _Node(flatten, unflatten, None, lambda data: [f".{name}" for name in data.children], own_holders)


_dataclasses: dict[type, _Node] = {}  # those that nobody has registered
tensor_types: set[type] = set()  # what makes a dataclass that holds it an inner node


def _node_of(value: Any) -> _Node | None:
    """How to take an inner node apart that is no named tuple; None for a leaf."""
    kind = type(value)
    node = _registry.get(kind)
    if node is not None or not hasattr(kind, "__dataclass_fields__") or kind in tensor_types:
        return node
    if not _holds_tensors(value):
        return None
    return _dataclasses.get(kind) or _dataclasses.setdefault(kind, _by_attributes(kind, frozenset()))


def _holds_tensors(value: Any) -> bool:
    kind = type(value)
    if kind in tensor_types or (kind in _registry and kind not in _CONTAINERS):
        return True
    if isinstance(value, dict):
        value = value.values()
    elif hasattr(kind, "__dataclass_fields__"):
        value = [getattr(value, name, None) for name in kind.__dataclass_fields__]
    elif not isinstance(value, tuple | list):
        return False
    return any(_holds_tensors(item) for item in value)


_CONTAINERS = frozenset({tuple, list, dict, type(None)})


class FlatDictionary(NamedTuple):
    """A dictionary without inner nodes: its structure, and its values in the order of the sorted keys."""

    structure: Structure
    values: Callable[[dict[Any, Any]], Iterable[Any]]


def _flatten_dict(value: dict[Any, Any]) -> tuple[Iterable[Any], Hashable]:
    keys, as_given = _sorted_keys(tuple(value))
    return value.values() if as_given else [value[key] for key in keys], keys


@functools.lru_cache(maxsize=1024)
def _sorted_keys(keys: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """Keys in order, and whether they were so already."""
    try:
        ordered = tuple(sorted(keys))
    except TypeError:
        raise ArgumentError("a dictionary in a pytree needs keys that sort", hint="Use strings as keys.") from None
    return ordered, ordered == keys


register(tuple, lambda x: (x, None), lambda _, children: tuple(children))
register(list, lambda x: (x, None), lambda _, children: list(children))
register(dict, _flatten_dict, lambda keys, children: dict(zip(keys, children, strict=True)))
register(OrderedDict, lambda x: (x.values(), tuple(x)), lambda keys, items: OrderedDict(zip(keys, items, strict=True)))
register(
    defaultdict,
    lambda x: (x.values(), (x.default_factory, *x)),
    lambda data, items: defaultdict(data[0], zip(data[1:], items, strict=True)),
)
register(deque, lambda x: (x, x.maxlen), lambda length, items: deque(items, length))
register(type(None), lambda _: ((), None), lambda *_: None)


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and its structure."""
    leaves: list[Any] = []
    return leaves, flatten_into(tree, leaves)


def flatten_into(tree: Any, leaves: list[Any]) -> Structure:
    """Append the leaves of a tree to a list; its structure."""
    try:
        return _flatten_into(tree, leaves)
    except RecursionError:
        raise endless("a tree") from None


def endless(what: str) -> ArgumentError:
    """The error for what a walk through a tree found no end of."""
    return ArgumentError(
        f"{what} contains itself, or is nested deeper than Python can follow",
        rule="trees are finite: lists, tuples and dictionaries down to their leaves.",
        hint="Leave out the part that leads back to the whole.",
    )


def _flatten_into(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    node = _registry.get(kind) or _node_of(tree)
    if node is not None:
        children, data = node.flatten(tree)
    elif isinstance(tree, tuple) and hasattr(kind, "_fields"):
        children, data = tree, None
    else:
        leaves.append(tree)
        return LEAF
    children = tuple(children)
    if _are_leaves(children):
        leaves.extend(children)
        key = (kind, data, len(children))  # shorter to hash than the children themselves
        flat = flat_structures.get(key)
        if flat is None:
            flat = flat_structures[key] = _structure(kind, data, (LEAF,) * len(children))
        if kind is dict and tuple(tree) not in flat_dictionaries:
            as_given = tuple(tree) == data or len(children) < 2
            flat_dictionaries[tuple(tree)] = FlatDictionary(flat, dict.values if as_given else itemgetter(*data))  # type: ignore[misc]
        return flat
    return _structure(kind, data, tuple([_flatten_into(child, leaves) for child in children]))


def _are_leaves(values: tuple[Any, ...]) -> bool:
    """Whether no value is an inner node: asked once per type, since trees of hundreds of tensors are common."""
    return not any(
        kind in _registry or issubclass(kind, tuple) or hasattr(kind, "__dataclass_fields__")
        for kind in set(builtins.map(type, values))
    )


def is_inner(value: Any) -> bool:
    """Whether a value is an inner node, other than None."""
    if value is None:
        return False
    return _node_of(value) is not None or (isinstance(value, tuple) and hasattr(type(value), "_fields"))


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """A tree of this structure with these leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.kind is None:
        return next(leaves)
    children = [_unflatten(child, leaves) for child in structure.children]
    node = _registry.get(structure.kind) or _dataclasses.get(structure.kind)
    return structure.kind(*children) if node is None else node.unflatten(structure.data, children)


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of one tree, or of several with the same structure."""
    if not callable(function):
        raise ArgumentError(
            f"tree.map: a {type(function).__name__} is not a function", hint="Write sm.tree.map(f, tree)."
        )
    leaves, structure = flatten(tree)
    rows = [leaves]
    for other in others:
        more, other_structure = flatten(other)
        if not alike(other_structure, structure):
            one, two = (set(paths(each)) for each in (structure, other_structure))
            apart = sorted(one ^ two)[:3]
            where = f": only one has {', '.join(apart)}" if apart else ""
            raise ArgumentError(f"tree.map: the trees have different structures{where}")
        rows.append(more)
    return unflatten(structure, [function(*row) for row in zip(*rows, strict=True)])


def spread(prefix: Any, structure: Structure, name: str) -> list[Any]:
    """For each leaf of a structure, what a tree that ends earlier says about it: a value there counts for all below.

    None is a value. `name` is what messages call the prefix.
    """
    opened = None if prefix is None else _opened(prefix)
    if opened is None and structure.kind is type(prefix) and type(prefix) in _dataclasses:
        given, kept = _dataclasses[type(prefix)].flatten(prefix)  # it says something about tensors, and holds none
        opened = tuple(given), kept
    if opened is None:
        return [prefix] * leaf_count(structure)
    children, data = opened
    if (type(prefix), data, len(children)) != (structure.kind, structure.data, len(structure.children)):
        found = _described(type(prefix), data, len(children))
        expected = _described(structure.kind, structure.data, len(structure.children))
        raise ArgumentError(
            f"{name} has {found} where there is {expected}",
            rule="it must be nested in the same way, or end earlier with one value for everything below.",
        )
    parts = zip(children, structure.children, strict=True)
    return [value for child, below in parts for value in spread(child, below, name)]


def _described(kind: type | None, data: Any, count: int) -> str:
    """An inner node, or a leaf, in a message."""
    if kind is None:
        return "a leaf"
    return f"a {kind.__name__} of {', '.join(builtins.map(repr, data)) if kind is dict and data else count}"


def _opened(tree: Any) -> tuple[tuple[Any, ...], Hashable] | None:
    """The children of an inner node with its data; None for a leaf."""
    node = _node_of(tree)
    if node is not None:
        children, data = node.flatten(tree)
        return tuple(children), data
    return (tree, None) if isinstance(tree, tuple) and hasattr(type(tree), "_fields") else None


def leaf_count(structure: Structure) -> int:
    """How many leaves trees of a structure have."""
    return 1 if structure.kind is None else sum([leaf_count(child) for child in structure.children])


def paths(structure: Structure) -> list[str]:
    """For each leaf, how to get to it from the tree: `['w'][0]`, say."""
    if structure.kind is None:
        return [""]
    steps = [f"[{k}]" for k in range(len(structure.children))]
    node = _registry.get(structure.kind) or _dataclasses.get(structure.kind)
    if node is not None and node.names is not None:
        steps = node.names(structure.data)
    elif structure.kind in (dict, OrderedDict):
        steps = [f"[{key!r}]" for key in structure.data]  # type: ignore[attr-defined]
    elif node is None:
        steps = [f".{name}" for name in structure.kind._fields]  # type: ignore[attr-defined]
    return [step + rest for step, child in zip(steps, structure.children, strict=True) for rest in paths(child)]


def alike(a: Structure, b: Structure) -> bool:
    """Whether two trees have their leaves in the same places; what modules keep besides tensors, such as their mode or
    a count of calls, may differ.
    """
    return a is b or (a.kind is b.kind and paths(a) == paths(b))


def fixed(structure: Structure) -> list[bool]:
    """For each leaf, whether it counts as a constant where others are differentiated by."""
    if structure.kind is None:
        return [False]
    node = _registry.get(structure.kind)
    if node is not None and node.fixed is not None:
        return node.fixed(structure.data)
    return [flag for child in structure.children for flag in fixed(child)]


def holders(tree: Any) -> list[Any]:
    """The objects in a tree whose attributes calls may set; the same order for trees of the same structure."""
    try:
        return _holders(tree)
    except RecursionError:
        raise endless("a tree") from None


def _holders(tree: Any) -> list[Any]:
    node = _node_of(tree)
    if node is not None and node.holders is not None:
        return node.holders(tree)
    if type(tree) is dict:
        keys = sorted(tree, key=repr)  # which need not sort by themselves: a dictionary may be no tree
        return [holder for key in keys for holder in _holders(tree[key])]
    opened = _opened(tree)
    return [] if opened is None else [holder for child in opened[0] for holder in _holders(child)]


if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)
