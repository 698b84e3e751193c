// UnsupportedOp: line 3, column 8: stablehlo.custom_call: there is no target 'nobody.knows'
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.custom_call @nobody.knows(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
