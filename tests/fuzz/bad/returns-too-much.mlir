// ParseError: line 2, column 1: main gives 2 values
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
