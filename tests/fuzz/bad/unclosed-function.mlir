// ParseError: line 4, column 1: an operation is expected here, not the end of the text
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
