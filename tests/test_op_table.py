"""Every public function, compiled and interpreted, against NumPy; and every mistake that it refuses."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import smelt as sm
from smelt.config import configure
from smelt.dtypes import DType, as_dtype, cast_array
from smelt.graph.interpret import interpret
from smelt.graph.node import Node
from tests.devices import DEVICES
from tests.op_table import FAMILIES, OPS
from tests.ops.samples import Array, Sample
from tests.ops.spec import OpSpec, Tolerance
from tests.turns import TEST_ALL, TURN, one_in

# Public names that are not functions from arguments to tensors.
NOT_OPS = {
    "complex",
    *("Tensor", "DType", "Dim", "realize", "manual_seed"),
    *("__array_namespace_info__", "set_default_device", "get_default_device"),
}
TRANSFORMS = {
    *("jit", "explain", "tune", "vmap", "cond", "while_loop", "fori_loop", "scan", "from_jax", "to_jax"),
    *("grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "checkpoint", "custom_vjp", "stop_gradient"),
    *("load", "save", "associative_scan", "callback", "profile", "configure", "rule", "custom_op", "custom_kernel"),
    "item_assignment",
}


class Case(NamedTuple):
    """One result to check."""

    label: str
    node: Node
    tensor: sm.Tensor
    expected: Array
    dtype: DType
    tolerance: Tolerance


def tensors(value: Any) -> Any:
    """Arrays as tensors that share their memory, also inside lists."""
    if isinstance(value, np.ndarray):
        return sm.from_numpy(value)
    if isinstance(value, list | tuple):
        return type(value)(tensors(v) for v in value)
    return value


def widened(value: Any) -> Any:
    """Arrays with floats that are wider than those of the tensors, also inside lists."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if as_dtype(value.dtype).is_float else value
    if isinstance(value, list | tuple):
        return type(value)(widened(v) for v in value)
    return value


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def described(sample: Sample) -> str:
    def text(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{list(value.shape)}"
        return f"[{', '.join(map(text, value))}]" if isinstance(value, list) else repr(value)

    return ", ".join([*map(text, sample.args), *(f"{k}={text(v)}" for k, v in sample.kwargs.items())])


def keeps_arrays(spec: OpSpec) -> bool:
    return spec.name in {"from_numpy", "from_dlpack", "asarray"}


def cases(spec: OpSpec, samples: list[Sample], dtype: DType) -> Iterator[Case]:
    """The results of a function, with what they should be."""
    for sample in samples:
        given = sample.args if keeps_arrays(spec) else tensors(sample.args)
        got = listed(spec.function(*given, **{k: tensors(v) for k, v in sample.kwargs.items()}))
        with np.errstate(all="ignore"):
            wide = {k: widened(v) for k, v in sample.kwargs.items()}
            expected = listed(spec.reference(*widened(sample.args), **wide))
        label = f"{spec.name}({described(sample)})"
        assert len(got) == len(expected), label
        for part, (tensor, want) in enumerate(zip(got, expected, strict=True)):
            assert tensor.dtype is spec.result(dtype), label
            yield Case(f"{label}[{part}]", tensor._node, tensor, np.asarray(want), tensor.dtype, spec.tolerance)


def within(got: Array, expected: Array, dtype: DType, tolerance: Tolerance) -> Array:
    """Which elements are near enough to the reference; without a tolerance, equal also in the sign of zero."""
    if not dtype.is_float:
        return got == (cast_array(expected, dtype) if expected.dtype.kind == "f" else expected.astype(dtype.numpy))
    with np.errstate(all="ignore"):
        a = got.astype(np.float64)
        b = expected.astype(dtype.numpy).astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if tolerance == Tolerance():
            return same & ((np.signbit(a) == np.signbit(b)) | np.isnan(a))
        limits = ml_dtypes.finfo(dtype.numpy)
        spacing = np.maximum(np.abs(b) * float(limits.eps), float(limits.smallest_normal) * float(limits.eps))
        allowed = tolerance.ulps * spacing + tolerance.epsilons * float(limits.eps)
        return same | (np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= allowed))


