"""What generated source is spelled in: everything in which C and its relatives differ, as one table each.

Renderers write C. A dialect says how the few things are spelled that another language has otherwise: the header, the
head of a kernel, address spaces, local memory and hints.

In OpenCL C a kernel takes each buffer as a memory object and the byte at which it starts there, then its integers. One
group of threads runs a task; where a task has one thread, the device groups tasks as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_WIDE = re.compile(r"\b((?:0x[0-9a-f]+|\d+)u?)ll\b")


@dataclass(frozen=True, eq=False)
class Dialect:
    """The spellings of one language.

    `head` takes a kernel's name, the numbers of its buffers and integers, and how many threads run one task together.
    It gives the signature, and then the declarations that the body relies on: `buffers`, `integers`, `workspace`, and
    the tasks from `begin` to `end` (without it).
    """

    header: str  # the element types by their short names, and what stands for words of C
    head: Callable[[str, int, int, int], list[str]]
    # Lanes are vectors, else every lane is a register of its own; unrolling, rows ahead and stores past the caches can
    # be asked for; signed integers wrap, else they are added and multiplied as unsigned ones.
    extensions: bool
    # Thread parts are the threads of a group, else every one has a register of its own; a call runs one task, `begin`;
    # who launches a kernel knows the number of its tasks, else a function tells it.
    groups: bool
    space: str  # the qualifier of arguments that pointers point to
    shared: str  # the same of memory that a group of threads shares
    local: str  # local memory: {space}, {element}, {name}, {count}, and {at}, its place in the workspace
    spellings: Mapping[str, str] = field(default_factory=dict)  # of helpers that differ from those of `spell`
    wide: str = "ll"  # the suffix of literals of 64 bits

    def spelled(self, text: str) -> str:
        """A text with the literals of this language."""
        return text if self.wide == "ll" else _WIDE.sub(rf"\1{self.wide}", text)


def _head(name: str, buffers: int, integers: int, threads: int) -> list[str]:
    return [f"void {name}(void *const *buffers, const long *integers, char *workspace, long begin, long end)"]


C = Dialect(
    header=(
        "typedef float f32;\ntypedef double f64;\ntypedef char c8;\ntypedef signed char i8;\ntypedef short i16;\n"
        "typedef int i32;\ntypedef long long i64;\ntypedef unsigned char u8;\ntypedef unsigned short u16;\n"
        "typedef unsigned int u32;\ntypedef unsigned long long u64;\n"
        "#define INLINE static inline __attribute__((always_inline))\n"
        "#define NEVER_INLINE static __attribute__((noinline, unused))\n"
        "#define CONSTANT static const\n"
        "#define GLOBAL\n"
        "#define GROUP_BARRIER\n"
        "#define scalar_convert(x, type) ((type)(x))\n"
        "#ifndef __has_builtin\n#define __has_builtin(x) 0\n#endif\n"
        # gcc would round a product and a sum as one where it sees both; other compilers do so within a line only. What
        # has been through an empty instruction is a value of its own. (__builtin_assoc_barrier says the same, but takes
        # vectors of more than 16 bytes to pieces.) Vectors that fit no register go through memory.
        "#if defined(__GNUC__) && !defined(__clang__)\n"
        "#if defined(__AVX512F__)\n#define REGISTER_BYTES 64\n"
        "#elif defined(__AVX__)\n#define REGISTER_BYTES 32\n"
        "#elif defined(__SSE2__) || defined(__aarch64__)\n#define REGISTER_BYTES 16\n"
        "#else\n#define REGISTER_BYTES 0\n#endif\n"
        '#if defined(__aarch64__)\n#define REGISTER "+w"\n#else\n#define REGISTER "+v"\n#endif\n'
        '#define HELD(x, where) ({ __typeof__(x) held = (x); __asm__("" : where(held)); held; })\n'
        '#define ROUNDED(x) __builtin_choose_expr(sizeof(x) <= REGISTER_BYTES, HELD(x, REGISTER), HELD(x, "+m"))\n'
        "#else\n#define ROUNDED(x) (x)\n#endif\n"
        # gcc leaves loops over lanes as they are where that is shorter, and vectors go through memory then.
        '#if defined(__GNUC__) && !defined(__clang__)\n#define EACH_LANE _Pragma("GCC unroll 64") for\n'
        "#else\n#define EACH_LANE for\n#endif\n"
        # Products by a lane of a vector cost no more than others on this processor; elsewhere those by memory do not.
        "#if defined(__aarch64__)\n#define LANE(vector, pointer, k) (vector)[k]\n"
        "#else\n#define LANE(vector, pointer, k) (pointer)[k]\n#endif\n"
        # gcc moves the instructions of a tile around before it gives them registers, on this processor only, and then
        # has too few of them.
        "#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)\n"
        '#define IN_ORDER __attribute__((optimize("no-schedule-insns")))\n#else\n#define IN_ORDER\n#endif\n'
    ),
    head=_head,
    extensions=True,
    groups=False,
    space="",
    shared="",
    local="{element} *restrict {name} = ({element} *)(workspace + {at});",
)


def _opencl_head(name: str, buffers: int, integers: int, threads: int) -> list[str]:
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
    header=(
        "typedef float f32;\ntypedef double f64;\ntypedef char i8;\ntypedef short i16;\ntypedef int i32;\n"
        "typedef long i64;\ntypedef uchar u8;\ntypedef ushort u16;\ntypedef uint u32;\ntypedef ulong u64;\n"
        "#define INLINE static inline\n"
        "#define NEVER_INLINE static\n"
        "#define CONSTANT __constant\n"
        "#define GLOBAL __global\n"
        "#define GROUP_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
        # What the words of GNU C are here. INFINITY and NAN may be made of them: numbers are given by their bits.
        "#define __builtin_inff() as_float(0x7f800000)\n#define __builtin_inf() as_double(0x7ff0000000000000l)\n"
        "#define __builtin_nanf(x) as_float(0x7fc00000)\n#define __builtin_nan(x) as_double(0x7ff8000000000000l)\n"
        "#define __builtin_clzll clz\n#define __builtin_popcountll popcount\n"
        "#define __builtin_ctzll(x) popcount(((x) & -(x)) - 1)\n"
        "#define scalar_convert(x, type) ((type)(x))\n"
        "#define ROUNDED(x) (x)\n"
    ),
    head=_opencl_head,
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
)
