"""Everything that a process remembers while it computes, in one object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from smelt.device import HOST
from smelt.device.cpu import CPU
from smelt.locks import Remembered, new_lock

# The compiler is loaded when something is first computed: `import smelt` stays instant.
if TYPE_CHECKING:
    from smelt.compiler import Choices, CompiledGraph, Compiler, GraphKey
    from smelt.device import Device
    from smelt.errors import Location
    from smelt.runtime.storage import Signature

GRAPH_LIMIT: Final = 1024  # compiled graphs kept in memory
_WORD: Final = 0xFFFFFFFF
GOLDEN: Final = 0x9E3779B9  # 2**32 divided by the golden ratio: multiples of it lie far apart


class RandomState:
    """The global random sequence: a key of two words, and a counter of draws."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Start the sequence anew."""
        self.set((seed, seed >> 32, 0))

    def get(self) -> tuple[int, int, int]:
        """Where the sequence is: two words of the key, and the number of draws."""
        with self._lock:
            return self._state

    def set(self, state: tuple[int, int, int]) -> None:
        """Go on from a state that `get` gave."""
        with self._lock:
            self._state = (state[0] & _WORD, state[1] & _WORD, state[2] & _WORD)

    def advance(self, draws: int) -> tuple[int, int, int]:
        """The state before `draws` further draws, which are thereby used up. Past 2**32 draws a new key begins."""
        with self._lock:
            first, second, drawn = self._state
            if drawn + draws > _WORD:
                second, drawn = second ^ GOLDEN, 0
            self._state = (first, second, drawn + draws)
            return first, second, drawn


class Runtime:
    """What a process has opened, compiled and drawn. Memory and loaded libraries belong to the devices."""

    def __init__(self, choices: Choices | None = None) -> None:
        self.devices: dict[str, Device] = {HOST: CPU()}  # those that have been used, by name
        self.graphs: Remembered[tuple[str, GraphKey], CompiledGraph] = Remembered(GRAPH_LIMIT)  # by device and key
        self.random = RandomState()
        self.signatures: dict[tuple[Any, ...], Signature] = {}
        # What lines of the user's have asked for: the first program that was not there, and programs that differ in
        # sizes only, by what they have in common.
        self.asked: dict[Location, int] = {}
        self.sizes: dict[tuple[Location, int], dict[tuple[Any, ...], None]] = {}
        self._choices, self._lock = choices, new_lock()
        self._compiler: Compiler | None = None

    @property
    def compiler(self) -> Compiler:
        """What compiles graphs, and remembers kernels."""
        if self._compiler is None:
            from smelt.compiler import Compiler
            from smelt.search import Tuned

            with self._lock:
                self._compiler = self._compiler or Compiler(self._choices or Tuned())
        return self._compiler

    def clear_caches(self) -> None:
        """Forget compiled graphs and kernels. Those on disk stay, as do those that somebody holds."""
        self.graphs.clear()
        if self._compiler is not None:
            self._compiler.kernels.clear()
        self.asked.clear()
        self.sizes.clear()

    def __repr__(self) -> str:
        kernels = 0 if self._compiler is None else len(self._compiler.kernels)
        return f"Runtime({len(self.graphs)} graphs, {kernels} kernels, devices: {', '.join(self.devices)})"


_current = Runtime()


def current() -> Runtime:
    """The runtime of this process."""
    return _current


@contextmanager
def using(runtime: Runtime) -> Iterator[Runtime]:
    """Let another runtime take the place of the process's inside the block, for all threads."""
    global _current
    before, _current = _current, runtime
    try:
        yield runtime
    finally:
        _current = before
