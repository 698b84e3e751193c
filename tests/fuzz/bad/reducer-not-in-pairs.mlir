// ParseError: line 5, column 27: the arguments of a reducer come in pairs
func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
   reducer(%a: tensor<f32>) {
    stablehlo.return %a : tensor<f32>
   }
  return %0 : tensor<2x3xf32>
}
