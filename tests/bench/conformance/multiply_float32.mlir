// Wrong on purpose, in each way that a test may be.
func.func @one_off() {
  %0 = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[9.0, 16.1]> : tensor<2xf32>
  func.return
}

// -----

func.func @shape() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %1 = stablehlo.multiply %0, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  func.return %1 : tensor<3xf32>
}
