// ParseError: line 3, column 8: stablehlo.if: it is decided by one bool
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.if"(%i) ({
  ^a:
    stablehlo.return %x : tensor<2x3xf32>
  ^b:
    stablehlo.return %x : tensor<2x3xf32>
  }, {
    stablehlo.return %x : tensor<2x3xf32>
  }) : (tensor<i32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
