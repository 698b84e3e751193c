// ShapeError: line 4, column 8: stablehlo.dynamic_reshape: a size is negative: -2
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %s = stablehlo.constant dense<[-2, -3]> : tensor<2xi32>
  %1 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %0 = stablehlo.sine %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
