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

VERSION: Final = "0.1.0"  # of smelt
TUNED: Final = ("on", "same-bits", "off")
CONTRACTS: Final = ("exact", "reassociates", "regroups", "fast")


def _own_folder(variable: str, below_home: str) -> str:
    """Where the user's programs keep such files; empty for a user without a home, whose home is not ours to make."""
    base = os.environ.get(variable, "")
    if not os.path.isabs(base):  # the standard says to ignore those
        home = os.path.expanduser("~")
        if not os.path.isabs(home) or not os.path.isdir(home):
            return ""
        base = os.path.join(home, below_home)
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
    data_dir: str | os.PathLike[str] = ""  # what is kept for good, as tuned choices are; empty: nothing
    tuned: str = "on"  # "same-bits": only choices that change no bit of a result; "off": none
    contracts: str = "exact"  # how far the cheapest of all equal programs may differ in floats; "off": as it is written


def _without_features() -> tuple[str, ...]:
    """What `SMELT_FEATURES=-amx,-avx512_bf16` takes away."""
    words = [word.strip() for word in os.environ.get("SMELT_FEATURES", "").split(",") if word.strip()]
    for word in words:
        if len(word) < 2 or word[0] != "-":
            raise ArgumentError(
                f"SMELT_FEATURES: {word!r:.80} takes nothing away", hint="Write SMELT_FEATURES=-amx,-avx512_bf16."
            )
    return tuple(word[1:] for word in words)


def _word(name: str, words: dict[str, str]) -> str:
    """What a variable says that is one of some words; the first if it is not set."""
    text = os.environ.get(name, "").strip() or next(iter(words))
    if text not in words:
        known = ", ".join(dict.fromkeys(words.values()))
        raise ArgumentError(f"{name}: {text!r:.80} is no setting", hint=f"Use one of: {known}.")
    return words[text]


_NAMES: Final = (
    *("CACHE_DIR", "CC", "CONTRACTS", "DATA_DIR", "DEBUG", "DEVICE", "DISK_CACHE", "FEATURES"),
    *("OPENCL", "SANITIZE", "THREADS", "TRACEBACK", "TUNED", "VERIFY"),
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
    return Settings(
        debug=_integer("SMELT_DEBUG", 0),
        cache_dir=os.environ.get("SMELT_CACHE_DIR") or _own_folder("XDG_CACHE_HOME", ".cache"),
        disk_cache=_integer("SMELT_DISK_CACHE", 1) != 0,
        threads=_integer("SMELT_THREADS", 0),
        compiler=os.environ.get("SMELT_CC", ""),
        verify=_integer("SMELT_VERIFY", 0) != 0,
        sanitize=_integer("SMELT_SANITIZE", 0) != 0,
        device=os.environ.get("SMELT_DEVICE", ""),
        without_features=_without_features(),
        traceback=os.environ.get("SMELT_TRACEBACK") or "short",
        data_dir=os.environ.get("SMELT_DATA_DIR") or _own_folder("XDG_DATA_HOME", ".local/share"),
        tuned=_word("SMELT_TUNED", {word: word for word in TUNED} | {"1": "on", "0": "off"}),
        contracts=_word("SMELT_CONTRACTS", {word: word for word in CONTRACTS} | {"off": "off"}),
    )


_settings = _from_environment()


def settings() -> Settings:
    """The settings in force."""
    return _settings


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    for name, value in changes.items():
        if name not in Settings._fields:
            import difflib

            near = difflib.get_close_matches(name, Settings._fields, 1)
            raise ArgumentError(f"configure: there is no setting {name!r:.80}", hint=f"Use {near[0]}." if near else "")
        words = {"contracts": (*CONTRACTS, "off"), "tuned": TUNED}.get(name)
        if words and value not in words:
            raise ArgumentError(f"configure: {name}={value!r:.80}", hint=f"Use one of: {', '.join(words)}.")
    return changes


def change(**changes: Any) -> None:
    """Change settings for good."""
    global _settings
    _settings = _settings._replace(**_checked(changes))


@contextlib.contextmanager
def configure(**changes: Any) -> Iterator[Settings]:
    """Change settings inside a `with` block: `with sm.configure(contracts="regroups"): ...`.

    `contracts` says how far programs may differ from what is written, for what is compiled in the block; `tuned`
    whether choices that were measured are used; `verify` checks every stage; `debug` prints what is compiled.
    """
    global _settings
    before = _settings
    _settings = before._replace(**_checked(changes))
    try:
        yield _settings
    finally:
        _settings = before
