"""OpenCL C: what it spells otherwise than C.

A kernel takes each buffer as a memory object and the byte at which it starts there, then its integers. One group of
threads runs a task; where a task has one thread, the device groups tasks as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from smelt.kernel import Kernel, Routine
from smelt.render.c import render
from smelt.render.dialect import Dialect


def render_opencl(kernels: Sequence[Kernel | Routine]) -> str:
    """The OpenCL text of one program that defines every kernel."""
    return render(kernels, OPENCL)


def _head(name: str, buffers: int, integers: int, threads: int) -> list[str]:
    arguments = [f"__global char *object{k}, long start{k}" for k in range(buffers)]
    arguments += [f"long integer{k}" for k in range(integers)]
    places = ", ".join(f"object{k} + start{k}" for k in range(buffers))
    numbers = ", ".join(f"integer{k}" for k in range(integers))
    together = threads > 1
    size = f"__attribute__((reqd_work_group_size({threads}, 1, 1))) " if together else ""
    return [
        f"__kernel {size}void {name}({', '.join(arguments)})",
        f"__global void *const buffers[] = {{{places}}};",
        *([f"const long integers[] = {{{numbers}}};"] if integers else []),
        f"const long begin = {'get_group_id' if together else 'get_global_id'}(0), end = begin + 1;",
        f"const long thread = {'get_local_id(0)' if together else '0'};",
    ]


OPENCL = Dialect(
    name="opencl",
    elements={
        "f32": "float",
        "f64": "double",
        "i8": "char",
        "i16": "short",
        "i32": "int",
        "i64": "long",
        "u8": "uchar",
        "u16": "ushort",
        "u32": "uint",
        "u64": "ulong",
    },
    header=(
        "#define INLINE static inline\n"
        "#define NEVER_INLINE static\n"
        "#define CONSTANT __constant\n"
        "#define GLOBAL __global\n"
        "#define GROUP_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
        "#define trailing_zeros(x) popcount(((x) & -(x)) - 1)\n"
        "#define scalar_convert(x, type) ((type)(x))\n"
        "#define ROUNDED(x) (x)\n"
    ),
    head=_head,
    extensions=False,
    groups=True,
    space="__global ",
    shared="__local ",
    local="{space}{element} {name}[{count}];",
    # Built-in functions whose results are exact; all others are smelt's own, whose errors are known.
    spellings={
        "scalar_sqrt": "return sqrt(x);",
        "round": "return rint(x);",
        "floor": "return floor(x);",
        "ceil": "return ceil(x);",
        "trunc": "return trunc(x);",
        "multiply_high": "mul_hi(a, b)",
        "widen_float16": "return widen_float16_by_bits@(h);",
        "narrow_float16": "return narrow_float16_by_bits@(x);",
    },
    wide="l",  # of `long long` it makes 128 bits
    words={
        "__builtin_inff()": "INFINITY",
        "__builtin_inf()": "((double)INFINITY)",
        '__builtin_nanf("")': "NAN",
        '__builtin_nan("")': "((double)NAN)",
        "__builtin_clzll": "clz",
        "__builtin_popcountll": "popcount",
        "__builtin_ctzll": "trailing_zeros",
    },
)
