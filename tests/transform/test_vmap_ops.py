"""Every public function, batched: the same as calling it on one element after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm
from smelt import tree
from smelt.dtypes import DType
from smelt.errors import TraceError
from tests.interpreted import interpreted
from tests.op_table import FAMILIES, OPS
from tests.ops.samples import Array, Sample
from tests.ops.spec import OpSpec, Tolerance
from tests.test_op_table import Case, complaint, described, listed
from tests.turns import TEST_ALL, TURN, one_in

SIZE = 3
DTYPES = (sm.float32, sm.int32, sm.bool)

# How many elements come out depends on values, unless a size is given.
DATA_DEPENDENT = {
    *("nonzero", "argwhere", "flatnonzero", "bincount", "masked_select", "Tensor.__getitem__"),
    *("unique", "unique_values", "unique_counts", "unique_inverse", "unique_all"),
    "repeat",  # by the counts of a tensor
}
# What makes a tensor of something else, or says something about dtypes and shapes.
FROM_ARRAYS = {"from_numpy"}
WITHOUT_TENSORS = {
    *("arange", "empty", "eye", "full", "linspace", "ones", "random.key", "tri", "zeros"),
    *("broadcast_shapes", "can_cast", "finfo", "iinfo", "isdtype", "result_type"),
}


class Way(NamedTuple):
    """How the arguments of a function are mapped: all of them or the first one only, and along which axis."""

    name: str
    axis: int
    first_only: bool = False


WAYS = (Way("the first axis", 0), Way("the last axis", -1), Way("only the first argument", 0, True))


def elements(array: Array) -> list[Array]:
    """One array for each element of a batch: the same values in other places, so that the function takes them."""
    return [np.roll(array.reshape(-1), shift).reshape(array.shape) for shift in range(SIZE)]


def parts(spec: OpSpec, sample: Sample) -> tuple[Callable[..., Any], list[Array]]:
    """A call as a function of its tensors alone, and the arrays for them."""
    leaves, structure = tree.flatten((list(sample.args), sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def function(*tensors: sm.Tensor) -> Any:
        whole = dict(enumerate(leaves)) | dict(zip(places, tensors, strict=True))
        args, kwargs = tree.unflatten(structure, whole.values())
        return spec.function(*args, **kwargs)

    return function, [leaves[k] for k in places]


def cases(spec: OpSpec, sample: Sample, way: Way) -> Iterator[Case]:
    """The results of a batched call, with those of single calls."""
    function, arrays = parts(spec, sample)
    if not arrays:
        return
    rows = [elements(x) if k == 0 or not way.first_only else [x] * SIZE for k, x in enumerate(arrays)]
    mapped = [k == 0 or not way.first_only for k in range(len(arrays))]
    given = [np.moveaxis(np.stack(row), 0, way.axis) if m else row[0] for row, m in zip(rows, mapped, strict=True)]
    axes = tuple(way.axis if m else None for m in mapped)
    label = f"{spec.name}({described(sample)}) over {way.name}"
    try:
        got = listed(sm.vmap(function, in_axes=axes)(*map(sm.from_numpy, given)))
    except TraceError:
        assert spec.name in DATA_DEPENDENT, label
        return
    single = [interpreted(function(*map(sm.from_numpy, row))) for row in zip(*rows, strict=True)]
    # Both are within the tolerance of the true result.
    tolerance = Tolerance(2 * spec.tolerance.ulps, 2 * spec.tolerance.epsilons)
    for part, tensor in enumerate(got):
        expected = np.stack([row[part] for row in single])
        yield Case(f"{label}[{part}]", tensor._node, tensor, expected, tensor.dtype, tolerance)


def chosen(specs: list[OpSpec]) -> Iterator[Case]:
    """All samples in all ways; in sampled runs, of every third function, a few of one dtype in one way."""
    for spec in one_in(3, specs):
        if spec.name in FROM_ARRAYS:
            continue
        dtypes: list[DType] = [dtype for dtype in DTYPES if dtype in spec.dtypes] or [spec.dtypes[0]]
        if TEST_ALL:
            calls = [(sample, way) for dtype in dtypes for sample in spec.samples(dtype) for way in WAYS]
        else:
            number = OPS.index(spec)
            turn = (number + TURN) // 3
            samples = one_in(12, spec.samples(dtypes[turn % len(dtypes)]), number)
            calls = [(sample, WAYS[(turn + k) % 3]) for k, sample in enumerate(samples)]
        for sample, way in calls:
            yield from cases(spec, sample, way)


def groups() -> Iterator[Any]:
    for name, specs in FAMILIES.items():
        for start in range(0, len(specs), 16):
            yield pytest.param(specs[start : start + 16], id=f"{name}{start // 16}")


@pytest.mark.parametrize("specs", list(groups()))
def test_batched_functions_give_what_single_calls_give(specs: list[OpSpec]) -> None:
    found = list(chosen(specs))
    values = interpreted([case.tensor for case in found])
    sm.realize(*(case.tensor for case in found))
    complaints = [
        complaint(case, level, value)
        for case, reference in zip(found, values, strict=True)
        for level, value in (("compiled", case.tensor.numpy()), ("interpreted", reference))
    ]
    failures = [text for text in complaints if text]
    assert not failures, f"{len(failures)} wrong:\n" + "\n".join(failures[:12])


def test_what_is_left_out_takes_no_tensor() -> None:
    untouched = {
        spec.name for spec in OPS if not any(parts(spec, sample)[1] for sample in spec.samples(spec.dtypes[0]))
    }
    assert untouched == WITHOUT_TENSORS


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_sizes_that_depend_on_values_are_refused(name: str) -> None:
    keys = dict.fromkeys(("masked_select", "Tensor.__getitem__", "repeat"), lambda x: x > 0)
    function = next(spec for spec in OPS if spec.name == name).function
    with pytest.raises(TraceError, match=r"not known while (a|the) function is traced"):
        sm.vmap(lambda x: function(x, keys[name](x)) if name in keys else function(x))(sm.asarray([[1, 0], [0, 0]]))
