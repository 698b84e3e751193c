// ParseError: line 4, column 3: ':' and a type is expected here, not return
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.sine %x
  return %0 : tensor<2x3xf32>
}
