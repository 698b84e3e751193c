// UnknownSize: line 4, column 8: stablehlo.dynamic_iota: a size depends on values of argument 1
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %s = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %0 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
