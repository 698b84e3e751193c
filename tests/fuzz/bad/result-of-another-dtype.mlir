// DTypeError: line 3, column 8: stablehlo.sine is float32
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.sine %x : (tensor<2x3xf32>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf32>
}
