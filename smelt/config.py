"""Settings, read once from the environment and changeable for a while with `configure(...)`.

The settings belong to the process; `configure` is meant for tests and tools, not for use from several threads at once.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from smelt.errors import ArgumentError


def _default_cache() -> str:
    """The user's cache directory; empty for a user without a home, whose home is not ours to make."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the standard says to ignore those
        home = os.path.expanduser("~")
        if not os.path.isabs(home) or not os.path.isdir(home):
            return ""
        base = os.path.join(home, ".cache")
    return os.path.join(base, "smelt")


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if text and not (text.isdecimal() and text.isascii()):
        raise ArgumentError(f"{name}: {text!r:.80} is not a number", rule="it is 0 or more.")
    return int(text) if text else default


class Settings(NamedTuple):
    """debug: 0 silent, 1 a line per compiled graph, 2 kernels and fusion, 3 kernel IR, 4 source text."""

    debug: int = 0
    cache_dir: str | os.PathLike[str] = ""  # empty: none. A string, since importing pathlib takes its time
    disk_cache: bool = True
    threads: int = 0  # 0: as many as the process may use
    compiler: str = ""  # empty: the first that is found
    verify: bool = False  # run every verifier after every pass
    node_limit: int = 50_000  # an unrealized graph larger than this realizes itself
    sanitize: bool = False  # kernels check their accesses; the process must be started with the sanitizers' libraries
    disabled_rules: frozenset[str] = frozenset()  # rewrite rule families switched off
    device: str = ""  # where tensors are made unless said otherwise; empty: on the processor
    without_features: tuple[str, ...] = ()  # beginnings of names of instruction sets that are not used
    traceback: str = "short"  # "full": tracebacks of uncaught errors show smelt's own frames, too


def _without_features() -> tuple[str, ...]:
    """What `SMELT_FEATURES=-amx,-avx512_bf16` takes away."""
    words = [word.strip() for word in os.environ.get("SMELT_FEATURES", "").split(",") if word.strip()]
    for word in words:
        if len(word) < 2 or word[0] != "-":
            raise ArgumentError(
                f"SMELT_FEATURES: {word!r:.80} takes nothing away", hint="Write SMELT_FEATURES=-amx,-avx512_bf16."
            )
    return tuple(word[1:] for word in words)


_NAMES: Final = (
    *("CACHE_DIR", "CC", "DEBUG", "DEVICE", "DISK_CACHE", "FEATURES"),
    *("OPENCL", "SANITIZE", "THREADS", "TRACEBACK", "VERIFY"),
)


def _warn_of_misspelt() -> None:
    """Warn of variables that nobody reads and whose names are close to others'. Those of the tests are read there."""
    words = [name.removeprefix("SMELT_") for name in os.environ if name.startswith("SMELT_")]
    for word in words:
        if word not in _NAMES and not word.startswith("TEST_"):
            import difflib

            for meant in difflib.get_close_matches(word, _NAMES, 1):
                warnings.warn(f"SMELT_{word} means nothing to smelt; SMELT_{meant} does.", stacklevel=2)


def _from_environment() -> Settings:
    _warn_of_misspelt()
    cache = os.environ.get("SMELT_CACHE_DIR")
    return Settings(
        debug=_integer("SMELT_DEBUG", 0),
        cache_dir=cache or _default_cache(),
        disk_cache=_integer("SMELT_DISK_CACHE", 1) != 0,
        threads=_integer("SMELT_THREADS", 0),
        compiler=os.environ.get("SMELT_CC", ""),
        verify=_integer("SMELT_VERIFY", 0) != 0,
        sanitize=_integer("SMELT_SANITIZE", 0) != 0,
        device=os.environ.get("SMELT_DEVICE", ""),
        without_features=_without_features(),
        traceback=os.environ.get("SMELT_TRACEBACK") or "short",
    )


_settings = _from_environment()


def settings() -> Settings:
    """The settings in force."""
    return _settings


def change(**changes: Any) -> None:
    """Change settings for good."""
    global _settings
    _settings = _settings._replace(**changes)


@contextlib.contextmanager
def configure(**changes: Any) -> Iterator[Settings]:
    """Change settings inside a `with` block: `with configure(threads=1): ...`."""
    global _settings
    before = _settings
    _settings = before._replace(**changes)
    try:
        yield _settings
    finally:
        _settings = before
