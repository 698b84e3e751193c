"""How the pretty forms name attributes, in both directions: `dims = [1, 0]` of a transpose is its `permutation`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smelt.formats.mlir.tree import Array, Attribute, Coded, Opaque, Typed

if TYPE_CHECKING:
    from smelt.formats.mlir.cursor import Cursor

I64: Final = Opaque("i64")
I32: Final = Opaque("i32")
_FORMAT: Final = re.compile(r"e([0-9]{1,4})m([0-9]{1,4})")


class Key(NamedTuple):
    """One name of a pretty form: `read` gives the attributes that it stands for, `show` what stands behind the `=`,
    or None where that cannot be written so.
    """

    name: str
    read: Callable[[Cursor], dict[str, Attribute]]
    show: Callable[[dict[str, Attribute]], str | None]
    covers: tuple[str, ...]  # the attributes that it stands for
    optional: bool = False


def _listed(values: tuple[Any, ...]) -> str:
    return f"[{', '.join(map(str, values))}]"


def numbers(name: str, generic: str, optional: bool = False) -> Key:
    """`name = [1, 2]`, an array of int64."""

    def show(attributes: dict[str, Attribute]) -> str | None:
        value = attributes[generic]
        return _listed(value.values) if isinstance(value, Array) and value.element == "i64" else None

    return Key(name, lambda c: {generic: Array("i64", c.integers())}, show, (generic,), optional)


def number(name: str, generic: str) -> Key:
    """`name = 1`, an int64."""

    def show(attributes: dict[str, Attribute]) -> str | None:
        value = attributes[generic]
        return str(value.value) if isinstance(value, Typed) and value.type == I64 else None

    return Key(name, lambda c: {generic: Typed(c.integer(), I64)}, show, (generic,))


def choice(name: str, generic: str, kind: str) -> Key:
    """`name = WORD`, one of an enumeration of the dialect."""

    def show(attributes: dict[str, Attribute]) -> str | None:
        return enumerated_word(attributes[generic], kind)

    return Key(name, lambda c: {generic: enumerated(kind, c.word())}, show, (generic,))


def enumerated(kind: str, word: str) -> Coded:
    """`#stablehlo<kind WORD>`."""
    return Coded("#stablehlo", (), (kind, word))


def enumerated_word(value: Attribute, kind: str) -> str | None:
    """The word of `#stablehlo<kind WORD>`."""
    fits = isinstance(value, Coded) and len(value.words) == 2 and value.words[0] == kind
    return value.words[1] if fits else None


def _truth(name: str) -> Key:
    return Key(
        name,
        lambda c: {name: c.attribute() is True},
        lambda attributes: str(attributes[name]).lower() if isinstance(attributes[name], bool) else None,
        (name,),
    )


def _read_format(c: Cursor) -> dict[str, Attribute]:
    match = _FORMAT.fullmatch(c.word("a format such as e8m7"))
    if match is None:
        c.fail("a format is written as in e8m7", at=c.at - 1)
    return {"exponent_bits": Typed(int(match[1]), I32), "mantissa_bits": Typed(int(match[2]), I32)}


def _show_format(attributes: dict[str, Attribute]) -> str | None:
    exponent, mantissa = attributes["exponent_bits"], attributes["mantissa_bits"]
    if not (isinstance(exponent, Typed) and isinstance(mantissa, Typed) and exponent.type == mantissa.type == I32):
        return None
    return f"e{exponent.value}m{mantissa.value}"


def _read_precision(c: Cursor) -> dict[str, Attribute]:
    c.need("[")
    words = [] if c.next == "]" else [c.word()]
    while c.has(","):
        words.append(c.word())
    c.need("]")
    return {"precision_config": tuple(enumerated("precision", word) for word in words)}


def _show_precision(attributes: dict[str, Attribute]) -> str | None:
    value = attributes["precision_config"]
    words = [enumerated_word(each, "precision") for each in value] if isinstance(value, tuple) else [None]
    return None if None in words else _listed(tuple(words))


PRECISION: Final = Key("precision", _read_precision, _show_precision, ("precision_config",), optional=True)

_LETTERS: Final = re.compile(r"[A-Za-z,> -]*")


def _show_equation(attributes: dict[str, Attribute]) -> str | None:
    value = attributes["einsum_config"]
    return f'"{value}"' if isinstance(value, str) and _LETTERS.fullmatch(value) else None


_EQUATION: Final = Key("config", lambda c: {"einsum_config": c.string()}, _show_equation, ("einsum_config",))

# The names that stand behind the operands, in this order.
KEYS: Final[dict[str, tuple[Key, ...]]] = {
    "stablehlo.transpose": (numbers("dims", "permutation"),),
    "stablehlo.broadcast_in_dim": (numbers("dims", "broadcast_dimensions"),),
    "stablehlo.dynamic_broadcast_in_dim": (numbers("dims", "broadcast_dimensions"),),
    "stablehlo.broadcast": (numbers("sizes", "broadcast_sizes"),),
    "stablehlo.reverse": (numbers("dims", "dimensions"),),
    "stablehlo.iota": (number("dim", "iota_dimension"),),
    "stablehlo.dynamic_iota": (number("dim", "iota_dimension"),),
    "stablehlo.concatenate": (number("dim", "dimension"),),
    "stablehlo.get_dimension_size": (number("dim", "dimension"),),
    "stablehlo.set_dimension_size": (number("dim", "dimension"),),
    "stablehlo.dynamic_slice": (numbers("sizes", "slice_sizes"),),
    "stablehlo.pad": (
        numbers("low", "edge_padding_low"),
        numbers("high", "edge_padding_high"),
        numbers("interior", "interior_padding"),
    ),
    "stablehlo.reduce_precision": (Key("format", _read_format, _show_format, ("exponent_bits", "mantissa_bits")),),
    "stablehlo.dot": (PRECISION,),
    "stablehlo.einsum": (_EQUATION,),
    "stablehlo.unary_einsum": (_EQUATION,),
    "stablehlo.fft": (choice("type", "fft_type", "fft_type"), numbers("length", "fft_length")),
    "stablehlo.rng": (choice("distribution", "rng_distribution", "rng_distribution"),),
    "stablehlo.rng_bit_generator": (choice("algorithm", "rng_algorithm", "rng_algorithm"),),
    "stablehlo.cholesky": (_truth("lower"),),
}
