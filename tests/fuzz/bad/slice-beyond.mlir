// ShapeError: line 3, column 8: stablehlo.slice: 1:4:1 is no part of an axis of 3
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.slice %x [0:2, 1:4] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
