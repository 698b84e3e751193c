// ParseError: line 3, column 8: stablehlo.iota: there is no axis 5
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.iota dim = 5 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
