// UnsupportedOp: line 3, column 8: stablehlo.convert: the element type f7 is not supported
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xf7>
  return %0 : tensor<2x3xf32>
}
