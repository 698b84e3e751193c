// ShapeError: line 3, column 8: stablehlo.transpose: permute: an axis appears twice: (0, 0)
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x3xf32>
}
