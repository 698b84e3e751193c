// ShapeError: line 3, column 8: stablehlo.reshape: reshape: the number of elements changes
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x3xf32>
}
