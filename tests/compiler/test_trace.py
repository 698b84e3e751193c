"""Keys: what may change from call to call is taken out of the graph, and nothing else."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes
from smelt.compiler import trace
from smelt.compiler.trace import rebuild
from smelt.graph import build, reshape_strides
from smelt.graph.node import Node
from smelt.graph.ops import Op, Span
from smelt.runtime import Storage, leaf
from smelt.transform import examine


def tensor(*shape: int, dtype: Any = np.float32) -> Node:
    return leaf(Storage.of(np.zeros(shape, dtype), copy=True))


def scaled(x: Node, factor: float) -> Node:
    return build.binary("mul", x, build.const(factor, x.dtype))


def row(x: Node, i: int) -> Node:
    return build.slice_(x, (Span(i, 1, 1), Span(0, int(x.shape[1]), 1)))  # type: ignore[arg-type]


def test_other_leaves_of_the_same_layout_have_the_same_key() -> None:
    a, b = tensor(3, 4), tensor(3, 4)
    assert trace([build.unary("exp", a)]).key == trace([build.unary("exp", b)]).key
    assert trace([build.unary("exp", a)]).key != trace([build.unary("exp", tensor(4, 3))]).key
    assert trace([build.unary("exp", a)]).key != trace([build.unary("exp", tensor(3, 4, dtype=np.float64))]).key


def test_float_scalars_are_arguments_except_zero_and_one() -> None:
    x = tensor(3)
    assert trace([scaled(x, 0.3)]).key == trace([scaled(x, 1e-9)]).key
    assert trace([scaled(x, 0.3)]).scalars == (np.float32(0.3).tobytes(),)
    special = [trace([scaled(x, value)]).key for value in (0.3, 0.0, -0.0, 1.0, -1.0, float("inf"), float("nan"))]
    assert len(set(special)) == len(special)


def test_integer_scalars_are_part_of_a_compiled_function() -> None:
    x = tensor(3, dtype=np.int32)
    one, two = (trace([build.binary("mul", x, build.const(k, dtypes.int32))]) for k in (3, 4))
    assert one.key != two.key


def keys(function: Callable[[Node], Node], *values: int) -> int:
    """How many graphs a function is with these integers, outside of a compiled one."""
    return len({trace([function(build.const(k, dtypes.int32))], integers=True).key for k in values})


@pytest.mark.parametrize("name", ["add", "mul", "max", "and", "lt", "eq"])
def test_integer_scalars_are_arguments_outside_of_one(name: str) -> None:
    x = tensor(3, dtype=np.int32)
    assert keys(lambda k: build.binary(name, x, k), 3, 4, -8, 100) == 1
    assert keys(lambda k: build.binary(name, x, k), 0, 1, -1, 2**31 - 1, -(2**31), 5) == 6  # rules look for these


@pytest.mark.parametrize("name", ["floordiv", "mod", "pow", "shl", "shr"])
def test_integers_that_decide_about_the_code_stay(name: str) -> None:
    x = tensor(3, dtype=np.int32)
    assert keys(lambda k: build.binary(name, x, k), 3, 4, 5) == 3


def test_integers_that_decide_about_the_range_of_an_index_stay() -> None:
    x, table = tensor(3, dtype=np.int32), tensor(9)
    assert keys(lambda k: build.gather(table, [build.mul(x, k)], (-1,)), 3, 4) == 2
    assert keys(lambda k: build.gather(table, [build.cast(build.lt(x, k), dtypes.int32)], (-1,)), 3, 4) == 1


def test_a_view_of_a_leaf_is_an_input_with_an_offset() -> None:
    x = tensor(5, 4)
    first, second = trace([scaled(row(x, 1), 0.5)]), trace([scaled(row(x, 3), 0.5)])
    assert first.key == second.key
    assert [view.offset for view in first.inputs] == [4]
    assert [view.offset for view in second.inputs] == [12]


def test_slices_of_computed_values_start_at_a_slot() -> None:
    y = build.unary("exp", tensor(5, 4))
    first, second = trace([row(y, 1)]), trace([row(y, 3)])
    assert first.key == second.key
    assert (first.starts, second.starts) == ((1,), (3,))
    [root] = rebuild(first.key)
    start = root.attribute[0].start
    assert (start.low, start.high) == (0, 4)


def test_kernels_are_shared_whatever_the_numbers_of_their_slots() -> None:
    """Three slices in each of eight layers: slots 9, 10 and 11 come in this order, like 0, 1 and 2."""

    def layers(x: sm.Tensor) -> sm.Tensor:
        for _ in range(8):
            x = sm.sort(x)
            x = x[:-2] * x[1:-1] - x[2:]
            x = sm.pad(x, (1, 1))
        return x

    regions = Counter(record.region for record in examine(layers, sm.arange(20.0)).kernels if "slice" in record.nodes)
    assert list(regions.values()) == [8]


def test_aliasing_is_part_of_the_key() -> None:
    a, b = tensor(3), tensor(3)
    assert trace([build.binary("add", a, a)]).key != trace([build.binary("add", a, b)]).key


def test_dims_are_named_by_where_they_occur() -> None:
    from smelt.graph.index import Dim
    from smelt.runtime import Placeholder

    def graph(name: str, high: int = 9) -> Any:
        n = Dim(name, 1, high)
        return trace([build.unary("exp", Placeholder(dtypes.float32, (n, 4), (4, 1)).node())])

    wild = 'n"; /* \n */ #include' * 400
    assert graph("n").key == graph(wild).key
    assert graph("n").key != graph("n", 10).key
    assert wild not in repr(rebuild(graph(wild).key))


def test_rebuilding_a_key_and_tracing_it_again_gives_the_key() -> None:
    x = tensor(5, 4)
    y = build.reduce(
        "add", build.binary("add", scaled(row(build.unary("exp", x), 2), 0.7), build.const(1.0, x.dtype, (1, 4))), (1,)
    )
    key = trace([y, x]).key
    again = rebuild(key)
    assert [node.shape for node in again] == [(1,), (5, 4)]
    assert again[1].op is Op.LEAF


@pytest.mark.parametrize(
    ("shape", "strides", "target", "expected"),
    [
        ((4, 6), (6, 1), (24,), (1,)),
        ((4, 6), (6, 1), (2, 2, 3, 2), (12, 6, 2, 1)),
        ((4, 6), (6, 1), (3, 8), (8, 1)),
        ((4, 6), (12, 2), (24,), (2,)),
        ((4, 6), (6, 1), (5, 5), None),
        ((4, 6), (7, 1), (24,), None),
        ((4, 6), (7, 1), (2, 2, 6), (14, 7, 1)),
        ((2, 6), (20, 1), (2, 3, 2), (20, 2, 1)),
        ((2, 6), (20, 1), (3, 4), None),
        ((2, 6), (20, 1), (12,), None),
        ((4, 6), (1, 4), (24,), None),
        ((1, 4, 1), (99, 1, 5), (4,), (1,)),
        ((4,), (1,), (1, 4, 1), (0, 1, 0)),
        ((), (), (1, 1), (0, 0)),
        ((6,), (-1,), (2, 3), (-3, -1)),
        ((3, 1), (0, 0), (3,), (0,)),
    ],
)
def test_reshaping_views(shape: Any, strides: Any, target: Any, expected: Any) -> None:
    assert reshape_strides(shape, strides, target) == expected


def test_a_graph_that_becomes_a_value_that_somebody_holds_is_still_computed() -> None:
    """Rewriting may end at a node that equals one of the user's, which has a value already."""
    import smelt as sm

    held = sm.full((3,), 7, dtype=sm.int32)
    lazy = held * sm.asarray([1, 2, 3], dtype=sm.int32)  # keeps the node of `held` alive
    held.realize()
    folded = sm.full((3,), 3, dtype=sm.int32) + 4
    np.testing.assert_array_equal(folded.numpy(), [7, 7, 7])
    np.testing.assert_array_equal(lazy.numpy(), [7, 14, 21])
