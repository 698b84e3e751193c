"""What the bytecode of a function reads from outside: names of its globals, closure and arguments, each with the
attributes that are asked for right away.

`self.model.head(x)` reads the argument `self` with the attributes `model`, `head`; `m = self.model` makes `m` another
name for that. In `self.count += 1` the attribute is marked: `count+=`. Attributes of anything else, such as the result
of a call, are loose: only their names are known. So are those that `getattr` may ask for, or all if that is not known.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Place = Literal["global", "inner", "module"]


class Read(NamedTuple):
    """A name, and the attributes that follow it: a global's, a module's that is imported inside, or one of the function
    itself: an argument's or its closure's.
    """

    place: Place
    name: str
    attributes: tuple[str, ...] = ()


class Reads(NamedTuple):
    """Everything that a function and the functions written inside it read, the names of loose attributes, and of those
    that are set; of these, the ones that are set to something else than a sum with what they were.
    """

    reads: frozenset[Read]
    loose: frozenset[str]
    stored: frozenset[str]
    assigned: frozenset[str]


CHANGED: Final = "+="
EVERY: Final = "*"  # among loose names: an object's attributes are taken as a dictionary

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_ASKING: Final = frozenset({"getattr", "hasattr"})
_NO_ATTRIBUTE: Final = frozenset({"EXTENDED_ARG", "CACHE", "NOP"})  # nothing happens there


@functools.lru_cache(maxsize=4096)
def reads_of(code: types.CodeType) -> Reads:
    """What a function's code reads; names that the function itself binds stand for what they were bound to."""
    reads, loose = set[Read](), set[str]()
    bound: dict[str, set[Read]] = {}
    for number, inner in enumerate(_codes(code)):
        _scan(inner, f".{number}" if number else "", reads, loose, bound)
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    outside = {*code.co_freevars, *arguments}
    found = set[Read]()
    for read in reads:
        if read.place != "inner" or read.name in outside:
            found.add(read)
        origins = [] if read.place != "inner" else list(_origins(read.name, bound, set()))
        found.update(origin._replace(attributes=origin.attributes + read.attributes) for origin in origins)
        if read.attributes and read.place == "inner" and read.name not in outside and not origins:
            loose.add(read.attributes[0])
    stored = {found for inner in _codes(code) for found in _stored(inner)}
    if any(read.place == "global" and read.name == "vars" for read in reads) or "__dict__" in _names(code):
        loose.add(EVERY)
    if any(read.place == "global" and read.name in _ASKING for read in reads):
        loose |= {text for inner in _codes(code) for text in inner.co_consts if isinstance(text, str)}
        loose |= {EVERY for inner in _codes(code) if _asks_for_any(inner)}
    outer = frozenset(read for read in found if read.place != "inner" or read.name in outside)
    assigned = frozenset(name for name, is_sum in stored if not is_sum)
    return Reads(outer, frozenset(loose), frozenset(name for name, _ in stored), assigned)


def _stored(code: types.CodeType) -> Iterator[tuple[str, bool]]:
    """Attributes that are set, and whether to their sum with something."""
    before: list[str] = []
    for one in dis.get_instructions(code):
        if one.opname == "STORE_ATTR":
            yield one.argval, any(sign in before[-2:] for sign in ("+=", "-="))
        if one.opname not in _NO_ATTRIBUTE:
            before.append(one.argrepr)


def _asks_for_any(code: types.CodeType) -> bool:
    """Whether some `getattr` asks for an attribute whose name is no text in the code: anything but loads before the
    call may be part of a name that is computed.
    """
    loaded: list[object] | None = None  # what stands between a `getattr` and its call
    for one in dis.get_instructions(code):
        if one.opname in _GLOBAL and one.argval in _ASKING:
            if loaded is not None:
                return True
            loaded = []
        elif loaded is None or one.opname in _NO_ATTRIBUTE or one.opname in ("PRECALL", "PUSH_NULL", "LOAD_ATTR"):
            continue
        elif one.opname == "CALL":
            if len(loaded) not in (2, 3) or not isinstance(loaded[1], str):
                return True
            loaded = None
        elif one.opname == "LOAD_CONST":
            loaded.append(one.argval)
        elif one.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME")):
            loaded += [None] * (len(one.argval) if isinstance(one.argval, tuple) else 1)
        else:
            return True
    return loaded is not None


def _names(code: types.CodeType) -> set[str]:
    return {name for inner in _codes(code) for name in inner.co_names}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _origins(name: str, bound: dict[str, set[Read]], seen: set[str]) -> Iterator[Read]:
    """What a name was bound to, through other names."""
    if name in seen:
        return
    for read in bound.get(name, ()):
        yield read
        if read.place == "inner":
            for origin in _origins(read.name, bound, {*seen, name}):
                yield origin._replace(attributes=origin.attributes + read.attributes)


def _scan(code: types.CodeType, suffix: str, reads: set[Read], loose: set[str], bound: dict[str, set[Read]]) -> None:
    """Collect the reads of one code object; `bound` says which names stand for which reads. Names of an inner function
    itself get the suffix, so that they are not taken for equal ones around it.
    """

    def local(name: str) -> Read:
        return Read("inner", name if name in code.co_freevars else name + suffix)

    current: Read | None = None
    copied: Read | None = None  # an object whose attribute is changed in place
    augmented: Read | None = None  # that attribute
    module: Read | None = None  # that names are imported from
    level, names_wanted = None, None  # of an import: what was loaded before it
    for instruction in dis.get_instructions(code):
        operation, value = instruction.opname, instruction.argval
        if operation in _NO_ATTRIBUTE:
            continue
        if operation in _ATTRIBUTE:
            if current is not None:
                current = current._replace(attributes=(*current.attributes, value))
            elif copied is not None:
                augmented, copied = copied._replace(attributes=(*copied.attributes, value)), None
            else:
                loose.add(value)
            continue
        if augmented is not None and operation == "BINARY_OP" and instruction.argrepr.endswith("="):
            # Whoever adds to a number asks for nothing but the sum.
            mark = CHANGED if instruction.argrepr in ("+=", "-=") else ""
            reads.add(augmented._replace(attributes=(*augmented.attributes[:-1], augmented.attributes[-1] + mark)))
            augmented = None
        copied = current if operation == "COPY" else None
        names = value if isinstance(value, tuple) else (value,)
        if operation.startswith(("STORE_FAST", "STORE_DEREF")) and current is not None:
            bound.setdefault(local(names[0]).name, set()).add(current)
        if current is not None:
            reads.add(current)
            current = None
        if operation in _GLOBAL:
            current = Read("global", value)
        elif operation == "IMPORT_NAME":
            name = value if names_wanted else value.partition(".")[0]
            current = module = Read("module", name) if level == 0 else None
        elif operation == "IMPORT_FROM" and module is not None:
            current = module._replace(attributes=(value,))
        elif operation.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT", "STORE_FAST_LOAD")):
            loaded = names[1:] if operation.startswith("STORE") else names
            reads.update(map(local, loaded[:-1]))
            current = local(loaded[-1])
        level, names_wanted = names_wanted, value
