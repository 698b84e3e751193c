// ParseError: line 4, column 8: stablehlo.add: it stands behind the end of its body
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
}
