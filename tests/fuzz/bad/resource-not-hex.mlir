// ParseError: line 7, column 38: the resource w is not in hexadecimal
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
{-#
  dialect_resources: { builtin: { w: "0xZZ" } }
#-}
