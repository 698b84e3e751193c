// ParseError: line 3, column 8: stablehlo.while: its values change their types
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.while(%a = %x) : tensor<2x3xf32>
  cond {
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %b = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    stablehlo.return %b : tensor<3x2xf32>
  }
  return %0 : tensor<2x3xf32>
}
