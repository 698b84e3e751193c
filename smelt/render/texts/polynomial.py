"""Polynomials in templates: `POLY_NAME(x)` becomes Horner's scheme in x with the coefficients of a table."""

from __future__ import annotations

import re

_CALL = re.compile(r"POLY_(\w+)\((\w+)\)")


def with_polynomials(text: str, tables: dict[str, str], suffix: str) -> str:
    """Spell out the polynomials; a table lists hexadecimal coefficients from the constant term up."""

    def horner(match: re.Match[str]) -> str:
        *lower, highest = [f"{c}{suffix}" for c in tables[match[1]].split(", ")]
        x, nested = match[2], highest
        for coefficient in reversed(lower):
            nested = f"({nested}) * {x} + {coefficient}"
        return f"({nested})"

    return _CALL.sub(horner, text)
