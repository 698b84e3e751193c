// ParseError: line 3, column 40: tensor<?x3xf32> is not the type of a constant
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<?x3xf32>
  return %0 : tensor<2x3xf32>
}
