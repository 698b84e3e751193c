"""What is exported: read again it is the same program, and without smelt's own composites it computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import TraceError
from tests.formats.stablehlo.exported import SPECS, Call, calls, results
from tests.ops.spec import OpSpec
from tests.turns import one_in


def exports(spec: OpSpec) -> Iterator[tuple[Call, list[Any], str]]:
    """The text of each call whose sizes do not depend on values."""
    for call in one_in(3, list(calls(spec, spec.dtypes[0]))):
        if any(x.dtype == np.dtype("longdouble") or x.dtype == np.dtype("clongdouble") for x in call.arrays):
            continue
        given = [sm.from_numpy(x) for x in call.arrays]
        try:
            yield call, given, sm.stablehlo.export(call.function, *given)
        except TraceError:
            continue


@pytest.mark.by_turns(4)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_round_trip(spec: OpSpec) -> None:
    for _, given, text in exports(spec):
        assert sm.stablehlo.export(sm.stablehlo.load(text), *given) == text


def plainly(text: str) -> sm.stablehlo.Imported:
    """The program as any other reader sees it, who knows none of smelt's composites."""
    return sm.stablehlo.load(text.replace('name = "smelt.', 'name = "other.'))


def close(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        narrow = b.dtype.itemsize == 2 and b.dtype.kind not in "iu"
        a, b = (x.astype(np.float64) if x.dtype.kind not in "iubc" else x for x in (a, b))
        np.testing.assert_allclose(a, b, **({"rtol": 4e-3, "atol": 4e-3} if narrow else {"rtol": 4e-6, "atol": 2e-6}))


@pytest.mark.by_turns(8)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_decompositions(spec: OpSpec) -> None:
    for call, given, text in exports(spec):
        if "smelt." in text:
            close(results(plainly(text)(*given)), results(call.function(*given)))
