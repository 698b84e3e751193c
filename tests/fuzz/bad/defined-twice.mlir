// ParseError: line 4, column 8: stablehlo.multiply: %0 is defined twice
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  %0 = stablehlo.multiply %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
