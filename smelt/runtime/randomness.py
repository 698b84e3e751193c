"""The global random state: a key and a counter of draws, advanced the same way with and without `jit`."""

from __future__ import annotations

from smelt.dtypes import uint32
from smelt.graph import build
from smelt.graph.node import Node
from smelt.locks import new_lock
from smelt.runtime.storage import host_leaf
from smelt.runtime.tracing import Trace, batched_elements, current_trace

_WORD = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9  # 2**32 divided by the golden ratio: multiples of it lie far apart
_ODD = 0x85EBCA6B


class _State:
    def __init__(self) -> None:
        self.lock = new_lock()
        self.seed(0)

    def seed(self, seed: int) -> None:
        self.key = (seed & _WORD, seed >> 32 & _WORD)
        self.draw = 0

    def advance(self, draws: int) -> tuple[int, int, int]:
        """The state before `draws` further draws. Past 2**32 draws a new key begins."""
        with self.lock:
            if self.draw + draws > _WORD:
                self.key, self.draw = (self.key[0], self.key[1] ^ _GOLDEN), 0
            before = (*self.key, self.draw)
            self.draw += draws
            return before


_state = _State()


def seed_random(seed: int) -> None:
    """Start the global sequence anew."""
    with _state.lock:
        _state.seed(seed)


def random_state() -> tuple[int, int, int]:
    """Where the global sequence is: two words of the key, and the number of draws."""
    with _state.lock:
        return (*_state.key, _state.draw)


def set_random_state(state: tuple[int, int, int]) -> None:
    """Go on from a state that `random_state` gave."""
    with _state.lock:
        _state.key, _state.draw = (state[0] & _WORD, state[1] & _WORD), state[2] & _WORD


def advance_random(draws: int) -> tuple[int, int, int]:
    """Key and draw number for the next `draws` draws, which are thereby used up."""
    return _state.advance(draws)


def take_random(draws: int = 1) -> tuple[Node, int]:
    """A uint32[3] leaf (key, key, draw) and what to add to `draw`, for `draws` draws in a row. Each element of a batch
    has keys of its own.
    """
    state, first = draw_random(current_trace(), draws)
    for element in batched_elements():
        second = build.eq(build.iota(3, uint32), build.const(1, uint32, (3,)))
        step = build.mul(build.add(element, build.const(1, uint32)), build.const(_GOLDEN, uint32))
        spread = build.expand(build.reshape(step, (1,)), (3,))
        # A product, too, so that elements of batches in batches differ from their neighbors diagonally.
        state = build.where(second, build.add(build.mul(state, build.const(_ODD, uint32, (3,))), spread), state)
    return state, first


def draw_random(trace: Trace | None, draws: int) -> tuple[Node, int]:
    """The same inside a trace, or outside of all."""
    if trace is not None:
        return trace.take_random(draws)
    return host_leaf(_state.advance(draws), uint32), 0
