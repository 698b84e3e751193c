"""Inputs that a graph would rather read in panels: for every processor, checked by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.compiler.prepare import prepare
from smelt.compiler.trace import Argument
from smelt.cost import Profile
from smelt.dtypes import DType, bfloat16, bool_, float16, float32, float64, int8, int32
from smelt.graph import Node, Op, build, make, row_major, topological
from smelt.graph.interpret import interpret
from smelt.graph.text import parse_graph
from smelt.schedule import Panels, panels_of
from tests.profiles import AMX, AVX2, AVX512, NEON

RNG = np.random.default_rng(7)
GROUPS = NEON._replace(group_threads=64)
PLAIN = AVX512._replace(features=AVX512.features - {"avx512_bf16", "avx512_vnni"})


def argument(number: int, dtype: DType, *shape: int, steady: bool = False) -> Node:
    return make(Op.LEAF, dtype, shape, (), Argument("input", number, row_major(shape), steady))


@pytest.mark.parametrize(
    ("profile", "dtype", "rows", "panels"),
    [
        (NEON, float32, 1, Panels(16, 1)),
        (NEON, float64, 512, Panels(8, 1)),
        (NEON, float32, 512, None),
        (AVX2, float32, 1, Panels(16, 1)),
        (AVX512, float32, 3, Panels(64, 1)),
        (AMX, float32, 4, Panels(64, 1)),
        (AMX, bfloat16, 4, Panels(32, 2)),
        (AMX, int8, 64, Panels(32, 4)),
        (AMX, int8, 3, None),
        (AMX, int8, 1, None),
        (AVX512, int8, 1, Panels(64, 4)),
        (AVX512, bfloat16, 1, Panels(64, 2)),
        (PLAIN, bfloat16, 1, Panels(64, 1)),
        (PLAIN, int8, 4, Panels(64, 2)),
        (AVX2, bfloat16, 4, Panels(16, 1)),
        (AVX2, float16, 4, Panels(16, 1)),
        (NEON, bfloat16, 4, None),
        (GROUPS, float32, 4, None),
    ],
)
def test_panels_depend_on_weight_and_device(profile: Profile, dtype: DType, rows: int, panels: Panels | None) -> None:
    factor = int32 if dtype is int8 else dtype
    assert panels_of(dtype, factor, (rows, 1024, 1024), profile) == panels
    assert panels_of(dtype, bool_, (rows, 1024, 1024), profile) is None
    assert panels_of(dtype, factor, (rows, 64, 64), profile) is None
    odd = panels if panels is not None and panels.depth == 1 else None  # words end with the sum
    assert panels_of(dtype, factor, (rows, 1021, 1031), profile) == odd


def test_words_of_a_few_rows_are_read_along_the_sum_where_they_lie_so() -> None:
    for rows, panels in ((3, None), (4, Panels(64, 4))):
        assert panels_of(int8, int32, (rows, 1024, 1024), AVX512, turned=True) == panels


def test_a_matrix_of_bytes_that_no_bytes_meet_stays_as_it_is() -> None:
    x, w = argument(0, int32, 4, 1024), argument(1, int8, 1024, 1088, steady=True)
    product = build.contract(x, build.cast(w, int32), (0, 1), (1, 2), (0, 2))
    assert prepare([product], 2, AVX512)[0] == [product]
    row = build.reshape(build.cast(argument(0, int8, 1, 1024), int32), (1024,))  # as one row is multiplied
    product = build.contract(row, build.cast(w, int32), (0,), (0, 1), (1,))
    assert prepare([product], 2, AVX512)[0] != [product]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("profile", "dtype"),
    [(NEON, float32), (AVX512, float32), (AMX, bfloat16), (AMX, int8), (AVX512, int8), (AVX2, bfloat16)],
    ids=lambda one: one.name,
)
def test_a_steady_weight_is_read_in_panels(profile: Profile, dtype: DType, turned: bool) -> None:
    size, columns = 1024, 1031 if dtype is float32 else 1088
    shape = (columns, size) if turned else (size, columns)
    x, w = argument(0, dtype, 4, size), argument(1, dtype, *shape, steady=True)
    wide = [build.cast(node, int32) if dtype is int8 else node for node in (x, w)]
    product = build.contract(*wide, (0, 1), (2, 1) if turned else (1, 2), (0, 2))
    plain, wishes = prepare([product], 2, profile)
    assert plain != [product]
    [one] = wishes.given
    assert (one.inputs, wishes.others) == ([1], ())
    values = {x: RNG.integers(-9, 9, (4, size)), w: RNG.integers(-9, 9, shape)}
    given = {node: array.astype(dtype.numpy) for node, array in values.items()}
    [packed] = interpret(parse_graph(one.graph, [w]), given)
    [leaf] = [node for node in _leaves(plain) if node.attribute.kind == "prepared"]
    assert leaf.attribute.number == 2
    assert leaf.shape == packed.shape
    [found] = interpret(plain, {x: given[x], leaf: packed})
    np.testing.assert_array_equal(found, interpret([product], given)[0])


def test_a_weight_that_may_change_is_only_asked_for() -> None:
    x, w = argument(0, float32, 4, 1024), argument(1, float32, 1024, 1024)
    product = build.contract(x, w, (0, 1), (1, 2), (0, 2))
    roots, wishes = prepare([product], 2, NEON)
    assert roots == [product]
    assert wishes.given == ()
    assert [one.inputs for one in wishes.others] == [[1]]


def _leaves(roots: list[Node]) -> list[Node]:
    return [node for node in topological(roots) if node.op is Op.LEAF]
