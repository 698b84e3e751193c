// ParseError: line 4, column 8: stablehlo.case: it is decided by one int32, and has a branch
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.case"(%c) ({
    stablehlo.return %x : tensor<2x3xf32>
  }) : (tensor<f32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
