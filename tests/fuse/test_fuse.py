"""Fusion: what ends up in one kernel, and that cutting a graph into kernels changes no value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import smelt as sm
from smelt import dtypes
from smelt.compiler.simplifying import simplify
from smelt.fuse import build_region, contiguous, merge_axes, partition
from smelt.fuse.movement import reshape_index
from smelt.graph import build
from smelt.graph.index import variable
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from tests.fuse.running import Array, run_fused
from tests.graph.random_graphs import Program, leaf, random_program

F32 = dtypes.float32


def kernels(*roots: Node) -> list[list[str]]:
    """For each kernel the names of what it computes, without movement."""
    found = []
    for group in partition(simplify(list(roots))).groups:
        names = [str(n.attribute) if n.op in (Op.UNARY, Op.BINARY) else n.op.value for n in reversed(group.inside)]
        found.append([name for name in names if name not in ("reshape", "expand", "permute", "slice")])
    return found


def test_softmax_is_one_kernel() -> None:
    assert kernels(build.composite("softmax", leaf(F32, (128, 64)), axis=-1)) == [
        ["reduce", "sub", "exp", "reduce", "reciprocal", "mul"]
    ]


def test_a_square_that_two_kernels_need_is_computed_in_both() -> None:
    x = leaf(F32, (64, 32))
    y = build.exp(x)
    square = build.mul(y, y)
    roots = build.reduce("add", square, (1,)), build.reduce("max", square, (0,))
    assert kernels(*roots) == [["exp"], ["mul", "reduce"], ["mul", "reduce"]]


def test_a_costly_function_is_computed_twice_rather_than_written_to_memory() -> None:
    def sums(rows: int) -> list[list[str]]:
        y = build.exp(leaf(F32, (rows, 1024)))
        return kernels(build.reduce("add", y, (1,)), build.reduce("max", y, (1,)))

    assert sums(64) == [["exp"], ["reduce"], ["reduce"]]
    assert sums(1024) == [["exp", "reduce"], ["exp", "reduce"]]


def test_layer_norm_is_one_kernel() -> None:
    x, w, b = leaf(F32, (256, 64)), leaf(F32, (64,)), leaf(F32, (64,))
    assert len(kernels(build.composite("layer_norm", x, w, b, eps=1e-5))) == 1


def test_bias_activation_and_residual_are_the_epilogue_of_a_matmul() -> None:
    x, w, b, r = leaf(F32, (32, 64)), leaf(F32, (64, 48)), leaf(F32, (48,)), leaf(F32, (32, 48))
    y = build.binary("add", build.composite("gelu", build.binary("add", build.matmul(x, w), b)), r)
    [names] = kernels(y)
    assert names[0] == "contract"
    assert "erf" in names


def test_what_follows_a_matmul_is_finished_before_a_softmax() -> None:
    q, k = leaf(F32, (2, 3, 40, 8)), leaf(F32, (2, 3, 40, 8))
    scores = build.binary("mul", build.matmul(q, build.permute(k, (0, 1, 3, 2))), leaf(F32, (2, 3, 40, 40)))
    found = kernels(build.composite("softmax", scores, axis=-1))
    assert found == [["contract", "mul"], ["reduce", "sub", "exp", "reduce", "reciprocal", "mul"]]


def test_a_cast_is_computed_inside_a_matmul_but_not_exp() -> None:
    x, w = leaf(dtypes.float16, (32, 64)), leaf(F32, (64, 48))
    assert kernels(build.matmul(build.cast(x, F32), w)) == [["cast", "contract"]]
    assert len(kernels(build.matmul(build.unary("exp", leaf(F32, (32, 64))), w))) == 2


def test_a_sum_used_twice_is_stored_once() -> None:
    a, b = leaf(F32, (64, 64)), leaf(F32, (64, 64))
    x = build.binary("add", a, b)
    found = kernels(build.unary("exp", x), build.unary("sin", x))
    assert sorted(found) == [["add"], ["exp"], ["sin"]]


def test_a_cheap_function_of_one_input_is_recomputed() -> None:
    x = build.unary("neg", leaf(F32, (64, 64)))
    assert sorted(kernels(build.unary("exp", x), build.unary("sin", x))) == [["neg", "exp"], ["neg", "sin"]]


def test_so_is_one_that_reads_its_input_in_several_ways() -> None:
    x, y = leaf(F32, (64, 64)), leaf(F32, (64, 64))
    square = build.binary("mul", x, x)
    both = build.binary("add", x, build.binary("mul", square, x))
    found = kernels(build.unary("exp", both), build.unary("sin", both))
    assert sorted(found) == [["mul", "mul", "add", "exp"], ["mul", "mul", "add", "sin"]]
    dear = build.binary("add", x, build.unary("erf", x))  # which would be stored, and read beside x
    assert sorted(kernels(build.unary("exp", dear), build.unary("sin", dear))) == [["erf", "add"], ["exp"], ["sin"]]
    two = build.binary("add", both, build.binary("mul", y, y))
    assert len(kernels(build.unary("exp", two), build.unary("sin", two))) == 3


def test_scans_are_computed_with_what_they_scan_and_what_has_the_same_elements() -> None:
    x = leaf(F32, (128, 64))
    total = build.reduce("add", x, (1,), keep_axes=True)
    y = build.scan("add", build.binary("div", x, build.broadcast_to(total, (128, 64))), 1)
    again = build.scan("max", build.unary("exp", y), 1)
    assert kernels(build.binary("mul", again, y)) == [["reduce", "div", "scan", "exp", "scan", "mul"]]


def test_scans_are_stored_for_reductions_other_axes_and_other_places() -> None:
    x = leaf(F32, (128, 64))
    y = build.scan("add", build.unary("neg", x), 1)
    assert kernels(build.reduce("max", y, (1,))) == [["neg", "scan"], ["reduce"]]
    largest = build.broadcast_to(build.reduce("max", y, (1,), keep_axes=True), y.shape)
    assert kernels(build.binary("div", y, largest)) == [["neg", "scan"], ["reduce", "div"]]
    assert kernels(build.scan("add", y, 0)) == [["neg", "scan"], ["scan"]]
    assert kernels(build.unary("exp", build.slice_(y, ((0, 128, 1), (63, 64, -1))))) == [["neg", "scan"], ["exp"]]
    assert kernels(build.matmul(y, leaf(F32, (64, 32)))) == [["neg", "scan"], ["contract"]]
    assert kernels(build.scan("add", build.matmul(x, leaf(F32, (64, 32))), 1)) == [["contract"], ["scan"]]


def test_the_parts_of_a_concat_are_written_in_place() -> None:
    parts = [build.unary("exp", leaf(F32, (3, 4))), leaf(F32, (3, 2)), build.unary("sin", leaf(F32, (3, 5)))]
    groups = partition([build.concat(parts, 1)]).groups
    assert [group.piece and group.piece.start for group in reversed(groups)] == [0, 4, 6]
    assert sorted(len(group.inside) for group in groups) == [0, 1, 1]


def test_a_pad_costs_no_kernel() -> None:
    x = build.pad(build.unary("exp", leaf(F32, (3, 4))), ((1, 0), (0, 2)), build.const(0.0, F32))
    assert kernels(build.unary("neg", x)) == [["exp", "pad", "neg"]]


def test_a_gather_is_one_kernel_with_its_index_and_its_users() -> None:
    x, index = leaf(F32, (100, 64)), leaf(dtypes.int64, (32,))
    rows = build.binary("add", index, build.const(1, dtypes.int64, (32,)))
    wide = build.broadcast_to(build.reshape(rows, (32, 1)), (32, 64))
    picked = build.gather(build.permute(build.permute(x, (1, 0)), (1, 0)), [wide], (-1, 1))
    assert kernels(build.composite("silu", picked))[0][:2] == ["add", "gather"]
    assert len(kernels(build.composite("silu", picked))) == 1


def test_what_a_gather_reads_is_stored_once() -> None:
    x, index = leaf(F32, (10, 64)), leaf(dtypes.int64, (1000, 64))
    assert kernels(build.gather(build.unary("exp", x), [index], (-1, 1))) == [["exp"], ["gather"]]


def test_indices_are_clamped_unless_their_range_is_known() -> None:
    x, index = leaf(F32, (10,)), leaf(dtypes.int64, (33,))
    inside = build.binary("mod", index, build.const(10, dtypes.int64, (33,)))
    for chosen, clamped in ((index, True), (inside, False)):
        (group,) = partition([build.gather(x, [chosen], (-1,))]).groups
        region, _ = build_region(group, contiguous)
        assert {"min", "max"} & {e.op for e in region.order()} == ({"min", "max"} if clamped else set())


def test_a_long_chain_is_cut_into_kernels_of_bounded_size() -> None:
    x = leaf(F32, (3,))
    for _ in range(1000):
        x = build.unary("neg", build.unary("exp", x))
    sizes = [len(group.inside) for group in partition([x]).groups]
    assert max(sizes) <= 250
    assert len(set(sizes)) == 1


def test_a_kernel_that_would_be_too_large_is_cut_where_one_value_stands_for_many() -> None:
    def tangle(a: Node, b: Node) -> Node:
        """Two values that both depend on both, 150 operations long, and then one."""
        for _ in range(50):
            a, b = build.add(build.mul(a, b), b), build.sub(b, a)
        return build.add(a, b)

    inputs = [leaf(F32, (999,)) for _ in range(4)]
    found = kernels(build.mul(tangle(*inputs[:2]), tangle(*inputs[2:])))
    assert len(found) == 2
    assert all(len(names) <= 250 for names in found)


def test_little_is_computed_beside_a_contraction_whose_registers_have_a_copy_each() -> None:
    x = leaf(F32, (64, 64))
    for _ in range(75):
        x = build.unary("neg", build.unary("exp", x))
    found = kernels(build.add(x, build.matmul(leaf(F32, (64, 64)), leaf(F32, (64, 64)))))
    assert len(found) == 2


def test_a_sum_of_many_tensors_respects_the_limit_on_buffers() -> None:
    total = leaf(F32, (3,))
    for _ in range(200):
        total = build.binary("add", total, leaf(F32, (3,)))
    for group in partition([total]).groups:
        _, nodes = build_region(group, contiguous)
        assert len(nodes) <= 48


def test_axes_merge_where_memory_is_walked_as_one() -> None:
    x, b = leaf(F32, (2, 3, 4, 5)), leaf(F32, (5,))
    [group] = partition([build.unary("exp", x)]).groups
    assert len(merge_axes(build_region(group, contiguous)[0]).axes) == 1
    [group] = partition([build.binary("add", x, b)]).groups
    assert len(merge_axes(build_region(group, contiguous)[0]).axes) == 2
    [group] = partition([build.unary("exp", build.permute(x, (1, 0, 2, 3)))]).groups
    assert len(merge_axes(build_region(group, contiguous)[0]).axes) == 3


def test_reductions_over_one_and_over_both_of_two_axes_keep_them_apart() -> None:
    x = leaf(F32, (3, 5))
    rows = build.expand(build.reshape(build.reduce("add", x, (1,)), (3, 1)), (3, 5))
    whole = build.expand(build.reshape(build.reduce("add", x, (0, 1)), (1, 1)), (3, 5))
    y = build.binary("sub", build.binary("sub", x, rows), whole)
    value = np.arange(15, dtype=np.float32).reshape(3, 5)
    [got] = run_fused([y], {x: value}, {})
    np.testing.assert_array_equal(got, value - value.sum(1, keepdims=True) - value.sum())


@pytest.mark.parametrize(
    ("shape", "source"),
    [
        ((6, 4), (24,)),
        ((24,), (6, 4)),
        ((2, 12), (6, 4)),
        ((1, 6, 1, 4), (6, 4)),
        ((6, 4), (6, 1, 4, 1)),
        ((2, 3, 4), (4, 3, 2)),
        ((1,), (1, 1, 1)),
        ((), (1, 1)),
        ((1, 1), ()),
        ((7, 2, 3), (7, 6)),
        ((5, 1, 2), (5, 2)),
    ],
)
def test_reshape_as_an_index(shape: tuple[int, ...], source: tuple[int, ...]) -> None:
    axes = tuple(variable(f"i{k}", 0, size - 1) for k, size in enumerate(shape))
    index = reshape_index(shape, source, axes)
    array = np.arange(int(np.prod(shape))).reshape(source)
    for at in np.ndindex(*shape):
        where = tuple(i.evaluate({f"i{k}": v for k, v in enumerate(at)}) for i in index)
        assert array[where] == array.reshape(shape)[at]


JUMPS = {"floor", "ceil", "trunc", "round", "sign", "floordiv", "mod", "eq", "ne", "lt", "le", "pow", "tan", "isnan"}


def jumps(node: Node) -> bool:
    """Whether a rounding error before a node can become a large one after it."""
    if not node.sources or not node.sources[0].dtype.is_float:
        return False
    return node.op is Op.BITCAST or (node.op is Op.CAST and not node.dtype.is_float) or node.attribute in JUMPS


def smooth_leaves(program: Program, seed: int) -> dict[Node, Array]:
    """Values of a program's leaves, near 1 where they are floats."""
    rng = np.random.default_rng(seed)
    return {
        node: rng.uniform(0.5, 2, array.shape).astype(array.dtype) if node.dtype.is_float else array
        for node, array in program.leaves.items()
    }


