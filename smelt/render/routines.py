"""Routines to C: templates filled in with the words and sizes of one routine.

A template is a list of texts. In them `$word` is one of the routine's words, `KERNEL` the head of the kernel function,
`SIZES` the declarations of its sizes, `name@type` a helper of `library` for that type (`minimum@u32x16`), and a type
such as `u32x16` is declared where it is used. What is guarded has its special forms where the word `instructions` asks
for them; `NETWORKS` stands for the functions of `networks`.
"""

from __future__ import annotations

import re
from string import Template
from typing import Final

from smelt.dtypes import DType
from smelt.errors import InternalError
from smelt.graph import as_index
from smelt.kernel import Routine
from smelt.render.library import Library, Type
from smelt.render.networks import network_text
from smelt.render.scattering import Scatter
from smelt.render.spell import Guarded
from smelt.render.texts import compaction, sort
from smelt.render.tiles import Sheet

_TEMPLATES: Final = {**sort.TEMPLATES, **compaction.TEMPLATES}
_BUFFER: Final = re.compile(r"\bbuffers\[(\d+)\]")


def render_routine(routine: Routine, library: Library) -> str:
    """The C text of one routine; what it needs of the library is added there."""
    sheet = Sheet(library)
    lines = sheet.parameters(routine.parameters)
    tasks = sheet.task_count(routine) if not library.dialect.groups else ""
    lines += [f"const long {name} = {sheet.spell(as_index(size))};" for name, size in routine.sizes.items()]
    body = _body(routine, library)
    buffers = 1 + max(int(number) for number in _BUFFER.findall(body))
    head, *declarations = library.dialect.head(routine.name, buffers, len(routine.parameters), routine.threads)
    body = body.replace("KERNEL {", "\n  ".join([f"{head} {{", *declarations]))
    body = body.replace("SIZES", "\n  ".join(lines))
    return tasks + library.instantiate(body, Type("i64"))


def _body(routine: Routine, library: Library) -> str:
    words = {"name": routine.name, **_key_words(routine.dtype), **routine.words}
    if routine.template == "scatter":
        return Scatter(routine, library).text()
    parts = _TEMPLATES.get(routine.template)
    if parts is None:
        raise InternalError(f"there is no routine called {routine.template}")
    special = bool(words.get("instructions"))
    text = "".join(part.portable if isinstance(part, Guarded) and not special else str(part) for part in parts)
    if "NETWORKS" in text:
        text = text.replace("NETWORKS", network_text(int(words["item_lanes"]), bool(words["inlined"])))
    return Template(text).substitute(words)


def _key_words(dtype: DType) -> dict[str, str | int]:
    """What a template must know to put the bits of a dtype in order."""
    bits = f"u{dtype.bits}"
    sign, suffix = 1 << (dtype.bits - 1), "ull" if dtype.bits == 64 else "u"
    infinity = nan = 0
    if dtype.is_float:
        mantissa = _MANTISSAS[dtype.name]
        infinity = (sign - 1) >> mantissa << mantissa
        nan = infinity | 1 << (mantissa - 1)
    constants = {"sign": sign, "infinity": infinity, "nan": nan}
    return {
        "bits": bits,
        "signed": f"i{dtype.bits}",
        "width": dtype.bits,
        "is_bool": int(dtype.is_bool),
        "is_float": int(dtype.is_float),
        "is_signed": int(dtype.is_integer and dtype.is_signed),
        **{name: f"({bits}){value:#x}{suffix}" for name, value in constants.items()},
    }


_MANTISSAS: Final = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
