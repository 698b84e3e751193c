// ParseError: line 3, column 8: stablehlo.add: there is no value %1 here
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %1, %x : tensor<2x3xf32>
  %1 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
