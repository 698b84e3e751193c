// ParseError: line 2, column 1: main: two arguments have one name
func.func @main(%x: tensor<2x3xf32>, %x: tensor<i32>) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
}
