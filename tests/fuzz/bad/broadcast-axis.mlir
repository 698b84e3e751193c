// ParseError: line 3, column 8: stablehlo.broadcast_in_dim: broadcast_dimensions [0, 2] are not 2 different ones of 2 axes
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
