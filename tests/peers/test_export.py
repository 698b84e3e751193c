"""What is exported, verified by MLIR and run by XLA, beside what smelt computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import DTypeError, TraceError
from tests.formats.stablehlo import windowed
from tests.formats.stablehlo.exported import SPECS, calls, results, whole
from tests.formats.stablehlo.whole_programs import COMPLEX, EXAMPLES, GPT, SYMBOLIC, TOKENS, tensors
from tests.ops.spec import OpSpec
from tests.turns import one_in

pytestmark = pytest.mark.peers

# XLA takes subnormal numbers for zeros, multiplies by reciprocals where a divisor is repeated, and gives NaN for the
# digamma function of zero, which is infinite.
_FLUSHED = {"isclose", "divide", "digamma"}


# XLA on the CPU loses NaN in maxima and minima of many elements, JAX's own among them.
_LOSES_NAN = ("max", "min")


def has_nan(arrays: list[Any]) -> bool:
    return any(np.isnan(x).any() for x in arrays if x.dtype.kind in "fc")


def close(found: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = (x if x.dtype.kind in "iubc" else x.astype(np.float64) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.name not in _FLUSHED], ids=lambda spec: spec.name)
def test_round_trip_of_functions_in_xla(spec: OpSpec) -> None:
    from tests.peers.in_xla import run

    dtype = sm.float32 if sm.float32 in spec.dtypes else spec.dtypes[0]
    for call in one_in(3, list(calls(spec, dtype))):
        if has_nan(call.arrays) and any(word in spec.name for word in _LOSES_NAN):
            continue
        given = [sm.from_numpy(x) for x in call.arrays]
        try:
            text = sm.stablehlo.export(call.function, *given)
        except (TraceError, DTypeError):  # sizes that depend on values; types that are none of smelt's
            continue
        close(run(text, call.arrays), results(call.function(*given)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip_of_programs_in_xla(name: str) -> None:
    from tests.peers.in_xla import run

    function, args = EXAMPLES[name]
    text = sm.stablehlo.export(function, *args, weights="inline")
    close(run(text, [x.numpy() for x in tensors(EXAMPLES[name])]), results(function(*args)))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_arguments_and_results_in_xla(name: str) -> None:
    from tests.peers.in_xla import run

    function, args = COMPLEX[name]
    text = sm.stablehlo.export(function, *args)
    close(run(text, [x.numpy() for x in args]), whole(function(*args)))


_WINDOWED = {
    **{f"convolution {seed}": windowed.convolution(seed) for seed in range(40)},
    **{f"pooling {seed}": windowed.pooling(seed) for seed in range(40)},
    **windowed.NEARLY,
}


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("name", _WINDOWED)
def test_convolutions_and_pooling_in_xla(name: str) -> None:
    from tests.peers.in_xla import run

    case = _WINDOWED[name]
    given = [sm.asarray(x) for x in case.args]
    close(run(sm.stablehlo.export(case.function, *given), case.args), results(case.function(*given)))


def test_weights_as_arguments() -> None:
    from tests.peers.in_xla import verified

    assert "smelt.hidden" in str(verified(sm.stablehlo.export(GPT, TOKENS)))


@pytest.mark.parametrize("name", SYMBOLIC)
def test_open_sizes(name: str) -> None:
    from tests.peers.in_xla import verified

    function, shapes, args = SYMBOLIC[name]
    assert "?" in str(verified(sm.stablehlo.export(function, *args, shapes=shapes)))


def test_portable_artifacts() -> None:
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir.dialects import stablehlo

    x = sm.ones((2, 3))
    for version in (True, "1.9.0"):
        data = sm.stablehlo.export(lambda x: sm.erf(x).softmax(-1), x, portable=version)  # type: ignore[call-overload]
        with jax_mlir.make_ir_context() as context:
            text = str(stablehlo.deserialize_portable_artifact(context, data))
        want = sm.softmax(sm.erf(x), -1).numpy()
        np.testing.assert_allclose(sm.stablehlo.load(text)(x).numpy(), want, rtol=1e-6)
    assert stablehlo.get_current_version().encode() not in sm.stablehlo.export(lambda x: x + 1, x, portable=True)
    with pytest.raises(sm.errors.ArgumentError, match=r"as version 0\.1\.0"):
        sm.stablehlo.export(lambda x: x, x, portable="0.1.0")
