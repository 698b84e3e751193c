"""API keys: who may ask, and whose each request is.

Each key is a tenant, with a name. Keys stand in no message, and of those in use only digests are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Final

from smelt.errors import ArgumentError

VARIABLE: Final = "SMELT_API_KEY"
_MOST_BYTES: Final = 1 << 20  # of a file


class Tenants:
    """Names, by the keys that requests bring."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = {name: _digest(key.encode()) for name, key in keys.items()}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def name(self, key: bytes) -> str | None:
        """Whose key this is; how long it takes does not depend on what is in it, or which it is."""
        digest = _digest(key)
        found = [name for name, known in self._digests.items() if hmac.compare_digest(digest, known)]
        return found[0] if found else None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def gathered(given: Sequence[str], path: str | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Keys by name: the variable's, those of the command line, and those of a file of names and keys."""
    # These names have spaces, and those of the file have none.
    pairs = [(f"--api-key {number}", key) for number, key in enumerate(given, 1)]
    pairs += [(f"the variable {VARIABLE}", environment[VARIABLE])] if environment.get(VARIABLE) else []
    pairs += _read(path) if path is not None else []
    keys: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, key in pairs:
        if not key or not key.isprintable() or key != key.strip():
            raise ArgumentError(
                f"the key of {name} cannot be sent", rule="a key has characters that can be printed, no space around."
            )
        if name in keys:
            raise ArgumentError(f"{name} has two keys", rule="a name has one.")
        if key in names:
            raise ArgumentError(f"{names[key]} and {name} have the same key", rule="a key says whose a request is.")
        keys[name], names[key] = key, name
    return keys


def _read(path: str) -> list[tuple[str, str]]:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ArgumentError(f"the keys in {path} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ArgumentError(f"{path} is too large", rule=f"a file of keys has at most {_MOST_BYTES} bytes.")
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:  # which would show a part of the file
        raise ArgumentError(f"the keys in {path} are not UTF-8") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ArgumentError(
                f"line {number} of {path} has {len(words)} words", rule="a line is a name and a key, or a # and more."
            )
        pairs.append((words[0], words[1]))
    if not pairs:  # who asks for keys does not want a server without
        raise ArgumentError(f"{path} has no keys", rule="it has a line for each: a name and a key.")
    return pairs