def check_close(a: Array, b: Array, root: Node) -> None:
    """That two results differ by no more than rounding."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if root.dtype.is_float:
        tolerance = 2.0 ** {"float64": -30, "float32": -13, "float16": -5, "bfloat16": -2}[root.dtype.name]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, b)


@given(seed=st.integers(0, 10**9), merge=st.booleans())
def test_fused_graphs_compute_what_the_interpreter_does(seed: int, merge: bool) -> None:
    program = random_program(seed)
    assume(not any(jumps(node) for node in topological(program.roots)))
    leaves = smooth_leaves(program, seed)
    expected = interpret(program.roots, leaves, program.dims)
    got = run_fused(simplify(program.roots), leaves, program.dims, merge)
    for a, b, root in zip(got, expected, program.roots, strict=True):
        check_close(a, b, root)


def test_pieces_of_concats_that_differ_in_what_they_show_have_kernels_of_their_own() -> None:
    """One graph: the same shapes, but other strides and other constants."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = x.reshape(3, 2).T
    one = sm.concat([sm.asarray(x), sm.ones(2, 3)], axis=0)
    other = sm.concat([sm.asarray(y), sm.zeros(2, 3)], axis=0)
    sm.realize(one, other)
    np.testing.assert_array_equal(one.numpy(), np.concatenate([x, np.ones((2, 3))]))
    np.testing.assert_array_equal(other.numpy(), np.concatenate([y, np.zeros((2, 3))]))


def test_rows_of_a_large_product_are_finished_before_it() -> None:
    def product(rows: int, size: int, columns: int, transposed: bool = False) -> list[list[str]]:
        shape = (size, rows) if transposed else (rows, size)
        x = build.sub(leaf(F32, shape), leaf(F32, shape))
        x = build.permute(x, (1, 0)) if transposed else x
        return kernels(build.matmul(x, leaf(F32, (size, columns))))

    assert product(256, 256, 256) == product(256, 256, 256, transposed=True) == [["sub"], ["contract"]]
    assert len(product(16, 16, 16)) == 1, "so few are computed as they are packed"
    assert len(product(4096, 512, 8)) == 1, "for so few columns they are packed once"
    weight = build.scale(build.cast(leaf(dtypes.int8, (512, 512)), F32), 0.1)
    assert len(kernels(build.matmul(leaf(F32, (64, 512)), weight))) == 1, "a weight is read once, and smaller as it is"
