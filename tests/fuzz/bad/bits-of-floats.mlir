// DTypeError: line 3, column 8: stablehlo.and: and: float32 is not supported
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.and %x, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
