// ArgumentError: line 3, column 8: stablehlo.concatenate: concat: there is nothing to join
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = "stablehlo.concatenate"() <{dimension = 0 : i64}> : () -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
