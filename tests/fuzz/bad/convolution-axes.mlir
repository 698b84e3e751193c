// ParseError: line 3, column 8: stablehlo.convolution: the axes ['o', 'o'] should be ['o', 'i']
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %0 = stablehlo.convolution(%x, %x) dim_numbers = [b, f]x[o, o]->[b, f], window = {} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
