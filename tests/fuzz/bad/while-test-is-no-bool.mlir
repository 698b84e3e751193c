// ParseError: line 3, column 8: stablehlo.while: its test gives one bool
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.while(%a = %x) : tensor<2x3xf32>
  cond {
    stablehlo.return %i : tensor<i32>
  } do {
    stablehlo.return %a : tensor<2x3xf32>
  }
  return %0 : tensor<2x3xf32>
}
