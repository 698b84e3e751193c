// ParseError: line 3, column 8: stablehlo.dot_general: it names an axis that an operand does not have
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [4] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
