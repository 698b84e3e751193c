"""The Python array API standard, version 2024.12, as data: https://data-apis.org/array-api/2024.12/.

A line of a table is a function's signature, the kinds of dtypes that its arrays must be able to have, and the rule for
the dtype that comes out. Rules: `same` as the (first) array; `promoted` from the arrays; `bool`; `index`, the default
dtype of indices; `sum`, the default integer dtype or wider for integers and the same for floats; `given` by an
argument; `none`, where no array comes out.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass

VERSION = "2024.12"

DTYPES = {
    "bool": ("bool",),
    "signed": ("int8", "int16", "int32", "int64"),
    "unsigned": ("uint8", "uint16", "uint32", "uint64"),
    "float": ("float32", "float64"),
    "complex": ("complex64", "complex128"),
}
INTEGERS = DTYPES["signed"] + DTYPES["unsigned"]
# What the words of the tables mean, without the complex dtypes, which have tests of their own.
KINDS = {
    "any": ("bool", *INTEGERS, *DTYPES["float"]),
    "numeric": (*INTEGERS, *DTYPES["float"]),
    "real": (*INTEGERS, *DTYPES["float"]),
    "float": DTYPES["float"],
    "integer": INTEGERS,
    "bits": ("bool", *INTEGERS),
    "bool": ("bool",),
    "-": (),
}
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
EXTENSIONS = ("linalg", "fft")

TABLES = {
    "creation": """
        arange(start, /, stop=None, step=1, *, dtype=None, device=None)                    - -> given
        asarray(obj, /, *, dtype=None, device=None, copy=None)                             any -> same
        empty(shape, *, dtype=None, device=None)                                           - -> given
        empty_like(x, /, *, dtype=None, device=None)                                       any -> same
        eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)                       - -> given
        from_dlpack(x, /, *, device=None, copy=None)                                       any -> same
        full(shape, fill_value, *, dtype=None, device=None)                                - -> given
        full_like(x, /, fill_value, *, dtype=None, device=None)                            any -> same
        linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)           - -> given
        meshgrid(*arrays, indexing="xy")                                                   any -> same
        ones(shape, *, dtype=None, device=None)                                            - -> given
        ones_like(x, /, *, dtype=None, device=None)                                        any -> same
        tril(x, /, *, k=0)                                                                 any -> same
        triu(x, /, *, k=0)                                                                 any -> same
        zeros(shape, *, dtype=None, device=None)                                           - -> given
        zeros_like(x, /, *, dtype=None, device=None)                                       any -> same
    """,
    "data type": """
        astype(x, dtype, /, *, copy=True, device=None)                                     any -> given
        can_cast(from_, to, /)                                                             any -> none
        finfo(type, /)                                                                     float -> none
        iinfo(type, /)                                                                     integer -> none
        isdtype(dtype, kind)                                                               - -> none
        result_type(*arrays_and_dtypes)                                                    any -> none
    """,
    "elementwise": """
        abs(x, /)                                                                          numeric -> same
        acos(x, /)                                                                         float -> same
        acosh(x, /)                                                                        float -> same
        add(x1, x2, /)                                                                     numeric -> promoted
        asin(x, /)                                                                         float -> same
        asinh(x, /)                                                                        float -> same
        atan(x, /)                                                                         float -> same
        atan2(x1, x2, /)                                                                   float -> promoted
        atanh(x, /)                                                                        float -> same
        bitwise_and(x1, x2, /)                                                             bits -> promoted
        bitwise_left_shift(x1, x2, /)                                                      integer -> promoted
        bitwise_invert(x, /)                                                               bits -> same
        bitwise_or(x1, x2, /)                                                              bits -> promoted
        bitwise_right_shift(x1, x2, /)                                                     integer -> promoted
        bitwise_xor(x1, x2, /)                                                             bits -> promoted
        ceil(x, /)                                                                         real -> same
        clip(x, /, min=None, max=None)                                                     real -> same
        conj(x, /)                                                                         - -> same
        copysign(x1, x2, /)                                                                float -> promoted
        cos(x, /)                                                                          float -> same
        cosh(x, /)                                                                         float -> same
        divide(x1, x2, /)                                                                  float -> promoted
        equal(x1, x2, /)                                                                   any -> bool
        exp(x, /)                                                                          float -> same
        expm1(x, /)                                                                        float -> same
        floor(x, /)                                                                        real -> same
        floor_divide(x1, x2, /)                                                            real -> promoted
        greater(x1, x2, /)                                                                 real -> bool
        greater_equal(x1, x2, /)                                                           real -> bool
        hypot(x1, x2, /)                                                                   float -> promoted
        imag(x, /)                                                                         - -> given
        isfinite(x, /)                                                                     numeric -> bool
        isinf(x, /)                                                                        numeric -> bool
        isnan(x, /)                                                                        numeric -> bool
        less(x1, x2, /)                                                                    real -> bool
        less_equal(x1, x2, /)                                                              real -> bool
        log(x, /)                                                                          float -> same
        log1p(x, /)                                                                        float -> same
        log2(x, /)                                                                         float -> same
        log10(x, /)                                                                        float -> same
        logaddexp(x1, x2, /)                                                               float -> promoted
        logical_and(x1, x2, /)                                                             bool -> bool
        logical_not(x, /)                                                                  bool -> bool
        logical_or(x1, x2, /)                                                              bool -> bool
        logical_xor(x1, x2, /)                                                             bool -> bool
        maximum(x1, x2, /)                                                                 real -> promoted
        minimum(x1, x2, /)                                                                 real -> promoted
        multiply(x1, x2, /)                                                                numeric -> promoted
        negative(x, /)                                                                     numeric -> same
        nextafter(x1, x2, /)                                                               float -> promoted
        not_equal(x1, x2, /)                                                               any -> bool
        positive(x, /)                                                                     numeric -> same
        pow(x1, x2, /)                                                                     numeric -> promoted
        real(x, /)                                                                         - -> given
        reciprocal(x, /)                                                                   float -> same
        remainder(x1, x2, /)                                                               real -> promoted
        round(x, /)                                                                        numeric -> same
        sign(x, /)                                                                         numeric -> same
        signbit(x, /)                                                                      float -> bool
        sin(x, /)                                                                          float -> same
        sinh(x, /)                                                                         float -> same
        square(x, /)                                                                       numeric -> same
        sqrt(x, /)                                                                         float -> same
        subtract(x1, x2, /)                                                                numeric -> promoted
        tan(x, /)                                                                          float -> same
        tanh(x, /)                                                                         float -> same
        trunc(x, /)                                                                        real -> same
    """,
    "indexing": """
        take(x, indices, /, *, axis=None)                                                  any -> same
        take_along_axis(x, indices, /, *, axis=-1)                                         any -> same
    """,
    "inspection": """
        __array_namespace_info__()                                                         - -> none
    """,
    "linear algebra": """
        matmul(x1, x2, /)                                                                  numeric -> promoted
        matrix_transpose(x, /)                                                             any -> same
        tensordot(x1, x2, /, *, axes=2)                                                    numeric -> promoted
        vecdot(x1, x2, /, *, axis=-1)                                                      numeric -> promoted
    """,
    "manipulation": """
        broadcast_arrays(*arrays)                                                          any -> same
        broadcast_to(x, /, shape)                                                          any -> same
        concat(arrays, /, *, axis=0)                                                       any -> promoted
        expand_dims(x, /, axis)                                                            any -> same
        flip(x, /, *, axis=None)                                                           any -> same
        moveaxis(x, source, destination, /)                                                any -> same
        permute_dims(x, /, axes)                                                           any -> same
        repeat(x, repeats, /, *, axis=None)                                                any -> same
        reshape(x, /, shape, *, copy=None)                                                 any -> same
        roll(x, /, shift, *, axis=None)                                                    any -> same
        squeeze(x, /, axis)                                                                any -> same
        stack(arrays, /, *, axis=0)                                                        any -> promoted
        tile(x, repetitions, /)                                                            any -> same
        unstack(x, /, *, axis=0)                                                           any -> same
    """,
    "searching": """
        argmax(x, /, *, axis=None, keepdims=False)                                         real -> index
        argmin(x, /, *, axis=None, keepdims=False)                                         real -> index
        count_nonzero(x, /, *, axis=None, keepdims=False)                                  any -> index
        nonzero(x, /)                                                                      any -> index
        searchsorted(x1, x2, /, *, side="left", sorter=None)                               real -> index
        where(condition, x1, x2, /)                                                        any -> promoted
    """,
    "set": """
        unique_all(x, /)                                                                   any -> given
        unique_counts(x, /)                                                                any -> given
        unique_inverse(x, /)                                                               any -> given
        unique_values(x, /)                                                                any -> same
    """,
    "sorting": """
        argsort(x, /, *, axis=-1, descending=False, stable=True)                           real -> index
        sort(x, /, *, axis=-1, descending=False, stable=True)                              real -> same
    """,
    "statistical": """
        cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)             numeric -> sum
        cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)              numeric -> sum
        max(x, /, *, axis=None, keepdims=False)                                            real -> same
        mean(x, /, *, axis=None, keepdims=False)                                           float -> same
        min(x, /, *, axis=None, keepdims=False)                                            real -> same
        prod(x, /, *, axis=None, dtype=None, keepdims=False)                               numeric -> sum
        std(x, /, *, axis=None, correction=0.0, keepdims=False)                            float -> same
        sum(x, /, *, axis=None, dtype=None, keepdims=False)                                numeric -> sum
        var(x, /, *, axis=None, correction=0.0, keepdims=False)                            float -> same
    """,
    "utility": """
        all(x, /, *, axis=None, keepdims=False)                                            any -> bool
        any(x, /, *, axis=None, keepdims=False)                                            any -> bool
        diff(x, /, *, axis=-1, n=1, prepend=None, append=None)                             numeric -> same
    """,
}

# The functions of extensions, in modules of their names.
EXTENSION_TABLES = {
    "fft": """
        fft(x, /, *, n=None, axis=-1, norm="backward")                                     float -> given
        ifft(x, /, *, n=None, axis=-1, norm="backward")                                    float -> given
        fftn(x, /, *, s=None, axes=None, norm="backward")                                  float -> given
        ifftn(x, /, *, s=None, axes=None, norm="backward")                                 float -> given
        rfft(x, /, *, n=None, axis=-1, norm="backward")                                    float -> given
        irfft(x, /, *, n=None, axis=-1, norm="backward")                                   float -> given
        rfftn(x, /, *, s=None, axes=None, norm="backward")                                 float -> given
        irfftn(x, /, *, s=None, axes=None, norm="backward")                                float -> given
        hfft(x, /, *, n=None, axis=-1, norm="backward")                                    float -> given
        ihfft(x, /, *, n=None, axis=-1, norm="backward")                                   float -> given
        fftfreq(n, /, *, d=1.0, dtype=None, device=None)                                   - -> given
        rfftfreq(n, /, *, d=1.0, dtype=None, device=None)                                  - -> given
        fftshift(x, /, *, axes=None)                                                       float -> same
        ifftshift(x, /, *, axes=None)                                                      float -> same
    """,
    "linalg": """
        cholesky(x, /, *, upper=False)                                                     float -> same
        cross(x1, x2, /, *, axis=-1)                                                       numeric -> promoted
        det(x, /)                                                                          float -> same
        diagonal(x, /, *, offset=0)                                                        any -> same
        eigh(x, /)                                                                         float -> same
        eigvalsh(x, /)                                                                     float -> same
        inv(x, /)                                                                          float -> same
        matmul(x1, x2, /)                                                                  numeric -> promoted
        matrix_norm(x, /, *, keepdims=False, ord="fro")                                    float -> same
        matrix_power(x, n, /)                                                              float -> same
        matrix_rank(x, /, *, rtol=None)                                                    float -> index
        matrix_transpose(x, /)                                                             any -> same
        outer(x1, x2, /)                                                                   numeric -> promoted
        pinv(x, /, *, rtol=None)                                                           float -> same
        qr(x, /, *, mode="reduced")                                                        float -> same
        slogdet(x, /)                                                                      float -> same
        solve(x1, x2, /)                                                                   float -> promoted
        svd(x, /, *, full_matrices=True)                                                   float -> same
        svdvals(x, /)                                                                      float -> same
        tensordot(x1, x2, /, *, axes=2)                                                    numeric -> promoted
        trace(x, /, *, offset=0, dtype=None)                                               numeric -> sum
        vecdot(x1, x2, /, *, axis=-1)                                                      numeric -> promoted
        vector_norm(x, /, *, axis=None, keepdims=False, ord=2)                             float -> same
    """,
}
# The parts of named tuples, in their order.
PARTS = {
    "eigh": ("eigenvalues", "eigenvectors"),
    "qr": ("Q", "R"),
    "slogdet": ("sign", "logabsdet"),
    "svd": ("U", "S", "Vh"),
}


@dataclass(frozen=True)
class Function:
    """One row: `kinds` is a word of `KINDS`, `result` a rule for the dtype."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    category: str
    kinds: str
    result: str

    @property
    def dtypes(self) -> tuple[str, ...]:
        return KINDS[self.kinds]

    @property
    def arrays(self) -> int:
        """How many arrays an elementwise function takes."""
        return sum(parameter.kind is inspect.Parameter.POSITIONAL_ONLY for parameter in self.parameters)


