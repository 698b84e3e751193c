// ParseError: line 4, column 8: stablehlo.reduce: dimensions [7] are not different ones of 2 axes
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [7] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
