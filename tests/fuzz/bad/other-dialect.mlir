// UnsupportedOp: line 3, column 8: linalg.generic: smelt does not know this operation
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = "linalg.generic"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