def complaint(case: Case, level: str, got: Array) -> str:
    """What is wrong with a result, or nothing."""
    if got.shape != case.expected.shape:
        return f"{level} {case.label} has shape {got.shape} instead of {case.expected.shape}"
    good = np.asarray(within(got, case.expected, case.dtype, case.tolerance))
    if good.all():
        return ""
    places = np.argwhere(~good)
    shown = [f"  {tuple(map(int, at))}: {got[tuple(at)]} instead of {case.expected[tuple(at)]}" for at in places[:4]]
    return "\n".join([f"{level} {case.label} has {len(places)} wrong elements of {good.size}:", *shown])


def chosen(specs: list[OpSpec]) -> Iterator[Case]:
    """All samples of all dtypes; in sampled runs a few of one dtype, and at every second turn fewer of another one."""
    for spec in specs:
        number = OPS.index(spec)
        if TEST_ALL or len(spec.dtypes) < 3:
            yield from (
                case for dtype in spec.dtypes for case in cases(spec, one_in(3, spec.samples(dtype), number), dtype)
            )
            continue
        preferred = sm.float32 if sm.float32 in spec.dtypes else spec.dtypes[0]
        others = [dtype for dtype in spec.dtypes if dtype is not preferred]
        yield from cases(spec, one_in(12, spec.samples(preferred), number), preferred)
        if (number + TURN) % 2 == 0:
            other = others[(number + TURN) // 2 % len(others)]
            yield from cases(spec, one_in(12, spec.samples(other), number // 2), other)


def groups() -> Iterator[Any]:
    """Functions whose results are computed together, so that they share a translation unit."""
    for name, specs in FAMILIES.items():
        for start in range(0, len(specs), 16):
            yield pytest.param(specs[start : start + 16], id=f"{name}{start // 16}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("specs", list(groups()))
def test_compiled_and_interpreted_results_are_those_of_the_reference(specs: list[OpSpec], device: str) -> None:
    with configure(device=device):
        found = list(chosen(specs))
        interpreted = interpret([case.node for case in found], lambda leaf: leaf.attribute.numpy())
        sm.realize(*(case.tensor for case in found))
    complaints = [
        complaint(case, level, value)
        for case, reference in zip(found, interpreted, strict=True)
        for level, value in (("compiled", case.tensor.numpy()), ("interpreted", reference))
    ]
    failures = [text for text in complaints if text]
    assert not failures, f"{len(failures)} wrong:\n" + "\n".join(failures[:12])


# What the message says instead of the function's name: that of which it is an alias or part.
NAMED_AS = {
    "Tensor.__getitem__": "indexing",
    "random.truncated": "truncated_normal",
    "random.rand": "uniform",
    "random.randn": "normal",
    "resize": "interpolate",
    "scaled_dot_product_attention": "attention",
}


def called(name: str) -> set[str]:
    """What a message may call a function."""
    return {name.rsplit(".", maxsplit=1)[-1], NAMED_AS.get(name, name)}


@pytest.mark.parametrize("spec", [pytest.param(s, id=f"{s.name}-{k}") for k, s in enumerate(OPS) if s.errors])
def test_mistakes_raise_typed_errors_with_the_line_of_the_call(spec: OpSpec) -> None:
    for wrong in spec.errors:
        given = wrong.sample.args if keeps_arrays(spec) else tensors(wrong.sample.args)
        keywords = {k: tensors(v) for k, v in wrong.sample.kwargs.items()}
        with pytest.raises(wrong.error) as caught:
            spec.function(*given, **keywords)
        assert issubclass(wrong.error, sm.errors.SmeltError)
        assert wrong.text in str(caught.value)
        assert str(caught.value).split(":")[0] in called(spec.name)
        line = caught.traceback[0].lineno + 1
        assert f"  at test_op_table.py:{line}:  spec.function(*given, **keywords)" in str(caught.value).splitlines()


def test_every_function_has_three_mistakes_of_its_own() -> None:
    # What all functions of tensors refuse counts where there is nothing but a tensor to get wrong.
    mistakes: defaultdict[str, set[tuple[type[Exception], str]]] = defaultdict(set)
    for spec in OPS:
        [first, *rest] = inspect.signature(spec.function).parameters.values()
        alone = not rest and first.kind is first.POSITIONAL_OR_KEYWORD
        mistakes[spec.name] |= {(wrong.error, wrong.text) for wrong in spec.errors if alone or not wrong.general}
    assert {name: len(found) for name, found in mistakes.items() if len(found) < 3} == {}


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda: sm.realize((sm.zeros(2),)), "realize: expected tensors, got tuple"),  # type: ignore[arg-type]
        (lambda: sm.realize(sm.zeros(2), 3), "realize: expected tensors, got int"),  # type: ignore[arg-type]
        (lambda: sm.random.seed(1.5), "seed: the seed must be an integer, got 1.5"),  # type: ignore[arg-type]
        (lambda: sm.jit(3), "jit: 3 is not a function"),
        (lambda: sm.jit(sm.exp, shapes=7)(sm.zeros(2)), "jit: shapes= must be a list of shapes"),  # type: ignore[arg-type]
        (lambda: sm.jit(lambda n: sm.zeros(2) + n)(2**70), "jit: an integer of 71 bits does not fit in int64"),
        (lambda: sm.explain(sm.zeros(2)), "explain: Tensor(shape=(2,)"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_with_what_is_no_function_of_tensors(mistake: Any, text: str) -> None:
    with pytest.raises(sm.errors.ArgumentError) as caught:
        mistake()
    assert text in str(caught.value)
    assert "  at test_op_table.py:" in str(caught.value)


NO_TENSORS = ("text", None, np.array(["a"]))


@pytest.mark.parametrize("name", sorted({spec.name for spec in OPS if "__" not in spec.name}))
def test_what_is_no_tensor_is_refused_by_name(name: str) -> None:
    spec = next(spec for spec in OPS if spec.name == name)
    sample = next((sample for sample in spec.samples(spec.dtypes[0]) if sample.args), None)
    if sample is None:
        return
    rest, keywords = tensors(sample.args[1:]), {k: tensors(v) for k, v in sample.kwargs.items()}
    first = next(iter(inspect.signature(spec.function).parameters.values()))
    for wrong in NO_TENSORS:
        if wrong is None and first.default is None:  # as good as leaving it out
            continue
        with pytest.raises(sm.errors.SmeltError) as caught:
            spec.function(wrong, *rest, **keywords)
        lines = str(caught.value).splitlines()
        assert lines[0].split(":")[0] in called(name)
        assert any(line.endswith("spec.function(wrong, *rest, **keywords)") for line in lines)


def test_every_public_function_has_an_entry() -> None:
    specified = {id(spec.function) for spec in OPS}
    missing = [
        name
        for name in sm.__all__
        if name not in NOT_OPS | TRANSFORMS and callable(getattr(sm, name)) and id(getattr(sm, name)) not in specified
    ]
    assert missing == []
    assert [n for n in sm.random.__all__ if n != "seed" and id(getattr(sm.random, n)) not in specified] == []


def test_a_method_is_the_function_of_its_name() -> None:
    different = [
        name
        for name in dir(sm.zeros(2))
        if not name.startswith("_") and callable(getattr(sm, name, None)) and name in sm.__all__
        if getattr(sm.Tensor, name) is not getattr(sm, name)
    ]
    assert set(different) <= {
        *("bool", "bfloat16", "realize"),  # here the module's names are dtypes, or take several tensors
        *("real", "imag"),  # here they are properties
    }


def test_functions_of_one_tensor_are_methods() -> None:
    # These take something else first, or are PyTorch's functions without a method.
    functions_only = {
        "where",
        "positive",
        "asarray",
        "from_numpy",
        "from_dlpack",
        "attention",
        "scaled_dot_product_attention",
        "embedding",
        "cross_entropy",
    }
    families = (
        "unary",
        "mathematics",
        "activations",
        "binary",
        "floats",
        "ternary",
        "reductions",
        "movement",
        "products",
        "layers",
    )
    families += ("convolutions", "pooling", "unfolding", "lookups")
    names = {spec.name for family in families for spec in FAMILIES[family]}
    assert {n for n in names if not hasattr(sm.Tensor, n) and "." not in n} <= functions_only