def parsed(signature: str) -> tuple[inspect.Parameter, ...]:
    """Parameters from the text between the parentheses of a definition."""
    (definition,) = ast.parse(f"def function({signature}): ...").body
    assert isinstance(definition, ast.FunctionDef)
    given = definition.args
    kinds = inspect.Parameter
    rows: list[tuple[ast.arg, inspect._ParameterKind, ast.expr | None]] = []
    positional = [(a, kinds.POSITIONAL_ONLY) for a in given.posonlyargs]
    positional += [(a, kinds.POSITIONAL_OR_KEYWORD) for a in given.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    rows += [(a, kind, default) for (a, kind), default in zip(positional, [*missing, *given.defaults], strict=True)]
    if given.vararg is not None:
        rows.append((given.vararg, kinds.VAR_POSITIONAL, None))
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    rows += [(a, kinds.KEYWORD_ONLY, default) for a, default in named]
    return tuple(
        kinds(a.arg, kind, default=kinds.empty if default is None else ast.literal_eval(default))
        for a, kind, default in rows
    )


def _row(line: str, category: str) -> Function:
    found = re.fullmatch(r"(\w+)\((.*)\)\s+(\S+) -> (\w+)", line.strip())
    assert found is not None, line
    name, signature, kinds, result = found.groups()
    return Function(name, parsed(signature), category, kinds, result)


FUNCTIONS = {
    row.name: row
    for category, table in TABLES.items()
    for row in (_row(line, category) for line in table.strip().splitlines())
}
EXTENSION_FUNCTIONS = {
    extension: [_row(line, extension) for line in table.strip().splitlines()]
    for extension, table in EXTENSION_TABLES.items()
}

ATTRIBUTES = ("dtype", "device", "mT", "ndim", "shape", "size", "T")
# Operators by the elementwise function that they must agree with.
UNARY_OPERATORS = {"abs": "abs", "invert": "bitwise_invert", "neg": "negative", "pos": "positive"}
BINARY_OPERATORS = {
    "add": "add",
    "and": "bitwise_and",
    "floordiv": "floor_divide",
    "lshift": "bitwise_left_shift",
    "matmul": "matmul",
    "mod": "remainder",
    "mul": "multiply",
    "or": "bitwise_or",
    "pow": "pow",
    "rshift": "bitwise_right_shift",
    "sub": "subtract",
    "truediv": "divide",
    "xor": "bitwise_xor",
}
COMPARISONS = {
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "ne": "not_equal",
}
METHODS = {
    "__array_namespace__": "*, api_version=None",
    "__bool__": "",
    "__complex__": "",
    "__dlpack__": "*, stream=None, max_version=None, dl_device=None, copy=None",
    "__dlpack_device__": "",
    "__float__": "",
    "__getitem__": "key, /",
    "__index__": "",
    "__int__": "",
    "__setitem__": "key, value, /",
    "to_device": "device, /, *, stream=None",
    **{f"__{name}__": "" for name in UNARY_OPERATORS},
    **{f"__{name}__": "other, /" for name in BINARY_OPERATORS | COMPARISONS},
    **{f"__r{name}__": "other, /" for name in BINARY_OPERATORS},
}

# The methods of `__array_namespace_info__()`, and the keys of what some of them give.
INFORMATION = {
    "capabilities": "",
    "default_device": "",
    "default_dtypes": "*, device=None",
    "devices": "",
    "dtypes": "*, device=None, kind=None",
}
CAPABILITIES = ("boolean indexing", "data-dependent shapes", "max dimensions")
DEFAULTS = ("real floating", "complex floating", "integral", "indexing")
DTYPE_KINDS = {
    "bool": DTYPES["bool"],
    "signed integer": DTYPES["signed"],
    "unsigned integer": DTYPES["unsigned"],
    "integral": INTEGERS,
    "real floating": DTYPES["float"],
    "complex floating": DTYPES["complex"],
    "numeric": INTEGERS + DTYPES["float"] + DTYPES["complex"],
}
FINFO = ("bits", "eps", "max", "min", "smallest_normal", "dtype")
IINFO = ("bits", "max", "min", "dtype")

# Promotion inside a kind, and between the two kinds of integers: row and column meet in their common dtype.
PROMOTION_TABLES = """
          int8  int16 int32 int64
    int8  int8  int16 int32 int64
    int16 int16 int16 int32 int64
    int32 int32 int32 int32 int64
    int64 int64 int64 int64 int64

           uint8  uint16 uint32 uint64
    uint8  uint8  uint16 uint32 uint64
    uint16 uint16 uint16 uint32 uint64
    uint32 uint32 uint32 uint32 uint64
    uint64 uint64 uint64 uint64 uint64

          uint8 uint16 uint32
    int8  int16 int32  int64
    int16 int16 int32  int64
    int32 int32 int32  int64
    int64 int64 int64  int64

            float32 float64
    float32 float32 float64
    float64 float64 float64

         bool
    bool bool
"""


def _promotion() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for table in PROMOTION_TABLES.strip("\n").split("\n\n"):
        columns, *rows = [line.split() for line in table.splitlines()]
        for first, *results in rows:
            for second, result in zip(columns, results, strict=True):
                found[first, second] = found[second, first] = result
    return found


PROMOTION = _promotion()
