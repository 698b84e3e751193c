// ParseError: line 3, column 33: a constant has 2 elements, and its type tensor<2x3xf32> has 6
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
