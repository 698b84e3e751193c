"""Writes `reference/array-api.md` from the tables of `tests/arrayapi`: `python docs/generate_array_api.py`.

A test compares them.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import smelt as sm  # noqa: E402
from smelt.errors import SmeltError  # noqa: E402
from tests.arrayapi import calls, standard  # noqa: E402
from tests.arrayapi.state import DEVIATIONS, MISSING  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "array-api.md"

HEAD = f"""# The array API

`smelt` follows the [Python array API standard](https://data-apis.org/array-api/{standard.VERSION}/), version
{standard.VERSION}: names, signatures, promotion of dtypes and special cases. A program that takes its functions from
`x.__array_namespace__()` runs on NumPy arrays and on tensors alike:

```python
import numpy as np
import smelt as sm

def standardized(x):
    xp = x.__array_namespace__()
    spread = xp.std(x, axis=0, correction=1)
    return (x - xp.mean(x, axis=0)) / xp.maximum(spread, xp.finfo(x.dtype).eps)

data = np.random.default_rng(0).normal(size=(100, 3))
ours = standardized(sm.asarray(data))                 # lazy, and compiled as one graph when it is read
assert np.allclose(ours.numpy(), standardized(data))

info = sm.__array_namespace_info__()                  # what this namespace can do
assert info.default_device() == "cpu" and info.default_dtypes()["real floating"] is sm.float32
assert sm.from_dlpack(np.arange(3)).dtype is sm.int64 # DLPack both ways, with its versions
```

Tensors never change, so `x += 1` binds the name to a new tensor, and arguments `copy=` decide only whether memory is
shared with other libraries. `sm.asarray` copies their memory unless `copy=False` says that it will stay as it is;
`sm.from_dlpack` and `sm.from_numpy` share it. By DLPack a tensor hands out a copy, since others write in place; a
consumer that asks with `copy=False` gets the tensor's own memory, marked read-only. bfloat16 travels as well.

What follows is written by `python docs/generate_array_api.py` from the tables that the tests of conformance use.
"""


def missing() -> list[str]:
    """What the standard has and smelt does not, by reason."""
    if not MISSING:
        return ["", "No function, dtype, attribute or method of the standard is missing."]
    lines = ["", "## Missing", "", "| reason | names |", "|---|---|"]
    for reason in dict.fromkeys(MISSING.values()):
        names = ", ".join(f"`{name}`" for name, why in MISSING.items() if why == reason)
        lines.append(f"| {reason} | {names} |")
    return lines


def different() -> list[str]:
    """What smelt does otherwise."""
    lines = ["", "## Different", ""]
    return lines + [f"- {deviation.what}: {deviation.reason}." for deviation in DEVIATIONS]


def extensions(function: standard.Function) -> list[str]:
    """The kinds of dtypes that a function takes although the standard does not ask for it, found by trying."""
    if not function.dtypes or function.name in calls.without_calls():
        return []
    found = []
    for kind in ("bool", "signed", "unsigned", "float"):
        dtype = standard.DTYPES[kind][0]
        if dtype in function.dtypes:
            continue
        sample = calls.calls(function, dtype)[0]
        arguments = [calls.tensors(argument) for argument in sample.args]
        try:
            getattr(sm, function.name)(*arguments, **{k: calls.tensors(v) for k, v in sample.kwargs.items()})
        except SmeltError:
            continue
        found.append(kind)
    return found


WORDS = {"bool": "bools", "signed": "integers", "unsigned": "", "float": "floats"}


def functions() -> list[str]:
    """Every function of the standard that is there, by category, and what it takes beyond it."""
    lines = [
        "",
        "## Functions",
        "",
        "In each row, what smelt takes beyond the standard.",
        "",
        "| category | functions |",
    ]
    lines.append("|---|---|")
    for category in standard.TABLES:
        entries = []
        for function in standard.FUNCTIONS.values():
            if function.category != category or function.name in MISSING:
                continue
            more = " and ".join(WORDS[kind] for kind in extensions(function) if WORDS[kind])
            entries.append(f"`{function.name}`" + (f" ({more})" if more else ""))
        if entries:
            lines.append(f"| {category} | {', '.join(entries)} |")
    for extension, rows in standard.EXTENSION_FUNCTIONS.items():
        if extension not in MISSING:
            lines.append(f"| extension `{extension}` | {', '.join(f'`{row.name}`' for row in rows)} |")
    return lines


def more() -> list[str]:
    """What is there beside the standard."""
    named = {name for kind in standard.DTYPES.values() for name in kind}
    extra = [name for name in sm.__all__ if isinstance(getattr(sm, name), sm.DType) and name not in named]
    return [
        "",
        "## Beyond the standard",
        "",
        f"- The dtypes {', '.join(f'`{name}`' for name in extra)}; they belong to the standard's kinds.",
        "- Integers that meet floats take the float's dtype, bools that meet numbers the number's.",
        "- Functions of real numbers give float32 for integers and bools.",
        "- `bool(x)`, `int(x)`, `float(x)` and `complex(x)` take a single element of any rank.",
        "- Sizes and axes may be given one by one: `zeros(2, 3)`, `x.reshape(2, -1)`, `x.permute_dims(1, 0)`.",
        "- PyTorch's names for arguments: `dim=` for `axis=`, `keepdim=` for `keepdims=`.",
    ]


def page() -> str:
    """The text of the page."""
    return HEAD + "\n".join([*missing(), *different(), *functions(), *more()]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
