// ParseError: line 3, column 8: stablehlo.constant: there is no resource weights
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.constant dense_resource<weights> : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
