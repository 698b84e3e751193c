// ParseError: line 3, column 33: a number does not fit in 8 bits
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %1 = stablehlo.constant dense<300> : tensor<i8>
  %0 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
