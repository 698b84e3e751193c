// ShapeError: line 2, column 1: main: result 0 has shape (2,)
func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  return %x : tensor<2xf32>
}
