// ShapeError: line 3, column 8: stablehlo.broadcast_in_dim: expand: cannot expand
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %1 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %0 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
