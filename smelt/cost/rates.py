"""How fast a machine is: the figures that turn counted work into time.

`assumed` derives careful ones from a profile. `known` gives those that were measured here (`smelt doctor --measure`),
which are kept in the disk cache by the processor, or else the assumed ones. Choices are always made by the assumed
ones, so that kernels do not depend on whether somebody has measured; what people are told is by the known ones.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Final, NamedTuple

from smelt.cost.profile import Profile


class Rates(NamedTuple):
    """Figures of one core in float32, per nanosecond, unless it says otherwise. Bytes of a copy are those read and
    those written.
    """

    multiply_add: float  # operations, two for each product
    words: float  # operations of bfloat16, by instructions on words or on tiles of them; 0 where there are none
    divide: float  # elements
    function: float  # elements of exp, as kernels compute it
    second: float  # bytes read from the second-level cache
    third: float
    memory: float
    memory_all: float  # bytes read by all cores together
    copy: float  # bytes, from memory to memory
    copy_all: float
    launch: float  # nanoseconds until a kernel runs
    wake: float  # nanoseconds until another thread takes part


_KIND: Final = "rates"  # in the disk cache
_HERTZ: Final = 2.5  # cycles per nanosecond
_UNITS: Final = 2  # vector instructions that begin in a cycle
_MEMORY: Final = 10.0  # bytes per nanosecond that one core gets from memory
_CHANNELS: Final = 4  # cores that together take all that memory gives
_WORDS: Final = {"amx_tile": 8.0, "avx512_bf16": 2.0, "avx512_vnni": 2.0}  # how much faster than multiply-adds
_RANGE: Final = (1e-6, 1e9)  # beyond which a figure is not believed


@functools.lru_cache(maxsize=32)
def assumed(profile: Profile) -> Rates:
    """What a processor like this does at least, without having measured."""
    lanes = max(1, profile.vector_bytes // 4)
    vectors = _UNITS * _HERTZ  # per nanosecond
    peak = 2 * lanes * vectors
    shared = _MEMORY * min(profile.cores, _CHANNELS)
    return Rates(
        multiply_add=peak,
        words=peak * next((times for feature, times in _WORDS.items() if feature in profile.features), 0),
        divide=lanes * _HERTZ / 8,
        function=lanes * _HERTZ / 14,
        second=max(4, profile.vector_bytes) * _HERTZ / 2 + 10,
        third=15.0,
        memory=_MEMORY,
        memory_all=shared,
        copy=_MEMORY,
        copy_all=shared,
        launch=300.0,
        wake=5_000.0,
    )


def known(profile: Profile) -> Rates:
    """What was measured on this processor, else what is assumed of it."""
    return stored(profile) or assumed(profile)


def stored(profile: Profile) -> Rates | None:
    """What was measured on this processor."""
    from smelt.diskcache import disk_cache

    cache = disk_cache()
    data = None if cache is None else cache.load_bytes(_KIND, _key(profile))
    return None if data is None else _checked(data)


def remember(profile: Profile, rates: Rates) -> bool:
    """Keep what was measured; whether there is a cache to keep it in."""
    from smelt.diskcache import disk_cache

    cache = disk_cache()
    if cache is not None:
        cache.store_bytes(_KIND, _key(profile), json.dumps(rates._asdict()).encode())
    return cache is not None


def _key(profile: Profile) -> str:
    """A name for a kind of processor, with as much of it as this process may use."""
    facts = profile._replace(features=frozenset())
    text = repr((1, Rates._fields, tuple(facts), sorted(profile.features)))
    return hashlib.sha256(text.encode()).hexdigest()


def _checked(data: bytes) -> Rates | None:
    """What was stored, if it is figures that a machine can have."""
    try:
        found = Rates(**json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return None
    if not all(type(value) in (int, float) for value in found):
        return None
    least, most = _RANGE
    believed = all(least <= value <= most for value in found._replace(words=found.words or least))
    return Rates(*map(float, found)) if believed else None
