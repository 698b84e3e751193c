"""JSON of files that nobody vouches for."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

_HALF_CHARACTERS: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def json_object(text: bytes) -> dict[str, Any]:
    """The object that a text in UTF-8 is. A `ValueError` says what is wrong: other things than objects, names that
    stand there twice, NaN and the infinities, half characters, endless nesting or digits.
    """
    try:
        parsed = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        if _HALF_CHARACTERS.search(text):  # escapes can make them, and nothing could write them again
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(parsed, dict):
        raise ValueError("it is no object")
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
