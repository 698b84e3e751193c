"""Stored texts, as JAX prints them and in generic form: read, written, and read again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from smelt.formats import mlir

TEXTS = sorted((Path(__file__).parent.parent / "texts").glob("*.mlir"))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_what_is_written_is_what_was_read(path: Path) -> None:
    module = mlir.parse(path.read_text(encoding="utf-8"))
    text = mlir.write(module)
    again = mlir.parse(text)
    assert again == module
    assert mlir.write(again) == text


def body(text: str) -> list[mlir.Operation]:
    [function] = mlir.parse(
        f"func.func @main(%x: tensor<2x3xf32>, %y: tensor<f32>) {{ {text} return }}"
    ).functions.values()
    assert function.body is not None
    return function.body.blocks[0].operations[:-1]


def only(text: str) -> mlir.Operation:
    [operation] = body(text)
    return operation


# --- pretty forms stand for generic ones


@pytest.mark.parametrize(
    ("pretty", "generic"),
    [
        ("%0 = arith.addf %x, %x : f32", '%0 = "arith.addf"(%x, %x) : (f32, f32) -> f32'),
        ("%0 = arith.extf %x : f16 to f32", '%0 = "arith.extf"(%x) : (f16) -> f32'),
        ("%0 = arith.constant 2 : index", '%0 = "arith.constant"() <{value = 2 : index}> : () -> index'),
        ("%0 = arith.constant true", '%0 = "arith.constant"() <{value = true}> : () -> i1'),
        (
            "%0 = arith.cmpf uno, %x, %y : f32",
            '%0 = "arith.cmpf"(%x, %y) <{predicate = 14 : i64}> : (f32, f32) -> i1',
        ),
        ("%0 = arith.select %c, %x, %y : f32", '%0 = "arith.select"(%c, %x, %y) : (i1, f32, f32) -> f32'),
        ("%0 = linalg.index 1 : index", '%0 = "linalg.index"() <{dim = 1 : i64}> : () -> index'),
        ("%0 = tensor.empty() : tensor<2xf32>", '%0 = "tensor.empty"() : () -> tensor<2xf32>'),
        (
            "%0 = tensor.extract %x[%i, %j] : tensor<2x3xf32>",
            '%0 = "tensor.extract"(%x, %i, %j) : (tensor<2x3xf32>, index, index) -> f32',
        ),
        (
            "%0 = tensor.extract_slice %x[0, 1] [2, 1] [1, 2] : tensor<2x3xf32> to tensor<2x1xf32>",
            '%0 = "tensor.extract_slice"(%x) <{static_offsets = array<i64: 0, 1>, static_sizes = array<i64: 2, 1>, '
            "static_strides = array<i64: 1, 2>, operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : "
            "(tensor<2x3xf32>) -> tensor<2x1xf32>",
        ),
        (
            "%0 = tensor.expand_shape %x [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>",
            '%0 = "tensor.expand_shape"(%x) <{reassociation = [[0 : i64, 1 : i64]], '
            "static_output_shape = array<i64: 2, 3>}> : (tensor<6xf32>) -> tensor<2x3xf32>",
        ),
        (
            "%0 = linalg.fill ins(%y : f32) outs(%x : tensor<2x3xf32>) -> tensor<2x3xf32>",
            '%0 = "linalg.fill"(%y, %x) <{operandSegmentSizes = array<i32: 1, 1>}> : '
            "(f32, tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        (
            "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
            '%0 = "stablehlo.transpose"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>',
        ),
        (
            "%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>",
            '%0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi32>',
        ),
        (
            "%0 = stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>",
            '%0 = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 3>, '
            "strides = array<i64: 1, 2>}> : (tensor<2x3xf32>) -> tensor<2x2xf32>",
        ),
        (
            "%0 = stablehlo.pad %x, %y, low = [0, -1], high = [1, 0], interior = [0, 2] : "
            "(tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>",
            '%0 = "stablehlo.pad"(%x, %y) <{edge_padding_low = array<i64: 0, -1>, '
            "edge_padding_high = array<i64: 1, 0>, "
            "interior_padding = array<i64: 0, 2>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>",
        ),
        (
            "%0 = stablehlo.compare LT, %x, %x, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
            '%0 = "stablehlo.compare"(%x, %x) <{comparison_direction = #stablehlo<comparison_direction LT>, '
            "compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
        ),
        (
            "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : "
            "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
            '%0 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<'
            "lhs_contracting_dimensions = [1], "
            "rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, "
            "#stablehlo<precision DEFAULT>]}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
        ),
        (
            "%0 = stablehlo.reduce_precision %x, format = e5m10 : tensor<2x3xf32>",
            '%0 = "stablehlo.reduce_precision"(%x) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : '
            "(tensor<2x3xf32>) -> tensor<2x3xf32>",
        ),
        (
            "%a, %b = chlo.top_k(%x, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)",
            '%a, %b = "chlo.top_k"(%x) <{k = 2 : i64}> : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)',
        ),
        (
            "%0 = stablehlo.select %x, %x, %x : tensor<2x3xi1>, tensor<2x3xf32>",
            '%0 = "stablehlo.select"(%x, %x, %x) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> '
            "tensor<2x3xf32>",
        ),
        (
            "%0:2 = stablehlo.optimization_barrier %x, %y : tensor<2x3xf32>, tensor<f32>",
            '%0:2 = "stablehlo.optimization_barrier"(%x, %y) : (tensor<2x3xf32>, tensor<f32>) -> '
            "(tensor<2x3xf32>, tensor<f32>)",
        ),
    ],
    ids=lambda text: text.split("stablehlo.")[-1].split(" ")[0][:20],
)
def test_a_pretty_form_is_its_generic_form(pretty: str, generic: str) -> None:
    assert body(pretty) == body(generic)


def test_a_reducer_is_printed_in_pairs_and_means_all_left_then_all_right() -> None:
    operation = only(
        """%0:2 = stablehlo.reduce(%x init: %y), (%x init: %y) across dimensions = [1] :
          (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>)
        reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
          stablehlo.return %a, %c : tensor<f32>, tensor<f32>
        }"""
    )
    assert operation.operands == ["%x", "%x", "%y", "%y"]
    assert [argument.name for argument in operation.regions[0].blocks[0].arguments] == ["%a", "%c", "%b", "%d"]


def test_a_short_reducer_has_a_body() -> None:
    operation = only(
        "%0 = stablehlo.reduce(%x init: %y) applies stablehlo.maximum across dimensions = [0, 1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<f32>"
    )
    [step, end] = operation.regions[0].blocks[0].operations
    assert (step.name, end.name) == ("stablehlo.maximum", "stablehlo.return")


def test_results_are_named_one_by_one_or_together() -> None:
    assert only("%0:3 = call @f() : () -> (tensor<f32>, tensor<f32>, tensor<f32>)").results == ["%0#0", "%0#1", "%0#2"]


# --- constants


@pytest.mark.parametrize(
    ("constant", "values"),
    [
        ("dense<0xFF800000> : tensor<f32>", [float("-inf")]),
        ("dense<[[1, 2], [3, -4]]> : tensor<2x2xi8>", [1, 2, 3, -4]),
        ("dense<[true, false]> : tensor<2xi1>", [True, False]),
        ('dense<"0x0000803F00000040"> : tensor<2xf32>', [1.0, 2.0]),
        ('dense<"0x05"> : tensor<3xi1>', [True, False, True]),
        ('dense<"0x010001"> : tensor<3xi1>', [True, False, True]),
        ('dense<"0x0501"> : tensor<9xi1>', [True, False, True, False, False, False, False, False, True]),
        ("dense<> : tensor<0x2xf32>", []),
        ("dense<1.5> : tensor<4xbf16>", [1.5]),
        ("dense<(1.0, -2.0)> : tensor<complex<f32>>", [1 - 2j]),
        ("dense<[0x38, 0xC0]> : tensor<2xf8E4M3FN>", [1.0, -2.0]),
        ("dense<0xFC> : tensor<f8E5M2>", [-math.inf]),
        ("dense<255> : tensor<ui8>", [255]),
        ("dense<255> : tensor<i8>", [-1]),
    ],
)
def test_constants(constant: str, values: list[object]) -> None:
    value = only(f"%0 = stablehlo.constant {constant}").attributes["value"]
    from smelt.formats.mlir import dense

    assert dense.array(value).reshape(-1).tolist() == values


def test_a_splat_takes_the_memory_of_one_element() -> None:
    value = only("%0 = stablehlo.constant dense<1.0> : tensor<1000000x1000xf32>").attributes["value"]
    assert value.splat and len(value.data) == 4


def test_resources_stand_at_the_end() -> None:
    module = mlir.parse(
        """func.func @main() { %0 = stablehlo.constant dense_resource<k> : tensor<2xi8> return }
        {-# dialect_resources: { builtin: { k: "0x040000000102" } } #-}"""
    )
    assert module.resources == {"k": b"\1\2"}
